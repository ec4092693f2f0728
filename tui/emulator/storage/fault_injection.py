"""API faults of the bucket server, whose methods are HTTP methods."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tui.emulator.faults.api import GARBAGE, STORAGE, ApiFaults
from tui.emulator.faults.disk import DiskFault
from tui.emulator.rpc.rest_json import write_error
from tui.emulator.storage.http import Receive, Scope, Send

_WRITES = {"POST", "PUT", "PATCH"}


class FaultyHttp:
    """An ASGI application that applies faults in front of `app`."""

    def __init__(self, app: Any, faults: ApiFaults, disk: DiskFault) -> None:
        self._app, self._faults, self._disk = app, faults, disk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or its fault."""
        active = self._faults.take(STORAGE, scope["method"]) if scope["type"] == "http" else None
        if active is None:
            await self._serve(scope, receive, send)
            return
        fault = active.fault
        await asyncio.sleep(fault.delay)
        if fault.kind and fault.takes_effect:
            await self._serve(scope, receive, _discard)
        if fault.kind == "silent":
            await active.hold()
        if fault.kind == "error":
            await _drain(receive)
            await _reply(send, *write_error(fault.error()))
        elif fault.kind == "malformed":
            await _reply(send, 200, GARBAGE)
        elif fault.kind == "lost" or (fault.kind and fault.takes_effect):
            # The reply is incomplete, so the server closes the connection.
            await send(_start(503, 1))
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("method") in _WRITES:
            try:
                self._disk.check_file()
            except OSError as error:
                await _drain(receive)
                why = f"The emulator's disk refuses this: {error.strerror}."
                body = {"error": {"code": 507, "message": why, "errors": [{"reason": "insufficientStorage"}]}}
                await _reply(send, 507, json.dumps(body).encode())
                return
        await self._app(scope, receive, send)


async def _discard(_message: dict[str, Any]) -> None:
    """Replace `send` for a reply that is lost."""


async def _drain(receive: Receive) -> None:
    while (await receive()).get("more_body"):
        pass


def _start(status: int, length: int) -> dict[str, Any]:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(length).encode())]
    return {"type": "http.response.start", "status": status, "headers": headers}


async def _reply(send: Send, status: int, body: bytes) -> None:
    await send(_start(status, len(body)))
    await send({"type": "http.response.body", "body": body})
