"""Measures each replica: CPU, memory, network and, where NVML responds, GPU. The module uses only the
standard library.

A value that can't be measured is absent, never zero. Accelerators are simulated on request.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tui.emulator.runner import host, network_usage
from tui.emulator.runner.database import Sample
from tui.emulator.runner.plan import ReplicaPlan
from tui.emulator.runner.process_tree import PAGE, Proc

# These names equal those in tui.domain.core.metric, which a runner does not import.
CPU = "cpu/utilization"
MEMORY = "memory/utilization"
GPU = "accelerator/utilization"
GPU_MEMORY = "accelerator/memory/utilization"
NET_IN = "network/received_bytes_count"
NET_OUT = "network/sent_bytes_count"

log = logging.getLogger("runner")


class ReplicaSampler:
    """Samples all replicas from one scan of /proc.

    Utilizations are fractions of this machine's CPUs and memory, or of the machine size in the plan, if
    given. Network values are bytes since the replica's first start.
    """

    def __init__(self, plans: Mapping[str, ReplicaPlan]) -> None:
        self._plans = plans
        self._cpus, self._memory = host.cpus(), host.memory_bytes()
        self._reaped_cpu = dict.fromkeys(plans, 0.0)
        self._last: dict[str, tuple[float, float]] = {}
        self._meters = {replica: network_usage.NetworkMeter() for replica in plans}
        self._network = True
        self._nvml = _open_nvml() if any(p.accelerators for p in plans.values()) else None
        self._simulated: dict[str, list[Any]] = {}

    def reaped(self, replica: str, cpu: float) -> None:
        """Count `cpu` seconds of a reaped process of `replica` and its reaped children."""
        if replica in self._reaped_cpu:
            self._reaped_cpu[replica] += cpu

    def sample(self, families: Mapping[str, list[Proc]]) -> list[Sample]:
        """Sample every replica that has processes."""
        now_ns, now = time.time_ns(), time.monotonic()
        sockets = self._sockets()
        samples: list[Sample] = []
        for replica, plan in self._plans.items():
            procs = families.get(replica, [])
            if all(p.ended for p in procs):
                self._last.pop(replica, None)
                continue
            cpu = self._cpu(replica, procs, now)
            if cpu is not None:
                samples.append((now_ns, replica, CPU, "", min(1.0, cpu / (plan.machine_vcpus or self._cpus))))
            memory = memory_used(procs) / (plan.machine_memory or self._memory)
            samples.append((now_ns, replica, MEMORY, "", min(1.0, memory)))
            if sockets is not None:
                held = network_usage.inodes(p.pid for p in procs)
                received, sent = self._meters[replica].update(sockets, held)
                samples += [(now_ns, replica, NET_IN, "", received), (now_ns, replica, NET_OUT, "", sent)]
            samples += self._accelerators(plan, now_ns)
        return samples

    def _cpu(self, replica: str, procs: list[Proc], now: float) -> float | None:
        """Return the busy cores since the last sample, or `None` for the first sample.

        A process that has ended in between counts too: its time was added to the parent that reaped it, or to
        this runner.
        """
        total = self._reaped_cpu[replica] + sum(p.cpu + p.cpu_reaped for p in procs)
        before = self._last.get(replica)
        self._last[replica] = (now, total)
        if before is None or now <= before[0]:
            return None
        return max(0.0, total - before[1]) / (now - before[0])

    def _sockets(self) -> dict[int, network_usage.SocketBytes] | None:
        if not self._network:
            return None
        try:
            return network_usage.sockets()
        except OSError as error:
            log.warning("can't measure network traffic: %s", error)
            self._network = False
            return None

    def _accelerators(self, plan: ReplicaPlan, now_ns: int) -> list[Sample]:
        samples: list[Sample] = []
        if self._nvml is None:
            return self._simulate(plan, now_ns)
        for index in plan.accelerators:
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
                samples.append((now_ns, plan.id, GPU_MEMORY, str(index), memory.used / memory.total))
                busy = self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
                samples.append((now_ns, plan.id, GPU, str(index), busy))
            except self._nvml.NVMLError as error:
                # Some devices, such as MIG slices, report memory but no utilization.
                log.debug("can't read GPU %d: %s", index, error)
        return samples

    def _simulate(self, plan: ReplicaPlan, now_ns: int) -> list[Sample]:
        if not plan.simulated:
            return []
        from tui.emulator.runner.simulated_gpus import MARK, Accelerator  # noqa: PLC0415 - rarely needed

        now = now_ns / 1e9
        if plan.id not in self._simulated:
            self._simulated[plan.id] = [Accelerator(plan.id, i, now) for i in range(plan.simulated)]
        samples: list[Sample] = []
        for index, accelerator in enumerate(self._simulated[plan.id]):
            busy, memory = accelerator.read(now)
            samples.append((now_ns, plan.id, GPU_MEMORY, f"{MARK}{index}", memory))
            samples.append((now_ns, plan.id, GPU, f"{MARK}{index}", busy))
        return samples


def memory_used(procs: list[Proc]) -> int:
    """Return the memory of a group of processes in bytes: private pages of each, and shared pages once.

    A sum of resident sets would count a library, or a shared tensor, once per process. Pages that processes
    share since a fork count for each: finding them would require reading every page.
    """
    own, shared = 0, 0
    for proc in procs:
        try:
            text = Path(f"/proc/{proc.pid}/statm").read_text()
        except OSError:
            continue
        resident, common = (int(field) * PAGE for field in text.split()[1:3])
        own += resident - common
        shared = max(shared, common)
    return own + shared


def _open_nvml() -> Any:
    """Return the NVML module, or `None` if no driver responds."""
    if not os.path.exists("/dev/nvidiactl"):  # noqa: PTH110 - spares an import where there is no driver
        return None
    try:
        import pynvml  # noqa: PLC0415 - only where there is a driver
    except ImportError as error:
        log.warning("GPU metrics need the package nvidia-ml-py: %s", error)
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        log.warning("can't initialise NVML: %s", error)
        return None
    return pynvml
