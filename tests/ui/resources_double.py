"""Persistent resources in memory, for screens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.ui.double import NOON, MemoryBackend, fleet, job
from tests.ui.listed_double import MemoryList
from tui.backends.resources import ResourceService
from tui.domain.core.states import JobState
from tui.domain.resources.persistent import PersistentResource, ResourcePool

PLACE = "projects/p/locations/us-central1"


def resource(id: str, state: str, hours: float, *pools: ResourcePool, **more: Any) -> PersistentResource:
    created = NOON - timedelta(hours=hours)
    return PersistentResource(
        f"{PLACE}/persistentResources/{id}", id, "us-central1", state, "test", create_time=created,
        start_time=None if state == "PROVISIONING" else created + timedelta(minutes=6), pools=pools, **more,
    )  # fmt: skip


def machines() -> list[PersistentResource]:
    """One of each state that the list has to draw."""
    a100 = ResourcePool("pool-0", "a2-highgpu-8g", "NVIDIA_TESLA_A100", 8, replicas=4, used=3)
    return [
        resource("new-l4-pool", "PROVISIONING", 0.1,
                 ResourcePool("pool-0", "g2-standard-12", "NVIDIA_L4", 1, replicas=2)),
        resource("nlp-a100", "RUNNING", 30, a100,
                 ResourcePool("reducers", "n1-highcpu-16", replicas=2, used=2, least=1, most=6)),
        resource("weekend [h100]", "RUNNING", 60,
                 ResourcePool("pool-0", "a3-highgpu-8g", "NVIDIA_H100_80GB", 8, replicas=2)),
        resource("old-t4", "ERROR", 400,
                 ResourcePool("pool-0", "n1-standard-8", "NVIDIA_TESLA_T4", 1, replicas=1),
                 error="The machines of the zone were not available."),
    ]  # fmt: skip


class MemoryResources(MemoryList[PersistentResource], ResourceService):
    """Those that a `MemoryBackend` has."""

    async def create(self, region: str, id: str, resource: Mapping[str, Any]) -> PersistentResource:
        raise AssertionError("no screen creates one")

    async def delete(self, name: str) -> None:
        self.change(name, "delete", name, state="STOPPING")

    async def reboot(self, name: str) -> PersistentResource:
        return self.change(name, "reboot", name, state="REBOOTING")


def backend() -> tuple[MemoryBackend, MemoryResources]:
    """Jobs, of which one runs on `nlp-a100`, one waits for it, and one ran on `weekend [h100]`."""
    on, ended = "nlp-a100", "weekend [h100]"
    running, *rest = fleet()
    jobs = [
        replace(running, persistent_resource=on),
        job(201, "waits-for-machines", JobState.PENDING, age=9, persistent_resource=on),
        job(202, "friday-run", JobState.SUCCEEDED, age=900, ended=840, persistent_resource=ended),
        *rest,
    ]
    made = MemoryBackend(jobs)
    service = MemoryResources(made, machines())
    made.use(resources=service)
    return made, service
