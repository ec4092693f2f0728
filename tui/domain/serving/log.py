"""Lines of model servers as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tui.domain.core.log_entry import LogEntry, Severity
from tui.domain.core.text import plain
from tui.domain.serving.rollout import called
from tui.domain.serving.traffic import Deployed


def log_lines(entries: Iterable[LogEntry], deployed: Sequence[Deployed]) -> list[str]:
    """Format lines as `14:02:11 version 2  ERROR out of memory`; undeployed models are shown by id."""
    names = {model.id: called(model, deployed) for model in deployed}
    return [
        "  ".join(
            (
                f"{entry.timestamp.astimezone():%H:%M:%S}",
                names.get(entry.replica, plain(entry.replica) or "endpoint"),
                *([entry.severity.name] if entry.severity >= Severity.WARNING else []),
                plain(entry.message),
            )
        )
        for entry in entries
    ]
