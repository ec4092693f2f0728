"""Translates errors of gRPC, the client library and google-auth into those of `tui.backends.interface`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import grpc
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.rpc import error_details_pb2 as details_pb2
from grpc import StatusCode

from tui.backends.errors import ReplyTooLarge
from tui.backends.interface import (
    BackendError,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    QuotaExceeded,
    Unauthenticated,
    Unavailable,
)
from tui.backends.reply_limit import MOST_TEXT
from tui.backends.vertex.transport.connect import LOGIN

PLUGIN_FAILED = "Getting metadata from plugin failed"
"""Error text of expired credentials over gRPC, with code UNAVAILABLE (docs/facts/clients.md 'Faults')."""
TOO_LARGE = "Received message larger than max"
"""Error text of a client limit, with a quota's code (docs/facts/clients.md 'Connecting without TLS')."""

_LISTED_FIELD = re.compile(r"\t\d+\.Field: (?P<field>[^;\t]*); Message: (?P<text>[^\t]*)")
"""One field in Vertex AI's `List of found errors:` (docs/facts/vertex.md 16)."""

_LOST = frozenset(
    {StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.CANCELLED, StatusCode.ABORTED}
)
_INVALID = frozenset({StatusCode.INVALID_ARGUMENT, StatusCode.OUT_OF_RANGE})
REACH_FIX = "`vxtui doctor` shows which services can be reached."
_GARBLED = (
    "A proxy between here and the service may change replies. `vxtui doctor` shows which services answer."
)
_WAIT = "The service limits the request rate. Wait a minute, or poll less often."
_QUOTA = "Check the quotas of that region. Request more, or use another region, fewer machines or Spot."


class UndecodableReply(Exception):
    """The bytes of a reply can't be decoded as its type. grpc.aio returns None for such a reply."""


def translate(error: BaseException, action: str) -> BackendError:
    """Convert `error` to a BackendError that names the failed `action`, e.g. "list the jobs of r"."""
    if isinstance(error, BackendError):
        return error
    if isinstance(error, grpc.RpcError) and hasattr(error, "code"):
        error = api.from_grpc_error(error)
    if isinstance(error, api.GoogleAPICallError):
        return _from_api_error(error, action)
    if isinstance(error, auth.TransportError):
        return Unavailable(f"Can't {action}: {error}", fix="Check the network, or the proxy.")
    if isinstance(error, auth.GoogleAuthError):
        return Unauthenticated(f"Can't {action}: no usable Google credentials: {error}", fix=LOGIN)
    if isinstance(error, UndecodableReply):
        # The next reply may be valid, and the call's effect is unknown.
        return Unavailable(f"Can't {action}: the reply can't be decoded", fix=_GARBLED)
    if isinstance(error, TimeoutError | OSError):
        return Unavailable(f"Can't {action}: {error or 'no answer in time'}", fix=REACH_FIX)
    return BackendError(f"Can't {action}: {type(error).__name__}: {error}")


def from_status(status: Any, action: str) -> BackendError:
    """Return the error for the google.rpc.Status that ends an operation."""
    return _from_api_error(api.from_grpc_status(status.code, status.message), action)


def _from_api_error(error: api.GoogleAPICallError, action: str) -> BackendError:
    code = error.grpc_status_code or _code_of_http(error)
    reason = (error.message or "").strip() or "the service gave no reason"
    message = f"Can't {action}: {reason}"
    details = list(error.details or ())
    if PLUGIN_FAILED in reason:
        return Unauthenticated(f"Can't {action}: the Google credentials have expired: {reason}", fix=LOGIN)
    if code is StatusCode.UNAUTHENTICATED:
        return Unauthenticated(message, fix=LOGIN)
    if code is StatusCode.PERMISSION_DENIED:
        return _denied(error, message)
    if code is StatusCode.RESOURCE_EXHAUSTED:
        if TOO_LARGE in reason:
            if reason.startswith("SERVER"):
                return InvalidRequest(message, fix="The request is too large: shorten its texts and lists.")
            return ReplyTooLarge(action, MOST_TEXT)
        return _exhausted(message, details)
    if code is StatusCode.NOT_FOUND:
        return NotFound(message, fix="`vxtui jobs` lists the existing jobs.")
    if code in _INVALID:
        return _invalid(action, reason, details)
    if code is StatusCode.ALREADY_EXISTS:
        return FailedPrecondition(message)
    if code is StatusCode.FAILED_PRECONDITION:
        return FailedPrecondition(message, fix=_preconditions(details, reason))
    if code in _LOST:
        return Unavailable(message, fix=REACH_FIX)
    if code is StatusCode.UNIMPLEMENTED:
        return BackendError(
            message, fix="The service does not offer this operation. Check the context's region."
        )
    return BackendError(message, fix="Try again; `vxtui doctor` shows whether the services answer.")


def _code_of_http(error: api.GoogleAPICallError) -> StatusCode | None:
    status = api.from_http_status(int(error.code), "").grpc_status_code if error.code else None
    return status if isinstance(status, StatusCode) else None


def _of(details: Iterable[Any], kind: type) -> list[Any]:
    return [detail for detail in details if isinstance(detail, kind)]


def _invalid(action: str, reason: str, details: Iterable[Any]) -> InvalidRequest:
    """400: the message of a list of fields becomes one sentence per field."""
    violations = [v for request in _of(details, details_pb2.BadRequest) for v in request.field_violations]
    listed = [(match["field"], match["text"].strip()) for match in _LISTED_FIELD.finditer(reason)]
    fields = [(v.field, v.description) for v in violations] or listed
    sentences = "; ".join(f"{field}: {text.rstrip('.')}" for field, text in listed)
    return InvalidRequest(f"Can't {action}: {sentences or reason}", fields=dict(fields))


def _preconditions(details: Iterable[Any], reason: str) -> str:
    descriptions = [
        violation.description
        for failure in _of(details, details_pb2.PreconditionFailure)
        for violation in failure.violations
    ]
    return "; ".join(text for text in descriptions if text and text != reason)


def _denied(error: api.GoogleAPICallError, message: str) -> BackendError:
    """Convert a 403: a disabled API, or a missing permission, which `ErrorInfo` may name."""
    metadata = dict(error.metadata or {})
    if error.reason == "SERVICE_DISABLED" or "has not been used in project" in message:
        name = metadata.get("service", "")
        command = f"`gcloud services enable {name}`" if name else "`gcloud services enable`"
        return PermissionDenied(
            f"{message} (the API {name} is not enabled)" if name else message,
            fix=f"Enable the API with {command}, wait a minute, then try again.",
        )
    if error.reason == "ACCESS_TOKEN_SCOPE_INSUFFICIENT":
        return PermissionDenied(message, fix=LOGIN)
    permission = metadata.get("permission", "")
    if permission and permission not in message:
        message = f"{message} (permission {permission})"
    return PermissionDenied(message, fix="Ask the project's owner for a role that has this permission.")


def _exhausted(message: str, details: Iterable[Any]) -> BackendError:
    details_ = list(details)
    violations = [v for failure in _of(details_, details_pb2.QuotaFailure) for v in failure.violations]
    subjects = ", ".join(v.subject or v.description for v in violations if (v.subject or v.description))
    if subjects and subjects not in message:
        message = f"{message} ({subjects})"
    waits = [
        info.retry_delay.seconds + info.retry_delay.nanos / 1e9
        for info in _of(details_, details_pb2.RetryInfo)
        if info.HasField("retry_delay")
    ]
    fix = _QUOTA if "custom_model_training" in message or "_training_" in message else _WAIT
    if "disk" in message and not waits and not violations:
        # This is the emulator's code for a full disk. The message contains the advice.
        fix = ""
    return QuotaExceeded(message, fix=fix, retry_after=max(waits) if waits else None)
