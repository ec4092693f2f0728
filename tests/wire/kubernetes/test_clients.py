"""kr8s and the official client against the API, or against the cluster of `VXTUI_TEST_KUBECONFIG`.

The official client is a large package that the project does not need: `VXTUI_KUBERNETES_PYTHON` is a Python
that has it.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import kr8s
import pytest
from kr8s.asyncio.objects import ConfigMap

from tests.waiting import until
from tests.wire.kubernetes.control import cluster, config_map, program, unique

PYTHON = os.environ.get("VXTUI_KUBERNETES_PYTHON", "")


async def test_kr8s_lists_watches_and_patches() -> None:
    async with cluster() as kubeconfig:
        api = await kr8s.asyncio.api(kubeconfig=kubeconfig)
        name = unique("kr8s")
        created = await ConfigMap(config_map(name, a="1"), api=api, namespace="default")
        await created.create()
        seen: list[str] = []

        async def follow() -> None:
            selector = {"metadata.name": name}
            async for kind, _ in api.watch("configmaps", namespace="default", field_selector=selector):
                seen.append(kind)
                if kind == "DELETED":
                    return

        watching = asyncio.create_task(follow())
        try:
            await until(lambda: seen, "the first event")
            await created.patch({"data": {"b": "2"}})
            found = [one async for one in api.get("configmaps", name, namespace="default")]
            assert [dict(one.raw["data"]) for one in found] == [{"a": "1", "b": "2"}]
            await created.label(app="x")
            await created.delete()
            await until(watching.done, "the last event")
        finally:
            watching.cancel()
        assert seen == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]


@pytest.mark.skipif(not PYTHON, reason="VXTUI_KUBERNETES_PYTHON names no Python with the official client")
async def test_the_official_client_lists_watches_and_patches() -> None:
    async with cluster() as kubeconfig:
        script = Path(__file__).with_name("official_client.py")
        said = await program(PYTHON, str(script), unique("official"), kubeconfig=kubeconfig)
        assert said.splitlines() == [
            "MODIFIED {'a': '1', 'b': '2'}", "DELETED {'a': '1', 'b': '2'}", "404 Not Found",
        ]  # fmt: skip
