"""Faults of the API on request, by method of every service: faults of the network and of the service.

The faults are applied in one place: between the protocol (gRPC or REST, HTTP for the buckets) and the handler
of a method. A pattern with shell wildcards selects methods, ignoring case: `GetCustomJob`, `JobService.*`,
`LoggingServiceV2.TailLogEntries`, `storage.PUT`, `*`.
"""

from __future__ import annotations

import asyncio
import difflib
import fnmatch
from collections.abc import AsyncIterator, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from google.rpc import code_pb2, error_details_pb2

from tui.emulator.faults.limit import Limit
from tui.emulator.rpc.methods import Bidi, Method, RawReply, Unary, WireError

STORAGE = "storage"
STORAGE_METHODS = tuple(f"{STORAGE}.{verb}" for verb in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))
"""Methods of the bucket server, which has HTTP methods instead of RPCs."""
GARBAGE = b"\xff\xff\xff\xff<html>502 Bad Gateway</html>"
"""Bytes that no protobuf message and no JSON text begins with."""
SILENT_SECONDS = 3600.0
"""Maximum silence in seconds; clients give up earlier."""
_POLL = 0.05


@dataclass(frozen=True, slots=True)
class ApiFault:
    """The result of a call instead of its reply. The delay precedes the kind of fault, if both are set."""

    method: str
    kind: str = ""
    """`error`: `code` in place of the reply. `lost`: the request takes effect, and the connection breaks
    before the reply. `malformed`: the request takes effect, and the reply can't be decoded. `silent`: no
    reply; a stream is open and has no messages."""
    code: str = ""
    """A name of google.rpc.Code, for an error."""
    message: str = ""
    delay: float = 0.0
    """Seconds before the reply, and before each message of a stream."""
    retry_after: float = 0.0
    """Seconds in the RetryInfo of an error; 0 means none."""
    applied: bool = False
    """Whether an error or silence comes after the request has taken effect."""

    @property
    def takes_effect(self) -> bool:
        """Whether the handler runs although the caller does not receive its reply."""
        return self.applied or self.kind not in {"error", "silent"}

    def error(self) -> WireError:
        """Return the error of a failed or lost reply."""
        if self.kind == "lost":
            # gRPC's own message for a broken connection.
            return WireError(code_pb2.UNAVAILABLE, "Socket closed")
        message = self.message or f"{self.code}, by fault injection."
        details = []
        if self.retry_after:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromNanoseconds(round(self.retry_after * 1e9))
            details.append(retry)
        return WireError(code_pb2.Code.Value(self.code), message, details)


@dataclass(frozen=True, slots=True)
class ActiveFault:
    """A fault in force, with the number that clears it."""

    number: int
    fault: ApiFault
    limit: Limit

    def matches(self, service: str, method: str) -> bool:
        """Return whether the fault applies to a method; `service` is the full name, e.g.
        `google.logging.v2.LoggingServiceV2`."""
        pattern = self.fault.method.lower()
        return any(fnmatch.fnmatchcase(name.lower(), pattern) for name in names_of(service, method))

    async def hold(self) -> None:
        """Poll until the fault is cleared, because the bucket server has a separate event loop."""
        waited = 0.0
        while not self.limit.over and waited < SILENT_SECONDS:
            await asyncio.sleep(_POLL)
            waited += _POLL

    def fields(self) -> dict[str, Any]:
        """Return the fields that the admin shows."""
        return {"number": self.number, **asdict(self.fault), **self.limit.fields()}


class ApiFaults:
    """All faults in force of one emulator's API. The earliest fault that matches a call applies."""

    def __init__(self) -> None:
        self._active: tuple[ActiveFault, ...] = ()
        self._last = 0
        self._known: list[tuple[str, str]] = [(STORAGE, name.partition(".")[2]) for name in STORAGE_METHODS]

    def apply(self, methods: Iterable[Method]) -> list[Method]:
        """Return the methods with the faults applied."""
        rows = []
        for method in methods:
            self._known.append((method.service, method.name))
            unary, bidi = method.unary, method.bidi
            rows.append(
                replace(
                    method,
                    unary=self._unary(method, unary) if unary else None,
                    bidi=self._bidi(method, bidi) if bidi else None,
                )
            )
        return rows

    def add(self, fault: ApiFault, limit: Limit) -> ActiveFault:
        """Add a fault. Raises ValueError when it has no effect, or no served method matches."""
        if not fault.method:
            raise ValueError("method must be a method's name or a pattern, e.g. GetCustomJob or JobService.*")
        if not fault.kind and not fault.delay:
            raise ValueError("the fault must have a kind or a delay")
        active = ActiveFault(self._last + 1, fault, limit)
        if not any(active.matches(*known) for known in self._known):
            raise ValueError(f"method {fault.method!r} is not served; {self._near(fault.method)}")
        self._last += 1
        self._active = (*self.active(), active)
        return active

    def _near(self, method: str) -> str:
        """Return methods with a similar name, and the services. A list of all methods would not fit into a
        status."""
        names = dict(sorted((name.lower(), names_of(service, name)[1]) for service, name in self._known))
        similar = difflib.get_close_matches(method.rpartition(".")[2].lower(), names, 3)
        services = sorted({names_of(*known)[1].rpartition(".")[0] for known in self._known})
        hint = f"did you mean {' or '.join(names[name] for name in similar)}? " if similar else ""
        return f"{hint}The services are {', '.join(services)}; SERVICE.* is every method of one"

    def active(self) -> tuple[ActiveFault, ...]:
        """Return the faults in force, by number."""
        return tuple(fault for fault in self._active if not fault.limit.used_up)

    def clear(self, numbers: Iterable[int] = ()) -> list[int]:
        """Clear the faults with these numbers, or all of them; calls that they hold continue."""
        chosen = set(numbers)
        ended = [fault for fault in self._active if not chosen or fault.number in chosen]
        for fault in ended:
            fault.limit.end()
        self._active = tuple(fault for fault in self._active if fault not in ended)
        return [fault.number for fault in ended]

    def take(self, service: str, method: str) -> ActiveFault | None:
        """Return the fault of a call and count its use, or `None` if no fault applies."""
        matching = (fault for fault in self._active if fault.matches(service, method))
        return next((fault for fault in matching if fault.limit.take()), None)

    def _unary(self, method: Method, serve: Unary) -> Unary:
        async def call(request: Any) -> Any:
            active = self.take(method.service, method.name)
            if active is None:
                return await serve(request)
            fault = active.fault
            reply = await serve(request) if fault.takes_effect else None
            await asyncio.sleep(fault.delay)
            if fault.kind in {"error", "lost"}:
                raise fault.error()
            if fault.kind == "malformed":
                return RawReply(GARBAGE)
            if fault.kind == "silent":
                await active.hold()
            return reply if reply is not None else await serve(request)

        return call

    def _bidi(self, method: Method, serve: Bidi) -> Bidi:
        async def call(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
            active = self.take(method.service, method.name)
            if active is not None and not active.fault.takes_effect:
                await asyncio.sleep(active.fault.delay)
                if active.fault.kind == "error":
                    raise active.fault.error()
                await active.hold()
            async for response in serve(requests):
                # A fault also applies to streams that are already open.
                active = active or self.take(method.service, method.name)
                if active is None:
                    yield response
                    continue
                fault, holding, active = active.fault, active, None
                await asyncio.sleep(fault.delay)
                if fault.kind in {"error", "lost"}:
                    raise fault.error()
                if fault.kind == "silent":
                    await holding.hold()
                yield RawReply(GARBAGE) if fault.kind == "malformed" else response

        return call


def names_of(service: str, method: str) -> tuple[str, str, str]:
    """Return the names that a pattern can match: the full, the short and the bare name."""
    short = f"{service.rpartition('.')[2]}.{method}"
    return f"{service}.{method}", short, method
