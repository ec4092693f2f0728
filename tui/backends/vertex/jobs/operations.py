"""Waits for the end of long-running operations of Vertex AI."""

from __future__ import annotations

import asyncio
from typing import Any

from google.longrunning import operations_pb2

from tui.backends.interface import Unavailable
from tui.backends.vertex.transport.channels import Clients
from tui.backends.vertex.transport.errors import from_status

SECONDS = 120.0


async def wait_for(
    clients: Clients, region: str, operation: Any, action: str, *, seconds: float = SECONDS
) -> None:
    """Poll `operation` until it is done. Raises BackendError with its error, or after `seconds`."""

    async def send(seconds: float) -> Any:
        request = operations_pb2.GetOperationRequest(name=operation.name)
        return await clients.jobs(region).get_operation(request, retry=None, timeout=seconds)

    pause, end = 0.1, asyncio.get_running_loop().time() + seconds
    while not operation.done:
        if asyncio.get_running_loop().time() > end:
            raise Unavailable(
                f"Can't {action}: not done after {seconds:.0f} s.",
                fix="The operation continues by itself. Check again later.",
            )
        await asyncio.sleep(pause)
        pause = min(2.0, pause * 1.7)
        operation = await clients.caller.read(action, send)
    if operation.HasField("error"):
        raise from_status(operation.error, action)
