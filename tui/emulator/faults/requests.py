"""The admin's requests that set, list and clear faults, see `tui.emulator.admin`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tui.emulator.faults import clock
from tui.emulator.faults.api import ApiFaults
from tui.emulator.faults.disk import DiskFault
from tui.emulator.faults.half_open import HalfOpen
from tui.emulator.logging.faults import ActiveLogFaults, LogFaults
from tui.emulator.rpc.methods import invalid
from tui.emulator.services.check_faults import ActiveCheckFaults, CheckFaults
from tui.emulator.storage.server import BucketServer

Asked = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Faults:
    """All faults of one emulator."""

    api: ApiFaults
    disk: DiskFault
    connections: HalfOpen
    tail: ActiveLogFaults
    checks: ActiveCheckFaults
    buckets: BucketServer

    def verbs(self) -> dict[str, Callable[[Asked], Asked]]:
        """The requests by the word of `do`; one with an invalid field raises WireError."""
        verbs: dict[str, Callable[[Asked], Asked]] = {
            "tail": self._set_tail,
            "buckets": self._set_buckets,
            "checks": self._set_checks,
            "api": self._add_api,
            "disk": self._set_disk,
            "connections": self._set_connections,
            "clock": self._set_clock,
            "faults": lambda _: self.fields(),
            "clear": self._clear,
        }
        return {do: _refusing(do, verb) for do, verb in verbs.items()}

    def fields(self) -> Asked:
        """Every fault in force."""
        return {
            "api": [one.fields() for one in self.api.active()],
            "disk": self.disk.fields(),
            "connections": self.connections.fields(),
            "clock": clock.fields(),
            "tail": asdict(self.tail.current),
            "checks": _lists(self.checks.current),
            "buckets": asdict(self.buckets.faults.current),
        }

    def close(self) -> None:
        """End the faults that outlive a server in this process."""
        self.api.clear()
        self.connections.close()
        clock.set_offset({})

    def _set_tail(self, asked: Asked) -> Asked:
        faults = LogFaults.of(asked)
        self.tail.set(faults)
        return asdict(faults)

    def _set_buckets(self, asked: Asked) -> Asked:
        # Imported here: most emulators never need it.
        from tui.emulator.storage.faults import BucketFaults  # noqa: PLC0415

        faults = BucketFaults.of(asked)
        self.buckets.faults.set(faults)
        return asdict(faults)

    def _set_checks(self, asked: Asked) -> Asked:
        faults = CheckFaults.of(asked)
        self.checks.set(faults)
        return _lists(faults)

    def _add_api(self, asked: Asked) -> Asked:
        return self.api.add(asked).fields()

    def _set_disk(self, asked: Asked) -> Asked:
        self.disk.set(asked)
        return self.disk.fields()

    def _set_connections(self, asked: Asked) -> Asked:
        self.connections.set(asked)
        return self.connections.fields()

    def _set_clock(self, asked: Asked) -> Asked:
        clock.set_offset(asked)
        return clock.fields()

    def _clear(self, asked: Asked) -> Asked:
        numbers = asked.get("numbers", [])
        if not isinstance(numbers, list) or not all(isinstance(one, int | float) for one in numbers):
            raise ValueError(f"numbers is a list of numbers of API faults, not {numbers!r}")
        known = {one.number for one in self.api.active()}
        unknown = [int(one) for one in numbers if one not in known]
        if unknown:
            raise ValueError(f"no API fault {unknown[0]} is in force")
        self.api.clear(int(one) for one in numbers)
        if not numbers:
            for clear in (self._set_tail, self._set_buckets, self._set_checks, self._set_disk):
                clear({})
            self.close()
        return self.fields()


def _lists(faults: CheckFaults) -> Asked:
    return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(faults).items()}


def _refusing(do: str, verb: Callable[[Asked], Asked]) -> Callable[[Asked], Asked]:
    def call(asked: Asked) -> Asked:
        try:
            return verb(asked)
        except ValueError as error:
            raise invalid((do, str(error))) from error

    return call
