"""What a Kubernetes API server, httpx and kr8s say of a failure, in the words of `tui.backends.errors`."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping
from typing import Any

import httpx

from tui.backends.errors import (
    BackendError,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    NotOffered,
    PermissionDenied,
    QuotaExceeded,
    Unauthenticated,
    Unavailable,
)
from tui.backends.kubernetes.login.cluster import LOGIN_FIX

REACH_FIX = "`vxtui doctor` says what can be reached."
_CERTIFICATE_FIX = (
    "The certificate authority of the kubeconfig is not this server's: fetch the cluster's credentials anew."
)
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


class Conflict(FailedPrecondition):
    """The object has changed since it was read; read it again before the change is repeated."""


class AlreadyExists(FailedPrecondition):
    """There is an object of this name already."""


class AdmissionRefused(InvalidRequest):
    """An admission webhook or policy refuses the object. Its code is 403 too, as of a missing permission."""


class Expired(BackendError):
    """This resourceVersion or `continue` token is too old (410): list again."""

    code = "OUT_OF_RANGE"


def from_reply(status: int, headers: Mapping[str, str], body: bytes, what: str) -> BackendError:
    """The error of a reply that refused; `what` completes "Can't …"."""
    return from_status(_status_of(status, headers, body), what)


def from_status(said: Mapping[str, Any], what: str) -> BackendError:
    """Return the error for a `Status` object, which ends a watch or a stream of exec."""
    code = int(said.get("code") or 500)
    details = said.get("details") or {}
    reason = str(said.get("reason") or "")
    words = " ".join(str(said.get("message") or reason or f"the server answered {code}").split())
    words = _of_the_object(words, details)[:_LONGEST]
    message = f"Can't {what}: {words}"
    if code == 401:
        return Unauthenticated(f"Can't {what}: the cluster does not accept the login: {words}", fix=LOGIN_FIX)
    if _ADMISSION.search(words) is not None:
        return AdmissionRefused(message, fix=_admission_fix(words))
    if code == 403:
        return _forbidden(words, message)
    if code == 404:
        return NotFound(message, fix="`vxtui jobs` lists what is there.")
    if code == 409:
        kind = AlreadyExists if reason == "AlreadyExists" else Conflict
        fix = "Give it another name." if kind is AlreadyExists else "It changed meanwhile: try again."
        return kind(message, fix=fix)
    if code == 410:
        return Expired(message)
    if code in {400, 413, 415, 422}:
        return InvalidRequest(message, fields=_fields(details))
    if code in {405, 406, 501}:
        return NotOffered(message)
    if code == 429:
        fix = "The server limits how often it may be asked; wait a little."
        return QuotaExceeded(message, fix=fix, retry_after=_seconds(details))
    if code in {408, 502, 503, 504} or reason in {"Timeout", "ServerTimeout"}:
        return Unavailable(message, fix=REACH_FIX)
    if "failed calling webhook" in words:
        return BackendError(message, fix="An admission webhook of the cluster does not answer; see its pods.")
    return BackendError(message, fix="Try again; `vxtui doctor` says whether the cluster answers.")


def from_exception(error: BaseException, what: str, server: str = "") -> BackendError:
    """What httpx, ssl and kr8s raise, as a BackendError."""
    if isinstance(error, BackendError):
        return error
    to = f" at {server}" if server else ""
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return Unavailable(f"Can't {what}: no answer in time{to}.", fix=REACH_FIX)
    certificate = _cause(error, ssl.SSLCertVerificationError)
    if certificate is not None or "CERTIFICATE_VERIFY_FAILED" in str(error):
        words = getattr(certificate, "verify_message", "") or "it is not trusted"
        return Unavailable(
            f"Can't {what}: the certificate of the server{to} is refused: {words}.", fix=_CERTIFICATE_FIX
        )
    if isinstance(error, httpx.ConnectError):
        return Unavailable(f"Can't {what}: no connection to the server{to}: {_words(error)}.", fix=REACH_FIX)
    if isinstance(error, httpx.HTTPError | httpx.StreamError | OSError):
        return Unavailable(f"Can't {what}: the connection{to} broke: {_words(error)}.", fix=REACH_FIX)
    return BackendError(f"Can't {what}: {type(error).__name__}: {error}")


def _status_of(status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The `Status` of a reply; what a proxy on the way sends instead becomes one."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not (isinstance(found, dict) and found.get("kind") == "Status"):
        found = {"message": body[:_LONGEST].decode("utf-8", "replace").strip()}
    found = {**found, "code": status}
    details = found.get("details")
    found["details"] = dict(details) if isinstance(details, Mapping) else {}
    wait = headers.get("retry-after", "")
    if wait.isascii() and wait.isdigit():
        found["details"]["retryAfterSeconds"] = int(wait)
    return found


def _of_the_object(words: str, details: Mapping[str, Any]) -> str:
    """The causes of an invalid object, without that which only says that others were not looked for.

    `<nil>` is how the API server names the object as a whole.
    """
    found = words.replace(f", <nil>: {_UNCHECKED}", "")
    if found != words and len(details.get("causes") or ()) == 2:
        found = found.replace(" is invalid: [", " is invalid: ").removesuffix("]")
    return found.replace('<nil>: Invalid value: "object": ', "")


def _forbidden(words: str, message: str) -> BackendError:
    if "exceeded quota" in words:
        return QuotaExceeded(
            message, fix="A ResourceQuota of the namespace is used up; ask for less, or end a job."
        )
    found = _DENIED.search(words)
    if found is None:
        return PermissionDenied(message, fix="Ask the cluster's administrator for a role that allows it.")
    group = f".{found['group']}" if found["group"] else ""
    asked = f"`kubectl auth can-i {found['verb']} {found['resource']}{group}`"
    return PermissionDenied(message, fix=f"Ask for a role that allows it; {asked} tells.")


def _admission_fix(words: str) -> str:
    """What to change: the field that the words name, where they name one."""
    found = _FIELD.search(words)
    if found is None:
        return "Change what it names; the cluster's administrator knows the rules of its admission."
    if found["field"] == "metadata.name":
        return "Give it another name, one that the cluster accepts."
    return f"Change {found['field']} as the cluster says."


def _fields(details: Mapping[str, Any]) -> dict[str, str]:
    """Problems by the path of the field, e.g. `spec.suspend`."""
    return {
        str(cause["field"]): str(cause.get("message") or cause.get("reason") or "invalid")
        for cause in details.get("causes") or ()
        if isinstance(cause, Mapping) and cause.get("field") not in {None, "", "<nil>"}
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
