"""The console's backend on a Kubernetes API of this process, and objects in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from tests.waiting import until
from tests.wire.kubernetes.control import emulator
from tui.backends.errors import Unavailable
from tui.backends.interface import ContextInfo, JobPage, JobService
from tui.backends.kubernetes.backend import KubernetesBackend
from tui.backends.kubernetes.login.cluster import KubeconfigCluster
from tui.domain.core.job import Job
from tui.emulator.kubernetes.server import KubernetesEmulator

NOWHERE = {"test.example/none": "such"}
"""Labels that no node has: the pods wait, and only the test changes their status."""


def template(container: str = "pytorch") -> dict[str, Any]:
    return {"spec": {"nodeSelector": NOWHERE, "containers": [{"name": container, "image": "i"}]}}


def pytorch_job(
    name: str = "bert", namespace: str = "default", workers: int = 2, **spec: Any
) -> dict[str, Any]:
    """A PyTorchJob with a master and workers."""
    replicas = {"Master": {"replicas": 1, "template": template()}}
    if workers:
        replicas["Worker"] = {"replicas": workers, "template": template()}
    return {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"pytorchReplicaSpecs": replicas, **spec},
    }  # fmt: skip


def add(running: KubernetesEmulator, obj: dict[str, Any]) -> dict[str, Any]:
    """Create an object in the store."""
    return running.objects.create(_resource(running, obj), obj)


def _resource(running: KubernetesEmulator, obj: dict[str, Any]) -> Any:
    group, _, version = obj["apiVersion"].rpartition("/")
    return running.objects.resource(obj["kind"], group, version)


def set_pod(running: KubernetesEmulator, name: str, phase: str, node: str = "n", **container: Any) -> None:
    """Give a pod a status, as its kubelet would."""

    def edit(obj: dict[str, Any]) -> None:
        obj["status"] = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if phase == "Running" else "False"}],
            "containerStatuses": [
                {"name": "pytorch", "ready": phase == "Running", "restartCount": 0, **container}
            ],
        }

    pods = running.objects.resource("pods")
    running.objects.change(pods, "default", name, edit, status=True)


@asynccontextmanager
async def backend(
    running: KubernetesEmulator, name: str = "gke", namespaces: tuple[str, ...] = ()
) -> AsyncIterator[KubernetesBackend]:
    """A connected backend."""
    login = KubeconfigCluster(str(running.state.kubeconfig))
    info = ContextInfo(name, "", namespaces or ("default",), watched=True)
    async with KubernetesBackend(info, login, namespaces) as opened:
        yield opened


@asynccontextmanager
async def cluster_backend(**config: Any) -> AsyncIterator[tuple[KubernetesEmulator, KubernetesBackend]]:
    """Both."""
    async with emulator(**config) as running, backend(running) as opened:
        yield running, opened


async def pages(service: JobService, *, changes: bool = False) -> list[JobPage]:
    async with aclosing(service.changes() if changes else service.list_all()) as found:
        return [page async for page in found]


async def whole(service: JobService) -> list[JobPage]:
    """A listing of all: on a loaded machine the first connection may take longer than the backend waits."""

    async def look() -> list[JobPage] | None:
        found = await pages(service)
        return None if any(isinstance(page.error, Unavailable) for page in found) else found

    found: list[JobPage] = await until(look, "a whole listing")
    return found


async def listed(service: JobService, *, changes: bool = False) -> dict[str, Job]:
    """Jobs by id."""
    found = await pages(service, changes=True) if changes else await whole(service)
    return {job.id: job for page in found for job in page.jobs}
