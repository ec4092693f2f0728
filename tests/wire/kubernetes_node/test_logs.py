"""The log of a container, as kubectl and plain clients read it."""

from __future__ import annotations

import re

import pytest

from tests.waiting import until
from tests.wire.kubernetes.control import client, needs_kubectl, program
from tests.wire.kubernetes_node.pods import cluster, python, shell

LOG = "/api/v1/namespaces/default/pods/{}/log"
BOTH = """
import os, time
for index in range(30):
    os.write(1 + index % 2, b'line %d\\n' % index)
    time.sleep(0.06)
os.write(1, b'no newline')
"""
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z ")


@needs_kubectl
async def test_a_follow_gets_both_streams_in_order_and_ends_with_the_container() -> None:
    """Each in its own order: between two pipes that are read late there is none."""
    async with cluster() as pods:
        kubeconfig = str(pods.emulator.state.kubeconfig)
        pods.create("p", python(BOTH))
        await pods.runs("p")
        words = ("kubectl", "logs", "-f", "p", "--timestamps")
        text = await program(*words, kubeconfig=kubeconfig)
        lines = text.splitlines()
        texts = [STAMP.sub("", line) for line in lines]
        streams = (
            [f"line {i}" for i in range(0, 30, 2)] + ["no newline"],
            [f"line {i}" for i in range(1, 30, 2)],
        )
        assert tuple([text for text in texts if text in stream] for stream in streams) == streams
        assert len(texts) == 31
        stamps = [line.partition(" ")[0] for line in lines]
        assert stamps == sorted(stamps)
        # The same lines have the same times, from wherever they are read.
        async with client(pods.emulator) as http:
            tail = await http.get(LOG.format("p"), params={"tailLines": 7, "timestamps": "true"})
            assert tail.text.splitlines() == lines[-7:]
            since = {"sinceTime": stamps[20], "timestamps": "true"}
            assert (await http.get(LOG.format("p"), params=since)).text.splitlines() == lines[20:]
            few = await http.get(LOG.format("p"), params={"limitBytes": 10})
            assert few.text == "\n".join(texts)[:10]
            none = await http.get(LOG.format("p"), params={"tailLines": 0})
            assert (none.status_code, none.text) == (200, "")


async def test_the_log_before_and_the_refusals_in_the_kubelets_words() -> None:
    async with cluster(crash_back_off_seconds=60) as pods, client(pods.emulator) as http:
        count = "echo run $(cat n 2>/dev/null); echo 1 >> /d/n; wc -l < /d/n; exit 1"
        mounts = [{"name": "d", "mountPath": "/d"}]
        both = shell(count, volumeMounts=mounts), shell("sleep 600", "side")
        pods.create("p", *both, restartPolicy="OnFailure", volumes=[{"name": "d", "emptyDir": {}}])
        pods.create("no-image", {"name": "main", "image": "registry/unknown:1"})
        pods.create("never", shell("true"), nodeSelector={"a": "b"})

        async def read(name: str, **params: str) -> str:
            reply = await http.get(LOG.format(name), params=params)
            return (
                reply.text
                if reply.status_code in {200, 204}
                else f"{reply.status_code} {reply.json()['message']}"
            )

        await pods.waits("p", "CrashLoopBackOff")
        assert (await read("p", container="main")).split() == ["run", "2"]
        await pods.runs("p", 1)
        assert await read("p") == (
            "400 a container name must be specified for pod p, choose one of: [main side]"
        )
        assert await read("p", container="x") == "400 container x is not valid for pod p"
        assert await read("p", container="side", previous="true") == (
            '400 previous terminated container "side" in pod "p" not found'
        )
        await pods.waits("no-image", "ImagePullBackOff")
        assert await read("no-image") == (
            '400 container "main" in pod "no-image" is waiting to start: trying and failing to pull image'
        )
        assert await read("never") == ""
        assert "at most one of `sinceTime` or `sinceSeconds`" in await read(
            "p", container="main", sinceSeconds="1", sinceTime="2026-01-01T00:00:00Z"
        )
        assert "tailLines: Invalid value: -1" in await read("p", container="main", tailLines="-1")


@pytest.mark.slow
async def test_the_run_before_is_kept() -> None:
    async with cluster(crash_back_off_seconds=0.1) as pods, client(pods.emulator) as http:
        code = "test -e /d/n && { echo second; exec sleep 600; }; echo first; touch /d/n; exit 1"
        mounts = [{"name": "d", "mountPath": "/d"}]
        volumes = [{"name": "d", "emptyDir": {}}]
        pods.create("p", shell(code, volumeMounts=mounts), restartPolicy="OnFailure", volumes=volumes)
        await until(lambda: pods.container("p")["restartCount"] == 1, "the restart")
        await pods.runs("p")

        async def read(**params: str) -> str:
            return (await http.get(LOG.format("p"), params=params)).text

        assert await until(read, "its output") == "second\n"
        assert await read(previous="true") == "first\n"


@pytest.mark.slow
async def test_a_follow_ends_when_its_pod_is_deleted() -> None:
    async with cluster() as pods, client(pods.emulator) as http:
        pods.create("p", shell("echo hello; exec sleep 600"))
        await pods.runs("p")
        async with http.stream("GET", LOG.format("p"), params={"follow": "true"}) as follow:
            lines = follow.aiter_lines()
            assert await anext(lines) == "hello"
            reply = await http.delete(LOG.format("p").removesuffix("/log"))
            assert reply.status_code == 200
            assert [line async for line in lines] == []
