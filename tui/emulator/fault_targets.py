"""Targets of faults, and the requests that set, list and clear them (`tui.emulator.admin`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tui.emulator.faults import clock
from tui.emulator.faults.api import ApiFaults
from tui.emulator.faults.disk import DiskFault
from tui.emulator.faults.half_open import HalfOpen
from tui.emulator.faults.limit import Limit
from tui.emulator.faults.registry import Answer, FaultEntry, FaultRegistry, Options
from tui.emulator.logging.faults import ActiveLogFaults
from tui.emulator.parts import EmulatorParts
from tui.emulator.rpc.methods import failed_precondition, invalid, not_found
from tui.emulator.services.check_faults import ActiveCheckFaults
from tui.emulator.storage.server import BucketServer
from tui.emulator.vertex.job_table import CustomJob
from tui.emulator.vertex.operations import CUSTOM_JOB_KIND
from tui.emulator.vertex.resource_requests import find_by_reference


@dataclass(frozen=True, slots=True)
class Targets:
    """The parts of one emulator that faults act on."""

    faults: FaultRegistry
    parts: EmulatorParts
    api: ApiFaults
    disk: DiskFault
    connections: HalfOpen
    buckets: BucketServer

    @property
    def tail(self) -> ActiveLogFaults:
        return self.parts.logs.faults

    @property
    def checks(self) -> ActiveCheckFaults:
        return self.parts.checks

    def active_job(self, reference: str) -> CustomJob:
        """Return the custom job with this id, full name or display name that has not ended.

        A reference to a training pipeline means its custom job. Raises WireError when there is none, or
        several.
        """
        if not reference:
            raise invalid(("job", "a job's id, full name or display name, as a string"))
        jobs: list[CustomJob] = [
            job
            for jobs in self.parts.tables.values()
            for resource in find_by_reference(jobs, reference)
            if (job := jobs.custom_job_of(resource)) is not None
        ]
        if not jobs:
            raise not_found(CUSTOM_JOB_KIND, reference)
        active = [job for job in jobs if not job.terminal]
        if not active:
            raise failed_precondition(jobs[0].record.name, f"The job {jobs[0].record.name} has ended.")
        if len(active) > 1:
            ids = ", ".join(job.record.id for job in active)
            raise invalid(("job", f"{reference!r} is the display name of several jobs; use an id: {ids}"))
        return active[0]

    def command(self, job: CustomJob, replica: object, do: str) -> list[str]:
        """Give the runner a command for one replica, several, or all (`None` and ""); return their names.
        Raises WireError.
        """
        named = replica if isinstance(replica, list) else [] if replica in {None, ""} else [replica]
        replicas = [name for name in named if isinstance(name, str)]
        if len(replicas) < len(named) or (isinstance(replica, list) and not replicas):
            raise invalid(("replica", "a replica's name such as workerpool1-0, or a list of them"))
        return list(self.parts.scheduler.command(job, replicas, do))

    def requests(self) -> dict[str, Callable[[Options], Answer]]:
        """Return the requests by the word of `do`; a request with an invalid field raises WireError."""
        requests: dict[str, Callable[[Options], Answer]] = {
            name: lambda request, entry=entry: self._set(entry, request)  # type: ignore[misc]
            for name, entry in self.faults.items()
        }
        requests |= {"faults": lambda _: self.fields(), "clear": self._clear}
        return {do: _refusing(do, request) for do, request in requests.items()}

    def fields(self) -> Answer:
        """Return every fault in force."""
        fields: Answer = {}
        for name, entry in self.faults.items():
            if not entry.once:
                answer = entry.act(self, None)
                fields |= answer if entry.added else {name: answer}
        return fields

    def close(self) -> None:
        """End the faults that would outlive a server in this process."""
        self.api.clear()
        self.connections.close()
        clock.set_offset(0, Limit())

    def _set(self, entry: FaultEntry, request: Options) -> Answer:
        return entry.act(self, entry.read(request))

    def _clear(self, request: Options) -> Answer:
        numbers = request.get("numbers", [])
        if not isinstance(numbers, list) or not all(isinstance(number, int | float) for number in numbers):
            raise ValueError(f"numbers must be a list of numbers of API faults, not {numbers!r}")
        known = {active.number for active in self.api.active()}
        unknown = [int(number) for number in numbers if number not in known]
        if unknown:
            raise ValueError(f"no API fault {unknown[0]} is in force")
        self.api.clear(int(number) for number in numbers)
        if not numbers:
            for entry in self.faults.values():
                if not entry.once and not entry.added:
                    self._set(entry, {})
        return self.fields()


def _refusing(do: str, request: Callable[[Options], Answer]) -> Callable[[Options], Answer]:
    def call(options: Options) -> Answer:
        try:
            return request(options)
        except ValueError as error:
            raise invalid((do, str(error))) from error

    return call
