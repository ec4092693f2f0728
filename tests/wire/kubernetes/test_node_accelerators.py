"""Accelerators of pods from exporters on nodes, through the API server's proxy."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tests.wire.kubernetes.told_server import kubeconfig, serving, status
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.login.cluster import KubeconfigCluster
from tui.backends.kubernetes.logs.pods import LoggedPod
from tui.backends.kubernetes.metrics.node_accelerators import NodeAccelerators
from tui.domain.core.metric import CADVISOR, DCGM, GPU

EXPORTER = {"metadata": {"name": "dcgm-x", "namespace": "gke-managed-system"}, "spec": {"nodeName": "n1"}}
PROXY = "api/v1/namespaces/gke-managed-system/pods/dcgm-x:9400/proxy/metrics"
LABELS = 'gpu="0",namespace="team",pod="bert-worker-0",container="pytorch"'


def pod(node: str) -> LoggedPod:
    return LoggedPod("u", "bert-worker-0", "team", "worker-0", node, None, False, {}, "pytorch", False)


class Cluster:
    """Nodes with and without a DCGM exporter; it notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.denied = False

    async def answer(self, request: Request) -> Response:
        path = request.path_params["path"]
        self.asked.append(path)
        if path == "api/v1/pods":
            managed = "gke-managed-dcgm-exporter" in request.query_params["labelSelector"]
            return JSONResponse({"items": [EXPORTER] if managed else []})
        if path == PROXY:
            return PlainTextResponse(f"DCGM_FI_DEV_GPU_UTIL{{{LABELS}}} 42\n")
        if path.startswith("api/v1/nodes/") and not self.denied:
            labels = LABELS.replace("gpu=", "acc_id=")
            return PlainTextResponse(f"container_accelerator_duty_cycle{{{labels}}} 7 1764093600000\n")
        return status(403, "Forbidden", "nodes/proxy is forbidden")


async def test_the_exporter_of_the_node_is_asked_first_then_the_kubelet(tmp_path: Path) -> None:
    cluster = Cluster()
    async with serving(cluster.answer) as server:
        connection = ClusterConnection(KubeconfigCluster(kubeconfig(tmp_path, server)))
        try:
            nodes = NodeAccelerators(connection)
            [found], problem = await nodes.read([pod("n1")])
            assert (found.metric, found.replica, found.value, problem) == (GPU, "worker-0", 0.42, "")
            assert found.source == (("source", DCGM),) and found.accelerator == "0"
            count = len(cluster.asked)
            await nodes.read([pod("n1")])
            assert len(cluster.asked) == count, "asked again within a few seconds"
            [found], _ = await nodes.read([pod("n2")])
            assert (found.value, found.source) == (0.07, (("source", CADVISOR),))
            assert cluster.asked[-1] == "api/v1/nodes/n2/proxy/metrics/cadvisor"
            cluster.denied = True
            none, problem = await nodes.read([pod("n3")])
            assert not none and "the login may not get nodes/proxy" in problem
            assert (await nodes.read([]))[1] == "no pod of the job is on a node now"
        finally:
            await connection.aclose()
