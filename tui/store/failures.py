"""Turn unexpected exceptions into errors that a screen can show."""

from __future__ import annotations

from tui.backends.errors import BackendError


def broken(error: BaseException) -> BackendError:
    """Return any exception as a `BackendError`, so that a screen can show it."""
    if isinstance(error, BackendError):
        return error
    return BackendError(
        f"vxtui itself failed: {type(error).__name__}: {error}",
        fix="Please report it with the console's log file.",
    )
