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
    if code > 128:
        try:
            name = signal.Signals(code - 128).name
        except ValueError:
            return "an error of the program"
        return f"ended by {name}" + (", often out of memory (OOM)" if name == "SIGKILL" else "")
    return "an error of the program"
