"""Runs of 2 to 64 replicas with noise, survived errors, cascades and teardown: the first failure is found."""

from __future__ import annotations

import pytest

from tests.diagnosis_runs import KINDS, Run, failing_run, root_wordings, silent_run
from tui.domain.diagnosis.decide import decide
from tui.domain.diagnosis.inputs import entry_line, job_facts
from tui.domain.diagnosis.platform import with_message
from tui.domain.diagnosis.reader import Reader
from tui.domain.diagnosis.rules import shipped_rules
from tui.domain.diagnosis.verdict import HIGH, Verdict


def judged(run: Run) -> Verdict:
    facts, reader = job_facts(run.job), Reader(shipped_rules())
    lines = [
        line for index, entry in enumerate(run.entries) if (line := entry_line(index, entry)) is not None
    ]
    for start in range(0, len(lines), 500):
        reader.read(lines[start : start + 500])
    return decide(with_message(reader, facts), facts, shipped_rules())


def score(runs: list[Run]) -> tuple[float, list[str]]:
    """The share that is right, and the names of those that are wrong with high confidence."""
    right, wrong = 0, []
    for run in runs:
        found = judged(run)
        good = found.family in run.families and (not run.replica or found.replica == run.replica)
        good = good and (run.line is None or found.line == run.line)
        right += good
        if not good and found.confidence >= HIGH:
            wrong.append(run.name)
    return right / len(runs), wrong


def test_the_first_failure_of_many_replicas_is_found() -> None:
    share, wrong = score([failing_run(number, wording) for number, wording in enumerate(root_wordings())])
    assert share >= 0.97 and not wrong


@pytest.mark.slow
def test_the_first_failure_is_found_in_a_thousand_runs() -> None:
    runs = [failing_run(seed * 100 + at, w) for seed in range(16) for at, w in enumerate(root_wordings())]
    share, wrong = score(runs)
    assert share >= 0.97 and not wrong


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "hang"])
def test_a_log_without_a_cause_is_not_given_one(kind: str) -> None:
    share, wrong = score([silent_run(seed, kind) for seed in range(5)])
    assert share == 1 and not wrong


def test_of_a_hang_no_wrong_replica_is_named_with_high_confidence() -> None:
    share, wrong = score([silent_run(seed, "hang") for seed in range(8)])
    assert share >= 0.5 and not wrong
