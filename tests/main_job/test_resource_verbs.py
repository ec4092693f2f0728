"""`vxtui resources`, and a profile that is launched on one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.cloud.aiplatform_v1.services.persistent_resource_service import PersistentResourceServiceClient
from google.cloud.aiplatform_v1.services.persistent_resource_service.transports import (
    PersistentResourceServiceGrpcTransport,
)
from google.cloud.aiplatform_v1.types import PersistentResource

from tests.shell import Home, home
from tests.waiting import wait_for
from tests.wire.control import PARENT

pytestmark = pytest.mark.xdist_group("resources")
_, PROJECT, _, REGION = PARENT.split("/")
PROFILE = """
displayName: on-machines
jobSpec:
  workerPoolSpecs:
  - machineSpec: {machineType: n1-standard-4}
    replicaCount: 1
    containerSpec: {imageUri: "python:3.11", command: [sleep, "600"]}
  - machineSpec: {machineType: n1-standard-4}
    replicaCount: 2
    containerSpec: {imageUri: "python:3.11", command: [sleep, "600"]}
"""


@pytest.fixture
def shell() -> Iterator[Home]:
    with home() as found:
        config = f"contexts:\n  - {{name: here, kind: local, project: {PROJECT}, regions: [{REGION}]}}\n"
        folder = found.root / "c" / "vxtui"
        (folder / "profiles").mkdir(parents=True)
        (folder / "config.yaml").write_text(f"context: here\n{config}")
        (folder / "profiles" / "own.yaml").write_text(PROFILE)
        on = PROFILE.replace("jobSpec:", "jobSpec:\n  persistentResourceId: mine")
        (folder / "profiles" / "on.yaml").write_text(on)
        unlike = on.replace("replicaCount: 2", "replicaCount: 2\n    diskSpec: {bootDiskSizeGb: 200}")
        (folder / "profiles" / "unlike.yaml").write_text(unlike)
        found.state.mkdir(mode=0o700, parents=True)
        (found.state / "config.yaml").write_text("provisioning_seconds: 0\ncancel_grace_seconds: 0.2")
        assert found.run("emulator", "start", "--json").returncode == 0
        yield found


def client(shell: Home) -> PersistentResourceServiceClient:
    channel = grpc.insecure_channel(f"unix:{shell.state / 'emulator.sock'}")
    return PersistentResourceServiceClient(transport=PersistentResourceServiceGrpcTransport(channel=channel))


# Seconds: each verb is a process of its own.
def test_machines_are_made_used_and_deleted(shell: Home) -> None:
    closed = shell.json("resources", "create", "mine", "--from", "own", "--yes", "--read-only", code=2)
    assert closed["error"]["code"] == "READ_ONLY"
    made = shell.json("resources", "create", "mine", "--from", "own", "--yes")["resource"]
    (pool,) = made["pools"]
    shape = pool["machine_type"], pool["replicas"], pool["used"], pool["disk_gb"]
    assert shape == ("n1-standard-4", 3, 0, 100)

    machines = client(shell)
    name = made["name"]

    def used() -> int:
        """Asked directly: each verb is a process."""
        (pool,) = machines.get_persistent_resource(name=name).resource_pools
        return int(pool.used_replica_count)

    def mine() -> dict[str, Any]:
        (found,) = shell.json("resources", "mine")["resources"]
        return dict(found)

    running = PersistentResource.State.RUNNING
    wait_for(lambda: machines.get_persistent_resource(name=name).state == running, "the machines")
    idle = mine()
    assert idle["state"] == "RUNNING" and idle["idle_since"] == idle["start_time"] and idle["jobs"] == []
    assert idle["usd_per_hour"]["low"] > 0.5

    # The dry run compares machine, disk and number with the pools, and so does the launch.
    unlike = shell.json("launch", "unlike", "--dry-run", code=2)["preflight"]
    (told,) = [check for check in unlike if check["id"] == "resource"]
    asks = "pd-ssd of 100 GB; pool 1 needs pd-ssd of 200 GB"
    assert told["verdict"] == "problem" and asks in told["sentence"]
    job = shell.json("launch", "on", "--yes")
    wait_for(lambda: used() == 3, "the job's replicas")
    busy = mine()
    assert busy["jobs"] == [job["name"]] and busy["idle_since"] is None
    # The replicas are assigned while the job is still PENDING, which waits for them.
    on = "on the persistent resource mine"
    wait_for(lambda: on in shell.run("describe", job["name"]).stdout, "the running job")
    assert "running jobs" in shell.run("resources", "reboot", "mine", "--yes").stderr

    gone = shell.json("resources", "delete", "mine", "--yes")
    assert gone == {"schema": 1, "deleted": made["name"], "cancels": [job["name"]]}
    parent = f"projects/{PROJECT}/locations/{REGION}"
    wait_for(lambda: not list(machines.list_persistent_resources(parent=parent)), "the end of the machines")
    audit = [json.loads(line) for line in (shell.root / "s" / "audit.jsonl").read_text().splitlines()]
    done = [(each["action"], each["result"]) for each in audit if each["action"].startswith("resource.")]
    assert done == [
        ("resource.create", "asked"), ("resource.create", "done"), ("resource.reboot", "asked"),
        ("resource.reboot", "failed"), ("resource.delete", "asked"), ("resource.delete", "done"),
    ]  # fmt: skip
