"""A bucket server by itself, and Google's own client on it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from tests.wire.control import state_dir
from tui.emulator.paths import StateDir
from tui.emulator.storage.server import BucketServer


@dataclass
class Buckets:
    """`loop` is the one that the server was opened in."""

    state: StateDir
    server: BucketServer
    client: storage.Client
    loop: asyncio.AbstractEventLoop

    @property
    def url(self) -> str:
        return self.server.url

    def file(self, name: str) -> Path:
        """Where an object lies: `BUCKET/OBJECT`."""
        return self.state.buckets / name

    def call(self, method: str, path: str, **kw: Any) -> requests.Response:
        """One bare request below the server's address."""
        return requests.request(method, self.url + path, timeout=30, **kw)


def client_of(url: str) -> storage.Client:
    return storage.Client("p", credentials=AnonymousCredentials(), client_options={"api_endpoint": url})


@contextmanager
def looping() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextmanager
def serving(state: StateDir) -> Iterator[Buckets]:
    """A server on this directory for as long as the block lasts."""
    state.prepare()
    with looping() as loop:
        server = BucketServer(state, "100000000001")

        async def begin() -> None:
            server.open()

        asyncio.run_coroutine_threadsafe(begin(), loop).result(30)
        try:
            with client_of(server.url) as client:
                yield Buckets(state, server, client, loop)
        finally:
            asyncio.run_coroutine_threadsafe(server.close(), loop).result(30)


@contextmanager
def buckets() -> Iterator[Buckets]:
    """A server on a directory of its own."""
    with state_dir() as state, serving(state) as found:
        yield found
