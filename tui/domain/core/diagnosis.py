"""The diagnosis of a job as its screen, the verbs and their JSON show it, and the meaning of exit codes.

Exit codes of the kernel and of the trainer are documented (docs/facts/vertex.md 13.2).
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

FOLLOWED = frozenset({0, 143, 77, 205})
"""Exit codes of a replica that ended well or that another replica's end stopped; 205 is 77 on Kubernetes."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cause in plain words, and the next step."""

    meaning: str
    fix: str
    guess: bool = False
    """Whether the diagnosis comes from the log rather than from the platform's message."""
    keys: str = ""
    """The fix in terms of the screen's keys; "" if the screen shows `fix`."""
    short: str = ""
    """The cause in a cell of a list, e.g. `OOM worker-2`."""

    @property
    def on_screen(self) -> str:
        """The fix, for a user of the job's screen."""
        return self.keys or self.fix


_PREBUILT = frozenset({6, 9, 11, 15})
"""Codes that prebuilt containers report for signals (docs/facts/vertex.md 13.2)."""


def signal_of(code: int | None) -> int:
    """Return the signal that an exit code stands for, 0 if none: -9, 137, a launcher's 247, and 6, 9, 11 and
    15 of prebuilt containers."""
    if code is None:
        return 0
    number = -code if code < 0 else code - 128 if 128 < code < 160 else 256 - code if 241 <= code < 255 else 0
    return number or (code if code in _PREBUILT else 0)


def explain_exit(code: int) -> str:
    """Return the meaning of an exit code: a signal's name, or a documented meaning."""
    known = {
        1: "an error of the program",
        2: "wrong usage",
        75: "stopped after a checkpoint, to continue later",
    }
    known |= {76: "the other nodes did not join in time", 77: "another node ended the attempt"}
    known |= {69: "the checkpoint storage did not answer", 71: "replicas of the state differed"}
    known[74] = "the last checkpoint was not saved"
    # On Kubernetes the trainer adds 128 to codes after which a restart may help.
    known |= {128 + code: known[code] for code in (69, 71, 74, 75, 76, 77)}
    known |= {126: "the command can't be run", 127: "the command was not found"}
    known[128] = "the program can't be started"
    if code in known:
        return known[code]
    if number := signal_of(code):
        try:
            name = signal.Signals(number).name
        except ValueError:
            return "an error of the program"
        return f"ended by {name}" + (", often out of memory (OOM)" if name == "SIGKILL" else "")
    return "an error of the program"
