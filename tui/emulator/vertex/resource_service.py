"""Persistent resources of the configuration, read-only.

Service `PersistentResourceService` of google.cloud.aiplatform.v1. A persistent resource can be read; no job
runs on one here (see `validate.check_persistent_resource`).
"""

from __future__ import annotations

import re

from google.cloud.aiplatform_v1.types import persistent_resource, persistent_resource_service
from google.protobuf import json_format

from tui.emulator.config import ConfigError, EmulatorConfig
from tui.emulator.logging.record import Pb
from tui.emulator.rpc.methods import Method, invalid, not_found
from tui.emulator.services.check_faults import ActiveCheckFaults

RESOURCES = "google.cloud.aiplatform.v1.PersistentResourceService"
ResourcePb = persistent_resource.PersistentResource.pb()
_RESOURCE = re.compile(r"projects/[^/]+/locations/[^/]+/persistentResources/(?P<id>[^/]+)")


class Resources:
    """The handlers. Raises ConfigError for a configured resource that does not match the message."""

    def __init__(self, config: EmulatorConfig, board: ActiveCheckFaults) -> None:
        self._config = config
        self._board = board
        for name, body in config.persistent_resources.items():
            try:
                json_format.ParseDict(body, ResourcePb())
            except json_format.ParseError as error:
                raise ConfigError(f"config.yaml: persistent_resources.{name}: {error}") from error

    async def get_resource(self, request: Pb) -> Pb:
        match = _RESOURCE.fullmatch(request.name)
        if match is None:
            raise invalid(("name", f"{request.name!r} is not the name of a persistent resource"))
        body = self._config.persistent_resources.get(match["id"])
        if body is None or self._board.current.misses(match["id"]):
            raise not_found("aiplatform.googleapis.com/PersistentResource", request.name)
        found = json_format.ParseDict({"state": "RUNNING", **body}, ResourcePb())
        found.name = request.name
        return found


def methods(config: EmulatorConfig, board: ActiveCheckFaults) -> list[Method]:
    """The RPC that reads. Raises ConfigError."""
    here = Resources(config, board)
    get_resource = persistent_resource_service.GetPersistentResourceRequest.pb()
    resources = [Method(RESOURCES, "GetPersistentResource", get_resource, ResourcePb, here.get_resource)]
    return list(board.apply("resources", resources))
