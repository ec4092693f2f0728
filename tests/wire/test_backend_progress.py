"""Progress of jobs that know nothing of vxtui: what the service is asked for, and jobs that print it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from grpc import StatusCode

from tests.waiting import until
from tests.wire.backend_emulator_support import both, launch, pool, reach
from tests.wire.backend_readings_support import NAME, step
from tests.wire.fake_vertex import Abort, Fake, connected, line
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.logs.filters import MAX_LOG_FILTER
from tui.backends.vertex.logs.progress import JOBS_PER_READ
from tui.backends.vertex.logs.progress_filter import ProgressGroup, group_lines
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import STEPS, TOKENS
from tui.domain.progress.pattern import MOST_CHARACTERS, VARIABLE


def say(fake: Fake, text: str, *, at: float, job: str = "1", replica: str = "workerpool0-0") -> None:
    pb = line(text, at=at, job=job, replica=replica)
    pb.insert_id = f"{replica}{job}-{at:010.3f}"
    fake.entries.append(pb)


async def jobs_of(found: VertexBackend) -> list[Job]:
    return [job async for page in found.list_jobs() for job in page.jobs]


async def test_all_kinds_of_jobs_share_one_read() -> None:
    fake = Fake()
    for number in (1, 2, 3):
        fake.add_job(number)
    for at in range(5):
        step(fake, at, 9.0 - at, at=at, job="1")
        say(fake, f"step {10 * at}/400, loss: {5 - at / 10}, 12,300 tok/s", at=at, job="2")
        say(fake, f"listening on port {8000 + at}", at=at, job="3")
    async with connected(fake) as found:
        jobs = await jobs_of(found)
        for reads in (1, 2):
            progress = {job.id: p for job in jobs for p in [(await found.progress.read(jobs))[job.name]]}
            assert fake.calls["ListLogEntries"] == 3 * reads
    assert (progress["1"].step, progress["1"].first_loss, progress["1"].dialect) == (4, 9.0, None)
    assert (progress["2"].step, progress["2"].total_steps, progress["2"].first_loss) == (40, 400, 5.0)
    assert (progress["2"].speed, progress["2"].speed_unit) == (12_300, TOKENS)
    assert progress["3"].step is None


async def test_a_first_line_is_seen_where_this_machines_clock_is_ahead() -> None:
    # The job was created a moment ago, by a clock that is a day behind this one.
    fake = Fake()
    fake.add_job(1)
    async with connected(fake) as found:
        jobs = await jobs_of(found)
        assert (await found.progress.read(jobs))[NAME].step is None
        step(fake, 1, 9.0, at=5)
        assert (await found.progress.read(jobs))[NAME].step == 1


async def test_a_job_with_structured_steps_is_asked_for_nothing_else() -> None:
    fake = Fake()
    fake.add_job(1)
    step(fake, 1, 9.0, at=1)
    say(fake, "step 70 loss 1.0", at=2)
    async with connected(fake) as found:
        jobs = await jobs_of(found)
        assert (await found.progress.read(jobs))[NAME].step == 1
        await found.progress.read(jobs)
        assert [sample.step for sample in await found.progress.training_steps(NAME)] == [1]
        assert fake.calls["ListLogEntries"] == 4
    asked = [request.filter for request in fake.requests if hasattr(request, "order_by")]
    # The newest and the oldest lines are read at once, before anything is known.
    assert ["textPayload" in text for text in asked] == [True, True, False, False]


async def test_steps_of_anybodys_lines_are_read_with_their_numbers() -> None:
    fake = Fake()
    fake.add_job()
    for at in range(300):
        for replica in ("workerpool0-0", "workerpool1-0"):
            say(fake, f"step: {at}/300, loss: {9 - at / 100:.2f}, kl: 0.5", at=at, replica=replica)
    async with connected(fake) as found:
        job = await found.jobs["custom_job"].get(NAME)
        progress = (await found.progress.read([job]))[NAME]
        steps = await found.progress.training_steps(NAME)
    assert (progress.step, progress.first_loss, progress.last_loss) == (299, 9.0, 6.01)
    assert [one.step for one in steps] == list(range(300))
    assert {one.numbers for one in steps} == {(("kl", 0.5),)}
    # The newest page, the oldest loss, and the steps in one page.
    assert fake.calls["ListLogEntries"] == 3


async def test_lines_of_one_step_are_one_sample() -> None:
    fake = Fake()
    fake.add_job()
    for at in range(4):
        say(fake, f"  5%|▌  | {10 * at}/200 [00:01<00:19, 10.0it/s]", at=10 * at)
        say(fake, f"{{'loss': '{3 - at / 10:.1f}', 'grad_norm': '0.5', 'epoch': '0.1'}}", at=10 * at + 1)
    async with connected(fake) as found:
        steps = await found.progress.training_steps(NAME)
    assert [(one.step, one.loss) for one in steps] == [(0, 3.0), (10, 2.9), (20, 2.8), (30, 2.7)]


async def test_a_pattern_that_the_service_refuses_is_left_out_of_the_filter() -> None:
    fake = Fake()
    fake.add_job(job_spec=with_variable(r"upd (?P<step>\d+): (?P<loss>[\d.]+)"))
    say(fake, "upd 5: 2.5", at=1)
    say(fake, "step 6 loss 2.4", at=2)
    refusals = [Abort(StatusCode.INVALID_ARGUMENT, "filter: bad regular expression")]
    async with connected(fake) as found:
        job = await found.jobs["custom_job"].get(NAME)
        assert job.progress_pattern
        fake.fail("ListLogEntries", *refusals)
        assert (await found.progress.read([job]))[NAME].step == 6
        assert fake.calls["ListLogEntries"] == 2
        assert (await found.progress.read([job]))[NAME].step == 6
        assert fake.calls["ListLogEntries"] == 3


async def test_a_pattern_selects_its_lines() -> None:
    fake = Fake()
    fake.add_job(job_spec=with_variable(r"upd (?P<step>\d+): (?P<loss>[\d.]+)"))
    say(fake, "upd 5: 2.5", at=1)
    say(fake, "upd six", at=2)
    async with connected(fake) as found:
        job = await found.jobs["custom_job"].get(NAME)
        progress = (await found.progress.read([job]))[NAME]
        assert [one.step for one in await found.progress.training_steps(NAME)] == [5]
    assert (progress.step, progress.last_loss, progress.dialect) == (5, 2.5, "pattern")


def with_variable(pattern: str) -> dict[str, Any]:
    env = [{"name": VARIABLE, "value": pattern}]
    return {"worker_pool_specs": [{"container_spec": {"image_uri": "i", "env": env}, "replica_count": 1}]}


def test_the_longest_filter_fits_the_service() -> None:
    ids = tuple(str(10**18 + number) for number in range(JOBS_PER_READ))
    text = group_lines(
        [ProgressGroup(ids[:250], structured=True), ProgressGroup(ids[250:], pattern="\\" * MOST_CHARACTERS)]
    )
    assert len(text) + 100 < MAX_LOG_FILTER


# Jobs of the emulator that really print

HUGGING_FACE = r"""
import sys
for step in range(0, 200, 10):
    sys.stderr.write(f"\r{step // 2:3d}%|####      | {step}/200 [00:31<16:20,  1.98it/s]")
    logs = {"loss": f"{3 - step / 200:.3f}", "grad_norm": "0.8", "learning_rate": "5e-05", "epoch": "0.1"}
    print(logs, flush=True)
sys.stderr.write("\n")
"""
TORCHTITAN = """
for step in range(1, 40):
    print(f"[titan] 2026-11-22 10:00:00,123 - root - INFO - step: {step:2}  loss: {9 - step / 10:7.4f}  "
          f"grad_norm:  1.2  memory: 41.71GiB(52.70%)  tps: 4,532  tflops: 262.44  mfu: 26.54%", flush=True)
"""
JSON_LINES = """
import json
for step in range(1, 40):
    line = {"global_step": step, "max_steps": 40, "train_loss": 4 - step / 10, "tokens_per_sec": 41800}
    print(json.dumps(line), flush=True)
"""
DIALECTS = {
    "hugging-face": (HUGGING_FACE, 190, 200, 3.0, STEPS),
    "torchtitan": (TORCHTITAN, 39, None, 8.9, TOKENS),
    "json": (JSON_LINES, 39, 40, 3.9, TOKENS),
}


async def test_jobs_of_the_emulator_show_what_they_print() -> None:
    async with both() as (_state, found):
        made = {}
        for name, (code, *_) in DIALECTS.items():
            made[name] = await found.jobs["custom_job"].create(launch(pool(code), name=name))
        jobs = await asyncio.gather(*(reach(found, job.name, JobState.SUCCEEDED) for job in made.values()))

        async def read() -> dict[str, Any] | None:
            progress = await found.progress.read(jobs)
            whole = all(progress[made[name].name].step == last for name, (_, last, *_) in DIALECTS.items())
            return dict(progress) if whole else None

        progress = await until(read, "every job's last step")
        for name, (_, last, total, first, unit) in DIALECTS.items():
            mine = progress[made[name].name]
            assert (mine.step, mine.total_steps, mine.speed_unit) == (last, total, unit), name
            assert mine.first_loss == pytest.approx(first) and mine.last_loss < first, name
            steps = await found.progress.training_steps(made[name].name)
            assert steps[-1].step == last and any(one.loss is not None for one in steps), name


RUNNING = r"""
import sys, time
for step in range(1, 20_000):
    sys.stderr.write(f"\r{step // 200:3d}%|####      | {step}/20000 [00:31<16:20,  1.98it/s]")
    sys.stderr.flush()
    if step % 20 == 0:
        print({"loss": f"{3 - step / 20000:.3f}", "epoch": "0.1", "learning_rate": "5e-05"}, flush=True)
    time.sleep(0.02)
"""


async def test_a_bar_that_never_ends_its_line_is_seen_while_the_job_runs() -> None:
    """A few seconds: such a line is stored in parts, every two seconds."""
    async with both() as (_state, found):
        job = await found.jobs["custom_job"].create(launch(pool(RUNNING), name="running"))
        await reach(found, job.name, JobState.RUNNING)

        async def read() -> list[Any] | None:
            progress = (await found.progress.read([job]))[job.name]
            known = progress.step and progress.total_steps == 20_000 and progress.last_loss
            return [progress] if known else None

        (progress,) = await until(read, "step, total and loss of a running job", every=0.5)
        assert progress.step < 20_000 and progress.last_loss == pytest.approx(3, abs=0.5)
        await found.jobs["custom_job"].cancel(job.name)
        await reach(found, job.name, JobState.CANCELLED)
