"""Requests to a model server over connections that stay open: a prediction is sent once, whatever breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.waiting import until
from tui.emulator.serving import http_client
from tui.emulator.serving.http_client import HttpClient, ServerUnreachable

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers the first request of each connection, and takes the second one without an answer."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, str]] = []
        """(connection, method) of each request."""
        self.connections = 0
        self.closes_idle = False

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        for _ in range(2):
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except asyncio.IncompleteReadError:
                break
            if "Content-Length: " in head:
                await reader.readexactly(int(head.partition("Content-Length: ")[2].split("\r\n")[0]))
            self.seen.append((number, head.split()[0]))
            if [each for each, _ in self.seen].count(number) == 1:
                writer.write(OK)
                await writer.drain()
                if self.closes_idle:
                    break
        writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[HttpClient]:
        server = await asyncio.start_server(self.talk, "127.0.0.1")
        client = HttpClient(server.sockets[0].getsockname()[1])
        async with server:
            yield client
            client.close()


async def test_a_prediction_is_sent_once_though_its_connection_breaks() -> None:
    server = Server()
    async with server.running() as client:
        assert (await client.request("POST", "/predict", b"{}")).body == b"ok"
        with pytest.raises(ServerUnreachable):
            await client.request("POST", "/predict", b"{}")
        assert server.seen == [(1, "POST"), (1, "POST")]


async def test_what_only_reads_is_sent_again_over_another_connection() -> None:
    server = Server()
    async with server.running() as client:
        for _ in range(2):
            assert (await client.request("GET", "/health")).body == b"ok"
        assert server.seen == [(1, "GET"), (1, "GET"), (2, "GET")]


async def test_a_connection_that_the_server_has_closed_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    server.closes_idle = True
    async with server.running() as client:
        for _ in range(3):
            assert (await client.request("POST", "/predict", b"{}")).body == b"ok"
            await until(lambda: not any(each.fits(safe=True) for each in client._idle), "the end of it")
        assert server.seen == [(1, "POST"), (2, "POST"), (3, "POST")]
    # One that was idle for long may be closed at any moment.
    monkeypatch.setattr(http_client, "FRESH", 0.0)
    server = Server()
    async with server.running() as client:
        for _ in range(2):
            assert (await client.request("POST", "/predict", b"{}")).body == b"ok"
        assert server.seen == [(1, "POST"), (2, "POST")]
