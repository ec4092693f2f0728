"""The log of rejected connections, which do not belong to this run: reported once per address."""

from __future__ import annotations

from trainer.structured_log import emit

_MAX_ADDRESSES = 20
"""Maximum number of reported addresses, because a port scan from many addresses must not fill the log."""


class RejectionLog:
    """Reports rejected connections of one listener.

    Args:
        phase: The purpose of the listener, as the goodput lines name it.
        reason: The rejection as a clause of a sentence, before the details.
    """

    def __init__(self, phase: str, reason: str) -> None:
        self._phase, self._why = phase, reason
        self._reported: set[str] = set()

    def report(self, address: str, problem: str) -> None:
        """Warn about a closed connection. An empty problem means a port scan that sent nothing."""
        if not problem or address in self._reported or len(self._reported) >= _MAX_ADDRESSES:
            return
        self._reported.add(address)
        text = f"a connection from {address} is closed: {self._why}: {problem}"
        emit("phase", text, severity="WARNING", phase=self._phase)
