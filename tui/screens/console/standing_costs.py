"""The cost of machines that no job is billed for: persistent resources and model servers.

These machines cost money until a user ends them, so the first line of every list shows their cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from tui.domain.resources.regional import with_kept
from tui.session import BackendError, Session

if TYPE_CHECKING:
    from tui.domain.resources.persistent import PersistentResource
    from tui.domain.serving.traffic import ServingEndpoint
    from tui.domain.vertex.prices import Range
    from tui.store.jobs.costs import Costs

Worker = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
"""A function that runs work in the background."""
EVERY = (60.0, 10.0)
"""Seconds between reads of a context in the cloud, and of the emulator."""
TICK = 2.0
_UNBILLED = frozenset({"PROVISIONING", "STOPPING"})
"""States of a persistent resource that cost nothing (docs/facts/vertex.md 9.1)."""


class Console(Protocol):
    """The part of the app that the costs need."""

    costs: Costs

    @property
    def session(self) -> Session | None: ...

    @property
    def bills_nothing(self) -> bool: ...

    def emulates(self, name: str) -> bool: ...


class StandingCosts:
    """The resources and endpoints of the open context, as last read."""

    def __init__(self, console: Console, worker: Worker) -> None:
        self._console = console
        self._worker = worker
        self._session: Session | None = None
        self._next = 0.0
        self._reading = False
        self.resources: Sequence[PersistentResource] = ()
        self.endpoints: Sequence[ServingEndpoint] = ()

    def tick(self) -> None:
        """Read in the background when a read is due."""
        session = self._console.session
        if session is not self._session:
            self._session, self._next = session, 0.0
            self.resources, self.endpoints = (), ()
        if session is not None and not self._reading and time.monotonic() >= self._next:
            self._reading = True
            self._worker(partial(self._read, session))

    async def _read(self, session: Session) -> None:
        try:
            # Their screens show read errors; here the last known rows remain.
            if session.backend.offers("resources"):
                with suppress(BackendError):
                    machines = await session.backend.resources.list_all()
                    if session is self._session:
                        self.resources = with_kept(machines.items, machines.errors, self.resources)
            if session.backend.offers("serving"):
                with suppress(BackendError):
                    served = await session.backend.serving.endpoints()
                    if session is self._session:
                        self.endpoints = with_kept(served.items, served.errors, self.endpoints)
        finally:
            self._reading = False
            self._next = time.monotonic() + EVERY[session.backend.info.local]

    def text(self) -> str:
        """Return the cost, e.g. `~$318/h serving, resources`; "" if it is zero or no price is known."""
        rates = {"serving": self._serving(), "resources": self._machines()}
        costs = self._console.costs
        words = costs.rates_text(rate for values in rates.values() for rate in values)
        return f"{words} {', '.join(name for name, values in rates.items() if values)}" if words else ""

    def _serving(self) -> list[Range | None]:
        rate = self._console.costs.serving_rate
        return [
            rate(deployed, endpoint.region)
            for endpoint in self.endpoints
            if self._counts(endpoint.context)
            for deployed in endpoint.deployed
        ]

    def _machines(self) -> list[Range | None]:
        rate = self._console.costs.parts_rate
        return [
            rate(resource.parts(), resource.region)
            for resource in self.resources
            if resource.state not in _UNBILLED and self._counts(resource.context)
        ]

    def _counts(self, context: str) -> bool:
        """Return whether the context counts. The emulator's costs are never added to billed costs."""
        return self._console.bills_nothing or not self._console.emulates(context)
