"""Long-running operations for clients of v1beta1: metadata and result are messages of v1beta1.

Over gRPC the service of operations has no version. While the emulator runs, an operation retains the version
of the client that started it.
"""

from __future__ import annotations

from typing import Any

from google.longrunning import operations_pb2

from tui.emulator.messages import copied

V1, BETA = "google.cloud.aiplatform.v1.", "google.cloud.aiplatform.v1beta1."
_URL = "type.googleapis.com/"


class BetaOperations:
    """Operations that clients of v1beta1 started over gRPC."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def begun(self, reply: Any) -> Any:
        """Convert the reply of a service of v1beta1."""
        if not isinstance(reply, operations_pb2.Operation):
            return reply
        self._names.add(reply.name)
        return as_beta(reply)

    def read(self, reply: Any) -> Any:
        """Convert the reply of the service of operations."""
        known = isinstance(reply, operations_pb2.Operation) and reply.name in self._names
        return as_beta(reply) if known else reply


def as_beta(operation: operations_pb2.Operation) -> operations_pb2.Operation:
    """Return the operation with messages of v1beta1, which have the fields of v1 with the same numbers."""
    copy = copied(operation)
    # Reading a part of a field would set the field.
    boxes = [getattr(copy, field) for field in ("metadata", "response") if copy.HasField(field)]
    for box in boxes:
        box.type_url = box.type_url.replace(f"{_URL}{V1}", f"{_URL}{BETA}")
    return copy


def json_as_beta(body: bytes) -> bytes:
    """Rewrite an operation in JSON for v1beta1."""
    return body.replace(f'"{_URL}{V1}'.encode(), f'"{_URL}{BETA}'.encode())
