"""A Kubernetes API in this process or in one of its own, or a real one, and clients of it.

With `VXTUI_TEST_KUBECONFIG` the tests of clients run against the cluster of that kubeconfig.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.processes import end, running_in
from tests.waiting import LIMIT
from tui.emulator.kubernetes.config import KubernetesConfig
from tui.emulator.kubernetes.paths import KubernetesState
from tui.emulator.kubernetes.server import KubernetesEmulator

REAL = os.environ.get("VXTUI_TEST_KUBECONFIG", "")
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


@contextmanager
def state_dir() -> Iterator[KubernetesState]:
    """A directory whose path is short enough for a Unix socket; what runs of it at the end is killed."""
    place = Path(tempfile.mkdtemp(prefix="vxk-"))
    try:
        yield KubernetesState(place / "k")
    finally:
        end(running_in(str(place)))
        shutil.rmtree(place, ignore_errors=True)


@asynccontextmanager
async def emulator(**config: Any) -> AsyncIterator[KubernetesEmulator]:
    """An API in this process."""
    with state_dir() as state:
        async with KubernetesEmulator(state, KubernetesConfig.model_validate(config)) as running:
            yield running


@asynccontextmanager
async def cluster() -> AsyncIterator[str]:
    """The kubeconfig of the real cluster that is given, or of an API in this process."""
    if REAL:
        yield REAL
        return
    async with emulator(node_pools=[]) as running:
        yield str(running.state.kubeconfig)


def client(running: KubernetesEmulator) -> httpx.AsyncClient:
    """A plain HTTP client with the token."""
    context = ssl.create_default_context(cafile=str(running.state.tls / "ca.crt"))
    headers = {"Authorization": f"Bearer {running.state.token.read_text().strip()}"}
    return httpx.AsyncClient(base_url=running.url, headers=headers, verify=context, timeout=LIMIT)


async def program(*command: str, kubeconfig: str, stdin: str = "", expect: int | None = 0) -> str:
    """What a program prints; it has the kubeconfig in its environment and a home of its own."""

    def run() -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as home:
            return subprocess.run(
                command, input=stdin, capture_output=True, text=True, timeout=LIMIT, check=False,
                env={"PATH": os.environ["PATH"], "HOME": home, "KUBECONFIG": kubeconfig},
            )  # fmt: skip

    done = await asyncio.to_thread(run)
    assert expect is None or done.returncode == expect, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def unique(name: str) -> str:
    """A name that no other run of the tests uses, for real clusters."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def as_json(obj: Any) -> str:
    return json.dumps(obj)
