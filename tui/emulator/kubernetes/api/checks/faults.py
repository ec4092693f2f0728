"""Faults of the API: errors, delays, broken watches and denied access."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tui.emulator.faults.limit import LONGEST_SECONDS, Limit, limit_of, number
from tui.emulator.kubernetes.api.request import Target
from tui.emulator.kubernetes.errors import ApiError
from tui.emulator.kubernetes.resources import Obj

_REASONS = {
    400: ("BadRequest", "the request is not valid"),
    401: ("Unauthorized", "Unauthorized"),
    403: ("Forbidden", "forbidden"),
    404: ("NotFound", "the server could not find the requested resource"),
    409: ("Conflict", "the object has been modified; please apply your changes to the latest version"),
    410: ("Expired", "too old resource version"),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    500: ("InternalError", "Internal error occurred: injected fault"),
    502: ("InternalError", "Bad Gateway"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "request did not complete within the allowed duration"),
}
KINDS = ("", "error", "lost", "cut", "expired", "denied")
"""Kinds of faults. `error`: answer `code`. `lost`: apply, then break the connection. `cut`: end a watch
`after` seconds from its start. `expired`: answer a watch with 410. `denied`: deny access. Empty: delay only.
"""


@dataclass(slots=True)
class Fault:
    """A fault of the requests whose verb and resource match its patterns."""

    number: int
    verb: str
    resource: str
    kind: str
    code: int
    retry_after: float
    delay: float
    after: float
    limit: Limit

    def matches(self, target: Target) -> bool:
        qualified = f"{target.resource}.{target.group}" if target.group else target.resource
        named = any(fnmatchcase(name, self.resource) for name in (target.resource, qualified, target.path))
        return named and fnmatchcase(target.verb, self.verb)

    def error(self) -> ApiError:
        """Return the error of a fault of kind `error`."""
        reason, message = _REASONS[self.code]
        headers = {"Retry-After": f"{max(1, round(self.retry_after))}"} if self.retry_after else {}
        details = {"retryAfterSeconds": max(1, round(self.retry_after))} if self.retry_after else {}
        return ApiError(message, code=self.code, reason=reason, headers=headers, details=details)

    def fields(self) -> Obj:
        return {
            "number": self.number,
            "verb": self.verb,
            "resource": self.resource,
            "kind": self.kind,
            "code": self.code,
            "retry_after": self.retry_after,
            "delay": self.delay,
            "after": self.after,
            **self.limit.fields(),
        }


class ClusterApiFaults:
    """The faults in force."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._last = 0

    def add(self, request: Mapping[str, Any]) -> Fault:
        """Add a fault. Raises ValueError naming the invalid field."""
        kind, code = str(request.get("kind", "")), int(number(request, "code", 0, 599))
        if code and not kind:
            kind = "error"
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(filter(None, KINDS))}, not {kind!r}")
        if kind == "error" and code not in _REASONS:
            raise ValueError(f"code must be one of {', '.join(map(str, _REASONS))}, not {code}")
        fault = Fault(
            self._last + 1,
            str(request.get("verb") or "*"),
            str(request.get("resource") or "*"),
            kind,
            code,
            number(request, "retry_after", 0, LONGEST_SECONDS),
            number(request, "delay", 0, LONGEST_SECONDS),
            number(request, "after", 0, LONGEST_SECONDS),
            limit_of(request),
        )
        if not (fault.kind or fault.delay):
            raise ValueError("a fault needs a code, a kind or a delay")
        self._last = fault.number
        self._faults.append(fault)
        return fault

    def active(self) -> list[Fault]:
        """Return the active faults, oldest first."""
        self._faults = [fault for fault in self._faults if not fault.limit.used_up]
        return list(self._faults)

    def take(self, target: Target) -> Fault | None:
        """Return the earliest fault that matches the request, and count its use."""
        for fault in self._faults:
            of_watch = fault.kind in {"cut", "expired"}
            if fault.kind == "denied" or (of_watch and target.verb != "watch"):
                continue
            if fault.matches(target) and fault.limit.take():
                return fault
        return None

    def denied(self) -> list[str]:
        """Return the rules of denied access (`KubernetesConfig.denied`)."""
        return [f"{fault.verb} {fault.resource}" for fault in self.active() if fault.kind == "denied"]

    def clear(self, numbers: Iterable[int] = ()) -> None:
        """Clear these faults, or all faults. Raises ValueError for an unknown fault number."""
        chosen = set(numbers)
        unknown = sorted(chosen - {fault.number for fault in self.active()})
        if unknown:
            raise ValueError(f"no fault {unknown[0]} is in force")
        for fault in self._faults:
            if not chosen or fault.number in chosen:
                fault.limit.end()
        self._faults = [fault for fault in self._faults if not fault.limit.over]
