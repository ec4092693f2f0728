"""Checks of scheduling and of the job's requirements for its strategy (docs/facts/vertex.md 1.6, 3.9,
8.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tui.domain.vertex.catalog import FLEX_ACCELERATORS, machines
from tui.emulator.messages import Pb
from tui.emulator.vertex.validate_pools import Problem, accelerator_name

STRATEGIES = {1: "ON_DEMAND", 2: "LOW_COST", 3: "STANDARD", 4: "SPOT", 6: "FLEX_START"}
FLEX_MAX_TIMEOUT = 7 * 86400
NO_PEERING = frozenset({"NVIDIA_H100_MEGA_80GB", "NVIDIA_H200_141GB", "NVIDIA_B200"})
"""Accelerators whose machines can't use VPC peering."""

_SPOT, _FLEX = 4, 6
_NO_RESERVATION = (0, 1)


def _strategy(spec: Pb) -> Iterator[Problem]:
    number = spec.scheduling.strategy
    if number and number not in STRATEGIES:
        yield "scheduling.strategy", f"{number} must be STANDARD, SPOT or FLEX_START"


def _durations(spec: Pb) -> Iterator[Problem]:
    scheduling = spec.scheduling
    timeout = scheduling.timeout
    if scheduling.HasField("timeout") and (timeout.seconds, timeout.nanos) <= (0, 0):
        yield "scheduling.timeout", "must be more than 0 s; omit the field for 7 days"
    wait = scheduling.max_wait_duration
    # Only FLEX_START is documented to refuse a wait (docs/UNVERIFIED.md).
    if wait.seconds < 0 or wait.nanos < 0:
        yield "scheduling.max_wait_duration", "must not be negative; 0 waits forever"


def _flex_start(spec: Pb) -> Iterator[Problem]:
    if spec.scheduling.strategy != _FLEX:
        return
    if spec.scheduling.timeout.seconds > FLEX_MAX_TIMEOUT:
        yield (
            "scheduling.timeout",
            f"must be at most 7 days with FLEX_START, not {spec.scheduling.timeout.seconds} s",
        )
    if spec.persistent_resource_id:
        yield "persistent_resource_id", "can't be used with FLEX_START"
    used = [(i, p.machine_spec) for i, p in enumerate(spec.worker_pool_specs) if p.ListFields()]
    for index, machine in used:
        path = f"worker_pool_specs[{index}].machine_spec"
        if accelerator_name(machine) not in FLEX_ACCELERATORS:
            yield f"{path}.accelerator_type", "FLEX_START is for L4, A100, H100, H200 and B200 only"
        if machine.reservation_affinity.reservation_affinity_type not in _NO_RESERVATION:
            yield f"{path}.reservation_affinity", "a reservation can't be used with FLEX_START"
        if machine != used[0][1]:
            yield (
                path,
                "differs from the primary's; FLEX_START needs the same machine in every pool "
                "(so no pool of CPU reducers either)",
            )


def _spot(spec: Pb) -> Iterator[Problem]:
    if spec.scheduling.strategy != _SPOT:
        return
    for index, pool in enumerate(spec.worker_pool_specs):
        machine = pool.machine_spec
        pod = machine.machine_type == "cloud-tpu" and machine.accelerator_count >= 32
        if pod or _chips(machine.tpu_topology) > 8:
            yield (
                "scheduling.strategy",
                f"SPOT is not supported with the TPU pod of worker_pool_specs[{index}]",
            )


def _chips(topology: str) -> int:
    """Return the number of chips of a topology such as 4x4. A host has at most 8, so more chips make a
    pod."""
    total = 1
    for part in topology.split("x"):
        total *= int(part) if part.isdecimal() else 0
    return total


def _tpu_alone(spec: Pb) -> Iterator[Problem]:
    used = [pool.machine_spec.machine_type for pool in spec.worker_pool_specs if pool.ListFields()]
    if len(used) < 2:
        return
    for name in used:
        machine = machines().get(name)
        if machine is not None and (machine.tpu_topologies or name == "cloud-tpu"):
            yield "worker_pool_specs", f"a TPU job ({name}) must have only one worker pool"
            return


def _peering(spec: Pb) -> Iterator[Problem]:
    if not spec.network:
        return
    for index, pool in enumerate(spec.worker_pool_specs):
        kind = accelerator_name(pool.machine_spec)
        if kind in NO_PEERING:
            yield (
                "network",
                f"VPC peering is not supported with {kind} (worker_pool_specs[{index}]); use "
                "psc_interface_config",
            )


SCHEDULING_RULES: tuple[Callable[[Pb], Iterator[Problem]], ...] = (
    _strategy,
    _durations,
    _flex_start,
    _spot,
    _tpu_alone,
    _peering,
)
