"""The log of connections that do not belong to this run: closed, and reported once per address."""

from __future__ import annotations

from trainer.structured_log import emit

_MAX_ADDRESSES = 20
"""A scan of the port from many addresses must not fill the log."""


class RejectionLog:
    """Reports rejected connections of one listener.

    Args:
        phase: What the listener is for, as the goodput lines name it.
        reason: What the connection lacks; the part of the sentence before the details.
    """

    def __init__(self, phase: str, reason: str) -> None:
        self._phase, self._why = phase, reason
        self._reported: set[str] = set()

    def report(self, address: str, problem: str) -> None:
        """Warn of a closed connection. Without a problem it was a probe that sent nothing."""
        if not problem or address in self._reported or len(self._reported) >= _MAX_ADDRESSES:
            return
        self._reported.add(address)
        text = f"a connection from {address} is closed, {self._why}: {problem}"
        emit("phase", text, severity="WARNING", phase=self._phase)
