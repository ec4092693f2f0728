"""Persistent resources and TensorBoards of the configuration, read-only.

Services `PersistentResourceService` and `TensorboardService` of google.cloud.aiplatform.v1. A persistent
resource can be read; no job runs on one here (see `validate.check_persistent_resource`).
"""

from __future__ import annotations

import fnmatch
import re

from google.cloud.aiplatform_v1.types import (
    persistent_resource,
    persistent_resource_service,
    tensorboard,
    tensorboard_service,
)
from google.protobuf import json_format

from tui.emulator.config import ConfigError, EmulatorConfig
from tui.emulator.logging.record import Pb
from tui.emulator.rpc.methods import Method, invalid, not_found
from tui.emulator.services.check_faults import ActiveCheckFaults

RESOURCES = "google.cloud.aiplatform.v1.PersistentResourceService"
BOARDS = "google.cloud.aiplatform.v1.TensorboardService"
ResourcePb = persistent_resource.PersistentResource.pb()
BoardPb = tensorboard.Tensorboard.pb()
_RESOURCE = re.compile(r"projects/[^/]+/locations/[^/]+/persistentResources/(?P<id>[^/]+)")
_BOARD = re.compile(r"projects/[^/]+/locations/[^/]+/tensorboards/[^/]+")


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

    async def get_board(self, request: Pb) -> Pb:
        name = request.name
        if _BOARD.fullmatch(name) is None:
            raise invalid(("name", f"{name!r} is not the name of a TensorBoard"))
        known = any(fnmatch.fnmatchcase(name, pattern) for pattern in self._config.tensorboards)
        if not known or self._board.current.misses(name, name.rpartition("/")[2]):
            raise not_found("aiplatform.googleapis.com/Tensorboard", name)
        return BoardPb(name=name, display_name=name.rpartition("/")[2])


def methods(config: EmulatorConfig, board: ActiveCheckFaults) -> list[Method]:
    """The RPCs that read. Raises ConfigError."""
    here = Resources(config, board)
    get_resource = persistent_resource_service.GetPersistentResourceRequest.pb()
    get_board = tensorboard_service.GetTensorboardRequest.pb()
    resources = [Method(RESOURCES, "GetPersistentResource", get_resource, ResourcePb, here.get_resource)]
    boards = [Method(BOARDS, "GetTensorboard", get_board, BoardPb, here.get_board)]
    return [*board.apply("resources", resources), *board.apply("boards", boards)]
