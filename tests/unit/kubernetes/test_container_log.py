"""A container's log is read whole, each line once, whatever breaks; what is not there any more is a gap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.kubernetes.log_lines_support import NAME, START, written
from tui.backends.errors import BackendError, InvalidRequest, NotFound, Unavailable
from tui.backends.kubernetes.logs.container import ContainerReader
from tui.backends.kubernetes.logs.lines.merge import LineStream, Merge
from tui.backends.kubernetes.logs.lines.stamped import SECOND, moment_of, stamp_at, stamp_of
from tui.backends.kubernetes.logs.runs import ContainerState, Want, container_state, first_run, want
from tui.backends.kubernetes.logs.slots import Slots
from tui.domain.core.log_entry import LogEntry, LogGap

steps = st.one_of(
    st.tuples(st.just("lines"), st.integers(1, 4), st.sampled_from([0, 0, 1, SECOND // 3, 3 * SECOND])),
    st.tuples(st.sampled_from(["restart", "rotate", "status"]), st.just(0), st.just(0)),
)
breaks = st.sampled_from(["none", "none", "none", "whole", "cut", "error", "refuse"])


@dataclass
class World:
    """A container on a node, the API before it, and what the reader is told."""

    script: list[tuple[str, int, int]]
    faults: list[tuple[str, int]]
    deleted: bool
    clock: float = 0.0
    stamp: int = START
    runs: list[list[tuple[int, bytes]]] = field(default_factory=lambda: [[]])
    """All lines of each run."""
    files: list[int] = field(default_factory=lambda: [0])
    """How many lines of each run were rotated away."""
    starts: list[int] = field(default_factory=lambda: [START])
    ended: bool = False
    status: ContainerState = field(default_factory=lambda: ContainerState(running=True, started=START))
    pod_gone: bool = False
    told_gone: bool = False
    out: list[LogEntry] = field(default_factory=list)
    gaps: list[LogGap] = field(default_factory=list)
    count: int = 0
    unknowable: set[int] = field(default_factory=set)

    # What happens

    def step(self) -> None:
        """The next thing of the script; then the container ends, and after that its pod may go."""
        if not self.script:
            if not self.ended:
                self.ended = True
            elif self.deleted:
                self.pod_gone = True
            self.tell()
            return
        what, count, gap = self.script.pop(0)
        if what == "lines":
            for _ in range(count):
                self.stamp += gap
                self.count += 1
                self.runs[-1].append((self.stamp, b"line %d" % self.count))
        elif what == "restart":
            self.stamp += SECOND
            self.runs.append([])
            self.starts.append(self.stamp)
            self.files.append(0)
        elif what == "rotate":
            self.stamp += 1
            said = {int(entry.message.split()[1]) for entry in self.out}
            first = self.count - len(self.runs[-1]) + 1
            if not said & {*range(first, self.count + 1)}:
                # Nobody can know that there were lines before the first that was ever read.
                self.unknowable |= {*range(first, self.count + 1)}
            self.files[-1] = len(self.runs[-1])
        else:
            self.tell()

    def tell(self) -> None:
        """The watch brings the status."""
        run = len(self.runs) - 1
        self.status = ContainerState(
            run,
            running=not self.ended,
            ended=self.ended,
            previous=run > 0,
            started=self.starts[-1],
            previous_started=self.starts[-2] if run else None,
        )
        self.told_gone = self.pod_gone

    # The connection

    @asynccontextmanager
    async def stream(
        self, path: str, *, action: str, params: Mapping[str, Any]
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        assert path == "/api/v1/namespaces/ml/pods/train-worker-0/log", action
        fault, size = self.faults.pop(0) if self.faults else ("none", 0)
        self.clock += 0.01
        if fault == "error":
            raise Unavailable("a fault")
        if self.pod_gone:
            raise NotFound("no pod")
        run = len(self.runs) - 1
        if params["previous"]:
            if run == 0 or fault == "refuse":
                raise InvalidRequest("previous terminated container not found")
            run -= 1
        yield self._pieces(run, params, fault, size)

    async def _pieces(
        self, run: int, params: Mapping[str, Any], fault: str, size: int
    ) -> AsyncGenerator[bytes, None]:
        since = stamp_of(params["sinceTime"]) if params["sinceTime"] else 0
        # That an ended log is cut at the same place again and again, in the usual way, nobody can know.
        fault = "cut" if fault == "whole" and not params["follow"] else fault
        at, left = self.files[run], size if fault in {"cut", "whole"} else 1 << 30
        while True:
            lines = self.runs[run][at:]
            at += len(lines)
            data = b"".join(written(*line) for line in lines if line[0] >= (since or 0))
            if data:
                # A stream brings what it has before more happens.
                yield data[:left]
                left -= len(data)
            if left <= 0:
                # A usual end just before the container's own end: nobody can know that it is a cut.
                if fault == "cut" or not self.script:
                    raise Unavailable("cut")
                return
            over = self.ended or len(self.runs) - 1 != run
            if over and params["follow"] and at < len(self.runs[run]):
                continue
            if over or not params["follow"]:
                return
            self.step()

    # News and outlet

    @property
    def pod(self) -> World:
        return self

    def state_of(self, container: str) -> ContainerState:
        return self.status

    @property
    def created(self) -> int | None:
        return START

    @property
    def gone(self) -> bool:
        return self.told_gone

    @property
    def deleting(self) -> bool:
        return False

    @property
    def over(self) -> bool:
        return self.ended and not self.script and self.status.ended

    async def changed(self, seconds: float) -> None:
        self.clock += seconds
        self.step()
        self.tell()

    async def refresh(self) -> None:
        self.clock += 0.01
        self.tell()

    def now(self) -> float:
        return self.clock

    def selects(self, entry: LogEntry, stamp: int) -> bool:
        return True

    def gap(self, gap: LogGap) -> None:
        self.gaps.append(gap)

    async def room(self, source: LineStream) -> None:
        self.out += [entry for _, _, entry in source.queue]
        source.queue.clear()

    def failing(self, name: object, error: BackendError | None) -> None:
        pass


def read(world: World) -> ContainerReader:
    """Run the reader to its end."""
    source = Merge().open()

    async def run() -> ContainerReader:
        reader = ContainerReader(world, NAME, world, world, source, Slots())  # type: ignore[arg-type]
        await asyncio.wait_for(reader.run(), 20)
        return reader

    reader = asyncio.run(run())
    world.out += [entry for _, _, entry in source.queue]
    return reader


@example(
    [("lines", 2, SECOND), ("rotate", 0, 0), ("lines", 2, 0), ("lines", 1, SECOND)], [("whole", 38)] * 2, True
)
@given(
    st.lists(steps, max_size=14), st.lists(st.tuples(breaks, st.integers(0, 400)), max_size=10), st.booleans()
)
def test_each_line_is_delivered_once_or_lies_in_a_gap(
    script: list[tuple[str, int, int]], faults: list[tuple[str, int]], deleted: bool
) -> None:
    world = World([*script], [*faults], deleted)
    reader = read(world)
    lines = [line for run in world.runs for line in run]
    said = [int(entry.message.split()[1]) for entry in world.out]
    assert said == sorted(said)
    assert len(set(said)) == len(said)
    assert len({entry.key for entry in world.out}) == len(said)
    holes = [
        (stamp_at(gap.timestamp), None if gap.until is None else stamp_at(gap.until)) for gap in world.gaps
    ]
    if reader.rest_since is not None:
        holes.append((reader.rest_since, None))
    for number, (stamp, text) in enumerate(lines, 1):
        assert text == b"line %d" % number
        if number not in said and number not in world.unknowable:
            micro = stamp // 1000 * 1000
            assert any(begin <= micro + 999 and (end is None or micro <= end) for begin, end in holes), number
    if not faults:
        assert not world.gaps or any(step[0] in {"restart", "rotate"} for step in script)


def test_without_faults_nothing_is_lost_and_nothing_said() -> None:
    world = World([("lines", 3, 0), ("lines", 2, SECOND)], [], deleted=False)
    reader = read(world)
    assert [entry.message for entry in world.out] == [f"line {n}" for n in range(1, 6)]
    assert not world.gaps
    assert reader.complete


def test_a_restart_while_the_stream_was_cut_is_read_from_previous() -> None:
    script = [("lines", 3, 1), ("lines", 2, 1), ("restart", 0, 0), ("lines", 2, 1)]
    world = World(script, [("cut", 60)], deleted=False)
    reader = read(world)
    assert [entry.message for entry in world.out] == [f"line {n}" for n in range(1, 8)]
    assert not world.gaps
    assert reader.complete


def test_a_file_that_was_rotated_meanwhile_is_a_gap() -> None:
    script = [("lines", 3, SECOND), ("lines", 2, 1), ("rotate", 0, 0), ("lines", 2, 1)]
    world = World(script, [("cut", 60), ("error", 0), ("error", 0)], deleted=False)
    read(world)
    assert [entry.message for entry in world.out] == ["line 1", "line 6", "line 7"]
    assert len(world.gaps) == 1
    gap = world.gaps[0]
    assert "rotated" in gap.reason
    assert gap.count is None
    assert gap.words.startswith("lines not delivered: the log file of pod train-worker-0 was rotated")


def test_a_pod_that_went_while_its_stream_was_cut_has_a_rest() -> None:
    world = World([("lines", 3, SECOND)], [("cut", 60)] + [("error", 0)] * 6, deleted=True)
    reader = read(world)
    assert not reader.complete
    assert reader.rest_since == stamp_at(world.out[-1].timestamp)


def test_states_of_containers() -> None:
    running = {"restartCount": 2, "state": {"running": {"startedAt": "2025-11-25T18:00:00Z"}}}
    ended = {"terminated": {"startedAt": "2025-11-25T17:00:00Z", "finishedAt": "2025-11-25T17:30:00Z"}}
    state = container_state({**running, "lastState": ended})
    assert (state.run, state.running, state.previous) == (2, True, True)
    back_off = container_state(
        {"restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}
    )
    assert (back_off.run, back_off.ended, back_off.previous) == (2, True, False)
    assert container_state(None) == ContainerState()
    assert not container_state({"state": {"waiting": {"reason": "ContainerCreating"}}}).any_run
    assert want(2, state) is Want.CURRENT
    assert want(1, state) is Want.PREVIOUS
    assert want(0, state) is Want.LOST
    assert want(3, state) is Want.WAIT
    assert want(1, back_off) is Want.LOST


def test_runs_that_ended_before_the_time_asked_for_are_not_read() -> None:
    hour = 3600 * SECOND
    state = ContainerState(2, running=True, previous=True, started=START + hour, previous_started=START)
    assert first_run(state, None) == 0
    assert first_run(state, START + 2 * hour) == 2
    assert first_run(state, START + hour // 2) == 1
    assert first_run(state, START - hour) == 0
    over = replace(state, running=False, ended=True, finished=START + 2 * hour)
    assert first_run(over, START + 3 * hour) == 3
    assert moment_of(START) < moment_of(START + hour)
