"""Which program stands for which container image on this machine."""

from __future__ import annotations

import fnmatch
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PYTHON = re.compile(r"python(3(\.\d+)?)?")
"""Names by which a command calls the interpreter of its image."""

_INTERPRETER = (sys.executable,)
_TRAINER = (sys.executable, "-m", "trainer.task")

# First match wins; a user's own table (config.yaml, `images`) comes before it.
_BUILT_IN: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("*vxtui-trainer*", _TRAINER),
    ("*/vxtui/trainer*", _TRAINER),
    (
        "*vertex-ai-restricted/training/reductionserver*",
        (sys.executable, "-m", "tui.emulator.runs.reduction_placeholder"),
    ),
    # Google's ready-made training images: Python is all that can stand for them here.
    ("*-docker.pkg.dev/vertex-ai/training/*", _INTERPRETER),
    ("gcr.io/cloud-aiplatform/training/*", _INTERPRETER),
    ("python", _INTERPRETER),
    ("python[:@]*", _INTERPRETER),
    ("*/python", _INTERPRETER),
    ("*/python[:@]*", _INTERPRETER),
)


class CannotRun(Exception):
    """A job can't run here; the message says which part of it, why and what to do."""


@dataclass(frozen=True, slots=True)
class Images:
    """The table: the user's patterns first, then the built-in ones."""

    table: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def of(cls, configured: Mapping[str, Sequence[str]]) -> Images:
        """`configured` is `EmulatorConfig.images`."""
        own = tuple((pattern, _resolved(argv)) for pattern, argv in configured.items())
        return cls((*own, *_BUILT_IN))

    def entry_point(self, image: str) -> tuple[str, ...] | None:
        """The command line that stands for the image's own entry point, or None."""
        return next((argv for pattern, argv in self.table if fnmatch.fnmatchcase(image, pattern)), None)

    def argv(self, image: str, command: Sequence[str], args: Sequence[str]) -> tuple[str, ...]:
        """What to run: `command` replaces the entry point, `args` follow (vertex facts 1.9).

        Raises:
            CannotRun: for an image that is in no table and brings no command.
        """
        if command:
            return (*_resolved(command), *args)
        entry = self.entry_point(image)
        if not entry:
            raise CannotRun(
                f"The image {image} can't run on this machine: the emulator starts programs, not containers, "
                "and knows none for it. Give containerSpec.command, or name a program for it under `images` "
                "in the emulator's config.yaml, e.g. images: {\"" + image + '": [python3, -m, my.module]}.'
            )
        return (*entry, *args)


def _resolved(command: Sequence[str]) -> tuple[str, ...]:
    """An image's `python` is the interpreter that this emulator runs on: it has what the trainer needs."""
    if command and PYTHON.fullmatch(command[0]):
        return (sys.executable, *command[1:])
    return tuple(command)
