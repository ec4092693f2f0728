"""The errors of a backend, with messages for people. A client library's own errors never leave a backend."""

from __future__ import annotations

from collections.abc import Mapping


class BackendError(Exception):
    """A call failed. `message` says what, to which thing and why; `fix` says what to do next.

    `exit_code` is the exit code of a verb (docs/JSON.md) and `code` the word in `--json`.
    """

    code = "INTERNAL"
    exit_code = 5

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class InvalidRequest(BackendError):
    """The service refused the request's content. `fields` maps a field path to its problem."""

    code = "INVALID_ARGUMENT"
    exit_code = 2

    def __init__(self, message: str, *, fix: str = "", fields: Mapping[str, str] | None = None) -> None:
        super().__init__(message, fix=fix)
        self.fields = dict(fields or {})


class NotOffered(BackendError):
    """The context lacks this service or operation; actions that need it are not shown."""

    code = "UNIMPLEMENTED"
    exit_code = 2


class NotFound(BackendError):
    """The named thing does not exist, or was deleted."""

    code = "NOT_FOUND"
    exit_code = 3


class FailedPrecondition(BackendError):
    """The thing exists but is in the wrong state, e.g. a cancel of an ended job."""

    code = "FAILED_PRECONDITION"
    exit_code = 1


class Unauthenticated(BackendError):
    """No credentials, or they have expired."""

    code = "UNAUTHENTICATED"
    exit_code = 4


class PermissionDenied(BackendError):
    """The caller lacks a permission, which the message names if the service did."""

    code = "PERMISSION_DENIED"
    exit_code = 4


class QuotaExceeded(BackendError):
    """A rate or resource quota is used up. `retry_after` is the service's wait in seconds, if any."""

    code = "RESOURCE_EXHAUSTED"
    exit_code = 5

    def __init__(self, message: str, *, fix: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, fix=fix)
        self.retry_after = retry_after


class Unavailable(BackendError):
    """The service could not be reached in time; the call's effect is unknown."""

    code = "UNAVAILABLE"
    exit_code = 5


class Stopped(Unavailable):
    """A service of this machine was stopped. Only `connect` starts it again, at the user's request."""


class Interrupted(BackendError):
    """The user gave up a running call; the message says what is known about its effect."""

    code = "INTERRUPTED"
    exit_code = 130
