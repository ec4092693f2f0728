"""Translates the errors of a Kubernetes API server, httpx and kr8s into those of `tui.backends.errors`."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Any

import httpx

from tui.backends.errors import (
    PROXY_FIX,
    BackendError,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    NotOffered,
    PermissionDenied,
    QuotaExceeded,
    Unauthenticated,
    Unavailable,
    unexpected_reply,
)
from tui.backends.kubernetes.fields import items, mapping
from tui.backends.kubernetes.login.cluster import LOGIN_FIX
from tui.domain.document.decoding import decode_json

REACH_FIX = "`vxtui doctor` shows which services can be reached."
_CERTIFICATE_FIX = "The kubeconfig has another certificate authority: fetch the cluster's credentials again."
_DENIED = re.compile(
    r'cannot (?P<verb>[\w*]+) resource "(?P<resource>[^"]+)"(?: in API group "(?P<group>[^"]*)")?', re.ASCII
)
_ADMISSION = re.compile(
    r"admission webhook \"[^\"]+\" denied the request\b"
    r"|ValidatingAdmissionPolicy '[^']+' with binding '[^']+' denied request\b"
)
_FIELD = re.compile(r"(?P<field>(?:metadata|spec)(?:\.\w+|\[[^\[\]]*\])+): ", re.ASCII)
_UNCHECKED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation"
)
_LONGEST = 800
_UNKNOWN_PATH = "404 page not found"
"""Body of an API server's reply to a path of no type that it serves."""


class Conflict(FailedPrecondition):
    """The object has changed since it was read. Callers read the object again before they repeat the
    change."""


class AlreadyExists(FailedPrecondition):
    """An object with this name already exists."""


class AdmissionRefused(InvalidRequest):
    """An admission webhook or policy refuses the object. The status code is 403, the same as for a missing
    permission."""


class Expired(BackendError):
    """The resourceVersion or `continue` token has expired (410). List again."""

    code = "OUT_OF_RANGE"


def from_reply(status: int, headers: Mapping[str, str], body: bytes, action: str) -> BackendError:
    """Convert an error reply. `action` completes "Can't …"."""
    answer = _status_of(status, headers, body)
    if status == 404 and "kind" not in answer and answer["message"] != _UNKNOWN_PATH:
        # A proxy's 404 does not mean that the object is gone.
        return unexpected_reply(action, "a Status of Kubernetes", body)
    return from_status(answer, action)


def from_status(status: Mapping[str, Any], action: str) -> BackendError:
    """Convert a `Status` object, which ends a watch or a stream of exec."""
    code = status.get("code")
    code = code if isinstance(code, int) and code else 500
    details = mapping(status.get("details"))
    reason = str(status.get("reason") or "")
    words = " ".join(str(status.get("message") or reason or f"the server answered {code}").split())
    words = _of_the_object(words, details)[:_LONGEST]
    message = f"Can't {action}: {words}"
    if code == 401:
        return Unauthenticated(
            f"Can't {action}: the cluster does not accept the login: {words}", fix=LOGIN_FIX
        )
    if _ADMISSION.search(words) is not None:
        return AdmissionRefused(message, fix=_admission_fix(words))
    if code == 403:
        return _forbidden(words, message, action)
    if code == 404:
        return NotFound(message, fix="`vxtui jobs` lists the existing jobs.")
    if code == 409:
        kind = AlreadyExists if reason == "AlreadyExists" else Conflict
        fix = (
            "Give the object another name." if kind is AlreadyExists else "The object has changed: try again."
        )
        return kind(message, fix=fix)
    if code == 410:
        return Expired(message)
    if code in {400, 413, 415, 422}:
        return InvalidRequest(message, fields=_fields(details))
    if code in {405, 406, 501}:
        return NotOffered(message)
    if code == 429:
        fix = "The server limits the request rate. Wait a little and try again."
        return QuotaExceeded(message, fix=fix, retry_after=_seconds(details))
    if 300 <= code < 400:
        return Unavailable(f"Can't {action}: the reply is a redirect ({code}): {words}", fix=PROXY_FIX)
    if code in {408, 502, 503, 504} or reason in {"Timeout", "ServerTimeout"}:
        return Unavailable(message, fix=REACH_FIX)
    if "failed calling webhook" in words:
        return BackendError(
            message, fix="An admission webhook of the cluster does not answer; check its pods."
        )
    return BackendError(message, fix="Try again; `vxtui doctor` shows whether the cluster answers.")


def from_exception(error: BaseException, action: str, server: str = "") -> BackendError:
    """Convert an exception of httpx, ssl or kr8s to a BackendError."""
    if isinstance(error, BackendError):
        return error
    to = f" at {server}" if server else ""
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return Unavailable(f"Can't {action}: no answer in time{to}.", fix=REACH_FIX)
    certificate = _cause(error, ssl.SSLCertVerificationError)
    if certificate is not None or "CERTIFICATE_VERIFY_FAILED" in str(error):
        words = getattr(certificate, "verify_message", "") or "it is not trusted"
        return Unavailable(
            f"Can't {action}: the certificate of the server{to} is refused: {words}.", fix=_CERTIFICATE_FIX
        )
    if isinstance(error, httpx.ConnectError):
        return Unavailable(
            f"Can't {action}: no connection to the server{to}: {_words(error)}.", fix=REACH_FIX
        )
    if isinstance(error, httpx.HTTPError | httpx.StreamError | OSError):
        return Unavailable(f"Can't {action}: the connection{to} broke: {_words(error)}.", fix=REACH_FIX)
    return BackendError(f"Can't {action}: {type(error).__name__}: {error}")


def _status_of(status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Return the `Status` of a reply. The reply of an intermediate proxy is converted to a `Status`."""
    try:
        answer = decode_json(body)
    except ValueError:
        answer = None
    if not (isinstance(answer, dict) and answer.get("kind") == "Status"):
        answer = {"message": body[:_LONGEST].decode("utf-8", "replace").strip()}
    answer = {**answer, "code": status}
    answer["details"] = dict(mapping(answer.get("details")))
    wait = headers.get("retry-after", "")
    if wait.isascii() and wait.isdigit():
        answer["details"]["retryAfterSeconds"] = int(wait)
    return answer


def _of_the_object(words: str, details: Mapping[str, Any]) -> str:
    """Return the causes of an invalid object, without the note that other causes were not checked.

    The API server writes `<nil>` for the object itself.
    """
    cleaned = words.replace(f", <nil>: {_UNCHECKED}", "")
    if cleaned != words and len(items(details.get("causes"))) == 2:
        cleaned = cleaned.replace(" is invalid: [", " is invalid: ").removesuffix("]")
    return cleaned.replace('<nil>: Invalid value: "object": ', "")


def _forbidden(words: str, message: str, action: str) -> BackendError:
    if "exceeded quota" in words:
        return QuotaExceeded(
            message, fix="A ResourceQuota of the namespace is exhausted. Request less, or end a job."
        )
    denied = _DENIED.search(words)
    if denied is None:
        return PermissionDenied(message, fix=f"Ask the cluster's administrator for permission to {action}.")
    group = f".{denied['group']}" if denied["group"] else ""
    command = f"`kubectl auth can-i {denied['verb']} {denied['resource']}{group}`"
    return PermissionDenied(message, fix=f"Ask for a role that allows it; {command} checks the permission.")


def _admission_fix(words: str) -> str:
    """Return advice that names the field to change, if the words contain its name."""
    field = _FIELD.search(words)
    if field is None:
        return (
            "Change the fields that the message names. The cluster's administrator knows the admission rules."
        )
    if field["field"] == "metadata.name":
        return "Use a name that the cluster accepts."
    return f"Change {field['field']} as the message says."


def _fields(details: Mapping[str, Any]) -> dict[str, str]:
    """Return the problems by the path of the field, e.g. `spec.suspend`."""
    return {
        str(cause["field"]): str(cause.get("message") or cause.get("reason") or "invalid")
        for cause in items(details.get("causes"))
        if cause.get("field") and cause["field"] != "<nil>"
    }


def _seconds(details: Mapping[str, Any]) -> float | None:
    wait = details.get("retryAfterSeconds")
    return float(wait) if isinstance(wait, int | float) and wait > 0 else None


def _cause(error: BaseException | None, kind: type[BaseException]) -> BaseException | None:
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def _words(error: BaseException) -> str:
    text = str(error).strip().rstrip(".")
    return text or type(error).__name__
