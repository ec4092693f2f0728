"""Programs that replace container images on this machine."""

from __future__ import annotations

import fnmatch
import importlib.util
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.domain.core.text import sentences

PYTHON = re.compile(r"python(3(\.\d+)?)?")
"""Names of the Python interpreter in an image."""

_INTERPRETER = (sys.executable,)
_COMMAND = (sys.executable,)
"""Program of an image with a command but no entry point. A container's arguments replace the program."""
_TRAINER = (sys.executable, "-m", "trainer.task")

# The first match wins; the user's table (config.yaml, `images`) comes first.
_BUILT_IN: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("*vxtui-trainer*", _TRAINER),
    ("*/vxtui/trainer*", _TRAINER),
    (
        "*vertex-ai-restricted/training/reductionserver*",
        (sys.executable, "-m", "tui.emulator.runs.reduction_placeholder"),
    ),
    # A Python interpreter replaces Google's prebuilt training images.
    ("*-docker.pkg.dev/vertex-ai/training/*", _INTERPRETER),
    ("gcr.io/cloud-aiplatform/training/*", _INTERPRETER),
    ("python", _COMMAND),
    ("python[:@]*", _COMMAND),
    ("*/python", _COMMAND),
    ("*/python[:@]*", _COMMAND),
)


class CannotRun(Exception):
    """A job can't run here. The message gives the part of the job, the reason and the fix."""

    def __init__(self, sentence: str, fix: str = "") -> None:
        super().__init__(sentences(sentence, fix))
        self.sentence = sentence
        self.fix = fix


@dataclass(frozen=True, slots=True)
class ProgramTable:
    """Patterns of images and their programs; the user's patterns come before the built-in ones."""

    table: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def of(cls, configured: Mapping[str, Sequence[str]]) -> ProgramTable:
        """Make a table from `EmulatorConfig.images`."""
        own = tuple((pattern, _resolved(argv)) for pattern, argv in configured.items())
        return cls((*own, *_BUILT_IN))

    def entry_point(self, image: str) -> tuple[str, ...] | None:
        """Return the command line that replaces the image's entry point, or `None` if there is none."""
        return next((argv for pattern, argv in self.table if fnmatch.fnmatchcase(image, pattern)), None)

    def argv(self, image: str, command: Sequence[str], args: Sequence[str]) -> tuple[str, ...]:
        """Return the command line: `command` replaces the entry point, and `args` follow
        (docs/facts/vertex.md 1.9).

        Raises CannotRun for an unknown image without a command.
        """
        if command:
            return (*_resolved(command), *args)
        entry = self.entry_point(image)
        if not entry:
            raise CannotRun(
                f"{image} can't run on this machine: the emulator starts programs instead of containers, "
                "and has no program for this image",
                "Set containerSpec.command, or a program for the image in the emulator's config.yaml: "
                f'images: {{"{image}": [python3, -m, my.module]}}.',
            )
        return (*entry, *args)

    def container_argv(self, image: str, command: Sequence[str], args: Sequence[str]) -> tuple[str, ...]:
        """Return `argv` as a container runtime builds it: without an entry point, `args` are the command.

        Raises CannotRun for an unknown image without a command.
        """
        # Compare by identity: a configured line that names the interpreter is an entry point.
        if args and not command and self.entry_point(image) is _COMMAND:
            return _resolved(args)
        return self.argv(image, command, args)

    def program(self, image: str, command: Sequence[str]) -> str:
        """Describe the program that replaces the image. Raises CannotRun for an unknown image without a
        command, and for a program that needs torch where torch is missing."""
        argv = self.argv(image, command, ())
        if (missing := torch_missing(argv)) is not None:
            raise missing
        if command:
            # The arguments may contain secrets.
            return f"the job's command {command[0]}"
        return shlex.join(["python" if word == sys.executable else word for word in argv])


def torch_missing(argv: Sequence[str]) -> CannotRun | None:
    """Return the error for a program that needs torch if this machine does not have torch; otherwise
    `None`."""
    module = argv[2].partition(".")[0] if argv[1:2] == ("-m",) and len(argv) > 2 else ""
    if module not in {"trainer", "torch"} or importlib.util.find_spec("torch") is not None:
        return None
    sentence = "the program needs torch, which is not installed on this machine"
    return CannotRun(sentence, "Run `pip install 'vxtui[trainer]'`.")


def container_torch_missing(image: str, command: Sequence[str]) -> CannotRun | None:
    """Return `torch_missing` for a container whose image has no program in the user's table."""
    argv = _resolved(command) or ProgramTable.of({}).entry_point(image)
    return torch_missing(argv) if argv else None


def _resolved(command: Sequence[str]) -> tuple[str, ...]:
    """Replace `python` with the emulator's interpreter, which has the trainer's packages."""
    if command and PYTHON.fullmatch(command[0]):
        return (sys.executable, *command[1:])
    return tuple(command)
