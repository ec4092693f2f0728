"""Pods go on when their server is killed, and the next server takes them up."""

from __future__ import annotations

import asyncio
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.processes import asked, end, running_in
from tests.waiting import LIMIT, until, wait_for
from tests.warm import WarmPopen
from tests.wire.kubernetes.control import needs_kubectl, state_dir
from tests.wire.kubernetes_node.pods import FAST, pod, python, shell
from tui.emulator.kubernetes.config import KubernetesConfig
from tui.emulator.kubernetes.paths import KubernetesState
from tui.emulator.kubernetes.server import KubernetesEmulator

PODS = "/api/v1/namespaces/default/pods"
WAITS = """
import os, time
print("started", flush=True)
while not os.path.exists("/data/go"):
    time.sleep(0.05)
print("goes on", flush=True)
raise SystemExit(int(open("/data/go").read()))
"""


def start(state: KubernetesState) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tui.emulator.kubernetes", "--state-dir", str(state.root)]
    server = WarmPopen(command, cwd=Path(__file__).parents[3], stdin=subprocess.DEVNULL)
    wait_for(lambda: state.info.exists() and str(server.pid) in state.info.read_text(), "the server")
    return server


@asynccontextmanager
async def connect(state: KubernetesState) -> AsyncIterator[httpx.AsyncClient]:
    context = ssl.create_default_context(cafile=str(state.tls / "ca.crt"))
    headers = {"Authorization": f"Bearer {state.token.read_text().strip()}"}
    url = yaml.safe_load(state.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    async with httpx.AsyncClient(base_url=url, headers=headers, verify=context, timeout=LIMIT) as client:
        yield client


async def status(client: httpx.AsyncClient, name: str) -> dict[str, Any]:
    return dict((await client.get(f"{PODS}/{name}")).json().get("status") or {})


async def test_the_next_server_takes_up_the_pods() -> None:
    with state_dir() as state:
        state.root.mkdir(parents=True)
        state.config.write_text(yaml.safe_dump(FAST))
        server = await asyncio.to_thread(start, state)
        try:
            mounts = [{"name": "d", "mountPath": "/data"}]
            claims = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
            claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}},
                                                            "accessModes": ["ReadWriteMany"]}}  # fmt: skip
            async with connect(state) as client:
                made = await client.post("/api/v1/namespaces/default/persistentvolumeclaims", json=claim)
                assert made.status_code == 201, made.text
                for name, policy in (("ends", "Never"), ("stays", "Never"), ("again", "OnFailure")):
                    main = python(WAITS, volumeMounts=mounts) if name != "again" else shell("exec sleep 600")
                    body = pod(name, main, restartPolicy=policy, volumes=claims)
                    assert (await client.post(PODS, json=body)).status_code == 201

                async def all_run() -> bool:
                    found = [await status(client, name) for name in ("ends", "stays", "again")]
                    return all(each.get("phase") == "Running" for each in found)

                await until(all_run, "the pods")
                before = await status(client, "again")
            server.send_signal(signal.SIGKILL)
            server.wait(LIMIT)
            # One ends while nobody looks, and one is killed.
            # The pod runs from its shell on, which becomes the program.
            sleeper = wait_for(
                lambda: [p for p in running_in(str(state.root)) if asked(p.name, "") == "sleep"],
                "the program",
            )
            end(sleeper)
            # At once: the pod reads it as soon as it is there.
            data = state.root / "claims" / "default" / "data"
            (data / "new").write_text("4")
            (data / "new").rename(data / "go")
            wait_for(lambda: len(running_in(str(state.root))) == 0, "the end of the processes")
            async with (
                KubernetesEmulator(state, KubernetesConfig.model_validate(FAST)),
                connect(state) as client,
            ):

                async def ended() -> bool:
                    return [(await status(client, n)).get("phase") for n in ("ends", "stays")] == [
                        "Failed"
                    ] * 2

                await until(ended, "the pods' end")
                found = (await status(client, "ends"))["containerStatuses"][0]["state"]["terminated"]
                assert (found["exitCode"], found["reason"]) == (4, "Error")
                log = await client.get(f"{PODS}/ends/log")
                assert log.text == "started\ngoes on\n"

                async def restarted() -> bool:
                    again = (await status(client, "again"))["containerStatuses"][0]
                    return again["restartCount"] == 1 and "running" in again["state"]

                await until(restarted, "the restart")
                after = await status(client, "again")
                assert after["podIP"] == before["podIP"]
                assert after["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137
                await client.delete(f"{PODS}/again")

                async def gone() -> bool:
                    return (await client.get(f"{PODS}/again")).status_code == 404

                await until(gone, "the deletion")
                await until(lambda: not running_in(str(state.root)), "the end of the processes")
        finally:
            server.kill()
            server.wait(LIMIT)
            end(running_in(str(state.root)))


@needs_kubectl
async def test_programs_of_exec_end_with_their_connection() -> None:
    """A server that is killed ends none; what is left of them ends when the next one takes up the pod."""
    # One is started by exec itself, one by it in a session of its own, and both would outlive a closed pipe.
    beside = "trap '' HUP PIPE; setsid sleep 611 & while :; do sleep 0.1; done"
    with state_dir() as state:
        state.root.mkdir(parents=True)
        state.config.write_text(yaml.safe_dump(FAST))
        server = await asyncio.to_thread(start, state)

        def running(*words: str) -> bool:
            return list(words) in [asked(p.cmdline, []) for p in running_in(str(state.root))]

        try:
            async with connect(state) as client:
                body = pod("p", shell("exec sleep 612"))
                assert (await client.post(PODS, json=body)).status_code == 201

                async def runs() -> bool:
                    return (await status(client, "p")).get("phase") == "Running"

                await until(runs, "the pod")
            words = ["kubectl", "--kubeconfig", str(state.kubeconfig), "exec", "p", "--", "sh", "-c", beside]
            reader = await asyncio.to_thread(
                subprocess.Popen, words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            await until(
                lambda: running("sleep", "611") and running("sleep", "612") and running("sh", "-c", beside),
                "the programs",
            )
            server.send_signal(signal.SIGKILL)
            server.wait(LIMIT)
            assert await asyncio.to_thread(reader.wait, LIMIT) != 0
            await until(lambda: not running("sh", "-c", beside), "the end of the first")
            assert running("sleep", "611")
            async with (
                KubernetesEmulator(state, KubernetesConfig.model_validate(FAST)),
                connect(state) as client,
            ):
                await until(lambda: not running("sleep", "611"), "the end of the other")
                assert running("sleep", "612")
                await client.delete(f"{PODS}/p", params={"gracePeriodSeconds": "0"})
                await until(lambda: not running("sleep", "612"), "the end of the pod")
        finally:
            server.kill()
            server.wait(LIMIT)
            end(running_in(str(state.root)))
