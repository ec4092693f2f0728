"""Replies without end and compressed bombs: an error that names the limit, in little memory."""

from __future__ import annotations

import gzip
import resource
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from tests.wire.fake_vertex import FixedEndpoint
from tests.wire.kubernetes.told_server import kubeconfig, serving
from tui.backends.errors import BackendError, ReplyTooLarge, Unavailable
from tui.backends.interface import ContextInfo
from tui.backends.kubernetes.connection import ClusterConnection, lines
from tui.backends.kubernetes.login.cluster import KubeconfigCluster
from tui.backends.local.threads import in_thread
from tui.backends.reply_limit import MOST_BYTES, limited
from tui.backends.vertex.storage import Storage

BOMB = gzip.compress(b" " * (2 * MOST_BYTES), 1)


async def _endless() -> AsyncIterator[bytes]:
    for _ in range(2 * MOST_BYTES // 1_000_000):
        yield b" " * 1_000_000


def _reply(name: str) -> Response:
    gzipped = {"content-encoding": "gzip"}
    if name == "values":
        return Response(b"[" + b"0," * 1_100_000 + b"0]")
    if name.startswith(("null", "[", "{")):
        return Response(name if name[1:2] != "[" else "[" * 60_000)
    if name == "endless":
        return StreamingResponse(_endless())
    if name == "twice":
        return Response(gzip.compress(BOMB), headers={"content-encoding": "gzip, gzip"})
    if name == "broken":
        return Response(BOMB[:50] + b"x" * 50, headers=gzipped)
    return Response(BOMB, headers=gzipped)


async def _answer(request: Request) -> Response:
    """A reply by the last part of the path; small pages of `pages` are good."""
    name = request.url.path.rpartition("/")[2]
    if name == "pages" and int(request.query_params["limit"]) < 50:
        return JSONResponse({"kind": "PodList", "items": [{"a": "b"}], "metadata": {}})
    if name == "endless_pages":
        return JSONResponse({"items": [{"a": "b"}], "metadata": {"continue": "x"}})
    if name == "proxy":
        return Response("<html>", 404)
    return _reply(name)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def test_a_reply_of_a_cluster_has_a_limit(tmp_path: Path) -> None:
    async with serving(_answer) as url:
        calls = ClusterConnection(KubeconfigCluster(kubeconfig(tmp_path, url)))
        await calls.open()
        before = _peak()
        for name in ("endless", "bomb"):
            with pytest.raises(ReplyTooLarge, match="Can't list: the reply has more than 32 MB"):
                await calls.items(f"/api/{name}", action="list", params={"limit": 1})
            with pytest.raises(ReplyTooLarge):
                async with calls.stream(f"/api/{name}", action="watch") as pieces:
                    async for _ in lines(pieces, "watch"):
                        pass
        for name in ("twice", "broken"):
            with pytest.raises(Unavailable, match=r"gzip, gzip|can't be decompressed"):
                await calls.items(f"/api/{name}", action="list", patience=0.0)
        with pytest.raises(Unavailable, match="a page with a new `continue`"):
            await calls.items("/api/endless_pages", action="list")
        assert await calls.items("/api/pages", action="list") == [{"a": "b"}]
        assert _peak() - before < 150
        await calls.aclose()


async def test_a_reply_of_storage_and_of_a_token_service_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(_answer) as url:
        endpoint = FixedEndpoint({"": ""})
        monkeypatch.setattr(endpoint, "storage", lambda: url)
        storage: Any = Storage(ContextInfo("test", "p", ("us-central1",)), endpoint)
        for name in ("endless", "bomb"):
            with pytest.raises(ReplyTooLarge, match="the reply has more than 8 MB"):
                await storage.bucket(name)
            session = limited(requests.Session())
            with pytest.raises(ReplyTooLarge):
                await in_thread(partial(session.get, f"{url}/{name}"))
        with pytest.raises(BackendError):
            await storage.bucket("broken")
        for name in ("null", "[]", '{"kind": "storage#bucket"}', '{"location": 5}', "[["):
            with pytest.raises(Unavailable, match="the reply must come from Cloud Storage"):
                await storage.bucket(name)
        with pytest.raises(Unavailable, match="404 without a reason"):
            await storage.size_of("gs://b/proxy")
        with pytest.raises(ReplyTooLarge, match="1,000,000 values"):
            await storage.bucket("values")
