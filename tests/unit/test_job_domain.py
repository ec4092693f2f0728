"""States, replicas and progress: what may be claimed from what the service said."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.domain.core.job import Job, JobError, exit_codes, infer_replicas, partly_read
from tui.domain.core.log_entry import Severity
from tui.domain.core.quota import Quota
from tui.domain.core.states import JobState, from_vertex
from tui.domain.core.training_progress import Progress, advance, training_step
from tui.domain.vertex import catalog
from tui.domain.vertex.worker_pools import worker_pool

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
POOLS = (worker_pool(0, 1), worker_pool(1, 3), worker_pool(2, 2, reduction_server=True), worker_pool(3, 1))


def test_an_unheard_of_state_is_unknown_not_an_error() -> None:
    assert from_vertex("JOB_STATE_FROM_2031") is JobState.UNKNOWN
    assert from_vertex("JOB_STATE_PARTIALLY_SUCCEEDED").terminal
    assert not JobState.UNKNOWN.terminal and not JobState.UNKNOWN.active


def test_a_failed_job_knows_only_the_replica_that_the_error_names() -> None:
    error = JobError(
        3, "The replica workerpool1-2 exited with a non-zero status of 137. Termination reason: X."
    )
    found = {r.id: r for r in infer_replicas(POOLS, JobState.FAILED, error)}
    assert (found["workerpool1-2"].state, found["workerpool1-2"].exit_code) == (JobState.FAILED, 137)
    assert {r.state for i, r in found.items() if i != "workerpool1-2"} == {JobState.UNKNOWN}
    assert all(r.exit_code is None for i, r in found.items() if i != "workerpool1-2")


def test_out_of_memory_names_its_replica_too() -> None:
    error = JobError(
        3, "The replica workerpool0-0 ran out of memory and exited with a non-zero status of 9(SIGKILL)"
    )
    assert infer_replicas(POOLS, JobState.FAILED, error)[0].exit_code == 9


def test_an_error_with_a_traceback_has_a_reason_and_an_exception() -> None:
    message = (
        "The replica workerpool0-0 exited with a non-zero status of 1. Termination reason: Error. \n"
        "Traceback (most recent call last):\n"
        '  File "/app/task.py", line 3, in <module>\n'
        "    raise RuntimeError('replica workerpool0-1 exited with a non-zero status of 9')\n"
        "RuntimeError: replica workerpool0-1 exited with a non-zero status of 9\n\n"
        "To find out more about why your job exited please check the logs: https://console.cloud.google.com/x"
    )
    error = JobError(3, message)
    reason = "The replica workerpool0-0 exited with a non-zero status of 1. Termination reason: Error."
    assert error.reason == reason and exit_codes(error) == {"workerpool0-0": 1}
    assert error.exception == "RuntimeError: replica workerpool0-1 exited with a non-zero status of 9"
    assert error.summary == f"{reason} {error.exception}"
    assert JobError(3, "a\nb").summary == "a b" and JobError(3, "").summary == ""
    bare = JobError(3, f"{reason} \n\n{message.splitlines()[-1]}")
    assert bare.reason == reason and bare.exception == ""


def test_success_is_the_primarys_alone() -> None:
    codes = [r.exit_code for r in infer_replicas(POOLS, JobState.SUCCEEDED, None)]
    assert codes == [0, None, None, None, None, None, None]


def test_roles_follow_positions() -> None:
    assert [p.role for p in POOLS] == ["primary", "worker", "reducer", "evaluator"]
    assert worker_pool(2, 1).role == "parameter server"


def test_a_partly_read_job_reads_each_field_when_it_is_needed_and_once() -> None:
    whole = Job("n", "1", "a", JobState.FAILED, "JOB_STATE_FAILED", "c", "r", "k", labels={"team": "nlp"})
    asked: list[str] = []

    def unread(field: str) -> object:
        asked.append(field)
        return getattr(whole, field)

    job = partly_read(unread, name="n", state=JobState.FAILED)
    assert job.name == "n" and job.state is JobState.FAILED and not asked
    assert job.labels == {"team": "nlp"} and job.labels is whole.labels and asked == ["labels"]
    assert replace(job, display_name="b") == replace(whole, display_name="b")
    assert job == whole and asked.count("display_name") == 1
    with pytest.raises(AttributeError, match="colour"):
        _ = job.colour  # type: ignore[attr-defined]


def test_a_job_counts_its_accelerators_and_its_time() -> None:
    pools = (
        worker_pool(0, 1, "a2-highgpu-8g", "NVIDIA_TESLA_A100", 8),
        worker_pool(1, 3, "", "NVIDIA_TESLA_A100", 8),
    )
    job = Job(
        "n",
        "1",
        "d",
        JobState.RUNNING,
        "JOB_STATE_RUNNING",
        "c",
        "r",
        "custom_job",
        groups=pools,
        create_time=NOW,
    )
    assert job.accelerators == {"NVIDIA_TESLA_A100": 32} and job.replica_count == 4
    assert job.duration(NOW) is None, "it has never run"
    assert job.age(NOW + timedelta(hours=5)) == timedelta(hours=5)


def line(kind: str, **fields: Any) -> dict[str, Any]:
    return {"message": "", "vxtui": {"kind": kind, **fields}}


def test_progress_keeps_the_first_loss_over_a_restart() -> None:
    progress = Progress()
    for payload in (
        line("step", step=1, total_steps=100, loss=5.5),
        line("step", step=40, loss=3.0, tokens_per_second=900.0),
        line("checkpoint", step=40),
        line("resumed", step=40),
        line("step", step=41, loss=2.9),
        {"message": "somebody else's JSON"},
        None,
    ):
        progress = advance(progress, NOW, payload)
    assert (progress.first_loss, progress.last_loss) == (5.5, 2.9)
    assert (progress.step, progress.total_steps, progress.resumed_from) == (41, 100, 40)
    assert progress.last_checkpoint_step == 40 and progress.fraction == pytest.approx(0.41)


def test_replicas_that_differ_are_a_problem_until_the_next_attempt() -> None:
    def line(kind: str, message: str, **fields: Any) -> dict[str, Any]:
        return {"message": message, "vxtui": {"kind": kind, **fields}}

    progress = advance(Progress(), NOW, line("replicas", "the replicas differ", state="found", step=12))
    assert progress.problem == "the replicas differ"
    progress = advance(progress, NOW, line("phase", "", phase="rendezvous"))
    assert progress.problem is None
    progress = advance(progress, NOW, line("replicas", "rank 1 is faulty", state="repeated", step=12))
    assert progress.problem == "rank 1 is faulty", "a machine that is named stays named"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["kind", "step", "loss", "total_steps", "tokens_per_second", "phase"]),
        json_values | st.sampled_from(["step", "checkpoint", "phase", "resumed"]),
    )
)
@settings(max_examples=300)
def test_no_line_of_anybodys_breaks_progress(fields: dict[str, Any]) -> None:
    progress = advance(Progress(), NOW, {"vxtui": fields})
    assert (
        progress.fraction is None or 0 <= progress.fraction <= 1 or progress.step is None or progress.step < 0
    )
    training_step(NOW, {"vxtui": fields})


def test_severity_words() -> None:
    assert Severity.parse("warn") is Severity.WARNING
    with pytest.raises(ValueError, match="use one of"):
        Severity.parse("loud")


def test_quota_left_is_not_known_without_a_figure() -> None:
    assert Quota("m", "r", 8, None).free is None
    assert Quota("m", "r", 8, 10).free == 0
    assert Quota("m", "r", -1, 10).free is None


def test_catalog_agrees_with_itself() -> None:
    machines = catalog.machines()
    assert machines["a2-highgpu-8g"].accelerators == (("NVIDIA_TESLA_A100", (8,)),)
    assert "n1-standard-2" not in machines
    known = set(catalog.all_quota_metrics())
    for name, machine in machines.items():
        for kind, counts in machine.accelerators:
            for preemptible in (False, True):
                taken = catalog.quota_metrics(name, kind, counts[0], preemptible=preemptible)
                assert taken and set(taken) <= known
