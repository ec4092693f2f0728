"""The result of a diagnosis: cause, family, replica, line, confidence, retry, next step, evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tui.domain.core.text import clip, plain
from tui.domain.diagnosis.line import LogLine

HIGH = 0.7
"""Minimum confidence of a cause that is presented as known."""
MOST_SHOWN = 300
"""Maximum number of shown characters of a line of evidence."""

RETRY = {
    "yes": "launch again",
    "node": "launch again, on other machines",
    "change": "after the change",
    "no": "no, mend the cause first",
}
"""Words for `Verdict.retry`."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A line of evidence: `role` is `root`, `context` or `cascade`."""

    line: LogLine
    role: str

    def json(self) -> dict[str, Any]:
        """Return the documented JSON shape."""
        return {
            "line": self.line.index,
            "replica": self.line.replica,
            "role": self.role,
            "text": clip(plain(self.line.text), MOST_SHOWN),
        }


@dataclass(frozen=True, slots=True)
class NewLine:
    """A line that neither a good run nor the other replicas print. A higher `score` tells more."""

    line: LogLine
    score: float

    def json(self) -> dict[str, Any]:
        """Return the documented JSON shape."""
        return {
            "replica": self.line.replica,
            "line": self.line.index,
            "text": clip(plain(self.line.text), MOST_SHOWN),
            "score": round(self.score, 2),
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a run failed. `cause` is "" if the cause is unknown; `line` is `None` if no line shows it."""

    cause: str
    family: str = "unknown"
    replica: str = ""
    line: int | None = None
    confidence: float = 0.0
    retry: str = "no"
    next: str = ""
    short: str = ""
    """The cause for a cell of a list."""
    step: int | None = None
    """Last step before the failure."""
    rule: str = ""
    where: str = ""
    """File and line of the user's code."""
    evidence: Sequence[Shown] = ()
    cascade: Sequence[Shown] = ()
    cascaded: int = 0
    """Number of consequences of the failure."""
    new: Sequence[NewLine] = ()
    """Lines by rank, at most five; empty if nothing failed."""

    @property
    def sure(self) -> bool:
        """Whether the cause is known rather than likely."""
        return self.confidence >= HIGH

    def at_indexes(self, indexes: Sequence[int]) -> Verdict:
        """Return the verdict for a log that was read in another order: `indexes` has each line's index."""

        def moved(line: LogLine) -> LogLine:
            return replace(line, index=indexes[line.index]) if line.index >= 0 else line

        return replace(
            self,
            line=indexes[self.line] if self.line is not None else None,
            evidence=[replace(shown, line=moved(shown.line)) for shown in self.evidence],
            cascade=[replace(shown, line=moved(shown.line)) for shown in self.cascade],
            new=[replace(shown, line=moved(shown.line)) for shown in self.new],
        )

    def json(self) -> dict[str, Any]:
        """Return the documented JSON shape."""
        return {
            "cause": self.cause,
            "family": self.family,
            "replica": self.replica or None,
            "line": self.line,
            "confidence": round(self.confidence, 2),
            "retry": self.retry,
            "next": self.next,
            "where": self.where or None,
            "step": self.step,
            "rule": self.rule or None,
            "evidence": [shown.json() for shown in self.evidence],
            "cascade": [shown.json() for shown in self.cascade],
            "cascaded": self.cascaded,
            "new": [shown.json() for shown in self.new],
        }
