"""Changes pods of this machine's cluster and breaks its watches, for `cluster_watch`: STATE_DIR SECONDS."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path

from tui.backends.errors import BackendError
from tui.backends.kubernetes.connection import MERGE_PATCH, ClusterConnection
from tui.backends.kubernetes.login.cluster import KubeconfigCluster
from tui.emulator.client import admin_call
from tui.emulator.kubernetes.paths import KubernetesState

PODS = "/api/v1/namespaces/default/pods"
CUT_AFTER = 5.0
"""Seconds after its start at which a watch breaks."""
COMPACT_EVERY = 12.0


async def main(state: KubernetesState, seconds: float) -> None:
    admin_call(state, {"do": "api", "verb": "watch", "kind": "cut", "after": CUT_AFTER, "lasts": seconds})
    connection = ClusterConnection(KubeconfigCluster(str(state.kubeconfig)))
    await connection.open()
    end = time.monotonic() + seconds
    compact_at = time.monotonic() + COMPACT_EVERY
    changes = 0
    while time.monotonic() < end:
        changes += await change(connection)
        if time.monotonic() >= compact_at:
            admin_call(state, {"do": "compact"})
            compact_at += COMPACT_EVERY
        await asyncio.sleep(0.005)
    await connection.aclose()
    print(changes)


async def change(connection: ClusterConnection) -> bool:
    """Delete a pod, or change its status; False for one that is gone."""
    name = f"{PODS}/job-{random.randrange(500)}-worker-{random.randrange(20)}"
    now = {
        "status": {"phase": random.choice(["Pending", "Running", "Failed"]), "message": str(random.random())}
    }
    try:
        if random.random() < 0.1:
            await connection.request("DELETE", name, action="delete", body={"gracePeriodSeconds": 0})
        else:
            await connection.request(
                "PATCH", f"{name}/status", action="patch", body=now, content_type=MERGE_PATCH
            )
    except BackendError:
        return False
    return True


if __name__ == "__main__":
    asyncio.run(main(KubernetesState(Path(sys.argv[1])), float(sys.argv[2])))
