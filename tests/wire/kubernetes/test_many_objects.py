"""10,000 pods: their list, its parts, and a watch of their changes."""

from __future__ import annotations

import json
import time

import pytest

from tests.waiting import until
from tests.wire.kubernetes.control import client, emulator
from tui.emulator.kubernetes.resources import PODS

PATH = "/api/v1/namespaces/default/pods"
COUNT = 10_000
LIST_SECONDS = 1.0
"""Of CPU time for a list of all, client and server together. It takes about 0.2."""


@pytest.mark.slow
async def test_ten_thousand_pods_are_listed_and_watched() -> None:
    async with emulator(node_pools=[]) as running, client(running) as http:
        objects = running.objects
        for number in range(COUNT):
            # Gated pods are nobody's work.
            spec = {"schedulingGates": [{"name": "x/y"}], "containers": [{"name": "c", "image": "x:1"}]}
            meta = {"name": f"p{number:05}", "namespace": "default"}
            objects.create(PODS, {"metadata": meta, "spec": spec})

        def settled() -> bool:
            return all(pod["status"].get("conditions") for pod in objects.list(PODS))

        await until(settled, "the scheduler", every=0.5)
        start = time.process_time()
        found = (await http.get(PATH)).content
        assert time.process_time() - start < LIST_SECONDS
        everything = json.loads(found)
        assert len(everything["items"]) == COUNT

        parts, token = [], ""
        while not parts or token:
            part = (await http.get(PATH, params={"limit": "500", "continue": token})).json()
            parts += part["items"]
            token = part["metadata"].get("continue", "")
        assert [one["metadata"]["uid"] for one in parts] == [
            one["metadata"]["uid"] for one in everything["items"]
        ]

        since = str(objects.version)
        async with http.stream("GET", PATH, params={"watch": "1", "resourceVersion": since}) as watch:
            lines = watch.aiter_lines()
            for number in range(1000):
                labels = {"labels": {"n": str(number)}}
                objects.change(
                    PODS, "default", f"p{number:05}", lambda pod, meta=labels: pod["metadata"].update(meta)
                )
            seen = [json.loads(await anext(lines)) for _ in range(1000)]
        assert [one["object"]["metadata"]["labels"]["n"] for one in seen] == [str(n) for n in range(1000)]
