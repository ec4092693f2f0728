"""How a call of a backend fails, in words for people. A client library's own errors never leave a backend."""

from __future__ import annotations

from collections.abc import Mapping


class BackendError(Exception):
    """A call failed. `message` says what, to which thing and why; `fix` what to do next.

    `exit_code` is what a verb exits with (docs/JSON.md) and `code` the word in `--json`.
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
    """The context has no such service or operation; an action that needs it is not shown there."""

    code = "UNIMPLEMENTED"
    exit_code = 2


class NotFound(BackendError):
    """The named thing does not exist, or not any more."""

    code = "NOT_FOUND"
    exit_code = 3


class FailedPrecondition(BackendError):
    """The thing exists but is in the wrong state for this, e.g. cancelling an ended job."""

    code = "FAILED_PRECONDITION"
    exit_code = 1


class Unauthenticated(BackendError):
    """No credentials, or they have expired."""

    code = "UNAUTHENTICATED"
    exit_code = 4


class PermissionDenied(BackendError):
    """The caller lacks a permission, which the message names where the service did."""

    code = "PERMISSION_DENIED"
    exit_code = 4


class QuotaExceeded(BackendError):
    """A rate or resource quota is used up. `retry_after` is in seconds, where the service said."""

    code = "RESOURCE_EXHAUSTED"
    exit_code = 5

    def __init__(self, message: str, *, fix: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, fix=fix)
        self.retry_after = retry_after


class Unavailable(BackendError):
    """The service could not be reached in time; nothing is known about the call's effect."""

    code = "UNAVAILABLE"
    exit_code = 5


class Stopped(Unavailable):
    """A service of this machine was stopped. Only `connect` starts it again: nobody does so unasked."""


class Interrupted(BackendError):
    """The user gave up a call that was on its way; the message says what is known about its effect."""

    code = "INTERRUPTED"
    exit_code = 130
