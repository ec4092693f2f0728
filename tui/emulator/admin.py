"""The emulator's own service: its status, faults on request, and its end.

Service `vxtui.emulator.v1.Admin`, method `Call`, google.protobuf.Struct both ways::

    {"do": "status"}                                   → pid, socket, rest, state_dir, version, jobs
    {"do": "rest", "address": "HOST:PORT", "no_auth": B} → the status, with REST from now on
    {"do": "program", "image": URI, "command": [WORD]} → program, in words; or problem and fix
    {"do": FAULT, …}                                   → the fault in force; omitted fields are off
    {"do": "faults"}                                   → all faults in force
    {"do": "clear", "numbers": [N]}                    → the same, without these API faults, or with none
    {"do": "stop"}                                     → stopping

`tui.emulator.faults.table` defines the faults and their fields, e.g. for `preempt` "job": REF and "replica":
R. REF is an id, a full resource name or the display name of one job that has not ended; for a training
pipeline, its custom job is used. R is a name, a list, or left out for all replicas.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from google.protobuf import json_format, struct_pb2

from tui.emulator.fault_targets import Targets
from tui.emulator.paths import StateDirError
from tui.emulator.rpc.methods import Method, failed_precondition, invalid
from tui.emulator.runs.images import CannotRun, ProgramTable

SERVICE = "vxtui.emulator.v1.Admin"


class Admin:
    """RPC handler of the admin service.

    `info` returns the content of `emulator.json`, `stop` ends the server, `open_rest` is
    `Emulator.open_rest`.
    """

    def __init__(
        self,
        targets: Targets,
        info: Callable[[], Mapping[str, Any]],
        stop: Callable[[], None],
        images: ProgramTable,
        open_rest: Callable[[str, bool], Awaitable[dict[str, Any]]],
    ) -> None:
        self._jobs = targets.parts.jobs
        self._info = info
        self._stop = stop
        self._images = images
        self._open_rest = open_rest
        self._verbs: dict[str, Callable[[dict[str, Any]], dict[str, Any] | Awaitable[dict[str, Any]]]] = {
            "status": self._do_status,
            "rest": self._do_rest,
            "program": self._do_program,
            **targets.requests(),
            "stop": self._do_stop,
        }

    def methods(self) -> list[Method]:
        return [Method(SERVICE, "Call", struct_pb2.Struct, struct_pb2.Struct, self.call)]

    async def call(self, request: struct_pb2.Struct) -> struct_pb2.Struct:
        try:
            arguments = json_format.MessageToDict(request)
        except ValueError as error:
            raise invalid(("request", "every number must be finite")) from error
        verb = self._verbs.get(str(arguments.get("do", "")))
        if verb is None:
            raise invalid(("do", f"do must be one of {', '.join(self._verbs)}"))
        answer = struct_pb2.Struct()
        reply = verb(arguments)
        answer.update(await reply if inspect.isawaitable(reply) else reply)
        return answer

    def _do_status(self, _asked: dict[str, Any]) -> dict[str, Any]:
        return {**self._info(), "jobs": self._jobs.counts()}

    async def _do_rest(self, arguments: dict[str, Any]) -> dict[str, Any]:
        address = arguments.get("address")
        if not isinstance(address, str):
            raise invalid(("address", "HOST:PORT, as a string"))
        try:
            info = await self._open_rest(address, not arguments.get("no_auth", False))
        except StateDirError as error:
            raise failed_precondition("rest", str(error)) from error
        except OSError as error:
            sentence = f"can't serve REST on {address}: {error.strerror or error}"
            raise failed_precondition("rest", sentence) from error
        return {**info, "jobs": self._jobs.counts()}

    def _do_program(self, arguments: dict[str, Any]) -> dict[str, Any]:
        image, command = arguments.get("image"), arguments.get("command", [])
        if not isinstance(image, str) or not image:
            raise invalid(("image", "the URI of an image, as a string"))
        if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
            raise invalid(("command", "a list of strings"))
        try:
            return {"program": self._images.program(image, command)}
        except CannotRun as error:
            return {"problem": error.sentence, "fix": error.fix}

    def _do_stop(self, _asked: dict[str, Any]) -> dict[str, Any]:
        self._stop()
        return {"stopping": True}
