"""Faults of a launch's checks on request: denied permissions, missing resources, failing services.

The services are `projects`, `accounts`, `registry`, `resources`, `boards` and `quotas`.
"""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from google.rpc import code_pb2

from tui.emulator.logging.record import Pb
from tui.emulator.rpc.methods import Method, Unary, WireError

SERVICES = ("projects", "accounts", "registry", "resources", "boards", "quotas")
HANG_SECONDS = 600.0
"""Delay of a hanging reply; clients give up before."""


@dataclass(frozen=True, slots=True)
class CheckFaults:
    """By default everything exists and every permission is granted."""

    denied: tuple[str, ...] = ()
    """Denied permissions, with shell wildcards."""
    missing: tuple[str, ...] = ()
    """Images, accounts and resources that don't exist, with shell wildcards."""
    failing: tuple[str, ...] = ()
    """Services that return UNAVAILABLE."""
    hanging: tuple[str, ...] = ()
    """Services that don't reply."""
    expired: bool = False
    """All of them return UNAUTHENTICATED."""

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> CheckFaults:
        """From the admin's request; faults that it does not name are off.

        Raises:
            ValueError: naming the invalid field.
        """
        found = cls(expired=bool(asked.get("expired", False)))
        for name in ("denied", "missing", "failing", "hanging"):
            value = asked.get(name, [])
            if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
                raise ValueError(f"{name} is a list of strings, not {value!r}")
            unknown = [one for one in value if name in {"failing", "hanging"} and one not in SERVICES]
            if unknown:
                raise ValueError(f"{name}: {unknown[0]!r} is not one of {', '.join(SERVICES)}")
            found = replace(found, **{name: tuple(value)})  # type: ignore[arg-type]
        return found

    def denies(self, permission: str) -> bool:
        return _any(permission, self.denied)

    def misses(self, *names: str) -> bool:
        """Whether one of a resource's names is missing."""
        return any(_any(name, self.missing) for name in names)


class ActiveCheckFaults:
    """The present faults."""

    def __init__(self) -> None:
        self.current = CheckFaults()

    def set(self, faults: CheckFaults) -> None:
        """Replace the faults."""
        self.current = faults

    def apply(self, service: str, methods: Iterable[Method]) -> list[Method]:
        """The methods of `service`, with its faults."""
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
