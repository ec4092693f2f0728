"""Which program stands for which container image on this machine."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PYTHON = frozenset({"python", "python3", "python3.10", "python3.11", "python3.12", "python3.13"})

# First match wins; a user's own table (config.yaml, `images`) comes before it.
_BUILT_IN: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("*vxtui-trainer*", (sys.executable, "-m", "trainer.task")),
    ("*/vxtui/trainer*", (sys.executable, "-m", "trainer.task")),
    (
        "*vertex-ai-restricted/training/reductionserver*",
        (sys.executable, "-m", "tui.emulator.reduction_placeholder"),
    ),
    ("*-docker.pkg.dev/vertex-ai/training/*", (sys.executable,)),
    ("python", (sys.executable,)),
    ("python:*", (sys.executable,)),
    ("*/python:*", (sys.executable,)),
)


class CannotRun(Exception):
    """The image can't run here; the message says which, why and what to do."""


@dataclass(frozen=True, slots=True)
class Images:
    """The table: the user's patterns first, then the built-in ones."""

    table: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def of(cls, configured: Mapping[str, Sequence[str]]) -> Images:
        own = tuple((pattern, tuple(argv)) for pattern, argv in configured.items())
        return cls((*own, *_BUILT_IN))

    def entry_point(self, image: str) -> tuple[str, ...] | None:
        """The command line that stands for the image's own entry point, or None."""
        for pattern, argv in self.table:
            if fnmatch.fnmatchcase(image, pattern):
                return argv
        return None

    def argv(self, image: str, command: Sequence[str], args: Sequence[str]) -> tuple[str, ...]:
        """What to run: `command` replaces the entry point, `args` follow (vertex facts 1.9).

        Raises:
            CannotRun: for an image that is in no table and brings no command.
        """
        if command:
            program = sys.executable if command[0] in PYTHON else command[0]
            return (program, *command[1:], *args)
        entry = self.entry_point(image)
        if entry is None:
            raise CannotRun(
                f"The image {image} can't run on this machine: the emulator starts programs, not containers, "
                "and knows none for it. Give containerSpec.command, or name a program for it under `images` "
                "in the emulator's config.yaml."
            )
        return (*entry, *args)
