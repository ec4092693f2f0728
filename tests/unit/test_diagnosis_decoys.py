# ruff: noqa: E501 - lines of logs
"""Errors that a program survives, copies, and orders of a log never hide the error that ended a replica."""

from __future__ import annotations

import json
from pathlib import Path

from tui.domain.diagnosis.inputs import job_facts
from tui.domain.diagnosis.line import JobFacts
from tui.domain.diagnosis.rules import shipped_rules
from tui.domain.diagnosis.verdict import Verdict
from tui.verbs.log.diagnose import diagnose_file

HEAD = "Traceback (most recent call last):"
OPTIONAL = [
    "Error caught was: No module named 'triton'", HEAD, '  File "/opt/lib/python3.11/site-packages/xformers/__init__.py", line 57, in probe',
    "    import triton", "ModuleNotFoundError: No module named 'triton'", "Arguments: batch_size=8", "rank 0/2 ready, 120.0M parameters",
]  # fmt: skip
FATAL = [
    HEAD,
    '  File "/app/losses.py", line 12, in forward',
    "    return mat @ x",
    "TypeError: unsupported operand type(s) for @: 'int' and 'list'",
]
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
