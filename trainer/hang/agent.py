"""Answers the supervisor's requests in a rank, with a thread and a signal handler.

The handler writes the stacks of all threads in C, so that it works in an infinite loop, in a lock, and while
native code holds the GIL. The thread adds the collectives that torch recorded; it needs the GIL. If it can't
answer, the records of the other ranks show the collective that this rank has not joined.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import signal
import threading
import time

from trainer.hang import flight_recorder, progress
from trainer.hang.heartbeat import SUPERVISOR, RankHeartbeat, answer_path, stacks_path

STACKS_SIGNAL = signal.SIGRTMIN + 10
"""Real-time signal that requests the stacks; scripts use SIGUSR1 and SIGUSR2."""
_POLL = 0.25
_COUNT_EVERY = 4
"""Number of polls between reads of the collectives."""
_SET_PTRACER = 0x59616D61


def start() -> None:
    """Answer this process's supervisor if it reads heartbeats."""
    heartbeat = progress.connect()
    if heartbeat is None:
        return
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        # The handler keeps the file open.
        stacks = os.open(stacks_path(heartbeat.path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        faulthandler.register(STACKS_SIGNAL, file=stacks, all_threads=True)
    # With Yama py-spy needs this process's permission to read it; the supervisor starts py-spy.
    ctypes.CDLL(None).prctl(_SET_PTRACER, _supervisor(), 0, 0, 0)
    heartbeat.introduce()
    threading.Thread(target=_serve, args=(heartbeat,), name="hang-agent", daemon=True).start()


def _supervisor() -> int:
    return int(os.environ.get(SUPERVISOR, os.getppid()))


def _serve(heartbeat: RankHeartbeat) -> None:
    answered, polls = heartbeat.requested, 0
    collectives = _Collectives(heartbeat)
    while True:
        time.sleep(_POLL)
        requested = heartbeat.requested
        if requested != answered:
            _answer(heartbeat, requested)
            answered = requested
        polls += 1
        if polls % _COUNT_EVERY == 0:
            with contextlib.suppress(Exception):
                # The recorder's format may have changed: report only the stacks.
                collectives.poll()


class _Collectives:
    """Counts the collectives. Pending collectives are read only while the rank makes no progress, because a
    read takes milliseconds."""

    def __init__(self, heartbeat: RankHeartbeat) -> None:
        self._heartbeat = heartbeat
        self._begun, self._still = -1, 0
        self._moved_at = self._ahead = self._ahead_before = 0.0
        """The monotonic time of the last movement, and the offset of the time of day at the last two
        movements."""

    def poll(self) -> None:
        begun, pending = flight_recorder.begun()
        self._still = self._still + 1 if begun == self._begun and pending else 0
        self._begun = begun
        if self._still == 0:
            self._moved_at, self._ahead_before = time.monotonic(), self._ahead
            self._ahead = time.time() - self._moved_at
            self._heartbeat.count_collectives(begun, 0.0, 0.0)
        elif self._still % 5 == 3:
            began, timeout = flight_recorder.oldest_pending()
            # The time of day may have jumped since the last movement, or shortly before it was seen. A
            # begin that is too early would end a healthy attempt.
            began = max(began - self._ahead, began - (self._ahead_before or self._ahead))
            since = min(began, self._moved_at) if timeout else 0.0
            self._heartbeat.count_collectives(begun, since, since + timeout if timeout else 0.0)


def _answer(heartbeat: RankHeartbeat, number: int) -> None:
    content: dict[str, object] = {}
    try:
        content["groups"] = flight_recorder.groups()
    except Exception as error:  # noqa: BLE001 - torch's format is private
        content["problem"] = f"the flight recorder can't be read: {type(error).__name__}: {error}"[:500]
    path = answer_path(heartbeat.path, number)
    new = path.with_name(f"{path.name}.new")
    with contextlib.suppress(OSError, ValueError, TypeError):
        new.write_text(json.dumps(content))
        new.replace(path)
