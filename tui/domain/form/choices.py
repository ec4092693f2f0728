"""Choices of a field from the catalogue, narrowed by what was chosen before it: region → accelerator →
machine → count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tui.domain.catalog import ACCELERATOR_SHORT, Machine, machines, region_accelerators
from tui.domain.form.changes import parameter_choices
from tui.domain.form.fields import CHOICE_HELP
from tui.domain.form.rows import Row, RowKind, plain_value, pool_value
from tui.domain.form.values import Path, actual, at
from tui.domain.profile.parameters import TYPES
from tui.domain.rules.machine import DISKS

REGION_WORDS = {
    "A100 40GB": "NVIDIA_TESLA_A100",
    "A100 80GB": "NVIDIA_A100_80GB",
    "B200": "NVIDIA_B200",
    "GB200": "NVIDIA_GB200",
    "H100": "NVIDIA_H100_80GB",
    "H100 Mega": "NVIDIA_H100_MEGA_80GB",
    "H200": "NVIDIA_H200_141GB",
    "L4": "NVIDIA_L4",
    "P100": "NVIDIA_TESLA_P100",
    "P4": "NVIDIA_TESLA_P4",
    "RTX PRO 6000": "NVIDIA_RTX_PRO_6000",
    "T4": "NVIDIA_TESLA_T4",
    "TPU v2": "TPU_V2",
    "TPU v3": "TPU_V3",
    "V100": "NVIDIA_TESLA_V100",
}
"""Accelerator types by their names on the page of regions (vertex facts 8.5)."""
_TPU_MACHINES = {"TPU v5e": "ct5lp-", "TPU v6e": "ct6e-", "TPU7x": "tpu7x-"}
NONE = ""
"""The choice that takes the field away."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One value and what it means."""

    value: str
    words: str = ""


def pool_of(row: Row) -> Path | None:
    """Path of the pool that the row is of."""
    for i, part in enumerate(row.path):
        if isinstance(part, int):
            return row.path[: i + 1] if i and _is_pools(row.path[i - 1]) else None
    return None


def _is_pools(name: str | int) -> bool:
    return name in {"workerPoolSpecs", "worker_pool_specs"}


def region_of(root: Any, otherwise: str) -> str:
    """Where the file's job runs."""
    return str(plain_value(root, at(root, ("region",))) or otherwise)


def choices(root: Any, row: Row, region: str, regions: Sequence[str] = ()) -> list[Choice]:
    """What the row's value may be; empty where any text may. `regions` are the context's own."""
    if row.kind is RowKind.PARAMETER or row.parameter:
        return [Choice(c) for c in parameter_choices(root, row.parameter or str(row.path[1]))]
    if row.field is None:
        return []
    if row.path[:1] == ("parameters",):
        return [Choice(t) for t in TYPES] if row.field.name == "type" else []
    pool = pool_of(row)
    found = _of_pool(root, at(root, pool), row.field.name, region) if pool is not None else []
    if row.field.name == "region":
        found = _regions(regions)
    if not found and row.field.kind.choices:
        words = [c for c in row.field.kind.choices if CHOICE_HELP.get(c, "").split(":")[0] != "deprecated"]
        found = [Choice(c, CHOICE_HELP.get(c, "")) for c in words]
    return found


def _of_pool(root: Any, pool: Any, name: str, region: str) -> list[Choice]:
    kind = str(pool_value(root, pool, "machineSpec", "acceleratorType") or "")
    machine = machines().get(str(pool_value(root, pool, "machineSpec", "machineType") or ""))
    match name:
        case "acceleratorType":
            return accelerators_in(region)
        case "machineType":
            return machines_with(kind, region)
        case "acceleratorCount" if machine is not None and kind:
            counts = dict(machine.accelerators).get(kind, ())
            return [Choice(str(n), f"{n} × {ACCELERATOR_SHORT.get(kind, kind)}") for n in counts]
        case "tpuTopology" if machine is not None:
            return [Choice(t) for t in machine.tpu_topologies]
        case "bootDiskType":
            return [Choice(d, CHOICE_HELP[d]) for d in DISKS]
    return []


def _regions(own: Sequence[str]) -> list[Choice]:
    known = region_accelerators()
    ordered = [*dict.fromkeys([*own, *known])]
    return [
        Choice(
            r,
            ", ".join(a for a in known.get(r, ()) if not a.startswith("TPU"))
            or "no accelerators for training",
        )
        for r in ordered
    ]


def accelerators_in(region: str) -> list[Choice]:
    """Accelerator types of a region, none first; all of them where the region is not known."""
    known = region_accelerators().get(region)
    kinds = (
        list(ACCELERATOR_SHORT) if known is None else [REGION_WORDS[a] for a in known if a in REGION_WORDS]
    )
    order = list(ACCELERATOR_SHORT)
    where = f"in {region}" if known is not None else ""
    found = [Choice(k, f"{ACCELERATOR_SHORT[k]}  {where}".strip()) for k in sorted(kinds, key=order.index)]
    return [Choice(NONE, "no accelerator"), *found]


def machines_with(kind: str, region: str) -> list[Choice]:
    """Machines that take an accelerator; without one, all whose own accelerators the region has."""
    known = region_accelerators().get(region)
    here = None if known is None else {REGION_WORDS.get(a, a) for a in known}
    tpus = tuple(stem for word, stem in _TPU_MACHINES.items() if known is None or word in known)
    found = []
    for machine in machines().values():
        own = [k for k, _ in machine.accelerators]
        if kind:
            fits = kind in own
        elif machine.name.startswith(tuple(_TPU_MACHINES.values())):
            fits = machine.name.startswith(tpus) if tpus else False
        else:
            fits = not own or machine.name.startswith("n1-") or here is None or any(k in here for k in own)
        if fits:
            found.append(Choice(machine.name, machine_words(machine, kind)))
    return found


def machine_words(machine: Machine, kind: str = "") -> str:
    """`96 vCPU  680 GB  8 × A100`."""
    parts = [f"{machine.vcpus} vCPU", f"{machine.memory_gb:g} GB"] if machine.vcpus else []
    built_in = len(machine.accelerators) == 1 and not machine.name.startswith("n1-")
    for own, counts in machine.accelerators:
        if own == kind or (built_in and not kind):
            parts.append(f"{' or '.join(map(str, counts))} × {ACCELERATOR_SHORT.get(own, own)}")
    return "  ".join(parts)


def pool_paths(root: Any, wrapped: bool) -> Path:
    """Where the pools stand."""
    return actual(root, ("jobSpec", "workerPoolSpecs") if wrapped else ("workerPoolSpecs",))
