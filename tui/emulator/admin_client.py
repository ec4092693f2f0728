"""One call to what only the emulator has: its status with jobs, faults, its end (`tui.emulator.admin`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tui.domain.vertex.custom_job_spec import whole_numbers
from tui.emulator.paths import StateDir

METHOD = "/vxtui.emulator.v1.Admin/Call"


class AdminError(Exception):
    """The emulator refused or did not answer. `code` is gRPC's word, e.g. NOT_FOUND."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def admin_call(state: StateDir, request: Mapping[str, Any], *, timeout: float = 10.0) -> dict[str, Any]:
    """Send `request`, e.g. `{"do": "status"}`, and return the answer (blocking).

    Raises:
        AdminError: with the emulator's own sentence.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Imported here: the verbs that need no emulator should not pay for gRPC.
    import grpc  # noqa: PLC0415
    from google.protobuf import json_format, struct_pb2  # noqa: PLC0415

    message = struct_pb2.Struct()
    message.update(dict(request))
    with grpc.insecure_channel(state.admin_target) as channel:
        call = channel.unary_unary(
            METHOD,
            request_serializer=struct_pb2.Struct.SerializeToString,
            response_deserializer=struct_pb2.Struct.FromString,
        )
        try:
            answer = call(message, timeout=timeout)
        except grpc.RpcError as error:
            raise AdminError(error.code().name, str(error.details())) from error
    # A Struct has only doubles; counts and process ids are whole.
    found: dict[str, Any] = whole_numbers(json_format.MessageToDict(answer))
    return found
