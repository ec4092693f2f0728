"""Choices of a field from the catalogue, limited by earlier choices: region → accelerator → machine →
count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tui.domain.core.formatting import ACCELERATOR_SHORT
from tui.domain.form.changes import parameter_choices, parameter_type
from tui.domain.form.fields import CHOICE_HELP
from tui.domain.form.rows import FormRow, FormState, RowKind, build_rows, plain_value, pool_value
from tui.domain.form.values import Path, actual, at
from tui.domain.profile.parameters import TYPES
from tui.domain.vertex.catalog import Machine, documented_name, is_tpu, machines, region_accelerators
from tui.domain.vertex.rules.machine import DISKS

NONE = ""
"""The choice that removes the field."""
FREE = frozenset({"machineType", "region", "bootDiskType", "acceleratorCount", "tpuTopology"})
"""Fields that also allow other text, because the catalogue may be older than the service."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A value and the meaning of the value."""

    value: str
    help: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """The choices of a value; with `free` any other text is allowed."""

    choices: tuple[Choice, ...]
    free: bool = False


def pool_of(row: FormRow) -> Path | None:
    """Return the path of the pool with the row."""
    return pool_in(row.path)


def pool_in(path: Path) -> Path | None:
    """Return the path of the pool that contains a path."""
    for i, part in enumerate(path):
        if isinstance(part, int):
            return path[: i + 1] if i and _is_pools(path[i - 1]) else None
    return None


def _is_pools(name: str | int) -> bool:
    return name in {"workerPoolSpecs", "worker_pool_specs"}


def region_of(root: Any, otherwise: str) -> str:
    """Return the region in the file, or `otherwise`."""
    return str(plain_value(root, at(root, ("region",))) or otherwise)


def choices(root: Any, row: FormRow, region: str, regions: Sequence[str] = ()) -> list[Choice]:
    """Return the allowed values of the row; empty if any text is allowed. `regions` are the context's own
    regions."""
    if row.kind is RowKind.PARAMETER or row.parameter:
        return [Choice(c) for c in parameter_choices(root, row.parameter or str(row.path[1]))]
    if row.field is None:
        return []
    if row.path[:1] == ("parameters",):
        return [Choice(t) for t in TYPES] if row.field.name == "type" else []
    pool = pool_of(row)
    options = _pool_choices(root, at(root, pool), row.field.name, region) if pool is not None else []
    if row.field.name == "region":
        options = region_choices(regions)
    if not options and row.field.kind.choices:
        names = [c for c in row.field.kind.choices if CHOICE_HELP.get(c, "").split(":")[0] != "deprecated"]
        options = [Choice(c, CHOICE_HELP.get(c, "")) for c in names]
    return options


def _pool_choices(root: Any, pool: Any, name: str, region: str) -> list[Choice]:
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


def offers(root: Any, spec_path: Path, values: Mapping[str, str], region: str) -> dict[str, Offer]:
    """Return the choices of a profile's parameters at a launch, by name; parameters with any value are left
    out. A parameter without its own choices has the choices of the field whose entire value it is, given
    `values` and the `region`."""
    settings = at(root, ("parameters",))
    if not isinstance(settings, Mapping):
        return {}
    filled = {
        name: {"default": values[name]} if name in values else value for name, value in settings.items()
    }
    root = {**root, "parameters": filled}
    offered = {}
    for row in build_rows(FormState(root, root, spec_path, expanded=True)):
        if row.parameter and row.parameter not in offered and row.field is not None:
            options = choices(root, replace(row, parameter=""), region)
            if options:
                offered[row.parameter] = Offer(tuple(options), row.field.name in FREE)
    for name in settings:
        own = parameter_choices({"parameters": settings}, name)
        if not own and parameter_type({"parameters": settings}, name) == "boolean":
            own = ["true", "false"]
        if own:
            offered[name] = Offer(tuple(Choice(value, CHOICE_HELP.get(value, "")) for value in own))
    return offered


def region_choices(own: Sequence[str]) -> list[Choice]:
    """Return the regions with their accelerators, the context's regions first."""
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
    """Return "none" and the accelerator types of a region, or all types if the catalogue lacks the region."""
    known = region_accelerators().get(region)
    where = f"  in {region}" if known is not None else ""
    in_region = [
        Choice(kind, f"{short}{where}")
        for kind, short in ACCELERATOR_SHORT.items()
        if known is None or documented_name("", kind, 1) in known
    ]
    return [Choice(NONE, "no accelerator"), *in_region]


def machines_with(kind: str, region: str) -> list[Choice]:
    """Return the machines that accept an accelerator; without an accelerator, machines with the region's
    built-in accelerators."""
    known = region_accelerators().get(region)
    return [
        Choice(machine.name, machine_summary(machine, kind))
        for machine in machines().values()
        if (kind in dict(machine.accelerators) if kind else known is None or _is_in(machine, known))
    ]


def _is_in(machine: Machine, known: Sequence[str]) -> bool:
    """Return whether the region has the machine's built-in accelerators; N1 machines need none
    (docs/facts/vertex.md 8.1)."""
    own = {documented_name(machine.name, kind, 1) for kind, _ in machine.accelerators}
    if is_tpu(machine.name):
        own.add(documented_name(machine.name, "", 0))
    return not own or machine.name.startswith("n1-") or not own.isdisjoint(known)


def machine_summary(machine: Machine, kind: str = "") -> str:
    """Describe a machine, e.g. `96 vCPU  680 GB  8 × A100`."""
    parts = [f"{machine.vcpus} vCPU", f"{machine.memory_gb:g} GB"] if machine.vcpus else []
    built_in = len(machine.accelerators) == 1 and not machine.name.startswith("n1-")
    for own, counts in machine.accelerators:
        if own == kind or (built_in and not kind):
            parts.append(f"{' or '.join(map(str, counts))} × {ACCELERATOR_SHORT.get(own, own)}")
    return "  ".join(parts)


def pools_path(root: Any, spec_path: Path) -> Path:
    """Return the path of the worker pools."""
    return actual(root, (*spec_path, "workerPoolSpecs"))
