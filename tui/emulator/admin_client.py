"""Calls the emulator's admin service over its socket."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc
from google.protobuf import json_format, struct_pb2

from tui.emulator.paths import StateDir

TIMEOUT = 15.0


class AdminError(Exception):
    """The emulator refused or did not answer. `code` is the gRPC status name."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def admin_call(state: StateDir, request: Mapping[str, Any]) -> dict[str, Any]:
    """One call. Raises AdminError."""
    message = struct_pb2.Struct()
    message.update(dict(request))
    with grpc.insecure_channel(state.target) as channel:
        call = channel.unary_unary(
            "/vxtui.emulator.v1.Admin/Call",
            request_serializer=struct_pb2.Struct.SerializeToString,
            response_deserializer=struct_pb2.Struct.FromString,
        )
        try:
            answer = call(message, timeout=TIMEOUT)
        except grpc.RpcError as error:
            raise AdminError(error.code().name, error.details() or error.code().name) from error
    found: dict[str, Any] = json_format.MessageToDict(answer)
    return found
