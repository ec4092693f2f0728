# ruff: noqa: E501 - lines of logs
"""Errors that a program survives, copies, and orders of a log never hide the error that ended a replica."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.diagnosis_support import FATAL, HEAD
from tui.domain.diagnosis.inputs import job_facts
from tui.domain.diagnosis.line import JobFacts
from tui.domain.diagnosis.rules import shipped_rules
from tui.domain.diagnosis.verdict import Verdict
from tui.verbs.log.diagnose import diagnose_file

OPTIONAL = [
    "Error caught was: No module named 'triton'", HEAD, '  File "/opt/lib/python3.11/site-packages/xformers/__init__.py", line 57, in probe',
    "    import triton", "ModuleNotFoundError: No module named 'triton'", "Arguments: batch_size=8", "rank 0/2 ready, 120.0M parameters",
]  # fmt: skip
FAILED = {
    "state": "FAILED",
    "error": "The replica workerpool1-0 exited with a non-zero status of 1.",
    "replicas": [
        {"name": "workerpool0-0", "state": "CANCELLED", "exit_code": 143},
        {"name": "workerpool1-0", "state": "FAILED", "exit_code": 1},
    ],
}


def entries(*texts: tuple[str, str]) -> list[dict[str, object]]:
    """Entries of replicas, a tenth of a second apart."""
    return [
        {"t": 100 + at / 10, "replica": replica, "severity": "ERROR", "text": text}
        for at, (replica, text) in enumerate(texts)
    ]


def verdict(tmp_path: Path, text: str, facts: JobFacts | None = None) -> Verdict:
    log = tmp_path / "log"
    log.write_text(text)
    return diagnose_file(log, facts or JobFacts("FAILED"), shipped_rules())


def json_lines(rows: list[dict[str, object]]) -> str:
    return "\n".join(map(json.dumps, rows))


def test_a_package_that_every_replica_does_without_is_no_cause(tmp_path: Path) -> None:
    both = [(name, text) for text in OPTIONAL for name in ("workerpool0-0", "workerpool1-0")]
    rows = entries(*both, *(("workerpool1-0", text) for text in FATAL))
    found = verdict(tmp_path, json_lines(rows), job_facts(FAILED))
    assert (found.family, found.replica, found.line) == ("code", "workerpool1-0", len(rows) - 1)


def test_an_error_announced_as_handled_that_is_the_last_word_is_the_cause(tmp_path: Path) -> None:
    texts = ["flash_attn could not be imported; falling back to sdpa", *FATAL]
    found = verdict(
        tmp_path, json_lines(entries(*(("workerpool1-0", text) for text in texts))), job_facts(FAILED)
    )
    assert found.cause.startswith("TypeError") and found.line == len(texts) - 1


def test_json_lines_may_come_newest_first(tmp_path: Path) -> None:
    rows = entries(*(("workerpool1-0", text) for text in (*OPTIONAL, *FATAL)))
    found = verdict(tmp_path, json_lines(rows[::-1]), job_facts(FAILED))
    assert found.cause.startswith("TypeError") and found.line == 0
    assert [shown.line.index for shown in found.evidence if shown.role == "root"] == [0]


def test_the_services_copy_of_a_traceback_is_not_the_replicas_line(tmp_path: Path) -> None:
    copy = "\n".join([FAILED["error"], *FATAL])  # type: ignore[list-item]
    rows = entries(("service", copy), *(("workerpool1-0", text) for text in FATAL))
    found = verdict(tmp_path, json_lines(rows), job_facts(FAILED))
    assert (found.replica, found.line) == ("workerpool1-0", len(FATAL))


def test_the_stream_of_gcloud_names_the_replica(tmp_path: Path) -> None:
    text = "\n".join(f"ERROR\t2026-10-13 12:04:02 +0000\tworkerpool1-0\t{line}" for line in FATAL)
    assert verdict(tmp_path, text).replica == "workerpool1-0"


def test_advice_within_an_exception_does_not_hide_the_exception(tmp_path: Path) -> None:
    message = "torch.OutOfMemoryError: CUDA out of memory. If reserved but unallocated memory is large try setting expandable_segments."
    assert verdict(tmp_path, "\n".join([*FATAL[:3], message])).family == "memory-gpu"


def test_the_services_word_names_a_pod(tmp_path: Path) -> None:
    facts = job_facts(
        {**FAILED, "error": "Pod workerpool1-0 was evicted: The node was low on resource: ephemeral-storage."}
    )
    assert verdict(tmp_path, "step 3\n", facts).replica == "workerpool1-0"


def test_that_a_peer_has_gone_is_no_reason(tmp_path: Path) -> None:
    rows = entries(
        ("workerpool1-0", "step 3"),
        ("workerpool0-0", "step 3"),
        ("workerpool0-0", "RuntimeError: Connection closed by peer [10.0.0.7]:41003"),
    )
    found = verdict(tmp_path, json_lines(rows), job_facts(FAILED))
    assert (found.cause, found.family) == ("", "unknown")


def test_a_replica_that_the_service_ended_is_not_the_reason(tmp_path: Path) -> None:
    found = verdict(tmp_path, json_lines(entries(("workerpool1-0", "step 3"))), job_facts(FAILED))
    assert (found.cause, found.family) == ("", "unknown")


def test_a_traceback_that_a_logger_recorded_is_survived(tmp_path: Path) -> None:
    logged = [
        "ERROR:tensorboard_writer:Failed to flush summaries",
        HEAD,
        '  File "/app/tb.py", line 3, in flush',
        "KeyError: 'histograms'",
        "rank 1/2 ready",
    ]
    rows = entries(
        *(("workerpool0-0", text) for text in logged), *(("workerpool1-0", text) for text in FATAL)
    )
    found = verdict(tmp_path, json_lines(rows), job_facts({**FAILED, "error": ""}))
    assert found.cause.startswith("TypeError")


def test_a_line_of_the_kernel_is_no_array(tmp_path: Path) -> None:
    text = "[  912.1] NVRM: Xid (PCI:0000:10:1c): 79, pid=1896, GPU has fallen off the bus.\n"
    assert verdict(tmp_path, text).family == "hardware-gpu"


def test_the_rank_of_torchruns_prefix_is_named(tmp_path: Path) -> None:
    found = verdict(tmp_path, "\n".join(f"[rank3]: {line}" for line in FATAL))
    assert found.where == "rank 3, losses.py:12"


def test_the_one_rank_in_another_collective_is_named(tmp_path: Path) -> None:
    calls = [(rank, "SeqNum=1580, OpType=ALLREDUCE") for rank in (0, 1, 3)] + [
        (2, "SeqNum=1579, OpType=ALLGATHER")
    ]
    text = "\n".join(
        f"[E ProcessGroupNCCL.cpp:475] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL({call}, Timeout(ms)=600000)"
        for rank, call in calls
    )
    found = verdict(tmp_path, text)
    assert found.cause == "Rank 2 was in ALLGATHER 1579 while the others were in ALLREDUCE 1580"
    assert (found.retry, found.where, found.line) == ("change", "rank 2", 3)


@pytest.mark.parametrize(
    ("text", "state", "family"),
    [
        ("Lorem ipsum dolor sit amet\nconsectetur\n", "", "unknown"),
        ("\x00\x07\ufffd\ufffd\x1b\n", "", "unknown"),
        ("step 8\nReceived SIGTERM, saving checkpoint\n", "", "preemption"),
        ("step 8\nTraining complete\n", "", "none"),
        ("step 8\n", "RUNNING", "none"),
    ],
)
def test_success_needs_evidence(tmp_path: Path, text: str, state: str, family: str) -> None:
    found = verdict(tmp_path, text, JobFacts(state))
    assert (found.family, found.next == "The job still runs.") == (family, state == "RUNNING")


def test_a_gated_model_is_named_with_what_to_do(tmp_path: Path) -> None:
    message = "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/meta-llama/Llama-3.1-8B/resolve/main/config.json"
    found = verdict(tmp_path, "\n".join([*FATAL[:3], message]))
    assert (
        "meta-llama/Llama-3.1-8B" in found.cause and "Hugging Face" in found.cause and "token" in found.cause
    )
    assert "licence" in found.next and "HF_TOKEN" in found.next


def test_errno_28_names_the_path_and_the_users_line(tmp_path: Path) -> None:
    found = verdict(
        tmp_path, "\n".join([*FATAL[:3], "OSError: [Errno 28] No space left on device: '/ckpt/step-9.pt'"])
    )
    assert (found.family, found.where) == ("disk", "losses.py:12") and "/ckpt/step-9.pt" in found.cause


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_reading_of_a_log(tmp_path: Path, number: signal.Signals) -> None:
    # A real process: only the program's own handlers show what a signal does (0.5 s of CPU each).
    command = [str(Path(sys.executable).parent / "vxtui"), "diagnose", "-"]
    environment = {**os.environ, "HOME": str(tmp_path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        assert process.stdin is not None
        # A pipe holds less: once all is written, the verb reads.
        process.stdin.write(b"step 3 loss 2.1\n" * 100_000)
        process.stdin.flush()
        process.send_signal(number)
        assert process.wait(20) == 130


def test_the_node_that_the_others_hear_no_more_is_named(tmp_path: Path) -> None:
    rows = entries(
        ("workerpool1-0", "step 3"),
        ("workerpool0-0", "failed: node 2 has been silent for 15 s"),
        ("workerpool1-0", "failed: node 2 has been silent for 15 s"),
        ("workerpool1-1", "failed: node 0 has been silent for 15 s"),
    )
    job = {
        "state": "FAILED",
        "error": "The replica workerpool0-0 exited with a non-zero status of 77.",
        "replicas": [
            {"name": name, "state": "FAILED", "exit_code": 77}
            for name in ("workerpool0-0", "workerpool1-0", "workerpool1-1")
        ],
    }
    found = verdict(tmp_path, json_lines(rows), job_facts(job))
    assert (found.replica, found.family, found.line) == ("workerpool1-1", "network", 1)
    assert found.cause == "workerpool1-1 was lost: the other replicas had no word from it"


def test_an_exception_ends_no_process_by_a_signal(tmp_path: Path) -> None:
    survived = [HEAD, '  File "/app/a.py", line 3, in probe', "ValueError: bad sample"]
    rows = entries(
        *(("workerpool0-0", text) for text in survived), *(("workerpool1-0", text) for text in FATAL)
    )
    job = {"state": "FAILED", "error": "", "replicas": [
        {"name": "workerpool0-0", "state": "FAILED", "exit_code": 134},
        {"name": "workerpool1-0", "state": "FAILED", "exit_code": 1},
    ]}  # fmt: skip
    assert verdict(tmp_path, json_lines(rows), job_facts(job)).replica == "workerpool1-0"


def test_what_keeps_a_job_from_its_start_precedes_its_time_limit(tmp_path: Path) -> None:
    rows = entries(("moe-worker-0", "0/14 nodes are available: 4 Insufficient nvidia.com/gpu."))
    job = {"state": "FAILED", "error": "PyTorchJob moe is failed because activeDeadlineSeconds exceeded"}
    assert verdict(tmp_path, json_lines(rows), job_facts(job)).family == "quota-capacity"
    trained = entries(("moe-worker-0", "step 3"))
    assert verdict(tmp_path, json_lines(trained), job_facts(job)).family == "timeout"


def test_words_tell_a_family_only_at_the_end_of_a_log(tmp_path: Path) -> None:
    said = "ERROR: md5 mismatch for shard-0007.tar"
    later = [f"epoch {at} begins" for at in range(4)]
    assert verdict(tmp_path, f"step 1\n{said}\n").family == "data"
    assert verdict(tmp_path, "\n".join(["step 1", said, *later])).family == "unknown"


def test_the_next_step_fits_this_machine(tmp_path: Path) -> None:
    text = "Memory cgroup out of memory: Killed process 3211 (python3)"
    here = verdict(tmp_path, text, JobFacts("FAILED", place="local"))
    there = verdict(tmp_path, text, JobFacts("FAILED", place="vertex"))
    assert "this machine" in here.next and "highmem" in there.next


def test_a_traceback_ends_with_any_name_of_an_exception(tmp_path: Path) -> None:
    for name in ("zlib.error", "grpc._channel._InactiveRpcError", "KilledWorker"):
        found = verdict(tmp_path, "\n".join([*FATAL[:3], f"{name}: it failed"]))
        assert found.line == 3 and found.where == "losses.py:12", name


def test_the_name_of_an_exception_announces_no_retry(tmp_path: Path) -> None:
    found = verdict(tmp_path, "\n".join([*FATAL[:3], "gcsfs.retry.HttpError: Not Found, 404"]))
    assert (found.family, found.line) == ("storage-gcs", 3)


@pytest.mark.parametrize("said", ["Error: worker exited with code 1", "Error: it failed on another host"])
def test_that_something_failed_is_no_cause(tmp_path: Path, said: str) -> None:
    found = verdict(tmp_path, f"step 1\n{said}\n", job_facts(FAILED))
    assert (found.family, found.cause) == ("unknown", "")
