"""A rank's progress in a file that its supervisor also maps, so that recording a step needs no system
call."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from pathlib import Path

FILE = "VXTUI_HEARTBEAT_FILE"
"""Variable with the path of a rank's heartbeat; stacks and answers are next to it, with other suffixes."""
SUPERVISOR = "VXTUI_SUPERVISOR_PID"
"""Variable with the id of the process that reads the heartbeat, and may read the rank's stacks."""
STARTING, TRAINING, DOWNLOADING, ENDING = "starting", "training", "downloading", "ending"
"""Phases of the trainer; others have the names of goodput's buckets, or a script's own names. "" is the phase
of a script that does not report progress."""
_SIZE = mmap.PAGESIZE
_PHASE_BYTES = 32


class _Fields(ctypes.Structure):
    """Fields of the file, aligned so that each write is atomic. Times are seconds of the machine's monotonic
    clock."""

    _fields_ = (
        ("pid", ctypes.c_uint64),
        ("main_thread", ctypes.c_uint64),
        ("requested", ctypes.c_uint64),
        ("step", ctypes.c_int64),
        ("ticks", ctypes.c_uint64),
        ("ticked_at", ctypes.c_double),
        ("collectives", ctypes.c_uint64),
        ("pending_since", ctypes.c_double),
        ("pending_until", ctypes.c_double),
        ("phase", ctypes.c_char * _PHASE_BYTES),
    )


class RankHeartbeat:
    """The heartbeat file of one rank, which writes all fields except `requested`."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """Raises OSError if the file can't be mapped."""
        flags = os.O_RDWR | (os.O_CREAT | os.O_TRUNC if create else 0)
        descriptor = os.open(path, flags, 0o600)
        try:
            if create:
                os.ftruncate(descriptor, _SIZE)
            self._map = mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)
        self.path = path
        self._fields = _Fields.from_buffer(self._map)

    def introduce(self) -> None:
        """Write the id and the main thread of the rank's process; called in the rank."""
        self._fields.main_thread = threading.main_thread().ident or 0
        self._fields.ticked_at = time.monotonic()
        self._fields.pid = os.getpid()

    def tick(self, step: int) -> None:
        """Record that a step ended."""
        self._fields.step = step
        self.beat()

    def beat(self) -> None:
        """Record that repeated work within a step ended."""
        self._fields.ticked_at = time.monotonic()
        self._fields.ticks += 1

    def enter(self, phase: str) -> None:
        """Begin another phase."""
        self._fields.phase = phase.encode()[: _PHASE_BYTES - 1]
        self._fields.ticked_at = time.monotonic()

    def count_collectives(self, begun: int, pending_since: float, pending_until: float) -> None:
        """Record the number of begun collectives, and the begin and timeout of the oldest pending collective,
        or 0 if none is pending."""
        self._fields.collectives = begun
        self._fields.pending_since, self._fields.pending_until = pending_since, pending_until

    def request(self) -> int:
        """Request an answer from the rank; return the request's number. Only the supervisor calls this
        method."""
        self._fields.requested += 1
        return int(self._fields.requested)

    @property
    def requested(self) -> int:
        return int(self._fields.requested)

    @property
    def pid(self) -> int:
        """Process id of the rank; 0 until `introduce` is called."""
        return int(self._fields.pid)

    @property
    def main_thread(self) -> int:
        """The rank's main thread, by `threading.get_ident`."""
        return int(self._fields.main_thread)

    @property
    def step(self) -> int:
        """The last step that ended."""
        return int(self._fields.step)

    @property
    def ticks(self) -> int:
        return int(self._fields.ticks)

    @property
    def ticked_at(self) -> float:
        """Time of the last tick or change of phase."""
        return float(self._fields.ticked_at)

    @property
    def collectives(self) -> int:
        return int(self._fields.collectives)

    @property
    def pending(self) -> tuple[float, float]:
        """The time since which the oldest pending collective waits, and the time of its timeout; (0, 0) if it
        is unknown."""
        return float(self._fields.pending_since), float(self._fields.pending_until)

    @property
    def phase(self) -> str:
        return bytes(self._fields.phase).decode(errors="replace")


def answer_path(heartbeat: Path, number: int) -> Path:
    """Return the path of the rank's answer to a request."""
    return heartbeat.with_suffix(f".answer-{number}")


def stacks_path(heartbeat: Path) -> Path:
    """Return the path of the file in which the rank's signal handler writes the stacks of its threads."""
    return heartbeat.with_suffix(".stacks")
