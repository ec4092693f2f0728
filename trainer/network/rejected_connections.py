"""Connections that do not belong to this run: closed, and reported once for each address."""

from __future__ import annotations

from trainer.structured_log import emit

_MAX_ADDRESSES = 20
"""A scan of the port from many addresses must not fill the log."""


class RejectionLog:
    """Reports closed connections of one listener.

    Args:
        phase: What the listener is for, as the goodput lines name it.
        why: What the connection is not, or may not do; the end of the sentence before its reason.
    """

    def __init__(self, phase: str, why: str) -> None:
        self._phase, self._why = phase, why
        self._reported: set[str] = set()

    def report(self, address: str, problem: str) -> None:
        """Warn of a closed connection; one without a problem is a probe that sent nothing."""
        if not problem or address in self._reported or len(self._reported) >= _MAX_ADDRESSES:
            return
        self._reported.add(address)
        text = f"a connection from {address} is closed, {self._why}: {problem}"
        emit("phase", text, severity="WARNING", phase=self._phase)
