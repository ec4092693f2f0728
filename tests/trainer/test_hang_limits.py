"""When a rank without progress is reported, with made-up times."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.hang.heartbeat import DOWNLOADING, ENDING, STARTING, TRAINING
from trainer.hang.limits import UNKNOWN, Limits, RankProgress, RankSample, Stall, node_stall

FLOOR = 40.0
POLL = 0.5


class Rank:
    """A rank that its supervisor reads twice a second."""

    def __init__(self, phase: str = TRAINING) -> None:
        self.now, self.ticks, self.ticked_at, self.collectives, self.phase = 100.0, 0, 100.0, 0, phase
        self.pending = (0.0, 0.0)
        self.progress = RankProgress(Limits(10.0, FLOOR), self.now)
        self.reported_after = 0.0
        self.read()

    def read(self) -> Stall | None:
        said = RankSample(self.ticks, self.ticked_at, self.phase, self.collectives, *self.pending)
        self.progress.update(said, self.now)
        return self.progress.stall(self.now)

    def work(self, seconds: float) -> Stall | None:
        """The first stall during this time without movement."""
        until, first = self.now + seconds, None
        while self.now < until:
            self.now = min(until, self.now + POLL)
            first = first or self.read()
        return first

    def step(self, seconds: float) -> Stall | None:
        found = self.work(seconds)
        self.ticks, self.ticked_at, self.collectives = self.ticks + 1, self.now, self.collectives + 2
        return found or self.read()

    def enter(self, phase: str) -> None:
        self.phase, self.ticked_at = phase, self.now
        self.read()


@given(st.floats(0.01, 60), st.data())
def test_a_hang_is_reported_after_the_floor_or_ten_steps(usual: float, data: st.DataObject) -> None:
    rank = Rank()
    for _ in range(8):
        assert rank.step(usual * data.draw(st.floats(0.7, 1.3))) is None
    found = rank.work(1000)
    assert found is not None and found.phase == TRAINING
    assert max(FLOOR, 7 * usual) <= found.seconds <= max(FLOOR, 13 * usual) + 2 * POLL


@given(st.lists(st.floats(0.01, 38), min_size=4, max_size=60))
def test_steps_below_the_floor_are_never_reported(durations: list[float]) -> None:
    rank = Rank(STARTING)
    assert rank.work(900) is None, "a slow start"
    rank.enter(TRAINING)
    assert rank.step(300) is None, "the first step compiles"
    for duration in durations:
        assert rank.step(duration) is None


@settings(max_examples=40)
@given(st.floats(1, 20), st.floats(1, 8), st.integers(2, 12))
def test_a_step_that_takes_longer_now_and_then_is_reported_at_most_once(
    usual: float, times: float, every: int
) -> None:
    """An evaluation that a script does not name."""
    rank, reports = Rank(), 0
    for number in range(1, 4 * every):
        seconds = usual * times * 20 if number % every == 0 else usual
        reports += rank.step(seconds) is not None
    assert reports <= 1


def test_phases_of_an_unknown_length_have_more_time() -> None:
    rank = Rank()
    for _ in range(5):
        rank.step(0.5)
    rank.enter("checkpoint")
    found = rank.work(1000)
    assert found is not None and found.seconds >= UNKNOWN * FLOOR
    for phase in (DOWNLOADING, ENDING):
        rank.enter(phase)
        assert rank.work(7200) is None


def test_an_evaluation_is_measured_by_its_batches() -> None:
    rank = Rank()
    rank.enter("eval")
    for _ in range(10):
        assert rank.step(3) is None
    found = rank.work(1000)
    assert (
        found is not None and FLOOR <= found.seconds < FLOOR + 1 and found.usual == pytest.approx(3, abs=POLL)
    )


def test_collectives_are_the_progress_of_a_script_that_reports_none() -> None:
    rank = Rank("")
    assert rank.work(600) is None
    for _ in range(30):
        rank.collectives += 3
        assert rank.work(4) is None
    found = rank.work(1000)
    assert found is not None and not found.certain and FLOOR <= found.seconds < 41


def test_collectives_that_go_on_make_a_long_step_no_stall() -> None:
    rank = Rank()
    for _ in range(5):
        rank.step(0.5)
    for _ in range(60):
        rank.collectives += 1
        assert rank.work(5) is None


def test_a_collective_that_is_about_to_fail_is_reported_in_any_phase() -> None:
    rank = Rank(STARTING)
    rank.pending = (rank.now, rank.now + 60)
    found = rank.work(100)
    assert found is not None and found.before_timeout and 48 <= found.seconds <= 49


def test_a_node_stalls_when_all_of_its_ranks_do() -> None:
    ranks = [Rank(), Rank()]
    for _ in range(5):
        for rank in ranks:
            rank.step(1)
    for _ in range(100):
        ranks[0].work(1)
        ranks[1].step(1)
    assert node_stall([rank.progress for rank in ranks], ranks[0].now) is None
    ranks[1].work(60)
    found = node_stall([rank.progress for rank in ranks], ranks[1].now)
    assert found is not None and 40 <= found.seconds <= 61


def test_a_factor_of_0_reports_nothing() -> None:
    progress = RankProgress(Limits(0.0, FLOOR), 0.0)
    for second in range(5):
        progress.update(RankSample(second, float(second), TRAINING, 0), float(second))
    assert progress.stall(1e6) is None


@given(st.floats(6, 5000), st.integers(0, 3))
def test_a_machine_that_stood_still_is_no_stall(seconds: float, at: int) -> None:
    """A paused container: the supervisor was suspended too, and its clock continued."""
    rank = Rank()
    for step in range(8):
        if step == 4 + at:
            rank.now += seconds
            rank.progress.pause(seconds)
            assert rank.read() is None
        assert rank.step(1) is None
    found = rank.work(1000)
    assert found is not None and FLOOR <= found.seconds <= FLOOR + 1, "and it is forgotten as a duration"


def test_how_long_a_rank_may_go_on_is_said() -> None:
    rank = Rank()
    for _ in range(5):
        rank.step(0.5)
    assert rank.progress.left(rank.now) == pytest.approx(UNKNOWN * FLOOR), "collectives were seen just now"
    rank.work(FLOOR)
    assert rank.progress.left(rank.now) == 0
    rank.enter("checkpoint")
    rank.work(100)
    assert rank.progress.left(rank.now) == pytest.approx(UNKNOWN * FLOOR - 100)
    rank.enter(DOWNLOADING)
    assert rank.progress.left(rank.now) == float("inf")
