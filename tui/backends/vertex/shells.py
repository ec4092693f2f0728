"""Runs programs in replicas of the emulator's jobs, over its socket. Vertex AI has no such call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
from google.protobuf import wrappers_pb2

from tui.backends.interface import ShellService
from tui.backends.shells import ShellEnd, ShellRequest, ShellSession
from tui.backends.vertex.transport.channels import channel_options
from tui.backends.vertex.transport.connect import Endpoint
from tui.backends.vertex.transport.errors import translate
from tui.domain.core import exec_frames as frames
from tui.domain.core.exec_frames import Ended, Opening

BytesPb = wrappers_pb2.BytesValue
LOST = ShellEnd(None, "The emulator has ended, which closed the shell.")


class EmulatorShells(ShellService):
    """Opens a connection for each program. Fault injection does not cut this connection."""

    def __init__(self, endpoint: Endpoint, target: str) -> None:
        self._endpoint, self._target = endpoint, target

    @asynccontextmanager
    async def open(self, job_name: str, replica: str, request: ShellRequest) -> AsyncIterator[ShellSession]:
        opening = Opening(
            job_name, replica, request.command, request.size, request.shell, request.term, request.colours
        )
        options = channel_options(self._endpoint.pace.reconnect)
        async with grpc.aio.insecure_channel(self._target, options=options) as channel:
            method = channel.stream_stream(
                frames.METHOD,
                request_serializer=BytesPb.SerializeToString,
                response_deserializer=BytesPb.FromString,
            )
            call = method()
            try:
                try:
                    await call.write(BytesPb(value=opening.encode()))
                    await call.read()
                except (grpc.RpcError, OSError) as error:
                    raise self._endpoint.explain(translate(error, f"open a shell in {replica}")) from error
                yield _Session(call)
            finally:
                call.cancel()


class _Session(ShellSession):
    def __init__(self, call: Any) -> None:
        self._call = call
        self._sending = asyncio.Lock()

    async def read(self) -> tuple[int, bytes] | None:
        while self.ended is None:
            try:
                message = await self._call.read()
            except grpc.RpcError:
                self.ended = LOST
                break
            if message is grpc.aio.EOF or not message.value:
                self.ended = LOST
                break
            channel, data = message.value[0], message.value[1:]
            if channel == frames.STATUS:
                end = Ended.decode(data)
                self.ended = ShellEnd(end.exit_code, end.reason)
            elif data:
                return channel, data
        return None

    async def write(self, data: bytes) -> None:
        await self._send(frames.frame(frames.INPUT, data))

    async def end_input(self) -> None:
        await self._send(frames.frame(frames.CLOSE, bytes([frames.INPUT])))

    async def resize(self, columns: int, rows: int) -> None:
        await self._send(frames.size_frame(columns, rows))

    async def _send(self, data: bytes) -> None:
        # If the program has ended, `read` reports it.
        with suppress(grpc.RpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
            # A stream accepts one message at a time: key presses and a new size may be sent concurrently.
            async with self._sending:
                await self._call.write(BytesPb(value=data))
