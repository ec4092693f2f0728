"""The emulator's own service: its status, faults on request, and its end.

Service `vxtui.emulator.v1.Admin`, method `Call`, google.protobuf.Struct both ways::

    {"do": "status"}                                   → pid, socket, rest, state_dir, version, jobs
    {"do": "rest", "address": "HOST:PORT", "no_auth": B}
                                                       → the status, with REST from now on
    {"do": "program", "image": URI, "command": [WORD]} → program, in words; or problem and fix
    {"do": "preempt", "job": REF, "replica": R}        → job, replicas   (R: a name, a list, or left out: all)
    {"do": "tail", "cut_every": S, "late_share": X, "late_seconds": S, "double_share": X, "shuffle": B}
                                                       → the present faults; omitted ones are off
    {"do": "buckets", "kind": K, "bucket": B, "delay": S, "cut_after": BYTES, "lasts": S, "times": N}
                                                       → the same for the bucket server
    {"do": "checks", "denied": [P], "missing": [NAME], "failing": [S], "hanging": [S], "expired": B}
                                                       → the same for a launch's checks
    {"do": "api", "method": M, "kind": K, "code": C, "message": T, "delay": S, "applied": B,
     "lasts": S, "times": N}
                                                       → the new fault with its number
    {"do": "disk", "full": B, "lasts": S, "times": N}  → the present fault
    {"do": "connections", "half_open": B, "lasts": S}  → the present fault
    {"do": "clock", "offset": S, "lasts": S}           → the present fault
    {"do": "faults"}                                   → all faults in force
    {"do": "clear", "numbers": [N]}                    → the same, without these API faults, or with none
    {"do": "stop"}                                     → stopping

REF is an id, a full resource name or the display name of one job that has not ended. That of a training
pipeline means its custom job.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from google.protobuf import json_format, struct_pb2

from tui.emulator.faults.requests import Faults
from tui.emulator.parts import EmulatorParts
from tui.emulator.paths import StateDirError
from tui.emulator.rpc.methods import Method, failed_precondition, invalid, not_found
from tui.emulator.runs.images import CannotRun, Images
from tui.emulator.vertex.job_table import Job
from tui.emulator.vertex.operations import CUSTOM_JOB_KIND
from tui.emulator.vertex.resource_requests import find_by_reference

SERVICE = "vxtui.emulator.v1.Admin"


class Admin:
    """Handler of one emulator.

    `info` returns what `emulator.json` holds, `stop` ends the server, `open_rest` is `Emulator.open_rest`.
    """

    def __init__(  # noqa: PLR0917 - one for each part
        self,
        parts: EmulatorParts,
        info: Callable[[], Mapping[str, Any]],
        stop: Callable[[], None],
        faults: Faults,
        images: Images,
        open_rest: Callable[[str, bool], Awaitable[dict[str, Any]]],
    ) -> None:
        self._parts = parts
        self._info = info
        self._stop = stop
        self._images = images
        self._open_rest = open_rest
        self._verbs: dict[str, Callable[[dict[str, Any]], dict[str, Any] | Awaitable[dict[str, Any]]]] = {
            "status": self._do_status,
            "rest": self._do_rest,
            "program": self._do_program,
            "preempt": self._do_preempt,
            **faults.verbs(),
            "stop": self._do_stop,
        }

    def methods(self) -> list[Method]:
        return [Method(SERVICE, "Call", struct_pb2.Struct, struct_pb2.Struct, self.call)]

    async def call(self, request: struct_pb2.Struct) -> struct_pb2.Struct:
        asked = json_format.MessageToDict(request)
        verb = self._verbs.get(str(asked.get("do", "")))
        if verb is None:
            raise invalid(("do", f"{asked.get('do')!r} is not one of {', '.join(self._verbs)}"))
        answer = struct_pb2.Struct()
        found = verb(asked)
        answer.update(await found if inspect.isawaitable(found) else found)
        return answer

    def _do_status(self, _asked: dict[str, Any]) -> dict[str, Any]:
        return {**self._info(), "jobs": self._parts.jobs.counts()}

    async def _do_rest(self, asked: dict[str, Any]) -> dict[str, Any]:
        address = asked.get("address")
        if not isinstance(address, str):
            raise invalid(("address", "HOST:PORT, as a string"))
        try:
            info = await self._open_rest(address, not asked.get("no_auth", False))
        except StateDirError as error:
            raise failed_precondition("rest", str(error)) from error
        except OSError as error:
            sentence = f"can't serve REST on {address}: {error.strerror or error}"
            raise failed_precondition("rest", sentence) from error
        return {**info, "jobs": self._parts.jobs.counts()}

    def _do_program(self, asked: dict[str, Any]) -> dict[str, Any]:
        image, command = asked.get("image"), asked.get("command", [])
        if not isinstance(image, str) or not image:
            raise invalid(("image", "the URI of an image, as a string"))
        if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
            raise invalid(("command", "a list of strings"))
        try:
            return {"program": self._images.program(image, command)}
        except CannotRun as error:
            return {"problem": error.sentence, "fix": error.fix}

    def _do_preempt(self, asked: dict[str, Any]) -> dict[str, Any]:
        job = self._job(asked.get("job"))
        hit = self._parts.scheduler.preempt(job, _names(asked.get("replica")))
        return {"job": job.record.name, "replicas": list(hit)}

    def _do_stop(self, _asked: dict[str, Any]) -> dict[str, Any]:
        self._stop()
        return {"stopping": True}

    def _job(self, reference: object) -> Job:
        if not isinstance(reference, str) or not reference:
            raise invalid(("job", "a job's id, full name or display name, as a string"))
        found: list[Job] = [
            job
            for table in self._parts.tables.values()
            for resource in find_by_reference(table, reference)
            if (job := table.custom_job_of(resource)) is not None
        ]
        if not found:
            raise not_found(CUSTOM_JOB_KIND, reference)
        active = [job for job in found if not job.terminal]
        if not active:
            raise failed_precondition(found[0].record.name, f"The job {found[0].record.name} has ended.")
        if len(active) > 1:
            names = ", ".join(job.record.id for job in active)
            raise invalid(("job", f"{reference!r} is the display name of several jobs; use an id: {names}"))
        return active[0]


def _names(value: object) -> Sequence[str]:
    if value is None or value == "":
        return []
    names = [name for name in (value if isinstance(value, list) else [value]) if isinstance(name, str)]
    if not names or (isinstance(value, list) and len(names) < len(value)):
        raise invalid(("replica", "a replica's name such as workerpool1-0, or a list of them"))
    return names
