"""Rules about machines and what is attached to them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from tui.domain import catalog
from tui.domain.rules.base import Case, Finding, Rule

DISKS = ("pd-ssd", "pd-standard", "hyperdisk-balanced")
MIN_DISK, MAX_DISK = 100, 64_000


def machine_type(case: Case) -> Iterator[Finding]:
    for path, pool in case.pools:
        if not pool or case.spec.get("persistentResourceId"):
            continue
        name = (pool.get("machineSpec") or {}).get("machineType", "")
        here = (*path, "machineSpec", "machineType")
        if not name:
            yield Finding(here, "the machine type is missing.", "For example n1-standard-4.")
        elif name not in catalog.machines():
            near = difflib.get_close_matches(name, catalog.machines(), 1, 0.5)
            fix = f"Did you mean {near[0]}?" if near else ""
            yield Finding(here, f"{name} is not a machine type for training.", fix)


def accelerator(case: Case) -> Iterator[Finding]:
    for path, pool in case.pools:
        spec = pool.get("machineSpec") or {}
        machine = catalog.machines().get(spec.get("machineType", ""))
        kind, count = spec.get("acceleratorType", ""), int(spec.get("acceleratorCount", 0))
        if machine is None or machine.name.startswith(("ct5lp", "ct6e", "tpu7x", "cloud-tpu")):
            continue
        allowed = dict(machine.accelerators)
        here = (*path, "machineSpec", "acceleratorType")
        if count and not kind:
            yield Finding(here, "an accelerator count needs an accelerator type.")
        elif kind and kind not in allowed:
            fix = f"It takes {', '.join(allowed)}." if allowed else "It takes none."
            yield Finding(here, f"{kind} can't be attached to {machine.name}.", fix)
        elif kind and count not in allowed[kind]:
            fix = f"Possible are {', '.join(map(str, allowed[kind]))}."
            path_count = (*path, "machineSpec", "acceleratorCount")
            yield Finding(path_count, f"{machine.name} does not come with {count} × {kind}.", fix)
        elif not kind and _built_in(machine):
            only, counts = machine.accelerators[0]
            yield Finding(here, f"{machine.name} has {counts[0]} × {only}, which must be named.")


def _built_in(machine: catalog.Machine) -> bool:
    """The accelerator belongs to the machine; only N1 machines can go without (vertex facts 8.1)."""
    return bool(machine.accelerators) and not machine.name.startswith("n1-")


def disk(case: Case) -> Iterator[Finding]:
    for path, pool in case.pools:
        spec = pool.get("diskSpec") or {}
        kind, size = spec.get("bootDiskType"), spec.get("bootDiskSizeGb")
        if kind is not None and kind not in DISKS:
            fix = f"Possible are {', '.join(DISKS)}."
            yield Finding((*path, "diskSpec", "bootDiskType"), f"{kind} is not a boot disk type here.", fix)
        if size is not None and not MIN_DISK <= int(size) <= MAX_DISK:
            where = (*path, "diskSpec", "bootDiskSizeGb")
            yield Finding(where, f"{size} GB is outside {MIN_DISK} to {MAX_DISK}.")


RULES = (
    Rule("machine.type", "vertex facts 8", machine_type),
    Rule("machine.accelerator", "vertex facts 8.1 and 8.2", accelerator),
    Rule("machine.disk", "vertex facts 8.6", disk),
)
