"""Collect the records of the ranks of one node: their stacks, their collectives, their state in the
kernel."""

from __future__ import annotations

import contextlib
import json
import linecache
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainer.hang.agent import STACKS_SIGNAL
from trainer.hang.heartbeat import RankHeartbeat, answer_path, stacks_path
from trainer.hang.processes import (
    ENDED,
    RUNNING,
    STOPPED,
    ProcessState,
    children,
    has_handler,
    io_bytes,
    process_state,
)
from trainer.hang.stacks import Thread, from_faulthandler, from_py_spy, main_frames

ANSWER_SECONDS = 3.0
"""Maximum wait for a rank's thread; a thread that can't run in this time never answers."""
_HANDLER_SECONDS = 2.0
_PY_SPY_SECONDS = 10.0
_POLL = 0.05
_WATCH_SECONDS = 1.0
"""Seconds of observation that show whether a process runs, reads or writes."""
_SAMPLES = 8
"""Number of samples of a process in `_WATCH_SECONDS`."""
_MAX_WORKERS = 4
"""Maximum number of a rank's worker processes, e.g. of a DataLoader, whose stacks are read."""
_MAX_STACKS = 1 << 20
"""Maximum length of faulthandler's output that is read, in bytes."""
_MAX_CODE = 120
"""Maximum length of a source line, in characters."""
_MAX_ANSWER = 4 << 20


def collect(
    beats: Sequence[RankHeartbeat], ranks: Sequence[int], codes: dict[int, int]
) -> list[dict[str, Any]]:
    """Return one record for each rank of this node, within about 15 s; blocks.

    `codes` are the exit codes of local ranks that ended.
    """
    if not beats:
        return []
    with ThreadPoolExecutor(len(beats)) as pool:
        return list(
            pool.map(lambda local: _record(beats[local], ranks[local], codes.get(local)), range(len(beats)))
        )


def _record(beat: RankHeartbeat, rank: int, code: int | None) -> dict[str, Any]:
    pid = beat.pid
    record: dict[str, Any] = {
        "rank": rank,
        "pid": pid,
        "phase": beat.phase,
        "step": beat.step,
        "exit_code": code,
        "threads": [],
        "workers": [],
        "answered": False,
        "groups": {},
        "problem": "",
        "stacks_by": "",
        "running": 0.0,
        "calls": 0,
        "io_rate": 0.0,
    }
    before = ProcessState(ENDED) if code is not None or not pid else process_state(pid)
    record |= {"state": before.state, "wait": before.wait, "cpu_seconds": 0.0}
    if before.state == ENDED:
        if not pid and code is None:
            record |= {"state": "starting", "problem": "the process has not started yet"}
        return record
    began, number = time.monotonic(), beat.request()
    # Watch before the signal for the stacks: it ends a sleep in native code, and then this rank and the
    # others continue.
    answer = _answer(beat, number, began + ANSWER_SECONDS) if before.state not in STOPPED else None
    threads, record["stacks_by"] = _stacks(pid, before, stacks_path(beat.path), beat.main_thread)
    record["threads"] = [_as_json(thread) for thread in threads]
    if before.state not in STOPPED:
        for child in children(pid)[:_MAX_WORKERS]:
            stacks, _ = _stacks(child, process_state(child), stacks_path(beat.path), beat.main_thread)
            if stacks:
                record["workers"].append({"pid": child, "threads": [_as_json(thread) for thread in stacks]})
        if answer is None:
            record["problem"] = "the rank's thread does not answer: native code holds the GIL"
        else:
            record |= {"answered": True, "groups": _with_code_of_calls(answer.get("groups") or {})}
            record["problem"] = str(answer.get("problem", ""))
        record |= _watch(beat)
    after = process_state(pid)
    record["cpu_seconds"] = max(0.0, after.cpu_seconds - before.cpu_seconds)
    record["seconds"] = time.monotonic() - began
    return record


def _watch(beat: RankHeartbeat) -> dict[str, float]:
    """Return the activity of a process within `_WATCH_SECONDS`.

    `running` is the fraction of the time in which the process ran. `calls` is the number of different
    functions that it called. `io_rate` is the number of bytes per second that it and its children read and
    wrote.
    """
    pid, began, running, calls = beat.pid, time.monotonic(), 0, set[tuple[str, str]]()
    family = [pid, *children(pid)]
    before = {member: io_bytes(member) for member in family}
    for number in range(_SAMPLES):
        state = process_state(pid)
        if state.state == RUNNING:
            # Do not signal a sleeping process: a signal ends a sleep in native code.
            running += 1
            frames = main_frames(_stacks(pid, state, stacks_path(beat.path), beat.main_thread)[0])
            calls.update((frame.file, frame.function) for frame in frames[:1])
        time.sleep(max(0.0, began + _WATCH_SECONDS * (number + 1) / _SAMPLES - time.monotonic()))
    moved = sum(max(0, io_bytes(member) - before[member]) for member in family)
    rate = moved / (time.monotonic() - began)
    return {"running": running / _SAMPLES, "calls": len(calls), "io_rate": rate}


def _stacks(pid: int, state: ProcessState, file: Path, main_thread: int) -> tuple[list[Thread], str]:
    """Return the threads of a process and the tool that read them: py-spy, which can read even a stopped
    process, or the process's signal handler."""
    for by, read in (
        ("py-spy", lambda: from_py_spy(_py_spy(pid, stopped=state.state in STOPPED))),
        ("faulthandler", lambda: from_faulthandler(_handler(pid, state, file), main_thread)),
    ):
        threads = read()
        if any(thread.frames for thread in threads):
            return [_with_code(thread) for thread in threads], by
    return [], ""


def _py_spy(pid: int, *, stopped: bool) -> str:
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if program is None:
        return ""
    # py-spy pauses a running process for the milliseconds of the read; a stopped process need not be paused.
    command = [program, "dump", "--json", "--pid", str(pid), *(["--nonblocking"] if stopped else [])]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PY_SPY_SECONDS, check=False)
        return done.stdout if done.returncode == 0 else ""
    return ""


def _handler(pid: int, state: ProcessState, file: Path) -> str:
    """Return the output of the process's signal handler, or "" if it has no handler."""
    if state.state in STOPPED or not has_handler(pid, STACKS_SIGNAL):
        return ""
    with contextlib.suppress(OSError):
        begin = file.stat().st_size
        os.kill(pid, STACKS_SIGNAL)
        if _wait(lambda: file.stat().st_size > begin, time.monotonic() + _HANDLER_SECONDS):
            size = -1
            while size != file.stat().st_size:
                # The handler writes call by call; a pause means that it has finished.
                size = file.stat().st_size
                time.sleep(_POLL)
            with file.open("rb") as text:
                text.seek(begin)
                return text.read(_MAX_STACKS).decode(errors="replace")
    return ""


def _answer(beat: RankHeartbeat, number: int, deadline: float) -> dict[str, Any] | None:
    path = answer_path(beat.path, number)
    if not _wait(path.exists, deadline):
        return None
    with contextlib.suppress(OSError, ValueError):
        text = path.read_bytes()[: _MAX_ANSWER + 1]
        path.unlink()
        content = json.loads(text) if len(text) <= _MAX_ANSWER else {"problem": "the answer is too long"}
        return content if isinstance(content, dict) else None
    return None


def _wait(condition: Callable[[], bool], deadline: float) -> bool:
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True


def _with_code(thread: Thread) -> Thread:
    """Add the source lines here, because only this node is certain to have the files."""
    frames = tuple(replace(frame, code=_code(frame.file, frame.line)) for frame in thread.frames)
    return replace(thread, frames=frames)


def _code(file: str, line: int) -> str:
    return linecache.getline(file, line).strip()[:_MAX_CODE]


def _with_code_of_calls(groups: dict[str, Any]) -> dict[str, Any]:
    """Add the source lines of the calls that began collectives."""
    for group in groups.values():
        for entry in group["entries"]:
            entry["frames"] = [[file, line, name, _code(file, line)] for file, line, name in entry["frames"]]
    return groups


def _as_json(thread: Thread) -> dict[str, Any]:
    return {
        "id": thread.id,
        "main": thread.main,
        "owns_gil": thread.owns_gil,
        "frames": [[frame.file, frame.line, frame.function, frame.code] for frame in thread.frames],
    }
