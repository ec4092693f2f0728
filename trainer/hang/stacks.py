"""Parse Python stacks of faulthandler and py-spy, and find the frame of the user's code. The module does no
I/O."""

from __future__ import annotations

import json
import re
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_THREAD = re.compile(r"^(?:Current t|T)hread 0x([0-9a-f]+)")
_FRAME = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$')
_PATHS = sysconfig.get_paths()
_LIBRARIES = tuple({_PATHS[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_OWN = str(Path(__file__).parents[1])
"""This package, which does not count as a library even when it is installed as one."""
_INSTALLED = ("/site-packages/", "/dist-packages/")
_IN_COLLECTIVES = ("/torch/distributed/", "/torch/autograd/")
_COMPILING = ("/torch/_dynamo/", "/torch/_inductor/", "/torch/_functorch/", "/triton/compiler/")
_COMPUTING = ("/torch/nn/", "/torch/_ops.py", "/torch/optim/")
_LOADING = ("/torch/utils/data/", f"{_OWN}/data/")
MAX_FRAMES = 100


@dataclass(frozen=True, slots=True)
class Frame:
    """A call; `line` is 0 if unknown, `code` is "" if the source can't be read."""

    file: str
    line: int
    function: str
    code: str = ""

    @property
    def place(self) -> str:
        """The location as `name.py:12 (function: code)`."""
        location = f"{self.function}: {self.code}" if self.code else self.function
        return f"{Path(self.file).name}:{self.line} ({location})"


@dataclass(frozen=True, slots=True)
class Thread:
    """The frames of a thread, the innermost first. `id` is its `threading.get_ident`, 0 if it is unknown."""

    id: int
    frames: tuple[Frame, ...]
    main: bool = False
    owns_gil: bool = False


def from_faulthandler(text: str, main_thread: int) -> list[Thread]:
    """Return the threads of the last report in faulthandler's output."""
    threads: list[tuple[int, list[Frame]]] = []
    for line in text.splitlines():
        begins = _THREAD.match(line)
        frame = _FRAME.match(line)
        if begins:
            threads.append((int(begins[1], 16), []))
        elif frame and threads:
            number = int(frame[2]) if frame[2].isdigit() else 0
            threads[-1][1].append(Frame(frame[1], number, frame[3]))
    return [Thread(id, tuple(frames[:MAX_FRAMES]), id == main_thread) for id, frames in threads]


def from_py_spy(text: str) -> list[Thread]:
    """Return the threads of `py-spy dump --json`; the result is empty for any other text."""
    try:
        return [
            Thread(
                int(thread["thread_id"]),
                tuple(
                    Frame(str(frame["filename"]), int(frame["line"]), str(frame["name"]))
                    for frame in thread["frames"][:MAX_FRAMES]
                ),
                thread["os_thread_id"] == thread["pid"],
                bool(thread["owns_gil"]),
            )
            for thread in json.loads(text)
        ]
    except (ValueError, KeyError, TypeError):
        return []


def main_frames(threads: Sequence[Thread]) -> tuple[Frame, ...]:
    """Return the frames of the main thread, or of the last thread if the main thread is unknown."""
    main = next((thread for thread in threads if thread.main), None)
    return main.frames if main else threads[-1].frames if threads else ()


def user_frame(frames: Sequence[Frame]) -> Frame | None:
    """Return the innermost frame outside libraries, or the innermost frame if all are in libraries, or None
    if there are no frames."""
    return next((frame for frame in frames if not is_library(frame.file)), frames[0] if frames else None)


def is_library(file: str) -> bool:
    """Return whether the file belongs to Python, or to an installed package other than `trainer`."""
    if file.startswith(f"{_OWN}/"):
        return starts_scripts(file)
    return file.startswith(("<frozen", *_LIBRARIES)) or any(part in file for part in _INSTALLED)


def starts_scripts(file: str) -> bool:
    """Return whether the file belongs to the code of this package that starts a script, or to the trainer."""
    return file.startswith((f"{_OWN}/launch/", f"{_OWN}/hang/")) or file == f"{_OWN}/task.py"


def waits_in_collective(frames: Sequence[Frame]) -> bool:
    """Return whether the innermost calls belong to torch.distributed, or to a backward pass around it."""
    return any(_has(frame, _IN_COLLECTIVES) for frame in _library_calls(frames))


def compiles(frames: Sequence[Frame]) -> bool:
    return any(_has(frame, _COMPILING) for frame in _library_calls(frames))


def computes(frames: Sequence[Frame]) -> bool:
    """Return whether the innermost calls belong to a model."""
    return any(_has(frame, _COMPUTING) for frame in _library_calls(frames))


def activity(frames: Sequence[Frame]) -> str:
    """Return the activity of the frames as text, or "" if they are only the user's code."""
    if any(_has(frame, _LOADING) for frame in frames):
        return "data loading"
    return "compiling" if compiles(frames) else ""


def _library_calls(frames: Sequence[Frame]) -> list[Frame]:
    """Return the frames inside `user_frame`."""
    frames_inside: list[Frame] = []
    for frame in frames:
        if not is_library(frame.file):
            break
        frames_inside.append(frame)
    return frames_inside


def _has(frame: Frame, parts: tuple[str, ...]) -> bool:
    return any(part in frame.file for part in parts)
