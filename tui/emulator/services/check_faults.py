"""Faults of launch checks: denied permissions, missing resources, failing services."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from google.rpc import code_pb2

from tui.emulator.messages import Pb
from tui.emulator.rpc.methods import Method, Unary, WireError

HANG_SECONDS = 600.0
"""Delay of a hanging reply in seconds; clients give up earlier."""


@dataclass(frozen=True, slots=True)
class CheckFaults:
    """The faults of launch checks; by default everything exists and every permission is granted."""

    denied: Sequence[str] = ()
    """Denied permissions, with shell wildcards."""
    missing: Sequence[str] = ()
    """Missing images, accounts and resources, with shell wildcards."""
    failing: Sequence[str] = ()
    """Services that return UNAVAILABLE."""
    hanging: Sequence[str] = ()
    """Services that don't reply."""
    expired: bool = False
    """Whether all services return UNAUTHENTICATED."""

    def fields(self) -> dict[str, Any]:
        """Return the fields that the admin shows."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    def misses(self, *names: str) -> bool:
        """Return whether one of a resource's names is missing."""
        return any(_any(name, self.missing) for name in names)


class ActiveCheckFaults:
    """The faults in force."""

    def __init__(self, denied_permissions: Sequence[str] = ()) -> None:
        """`denied_permissions` are those of the settings, with shell wildcards."""
        self.current = CheckFaults()
        self._denied = denied_permissions

    def set(self, faults: CheckFaults) -> None:
        """Replace the faults."""
        self.current = faults

    def denies(self, permission: str) -> bool:
        """Return whether callers and jobs lack a permission."""
        return _any(permission, (*self._denied, *self.current.denied))

    def apply(self, service: str, methods: Iterable[Method]) -> list[Method]:
        """Return the methods of `service` with its faults applied."""
        return [replace(m, unary=self._with_faults(service, m.unary)) if m.unary else m for m in methods]

    def _with_faults(self, service: str, serve: Unary) -> Unary:
        async def handle(request: Pb) -> Any:
            faults = self.current
            if service in faults.hanging:
                await asyncio.sleep(HANG_SECONDS)
            if service in faults.failing:
                raise WireError(code_pb2.UNAVAILABLE, "The service is currently unavailable.")
            if faults.expired:
                raise WireError(code_pb2.UNAUTHENTICATED, "Request had invalid authentication credentials.")
            return await serve(request)

        return handle


def _any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
