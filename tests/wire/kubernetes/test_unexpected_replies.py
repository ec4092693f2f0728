"""A reply that is not what was asked for is an error with its first bytes, never an empty list."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.wire.kubernetes.backends import add, pages, pytorch_job
from tests.wire.kubernetes.control import client, emulator
from tests.wire.kubernetes.told_server import kubeconfig, serving
from tui.backends.errors import BackendError
from tui.backends.interface import ContextInfo
from tui.backends.kubernetes.backend import KubernetesBackend
from tui.backends.kubernetes.login.cluster import KubeconfigCluster
from tui.emulator.kubernetes.server import KubernetesEmulator

REPLIES = {
    "null": Response("null"),
    "an empty object": Response("{}"),
    "nothing": Response(""),
    "NaN": Response("NaN"),
    "a list": Response("[]"),
    "a text": Response('"\\u202e\\u001b[31m"'),
    "a page": Response("<html>\x1b]0;Sign in</html>"),
    "deep": Response("[" * 60_000),
    "items of another type": Response('{"items": {}, "groups": "a", "resources": 5}'),
    "other items": Response('{"kind": "List", "items": [null], "groups": [null], "resources": [{}]}'),
    "a list without items": Response('{"kind": "List"}'),
    "a proxy's 404": Response("", 404),
    "a redirect": Response("", 302, {"location": "https://login.example/"}),
}  # fmt: skip


class Between:
    """A server between the console and the twin; `bad` answers paths that end with `at`, and `change` changes
    the other replies."""

    def __init__(self, folder: Path, running: KubernetesEmulator) -> None:
        self.folder, self.running = folder, running
        self.at, self.bad = "?", Response("null")
        self.change: Callable[[Any], None] = lambda _reply: None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[KubernetesBackend]:
        """A backend that this server answers."""
        info = ContextInfo("gke", "", ("default",), watched=True)
        async with client(self.running) as twin, serving(partial(self._answer, twin)) as url:
            login = KubeconfigCluster(kubeconfig(self.folder, url))
            async with KubernetesBackend(info, login, ("default",)) as backend:
                yield backend

    async def _answer(self, twin: httpx.AsyncClient, request: Request) -> Response:
        if request.url.path.endswith(self.at):
            return self.bad
        if "watch" in request.query_params:
            return Response("")
        query, path = dict(request.query_params), request.url.path
        reply = (await twin.request(request.method, path, params=query, content=await request.body())).json()
        self.change(reply)
        return JSONResponse(reply)


@pytest.fixture
async def between(tmp_path: Path) -> AsyncIterator[Between]:
    async with emulator(node_pools=[]) as running:
        yield Between(tmp_path, running)


@pytest.mark.parametrize("path", ["/apis", "/apis/kubeflow.org/v1", "/pytorchjobs"])
async def test_a_failed_read_is_never_an_empty_list(path: str, between: Between) -> None:
    for name, reply in REPLIES.items():
        between.at, between.bad = path, reply
        with pytest.raises(BackendError) as failed:
            async with between.opened() as backend:
                for page in await pages(backend.services.jobs["pytorch_job"]):
                    if page.error is not None:
                        raise page.error
        message = failed.value.message
        assert message.isprintable(), name
        assert re.search("the reply must be|redirect|without a name", message), (name, message)


VALUES = (
    None,
    5,
    -1.5,
    True,
    "text",
    "2026-99-99T00:00:00Z",
    [],
    [None],
    [1],
    ["a"],
    {},
    {"a": None},
    [{}],
    [[]],
)


def ill_typed(value: Any, random: Random) -> Any:
    """A copy in which one value of any depth has another type."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = random.choice(sorted(value))
        return {**value, key: ill_typed(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.85:
        at = random.randrange(len(value))
        return [*value[:at], ill_typed(value[at], random), *value[at + 1 :]]
    return random.choice(VALUES)


async def test_an_ill_typed_object_hides_only_itself(between: Between) -> None:
    add(between.running, pytorch_job("good"))
    random = Random(5)
    condition = {"type": "Running", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {
        "conditions": [condition],
        "startTime": "2026-01-01T00:00:00Z",
        "replicaStatuses": {"Worker": {"active": 1}},
    }

    def change(reply: Any) -> None:
        if reply.get("kind") == "PyTorchJobList":
            good = reply["items"][0]
            for number in range(200):
                changed = ill_typed({**good, "status": status}, random)
                changed = changed if isinstance(changed, dict) else {}
                metadata = changed.get("metadata")
                if isinstance(metadata, dict) and random.random() < 0.9:
                    changed["metadata"] = {**metadata, "name": f"n{number}"}
                reply["items"].append(changed)
            reply["items"] += [None, 5, {"metadata": "x"}]

    between.change = change
    async with between.opened() as backend:
        (page,) = await pages(backend.services.jobs["pytorch_job"])
        names = {job.display_name for job in page.jobs}
        assert "good" in names and len(names) > 100
        assert isinstance(page.error, BackendError)
        assert "without a name (TypeError: it must have a name)" in page.error.message


async def test_an_object_without_a_name_is_no_job(between: Between) -> None:
    add(between.running, pytorch_job("good"))
    async with between.opened() as backend:
        jobs = backend.services.jobs["pytorch_job"]
        (job,) = await jobs.find("good")
        between.at, between.bad = "/good", Response("{}")
        with pytest.raises(BackendError, match="must be an object with a name"):
            await jobs.spec(job.name)
