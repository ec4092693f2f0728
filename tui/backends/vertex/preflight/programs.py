"""Checks which local program the emulator starts instead of an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import json_format, struct_pb2

from tui.backends.vertex.preflight.images import Images, short_image
from tui.backends.vertex.transport.channels import Clients
from tui.backends.vertex.transport.connect import Service
from tui.domain.vertex.preflight import Check, CheckStatus, Path, image_of, ok
from tui.emulator.client import ADMIN_METHOD


class Programs:
    """Queries the emulator for the program that replaces an image, then the registry, as for a cloud job."""

    def __init__(self, clients: Clients, images: Images) -> None:
        self._clients = clients
        self._images = images

    async def check(self, job: Mapping[str, Any], uri: str, paths: Sequence[Path]) -> Sequence[Check]:
        """Check whether every pool that names the image runs here, and with which program."""
        id = f"image:{uri}"
        commands = {_command(job, path) for path in paths if path[-1] != "executorImageUri"}
        programs = [] if commands else ["python with the job's packages"]
        for command in sorted(commands):
            answer = await self._ask(uri, command)
            if "problem" in answer:
                return [Check(id, CheckStatus.PROBLEM, str(answer["problem"]), str(answer.get("fix", "")))]
            programs.append(str(answer["program"]))
        if image_of(uri).repository:
            checks = await self._images.check(uri, paths)
            if any(check.status is not CheckStatus.OK for check in checks):
                return checks
        return [ok(id, f"{short_image(uri)} runs on this machine as {' and '.join(dict.fromkeys(programs))}")]

    async def _ask(self, uri: str, command: Sequence[str]) -> dict[str, Any]:
        message = struct_pb2.Struct()
        message.update({"do": "program", "image": uri, "command": list(command)})

        async def send(seconds: float) -> Any:
            call = self._clients.channel_of(Service.REGISTRY).unary_unary(
                ADMIN_METHOD,
                request_serializer=struct_pb2.Struct.SerializeToString,
                response_deserializer=struct_pb2.Struct.FromString,
            )
            return await call(message, timeout=seconds)

        answer = await self._clients.caller.read(f"look up the program for {uri}", send, patience=2.0)
        reply: dict[str, Any] = json_format.MessageToDict(answer)
        return reply


def _command(job: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    """Return the command of the container whose image is at `path`; () for the image's own entry point."""
    spec: Any = job
    for part in path[:-1]:
        spec = spec[part]
    return tuple(str(word) for word in spec.get("command") or ())
