"""A replica group of torchft with one process, which trains the model of `killed_workload`, a line a step.

Its arguments: address of the lighthouse, name of the group, steps, samples a step.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import timedelta

import torch
from torch.distributed import TCPStore

from tests.trainer import killed_workload

SECONDS = 60.0


def main() -> None:
    """Print `ready`, then an object for each step: its number, when it ended, the groups that took part."""
    # In the peers' environment alone.
    from torchft import (
        DistributedDataParallel,
        Manager,
        Optimizer,
        ProcessGroupGloo,
    )

    lighthouse, name, steps, samples = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    killed_workload.kill_node = lambda: os.kill(os.getpid(), signal.SIGKILL)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, data = killed_workload.Model(), killed_workload.Sums()
    adam = torch.optim.AdamW(model.parameters(), lr=0.001)

    def load(state: dict[str, dict[str, object]]) -> None:
        model.load_state_dict(state["model"])
        adam.load_state_dict(state["adam"])

    print("ready", flush=True)
    limit = timedelta(seconds=SECONDS)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=limit),
        load_state_dict=load,
        state_dict=lambda: {"model": model.state_dict(), "adam": adam.state_dict()},
        min_replica_size=1,
        timeout=limit,
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        lighthouse_addr=lighthouse,
        replica_id=name,
        hostname="127.0.0.1",
    )
    replicas, optimizer = DistributedDataParallel(manager, model), Optimizer(manager, adam)
    while manager.current_step() < steps:
        optimizer.zero_grad()
        at = manager.current_step() * samples
        batch = [data[(at + offset) % len(data)] for offset in range(samples)]
        loss = replicas(*(torch.stack(part) for part in zip(*batch, strict=True)))
        loss.backward()
        optimizer.step()
        said = {"step": manager.current_step(), "at": time.monotonic(), "groups": manager.num_participants()}
        print(json.dumps(said), flush=True)
    manager.shutdown()


if __name__ == "__main__":
    main()
