"""Errors of the clients, of gRPC and of google-auth as the errors of `tui.backends.base`."""

from __future__ import annotations

from typing import Any

import grpc
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.rpc import error_details_pb2, status_pb2

from tui.backends import base

LOGIN = "gcloud auth application-default login"
_PLUGIN = "Getting metadata from plugin failed"
"""How expired credentials look over gRPC: as a 503 (client facts, 'Faults')."""


def translate(error: BaseException, what: str) -> base.BackendError:
    """`error` in our words; `what` says what was being done, e.g. "list the jobs of us-central1"."""
    if isinstance(error, base.BackendError):
        return error
    if isinstance(error, auth.DefaultCredentialsError):
        return base.Unauthenticated(f"Can't {what}: no Google credentials were found.", fix=LOGIN)
    if isinstance(error, auth.GoogleAuthError):
        return base.Unauthenticated(
            f"Can't {what}: the login has expired or was refused ({error}).", fix=LOGIN
        )
    if isinstance(error, TimeoutError | api.RetryError):
        return base.Unavailable(f"Can't {what}: no answer in time.", fix="Check the network and try again.")
    code, text, details = _parts(error)
    if code is None:
        return base.BackendError(f"Can't {what}: {type(error).__name__}: {error}")
    return _by_code(code, text, details, what)


def _parts(error: BaseException) -> tuple[str | None, str, list[Any]]:
    """(gRPC code name, message, google.rpc details)."""
    if isinstance(error, api.GoogleAPICallError):
        code = error.grpc_status_code
        return (code.name if code else None), str(error.message), list(error.details or [])
    if isinstance(error, grpc.aio.AioRpcError):
        return error.code().name, error.details() or "", _details(error)
    return None, str(error), []


def _details(error: grpc.aio.AioRpcError) -> list[Any]:
    known = (
        error_details_pb2.BadRequest,
        error_details_pb2.RetryInfo,
        error_details_pb2.QuotaFailure,
        error_details_pb2.ErrorInfo,
    )
    found: list[Any] = []
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        for box in status_pb2.Status.FromString(value).details:
            for kind in known:
                if box.Is(kind.DESCRIPTOR):
                    message = kind()
                    box.Unpack(message)
                    found.append(message)
    return found


def _by_code(code: str, text: str, details: list[Any], what: str) -> base.BackendError:
    said = f"Can't {what}: {text.rstrip('.')}."
    if _PLUGIN in text or code == "UNAUTHENTICATED":
        return base.Unauthenticated(f"Can't {what}: the login has expired or is missing.", fix=LOGIN)
    if code in {"INVALID_ARGUMENT", "OUT_OF_RANGE"}:
        fields = {
            v.field: v.description
            for d in details
            if isinstance(d, error_details_pb2.BadRequest)
            for v in d.field_violations
        }
        return base.InvalidRequest(said, fields=fields)
    if code == "NOT_FOUND":
        return base.NotFound(said, fix="`vxtui jobs` lists what is there.")
    if code in {"FAILED_PRECONDITION", "ALREADY_EXISTS", "ABORTED"}:
        return base.FailedPrecondition(said)
    if code == "PERMISSION_DENIED":
        return base.PermissionDenied(said, fix=_permission_fix(text, details))
    if code == "RESOURCE_EXHAUSTED":
        if "larger than max" in text:
            return base.BackendError(f"Can't {what}: the answer was larger than this client accepts.")
        return base.QuotaExceeded(
            said, fix="Wait a minute, or ask for more quota.", retry_after=_retry(details)
        )
    if code in {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"}:
        return base.Unavailable(said, fix="Check the network; `vxtui doctor` tries every service.")
    return base.BackendError(said)


def _retry(details: list[Any]) -> float | None:
    for detail in details:
        if isinstance(detail, error_details_pb2.RetryInfo):
            return float(detail.retry_delay.seconds + detail.retry_delay.nanos / 1e9)
    return None


def _permission_fix(text: str, details: list[Any]) -> str:
    for detail in details:
        if isinstance(detail, error_details_pb2.ErrorInfo):
            if detail.reason == "SERVICE_DISABLED":
                return f"gcloud services enable {detail.metadata.get('service', 'aiplatform.googleapis.com')}"
            if detail.metadata.get("permission"):
                return f"Ask for a role with {detail.metadata['permission']}."
    if "has not been used in project" in text or "SERVICE_DISABLED" in text:
        return "gcloud services enable aiplatform.googleapis.com"
    return "Ask for roles/aiplatform.user (or viewer, to look only)."
