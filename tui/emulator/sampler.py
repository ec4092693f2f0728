"""What each replica uses: CPU, memory, network and, where NVML answers, GPU."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import Any

from tui.emulator import network_usage, process_tree
from tui.emulator.plan import ReplicaPlan
from tui.emulator.runner_database import Sample

CPU = "cpu/utilization"
MEMORY = "memory/utilization"
GPU = "accelerator/utilization"
GPU_MEMORY = "accelerator/memory/utilization"
NET_IN = "network/received_bytes_count"
NET_OUT = "network/sent_bytes_count"

log = logging.getLogger(__name__)


class Sampler:
    """Called once a period with the processes of each replica; one scan of /proc serves them all."""

    def __init__(self, plans: Mapping[str, ReplicaPlan]) -> None:
        self._plans = plans
        self._memory = os.sysconf("SC_PHYS_PAGES") * process_tree.PAGE
        self._last: dict[str, tuple[float, dict[tuple[int, int], float]]] = {}
        self._meters = {replica: network_usage.Meter() for replica in plans}
        self._network = True
        self._nvml = _open_nvml()

    def sample(self, trees: Mapping[str, list[process_tree.Proc]]) -> list[Sample]:
        """Samples of every replica that has processes; what can't be measured is absent."""
        now_ns, now = time.time_ns(), time.monotonic()
        table = self._sockets()
        found: list[Sample] = []
        for replica, procs in trees.items():
            if not procs:
                continue
            plan = self._plans[replica]
            cpu = self._cpu(replica, procs, now)
            if cpu is not None:
                cores = plan.machine_vcpus or os.cpu_count() or 1
                found.append((now_ns, replica, CPU, "", min(1.0, cpu / cores)))
            memory = sum(p.rss for p in procs) / (plan.machine_memory or self._memory)
            found.append((now_ns, replica, MEMORY, "", min(1.0, memory)))
            if table is not None:
                held = network_usage.inodes(p.pid for p in procs)
                got, sent = self._meters[replica].update(table, held)
                found += [(now_ns, replica, NET_IN, "", got), (now_ns, replica, NET_OUT, "", sent)]
            found += self._accelerators(plan, now_ns)
        return found

    def _cpu(self, replica: str, procs: list[process_tree.Proc], now: float) -> float | None:
        """Cores busy since the last look; None on the first."""
        current = {(p.pid, p.start): p.cpu for p in procs}
        before = self._last.get(replica)
        self._last[replica] = (now, current)
        if before is None or now <= before[0]:
            return None
        used = sum(cpu - before[1].get(key, 0.0) for key, cpu in current.items())
        return max(0.0, used) / (now - before[0])

    def _sockets(self) -> dict[int, tuple[int, int]] | None:
        if not self._network:
            return None
        try:
            return network_usage.sockets()
        except OSError as error:
            log.warning("network figures can't be read here: %s", error)
            self._network = False
            return None

    def _accelerators(self, plan: ReplicaPlan, now_ns: int) -> list[Sample]:
        found: list[Sample] = []
        if self._nvml is None:
            return found
        for index in plan.accelerators:
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                busy = self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
                memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
            except self._nvml.NVMLError as error:
                log.warning("GPU %d can't be read: %s", index, error)
                continue
            found.append((now_ns, plan.id, GPU, str(index), busy))
            found.append((now_ns, plan.id, GPU_MEMORY, str(index), memory.used / memory.total))
        return found


def _open_nvml() -> Any:
    """The NVML module when a driver answers, else None."""
    if not os.path.exists("/dev/nvidiactl"):  # noqa: PTH110 - pathlib is not loaded in the runner otherwise
        return None
    try:
        import pynvml  # noqa: PLC0415 - only where there is a driver

        pynvml.nvmlInit()
    except Exception as error:  # noqa: BLE001 - a broken driver must not cost the job
        log.warning("NVML does not answer: %s", error)
        return None
    return pynvml
