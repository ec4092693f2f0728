"""The ranks' records, parsed for the analysis. The module does no I/O; a record is JSON from `collect` on any
node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from trainer.hang.stacks import Frame, computes, user_frame, waits_in_collective

DEFAULT_GROUP = "default"
_BUSY = 0.5
"""Fraction of the time in which a computing rank runs or waits for a processor."""
_CALLS = 3
"""Number of different functions per second in a computing process; a waiting loop calls fewer functions."""
_IO_RATE = 256 << 10
"""Minimum bytes per second at which a process counts as reading or writing; heartbeat and stacks cause
less."""
_SAME_SIZES = frozenset({
    "all_reduce", "allreduce_coalesced", "broadcast", "reduce", "reduce_scatter", "_reduce_scatter_base",
    "_allgather_base", "_all_gather_base", "reduce_scatter_tensor_coalesced",
})  # fmt: skip
"""Collectives in which all ranks have inputs of the same shape."""


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective that a rank began. `order` counts all collectives of a rank, `seq` the group's
    collectives."""

    group: str
    seq: int
    kind: str
    sizes: tuple[tuple[int, ...], ...] = ()
    dtype: str = ""
    done: bool = False
    order: int = 0
    background: bool = False
    p2p: bool = False
    frames: tuple[Frame, ...] = ()

    @property
    def signature(self) -> tuple[Any, ...]:
        """The properties that all ranks of the group must have in common."""
        return self.kind, *((self.sizes, self.dtype) if self.kind in _SAME_SIZES else ())

    @property
    def words(self) -> str:
        """The collective in words: `all_reduce #53 [1024] Float`."""
        sizes = "".join(f" [{', '.join(map(str, size))}]" for size in self.sizes)
        return f"{self.kind} #{self.seq}{sizes}{' ' + self.dtype if self.dtype else ''}"


@dataclass(frozen=True)
class RankRecord:
    """The state of one rank. `frames` are the frames of its main thread, the innermost first.

    With `answered`, its collectives are known. `state` is the state of its process as text; `members` are the
    ranks of each group, if known. `running` is the fraction of a second in which the rank ran or waited for a
    processor. `calls` is the number of functions that its main thread called in that second, and `io_rate` is
    the number of bytes that it read and wrote. The rank may be without progress for `seconds_left` more in
    its phase.
    """

    rank: int
    node: int = 0
    state: str = "sleeping"
    answered: bool = True
    exit_code: int | None = None
    phase: str = ""
    step: int = 0
    frames: tuple[Frame, ...] = ()
    worker_frames: tuple[tuple[Frame, ...], ...] = ()
    collectives: tuple[Collective, ...] = ()
    members: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    wait: str = ""
    cpu_share: float = 0.0
    running: float = 0.0
    calls: int = 0
    io_rate: float = 0.0
    seconds_left: float = 0.0

    @property
    def works(self) -> bool:
        """Whether the rank computes, reads or writes, rather than waits or repeats one function forever."""
        busy = max(self.running, self.cpu_share) > _BUSY
        return self.io_rate > _IO_RATE or (busy and (computes(self.frames) or self.calls >= _CALLS))

    @property
    def place(self) -> Frame | None:
        """The line of the user's code in the main thread."""
        return user_frame(self.frames)

    @cached_property
    def waits(self) -> bool:
        """Whether the main thread is within torch.distributed."""
        return waits_in_collective(self.frames)

    def known(self, *, background: bool) -> list[Collective]:
        """Return the rank's collectives in the order in which they began; collectives of other threads only
        with `background`."""
        return [collective for collective in self.collectives if background or not collective.background]


def read_record(record: Mapping[str, Any], node: int) -> RankRecord:
    """Parse a record. Raises ValueError, KeyError or TypeError for invalid content."""
    threads = list(record["threads"])
    main = next((thread for thread in threads if thread["main"]), threads[-1] if threads else None)
    groups: Mapping[str, Any] = dict(record["groups"])
    collectives = [
        _collective(str(name), entry) for name, group in groups.items() for entry in group["entries"]
    ]
    seconds = float(record.get("seconds") or 0.0)
    code = record["exit_code"]
    return RankRecord(
        int(record["rank"]),
        node,
        str(record["state"]),
        bool(record["answered"]),
        None if code is None else int(code),
        str(record["phase"]),
        int(record["step"]),
        _frames(main["frames"]) if main else (),
        tuple(_frames(_main(worker["threads"])["frames"]) for worker in record["workers"]),
        tuple(sorted(collectives, key=lambda collective: collective.order)),
        {str(name): tuple(int(rank) for rank in group["ranks"]) for name, group in groups.items()},
        {str(name): str(group["title"]) for name, group in groups.items()},
        str(record["problem"]),
        str(record["wait"]),
        float(record["cpu_seconds"]) / seconds if seconds else 0.0,
        float(record["running"]),
        int(record["calls"]),
        float(record["io_rate"]),
        float(record["seconds_left"]),
    )


def _main(threads: list[Any]) -> Any:
    return next((thread for thread in threads if thread["main"]), threads[-1])


def _frames(frames: list[Any]) -> tuple[Frame, ...]:
    return tuple(Frame(str(frame[0]), int(frame[1]), str(frame[2]), str(frame[3])) for frame in frames)


def _collective(group: str, entry: Mapping[str, Any]) -> Collective:
    return Collective(
        group,
        int(entry["seq"]),
        str(entry["kind"]),
        tuple(tuple(int(n) for n in size) for size in entry["sizes"]),
        str(entry["dtype"]),
        bool(entry["done"]),
        int(entry["order"]),
        bool(entry["background"]),
        bool(entry["p2p"]),
        _frames(entry["frames"]),
    )


def group_words(records: list[RankRecord], name: str) -> str:
    """Return the name of a group as text."""
    titles = [record.titles[name] for record in records if record.titles.get(name)]
    title = titles[0] if titles else ""
    if title == "default_pg":
        return DEFAULT_GROUP
    return title if title and title != "undefined" else name
