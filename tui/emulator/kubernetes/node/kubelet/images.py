"""The simulated image registry: existing images, durations of pulls, and programs of images."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.emulator.kubernetes.resources import Obj
from tui.emulator.runs.images import CannotRun, ProgramTable


@dataclass
class SlowPull:
    """A fault: pulls of matching images take `seconds`, until `until` (monotonic seconds)."""

    pattern: str
    seconds: float
    until: float


class ImageRegistry:
    """Simulates the image registry."""

    def __init__(
        self, images: Mapping[str, Sequence[str]], missing: Sequence[str], pull_seconds: float
    ) -> None:
        self.programs = ProgramTable.of(images)
        self._missing, self._seconds = tuple(missing), pull_seconds
        self.slow: list[SlowPull] = []

    def delay(self, image: str) -> float:
        """Return the duration of a pull in seconds."""
        now = time.monotonic()
        self.slow = [pull for pull in self.slow if pull.until > now]
        return max([self._seconds, *(s.seconds for s in self.slow if fnmatch.fnmatchcase(image, s.pattern))])

    def refusal(self, image: str, container: Obj) -> str | None:
        """Return why the image can't be pulled, or None if there is no problem."""
        if any(fnmatch.fnmatchcase(image, pattern) for pattern in self._missing):
            return (
                f'rpc error: code = NotFound desc = failed to pull and unpack image "{image}": failed to '
                f'resolve reference "{image}": {image}: not found'
            )
        if not container.get("command") and not self.programs.entry_point(image):
            return (
                f"this machine lacks the image {image}: containers run as processes, without their images. "
                "Set the container's command, or a program for the image in the cluster's config.yaml: "
                f'images: {{"{image}": [python3, -m, my.module]}}'
            )
        try:
            self.programs.argv(image, container.get("command") or (), ())
        except CannotRun as error:
            return str(error)
        return None
