"""Errors of the API, each with its `Status` object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui.emulator.kubernetes.resources import ApiResource, Obj


@dataclass(frozen=True, slots=True)
class FieldCause:
    """One invalid field: its path, e.g. `spec.template.spec.containers[0].image`, and why."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def as_dict(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}


class ApiError(Exception):
    """An error with the HTTP code, reason and message of a kube-apiserver."""

    code = 500
    reason = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        reason: str | None = None,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = self.code if code is None else code
        self.reason = self.reason if reason is None else reason
        self.details = None if details is None else dict(details)
        self.headers = dict(headers or {})

    def by(self, webhook: str) -> ApiError:
        """Name the admission webhook that refuses the request."""
        self.message = f'admission webhook "{webhook}" denied the request: {self.message}'
        self.args = (self.message,)
        return self

    def status(self) -> Obj:
        """Return the `Status` object of the reply."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            **({"reason": self.reason} if self.reason else {}),
            **({"details": self.details} if self.details is not None else {}),
            "code": self.code,
        }


def _kind(resource: ApiResource) -> str:
    return f"{resource.kind}.{resource.group}" if resource.group else resource.kind


def _sentence(causes: Sequence[FieldCause]) -> str:
    """Return all causes in one sentence, each once."""
    sentences = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    return sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"


def details_of(name: str, group: str, kind: str) -> Obj:
    """Return the details of a `Status` about an object, without the empty fields."""
    details = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in details.items() if value}


def _about(resource: ApiResource, name: str) -> Obj:
    return details_of(name, resource.group, resource.plural)


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"

    @classmethod
    def of(cls, resource: ApiResource, why: str) -> BadRequest:
        """Return the error for an object that can't be read as this type."""
        return cls(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {why}'
        )


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class ApiNotFound(ApiError):
    """No object has this name, or the path is not served."""

    code, reason = 404, "NotFound"

    @classmethod
    def of(cls, resource: ApiResource, name: str) -> ApiNotFound:
        return cls(f'{resource.qualified} "{name}" not found', details=_about(resource, name))

    @classmethod
    def unserved(cls) -> ApiNotFound:
        """Return the error for a path that names no served type, version or subresource."""
        return cls("the server could not find the requested resource", details={})


class MethodNotAllowed(ApiError):
    """The method is not supported for this resource."""

    code, reason = 405, "MethodNotAllowed"

    def __init__(self) -> None:
        super().__init__("the server does not allow this method on the requested resource", details={})


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class ApiAlreadyExists(ApiError):
    """An object of this name already exists."""

    code, reason = 409, "AlreadyExists"

    @classmethod
    def of(cls, resource: ApiResource, name: str) -> ApiAlreadyExists:
        return cls(f'{resource.qualified} "{name}" already exists', details=_about(resource, name))


class ApiConflict(ApiError):
    """The object has changed since the caller read it."""

    code, reason = 409, "Conflict"

    @classmethod
    def of(cls, resource: ApiResource, name: str, why: str = "") -> ApiConflict:
        why = why or (
            "the object has been modified; please apply your changes to the latest version and try again"
        )
        return cls(
            f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}',
            details=_about(resource, name),
        )


class ApiExpired(ApiError):
    """The history no longer holds the resource version; the client has to list again."""

    code, reason = 410, "Expired"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    """Fields have values that the type does not allow."""

    code, reason = 422, "Invalid"

    @classmethod
    def of(cls, resource: ApiResource, name: str, causes: Sequence[FieldCause]) -> Invalid:
        details = {**_about(resource, name), "kind": resource.kind}
        details["causes"] = [cause.as_dict() for cause in causes]
        return cls(f'{_kind(resource)} "{name}" is invalid: {_sentence(causes)}', details=details)

    @classmethod
    def of_patch(cls, why: str) -> Invalid:
        """Return the error for a patch whose result does not fit the type."""
        cause = FieldCause("patch", f"Invalid value: {why}")
        return cls(f' "" is invalid: {cause.field}: {cause.message}', details={"causes": [cause.as_dict()]})

    @classmethod
    def of_options(cls, kind: str, causes: Sequence[FieldCause]) -> Invalid:
        """Return the error for invalid options of a request, e.g. `ListOptions`."""
        details = {"group": "meta.k8s.io", "kind": kind, "causes": [cause.as_dict() for cause in causes]}
        return cls(f'{kind}.meta.k8s.io "" is invalid: {_sentence(causes)}', details=details)


class ApiStorageFull(ApiError):
    """The database refused a write; the object is unchanged."""

    code, reason = 507, "InternalError"
