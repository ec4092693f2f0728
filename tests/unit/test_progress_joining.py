"""What several lines say together: bars and dicts, epochs, restarts, replicas, and structured lines."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.unit.progress_dialects_support import START, log_entry, read_all
from tui.domain.core.log_entry import LogEntry
from tui.domain.core.training_progress import SAMPLES, Progress, TrainingStep
from tui.domain.progress.job_progress import QUIET, JobProgress
from tui.domain.progress.parsing.line_text import MOST_PARTS
from tui.domain.training.training_steps import history
from tui.store.job.training import JobTraining


def structured(at: float, **fields: Any) -> LogEntry:
    return log_entry({"message": "…", "vxtui": fields}, at)


def bar(n: int, total: int, rest: str = "", described: str = "") -> str:
    prefix = f"{described}: " if described else ""
    return f"{prefix}{100 * n // total:3d}%|███       | {n}/{total} [00:31<16:20,  1.98it/s{rest}]"


def numbers(steps: list[TrainingStep]) -> list[int]:
    return [step.step for step in steps]


def test_the_phase_of_a_replica_that_stops_is_not_that_of_the_job() -> None:
    reader = JobProgress()
    for entry in (
        replace(structured(0, kind="phase", phase="rendezvous"), replica="worker-2"),
        replace(structured(1, kind="phase", phase="training"), replica="worker-0"),
        replace(structured(2, kind="step", step=3, total_steps=9), replica="worker-0"),
        replace(structured(3, kind="phase", phase="stopping"), replica="worker-2"),
    ):
        reader.add(entry)
    assert (reader.progress.phase, reader.progress.step) == ("training", 3)
    reader.add(replace(structured(4, kind="phase", phase="stopping"), replica="worker-0"))
    assert reader.progress.phase == "stopping"


def test_the_last_step_counts_where_a_line_of_another_replica_came_before_it() -> None:
    training = JobTraining()
    step = {"kind": "step", "total_steps": 120}
    lines = [
        replace(structured(at, **step, step=number), replica="master-0")
        for at, number in ((0, 118), (1, 120))
    ]
    ended = replace(structured(2, kind="phase", phase="done"), replica="worker-0")
    for entry in (lines[0], ended, lines[1]):
        list(training.read([entry]))
    assert training.progress.step == 120
    # An older one that was asked for changes nothing.
    list(training.read([replace(structured(-5, **step, step=7), replica="master-0")]))
    assert training.progress.step == 120


def test_steps_that_were_read_after_the_progress_count() -> None:
    training = JobTraining()
    at = START + timedelta(seconds=5)
    found = Progress(step=118, total_steps=120, updated_at=START)
    training.merge([TrainingStep(START, 118), TrainingStep(at, 120)], found)
    assert (training.progress.step, training.progress.updated_at) == (120, at)


def test_a_bar_without_a_name_that_begins_anew_is_the_next_epoch() -> None:
    said = [bar(n, 100) for n in (1, 50, 100, 1, 50, 100, 10)]
    reader, steps = read_all(said)
    assert numbers(steps) == [1, 50, 100, 101, 150, 200, 210]
    assert reader.progress.total_steps is None, "the number of epochs is unknown"
    assert not history(steps).undone


def test_a_bar_that_begins_anew_before_its_end_was_restarted() -> None:
    _, steps = read_all([bar(n, 100) for n in (1, 50, 60, 40, 41)])
    assert numbers(steps) == [1, 50, 60, 40, 41]
    assert [numbers(list(stretch)) for stretch in history(steps).undone] == [[50, 60]]


def test_a_bar_before_the_training_is_forgotten() -> None:
    said = [bar(n, 40) for n in (10, 40)]
    reader, before = read_all(said)
    assert numbers(before) == [10, 40]
    generation = reader.generation
    steps = reader.add(log_entry(bar(5, 2000, ", loss=3.1"), 10))
    assert numbers(steps) == [5] and reader.generation == generation + 1
    assert (reader.progress.step, reader.progress.total_steps) == (5, 2000)


def test_an_evaluation_within_the_training_changes_nothing() -> None:
    said = [
        bar(10, 200, ", loss=3.0"),
        bar(1, 13),
        bar(13, 13),
        bar(20, 200, ", loss=2.0"),
        bar(200, 200, ", loss=1.0"),
        bar(13, 13),
    ]
    reader, steps = read_all(said)
    assert numbers(steps) == [10, 20, 200]
    assert (reader.progress.step, reader.progress.total_steps) == (200, 200)


def test_of_many_updates_in_one_entry_some_are_read_the_last_among_them() -> None:
    text = "\r".join(bar(n, 2000, f", loss={9 - n / 500:.3f}") for n in range(1, 2001))
    _, steps = read_all([text])
    assert len(steps) == MOST_PARTS
    assert numbers(steps)[0] == 1 and numbers(steps)[-1] == 2000


def test_a_loss_before_the_first_step_belongs_to_it() -> None:
    reader, steps = read_all(["{'loss': '3.5', 'grad_norm': '1.0', 'learning_rate': '1e-4', 'epoch': '0.1'}"])
    assert not steps and (reader.progress.first_loss, reader.progress.last_loss) == (3.5, 3.5)
    steps = reader.add(log_entry(bar(10, 2000), 5))
    assert [(step.step, step.loss) for step in steps] == [(10, 3.5)]


def test_lines_with_a_loss_count_better_than_a_bar_beside_them() -> None:
    said = [bar(5, 300), "step: 40, loss: 3.0", bar(6, 300), "step: 48, loss: 2.9", bar(7, 300)]
    reader, steps = read_all(said)
    assert numbers(steps)[-1] == 48 and reader.progress.last_loss == 2.9
    assert history(steps[1:]).undone == ()


def test_two_kinds_of_lines_of_the_same_step_are_one_step() -> None:
    said = [
        "step: 10, loss: 2.53",
        "[2026-11-22 10:00:00,125] [INFO] [timer.py:264:stop] epoch=0/micro_step=40/global_step=10, "
        "RunningAvgSamplesPerSec=123.45, CurrSamplesPerSec=125.1",
    ]
    reader, steps = read_all(said)
    assert (steps[-1].step, steps[-1].loss, steps[-1].speed, steps[-1].speed_unit) == (
        10,
        2.53,
        125.1,
        SAMPLES,
    )
    assert reader.progress.speed == 125.1


# Several processes


def test_replicas_that_print_the_same_are_counted_once() -> None:
    reader = JobProgress()
    found = []
    for step in (1, 2, 3):
        for at, replica in enumerate(("workerpool1-0", "workerpool0-0", "workerpool1-1")):
            found += reader.add(log_entry(f"step {step} loss {step}.{at}", 10 * step + at, replica))
    # The worker is the first to speak, and the primary takes over.
    assert [(step.step, step.loss) for step in found] == [(1, 1.0), (1, 1.1), (2, 2.1), (3, 3.1)]
    assert reader.replica == "workerpool0-0"


def test_another_replica_is_read_when_the_first_one_is_silent() -> None:
    reader = JobProgress()
    reader.add(log_entry("step 1 loss 3.0", 0, "workerpool0-0"))
    assert not reader.add(log_entry("step 2 loss 2.9", 5, "workerpool1-0"))
    later = QUIET.total_seconds() + 60
    assert numbers(reader.add(log_entry("step 90 loss 2.0", later, "workerpool1-0"))) == [90]
    assert reader.progress.step == 90


def test_ranks_in_one_replica_are_told_apart() -> None:
    said = [f"[rank{rank}]: step {step} loss {step}.{rank}" for step in (1, 2) for rank in (0, 1, 2)]
    _, steps = read_all(said)
    assert [(step.step, step.loss) for step in steps] == [(1, 1.0), (2, 2.0)]


# Structured lines


def test_structured_steps_replace_what_was_read_from_other_lines() -> None:
    reader, steps = read_all([bar(3, 10), "step 7 loss 8.0"])
    assert reader.progress.dialect == "key=value" and steps
    generation = reader.generation
    found = reader.add(
        structured(10, kind="step", step=1, total_steps=50, loss=4.0, tokens_per_second=9.0, grad_norm=0.5)
    )
    assert found[0].numbers == (("grad_norm", 0.5),)
    progress = reader.progress
    assert reader.generation == generation + 1
    assert (progress.step, progress.total_steps, progress.first_loss, progress.dialect) == (1, 50, 4.0, None)
    assert not reader.add(log_entry("step 8 loss 8.0", 11))
    assert reader.progress.step == 1


def test_an_evaluation_is_a_part_of_its_step() -> None:
    reader = JobProgress()
    (step,) = reader.add(structured(0, kind="step", step=5, loss=2.0, grad_norm=0.5))
    (found,) = reader.add(structured(3, kind="eval", step=5, loss=2.5, accuracy=0.25))
    assert found == replace(step, numbers=(("eval_loss", 2.5), ("eval_accuracy", 0.25), ("grad_norm", 0.5)))
    assert reader.progress.updated_at == found.timestamp + timedelta(seconds=3), "a screen shows it at once"
    assert (reader.progress.step, reader.progress.last_loss) == (5, 2.0)
    # Of a step that was not logged.
    (alone,) = reader.add(structured(9, kind="eval", step=7, loss=2.25))
    assert (alone.step, alone.loss, alone.numbers) == (7, None, (("eval_loss", 2.25),))
    assert not reader.add(structured(10, kind="eval", loss=2.25))


def test_structured_phases_stand_beside_anybodys_steps() -> None:
    reader = JobProgress()
    reader.add(structured(0, kind="phase", phase="training"))
    reader.add(log_entry("step=61 total=2000 loss=2.13", 1))
    reader.add(structured(2, kind="checkpoint", step=60))
    progress = reader.progress
    assert (progress.phase, progress.step, progress.total_steps, progress.last_loss) == (
        "training",
        61,
        2000,
        2.13,
    )
    assert progress.last_checkpoint_step == 60 and not reader.structured


def test_numbers_with_ever_new_names_are_bounded() -> None:
    reader = JobProgress()
    kept = set()
    for step in range(100):
        for sample in reader.add(log_entry(f"step={step} loss=1.0 metric_{step}=5", step)):
            kept |= {name for name, _ in sample.numbers}
    assert len(kept) == 24


def test_the_end_is_the_jobs_own_estimate() -> None:
    reader, _ = read_all([bar(61, 2000, ", loss=2.13")])
    assert reader.progress.ends_at == START + timedelta(minutes=16, seconds=20)
