"""What a cluster does to pods: eviction, reclaimed nodes, too much memory, slow pulls, drained nodes."""

from __future__ import annotations

import pytest

from tests.waiting import until
from tests.wire.kubernetes.control import needs_kubectl, program
from tests.wire.kubernetes_node.pods import Obj, Pods, cluster, python, shell
from tui.emulator.kubernetes.errors import ApiNotFound
from tui.emulator.kubernetes.node.serving.logs import LogOptions, read_log
from tui.emulator.kubernetes.resources import NODES

SHUTDOWN = "Pod was terminated in response to imminent node shutdown."
TOLERANT = """
import signal, sys, time
def leave(*_): print("leaving", flush=True); sys.exit(75)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
time.sleep(600)
"""
SPOT = {
    "nodeSelector": {"cloud.google.com/gke-spot": "true"},
    "tolerations": [
        {"key": "cloud.google.com/gke-spot", "operator": "Exists"},
        {"key": "nvidia.com/gpu", "operator": "Exists"},
    ],
}


def condition(status: Obj, kind: str) -> Obj:
    return next(each for each in status["conditions"] if each["type"] == kind)


async def log_of(pods: Pods, name: str) -> bytes:
    parts = read_log(pods.emulator.node.kubelet, pods.get(name), LogOptions())
    return b"".join([part async for part in parts])


async def test_an_evicted_pod_says_why() -> None:
    async with cluster() as pods:
        pods.create("p", shell("exec sleep 600"), restartPolicy="Always")
        await pods.runs("p")
        pods.emulator.node.faults.evict("default", "p")
        status = await pods.ended("p")
        assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
        assert status["message"].startswith("The node was low on resource: memory.")
        assert condition(status, "DisruptionTarget")["reason"] == "TerminationByKubelet"
        assert pods.events("p")["Evicted"] == status["message"]
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] in {137, 143}


async def test_a_reclaimed_node_ends_its_pods_goes_and_comes_back() -> None:
    async with cluster() as pods:
        pods.create("p", python(TOLERANT), restartPolicy="OnFailure", **SPOT)
        node = await until(lambda: pods.get("p")["spec"].get("nodeName"), "a node")
        assert "-a100-spot-" in node

        async def ready() -> bool:
            await pods.runs("p")
            return b"ready" in await log_of(pods, "p")

        await until(ready, "the program")
        uid = pods.objects.get(NODES, "", node)["metadata"]["uid"]
        assert pods.emulator.node.faults.preempt(node, 4.0, 0.2) == ["default/p"]

        def shuts_down() -> bool:
            found = pods.objects.get(NODES, "", node)
            ready = condition(found["status"], "Ready")
            return ready["status"] == "False" and ready["message"] == "node is shutting down"

        await until(shuts_down, "the node to shut down")
        status = await pods.ended("p")
        assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Terminated", SHUTDOWN)
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 75
        assert await log_of(pods, "p") == b"ready\nleaving\n"

        def back() -> bool:
            try:
                return bool(pods.objects.get(NODES, "", node)["metadata"]["uid"] != uid)
            except ApiNotFound:
                return False

        await until(back, "the node to come back")
        assert {"RemovingNode", "RegisteredNode", "NodeNotReady"} <= set(pods.events(node))


async def test_memory_above_the_limit_kills_the_container() -> None:
    hungry = "import time\nkept = b'x' * (120 << 20)\ntime.sleep(600)"
    async with cluster() as pods:
        pods.create("p", python(hungry, resources={"limits": {"memory": "64Mi"}}))
        pods.create("forced", shell("exec sleep 600"), restartPolicy="OnFailure")
        ended = (await pods.ended("p"))["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
        await pods.runs("forced")
        assert pods.emulator.node.faults.kill_for_memory("default", "forced") == "main"
        await until(lambda: pods.container("forced")["restartCount"] == 1, "the restart")
        assert pods.container("forced")["lastState"]["terminated"]["reason"] == "OOMKilled"


@pytest.mark.slow
async def test_images_that_are_slow_or_missing() -> None:
    async with cluster(missing_images=["registry/gone:*"]) as pods:
        pods.emulator.node.faults.slow_pull("python:*", 600, 600)
        pods.create("slow", shell("true"))
        pods.create("gone", {"name": "main", "image": "registry/gone:1", "command": ["true"]})
        pods.create("unknown", {"name": "main", "image": "registry/unknown:1"})
        assert "registry/gone:1: not found" in (await pods.waits("gone", "ErrImagePull"))["message"]
        await pods.waits("gone", "ImagePullBackOff")
        unknown = await pods.waits("unknown", "ImagePullBackOff")
        assert "can't run on this machine" in unknown["message"]
        await pods.waits("slow", "ContainerCreating")
        assert pods.events("slow")["Pulling"] == 'Pulling image "python:3.11"'
        assert pods.status("slow")["phase"] == "Pending"


@pytest.mark.slow
@needs_kubectl
async def test_kubectl_drains_a_node() -> None:
    async with cluster() as pods:
        kubeconfig = str(pods.emulator.state.kubeconfig)
        pods.create("p", shell("exec sleep 600"))
        await pods.runs("p")
        node = pods.get("p")["spec"]["nodeName"]
        text = await program("kubectl", "drain", node, "--force", kubeconfig=kubeconfig)
        assert f"node/{node} drained" in text
        await pods.gone("p")
        taints = pods.objects.get(NODES, "", node)["spec"]["taints"]
        assert "node.kubernetes.io/unschedulable" in {each["key"] for each in taints}
        await program("kubectl", "uncordon", node, kubeconfig=kubeconfig)
        await until(lambda: not pods.objects.get(NODES, "", node)["spec"].get("taints"), "the taint to go")
