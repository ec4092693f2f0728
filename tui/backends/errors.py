"""The errors of a backend, with messages for users. A client library's own errors never leave a backend."""

from __future__ import annotations

from collections.abc import Mapping

PROXY_FIX = "A proxy or a login page on the way may answer instead of the service; check it."


class BackendError(Exception):
    """A failed call. `message` gives the failed action, its object and the reason; `fix` gives the remedy.

    `exit_code` is the exit code of a verb (docs/JSON.md), and `code` is the error code in `--json`.
    """

    code = "INTERNAL"
    exit_code = 5

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class InvalidRequest(BackendError):
    """The service refused the content of the request. `fields` maps each field path to its problem."""

    code = "INVALID_ARGUMENT"
    exit_code = 2

    def __init__(self, message: str, *, fix: str = "", fields: Mapping[str, str] | None = None) -> None:
        super().__init__(message, fix=fix)
        self.fields = dict(fields or {})


def unexpected_reply(action: str, expected: str, content: bytes | str) -> Unavailable:
    """Return the error of a successful reply of another type than expected, with the reply's first bytes.
    `action` completes "Can't …"."""
    text = content[:240].decode("utf-8", "replace") if isinstance(content, bytes) else content
    return Unavailable(
        f"Can't {action}: the reply must be {expected}; it "
        + (f"begins with {text[:60]!r}." if text else "is empty."),
        fix=PROXY_FIX,
    )


class ReplyTooLarge(BackendError):
    """The reply has more bytes or values than the client reads. `action` completes "Can't …"."""

    def __init__(self, action: str, most: str) -> None:
        super().__init__(
            f"Can't {action}: the reply has more than {most}.",
            fix=f"Request less at once, e.g. with a filter. {PROXY_FIX}",
        )


class NotOffered(BackendError):
    """The context lacks this service or operation. Actions that need the service or operation are hidden."""

    code = "UNIMPLEMENTED"
    exit_code = 2


class NotFound(BackendError):
    """The named object does not exist, or was deleted."""

    code = "NOT_FOUND"
    exit_code = 3


class FailedPrecondition(BackendError):
    """The object exists but is in the wrong state, e.g. when a job to cancel has ended."""

    code = "FAILED_PRECONDITION"
    exit_code = 1


class Unauthenticated(BackendError):
    """Credentials are missing or have expired."""

    code = "UNAUTHENTICATED"
    exit_code = 4


class PermissionDenied(BackendError):
    """The caller lacks a permission. The message names the permission if the service reports its name."""

    code = "PERMISSION_DENIED"
    exit_code = 4


class QuotaExceeded(BackendError):
    """A rate limit or resource quota is exhausted. `retry_after` is the requested wait in seconds."""

    code = "RESOURCE_EXHAUSTED"
    exit_code = 5

    def __init__(self, message: str, *, fix: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, fix=fix)
        self.retry_after = retry_after


class Unavailable(BackendError):
    """The service could not be reached in time. The effect of the call is unknown."""

    code = "UNAVAILABLE"
    exit_code = 5


class Stopped(Unavailable):
    """A service of this machine was stopped. The service starts again only when the user requests
    `connect`."""


class Interrupted(BackendError):
    """The user interrupted a running call. The message describes the known effect of the call."""

    code = "INTERRUPTED"
    exit_code = 130
