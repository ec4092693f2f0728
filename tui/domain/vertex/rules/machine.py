"""Rules about machines with their accelerators and disks."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.spec.custom_job_spec import machine_of, whole, within
from tui.domain.spec.findings import Case, Finding, Path, Rule
from tui.domain.vertex import catalog
from tui.domain.vertex.sources import COMPUTE, SPEC

DISKS = ("pd-ssd", "pd-standard", "hyperdisk-balanced")
MIN_DISK, MAX_DISK = 100, 64_000
HYPERDISK_MACHINES = ("a3-ultragpu-8g", "a4-highgpu-8g")
SPARE_H100 = ("a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g")
SCARCE = ("a3-megagpu-8g", "a3-ultragpu-8g", "a4-highgpu-8g")
GIB = "set_nccl_env.sh"
_RDMA = ("a3-ultragpu-8g", "a4-highgpu-8g", "a4x-highgpu-4g")
_NOT_OFFERED = {
    "NVIDIA_TESLA_K80": ("K80 GPUs are no longer offered.", "Use NVIDIA_TESLA_T4, the closest type."),
    "TPU_V4_POD": (
        "TPU v4 is not offered for training.",
        "Use v5e (a ct5lp machine) or v6e (ct6e) with a tpuTopology.",
    ),
    "TPU_V5_LITEPOD": (
        "TPU v5e must be selected by the machine type and tpuTopology.",
        "Use a ct5lp machine with a tpuTopology, and remove the accelerator.",
    ),
}
_MEANT = {"a2-highgpu-16g": "a2-megagpu-16g", "a3-highgpu-16g": "", "a2-megagpu-8g": "a2-highgpu-8g"}


def machine_type(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name = machine_of(pool)[0]
        here = (*path, "machineSpec", "machineType")
        if not name:
            if not case.spec.get("persistentResourceId") or case.local:
                yield Finding(
                    here,
                    "the pool must have a machine type.",
                    "Add a machine type, for example n1-standard-4.",
                )
        elif name not in catalog.machines():
            meant, sure = _meant(name)
            fix = f"Did you mean {meant}?" if meant else "The machine field of the form lists the types."
            edits = (Edit(here, meant),) if sure else ()
            yield Finding(here, f"{name} must be a machine type for training{_because(name)}.", fix, edits)


@cache
def _meant(name: str) -> tuple[str, bool]:
    """Return the probably intended machine type, and whether it is the only candidate."""
    if name in _MEANT:
        return _MEANT[name], bool(_MEANT[name])
    smallest = _smallest(name)
    if smallest:
        return smallest, True
    # A wrong number is never treated as a typing error: 33 is not a misspelt 32.
    likely = [known for known in catalog.machines() if _figures(known) == _figures(name)]
    typed = _squeezed(name)
    same = [known for known in likely if _squeezed(known) == typed]
    slips = same or [known for known in likely if _is_slip(typed, _squeezed(known))]
    near = slips or difflib.get_close_matches(name.lower(), catalog.machines(), 1, 0.5)
    return (near[0] if near else ""), len(slips) == 1


def _squeezed(name: str) -> str:
    """Keep only letters and digits, in lower case."""
    return "".join(c for c in name.casefold() if c.isalnum())


def _is_slip(typed: str, known: str) -> bool:
    """Return whether exactly one letter is extra, missing, wrong or swapped."""
    if abs(len(typed) - len(known)) > 1:
        return False
    start = next((i for i, (a, b) in enumerate(zip(typed, known, strict=False)) if a != b), len(typed))
    typed_rest, other = typed[start:], known[start:]
    swapped = typed_rest[1:2] + typed_rest[:1] + typed_rest[2:]
    return other in {typed_rest[1:], swapped} or typed_rest[1:] == other[1:] or typed_rest == other[1:]


def _figures(name: str) -> list[str]:
    return re.findall(r"\d+", name)


def _smallest(name: str) -> str:
    """Return the smallest machine of the family if `name` is below it; else ""."""
    stem, _, size = name.rpartition("-")
    known = [
        m for m in catalog.machines() if m.rpartition("-")[0] == stem and m.rpartition("-")[2].isdecimal()
    ]
    smallest = min(known, key=lambda m: int(m.rpartition("-")[2]), default="")
    below = smallest and size.isdecimal() and int(size) < int(smallest.rpartition("-")[2])
    return smallest if below else ""


def _because(name: str) -> str:
    if name in _MEANT and name.endswith("-16g"):
        return ": only a2-megagpu-16g has 16 GPUs"
    smallest = _smallest(name)
    return f": the smallest of the family is {smallest}" if smallest else ""


def accelerator(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name, kind, count = machine_of(pool)
        machine = catalog.machines().get(name)
        if kind in _NOT_OFFERED or catalog.is_tpu(name) or _wrong_memory(name, kind):
            continue
        here = (*path, "machineSpec", "acceleratorType")
        here_count = (*path, "machineSpec", "acceleratorCount")
        if machine is None:
            if bool(kind) != (count > 0):
                sentence = "accelerator type and count must be set together."
                yield Finding(here, sentence, "Add the missing field, or remove this field.")
        elif not kind:
            yield from _without(machine, count, here)
        elif kind not in dict(machine.accelerators):
            yield from _foreign(machine, kind, here)
        elif count not in (fitting := dict(machine.accelerators)[kind]):
            edits = (Edit(here_count, fitting[0]),) if len(fitting) == 1 else ()
            complaint = f"does not come with {count} × {kind}" if count else f"needs the number of {kind}"
            fix = f"Write {' or '.join(map(str, fitting))}{_machine_for(kind, count)}."
            yield Finding(here_count, f"{name} {complaint}.", fix, edits)


def _without(machine: catalog.Machine, count: int, here: Path) -> Iterator[Finding]:
    """Report a missing accelerator type: wrong with a count, and on a machine with built-in GPUs."""
    here_count = (*here[:-1], "acceleratorCount")
    if machine.accelerators and not machine.name.startswith("n1-"):
        kind, counts = machine.accelerators[0]
        sentence = f"{machine.name} has {counts[0]} × {kind}; the job must have them too."
        fix = f"Write acceleratorType {kind} and acceleratorCount {counts[0]}."
        yield Finding(here, sentence, fix, (Edit(here, kind), Edit(here_count, counts[0])))
    elif count:
        kinds = ", ".join(kind for kind, _ in machine.accelerators)
        fix = f"Add one of {kinds}." if kinds else "Remove the count."
        edits = () if kinds else (Edit(here_count, REMOVED),)
        yield Finding(here, f"the accelerator count is {count}, but the type is missing.", fix, edits)


def _foreign(machine: catalog.Machine, kind: str, here: Path) -> Iterator[Finding]:
    allowed = dict(machine.accelerators)
    takes = f"it accepts {', '.join(allowed)}" if allowed else "it accepts none"
    only = next(iter(allowed)) if len(allowed) == 1 and not machine.name.startswith("n1-") else ""
    others = [m.name for m in catalog.machines().values() if kind in dict(m.accelerators)]
    fix = f"Write {only}" if only else ""
    others = others or (["cloud-tpu"] if kind in {"TPU_V2", "TPU_V3"} else [])
    if others:
        fix += f"{', or take' if fix else 'Take'} {others[0]} for {kind}"
    # Built-in accelerators can't be changed. On a machine without GPUs the machine type may be the mistake.
    edits = (Edit(here, only), Edit((*here[:-1], "acceleratorCount"), allowed[only][0])) if only else ()
    sentence = f"{kind} can't be attached to {machine.name}: {takes}."
    yield Finding(here, sentence, f"{fix or 'Remove the accelerator'}.", edits)


def _machine_for(kind: str, count: int) -> str:
    """Return another machine with this number of a built-in GPU, as ` (a2-highgpu-4g has 4)`."""
    for machine in catalog.machines().values():
        if not machine.name.startswith("n1-") and count in dict(machine.accelerators).get(kind, ()):
            return f", or use {machine.name}, which has {count}"
    return ""


def not_offered(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        kind = machine_of(pool)[1]
        if kind in _NOT_OFFERED:
            yield Finding((*path, "machineSpec", "acceleratorType"), *_NOT_OFFERED[kind])


def _wrong_memory(machine: str, kind: str) -> str:
    """Return the machine's A100 if the job has the A100 with another memory; else ""."""
    pair = {
        "a2-ultragpu": "NVIDIA_A100_80GB",
        "a2-highgpu": "NVIDIA_TESLA_A100",
        "a2-megagpu": "NVIDIA_TESLA_A100",
    }
    right = pair.get(machine.rpartition("-")[0], "")
    return right if machine in catalog.machines() and kind in set(pair.values()) - {right} and right else ""


def a100_memory(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name, kind, _ = machine_of(pool)
        right = _wrong_memory(name, kind)
        if right:
            here = (*path, "machineSpec", "acceleratorType")
            had, has = ("40", "80") if right.endswith("80GB") else ("80", "40")
            sentence = f"{kind} is the A100 with {had} GB; {name} has the A100 with {has} GB."
            yield Finding(here, sentence, f"Write {right}.", (Edit(here, right),))


def end_of_support(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        if machine_of(pool)[1] == "NVIDIA_TESLA_P100":
            yield Finding(
                (*path, "machineSpec", "acceleratorType"),
                "support for P100 ended on 15 September 2026.",
                "Use T4 or V100 on N1, or a g2 machine with L4.",
            )


def disk_type(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        kind = within(pool, "diskSpec", "bootDiskType")
        if kind and kind not in DISKS:
            where = (*path, "diskSpec", "bootDiskType")
            right = "pd-ssd" if kind in {"pd-balanced", "pd-extreme"} else ""
            near = difflib.get_close_matches(str(kind).lower(), DISKS, 1, 0.7)
            right = right or (near[0] if near else "")
            edits = (Edit(where, right),) if right else ()
            sentence = f"{kind} must be a boot disk type for training: {', '.join(DISKS)}."
            yield Finding(
                where, sentence, f"Write {right}." if right else "Remove the type to use pd-ssd.", edits
            )


def disk_size(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        size = whole(within(pool, "diskSpec", "bootDiskSizeGb"))
        if size and not MIN_DISK <= size <= MAX_DISK:
            where = (*path, "diskSpec", "bootDiskSizeGb")
            right = MIN_DISK if size < MIN_DISK else MAX_DISK
            sentence = f"a boot disk can't have {size:,} GB, only {MIN_DISK} to {MAX_DISK:,} GB."
            yield Finding(where, sentence, f"Write {right}.", (Edit(where, right),))


def disk_family(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name, kind = machine_of(pool)[0], within(pool, "diskSpec", "bootDiskType")
        if name in HYPERDISK_MACHINES and kind in DISKS[:2]:
            where = (*path, "diskSpec", "bootDiskType")
            yield Finding(
                where,
                f"{name} boots from hyperdisk-balanced by default; {kind} is not documented for it.",
                "Remove the type, or write hyperdisk-balanced.",
                (Edit(where, "hyperdisk-balanced"),),
            )


def small_h100(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name = machine_of(pool)[0]
        if name in SPARE_H100 and case.strategy == "STANDARD":
            yield Finding(
                (*path, "machineSpec", "machineType"),
                f"{name} reportedly starts only as Spot or Flex-start; this is not documented.",
                "Set scheduling.strategy to SPOT or FLEX_START, or use a3-highgpu-8g.",
            )


def needs_reservation(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name = machine_of(pool)[0]
        kind = within(pool, "machineSpec", "reservationAffinity", "reservationAffinityType")
        if (
            name == "a4x-highgpu-4g"
            and kind not in {"ANY_RESERVATION", "SPECIFIC_RESERVATION"}
            and not case.local
        ):
            yield Finding(
                (*path, "machineSpec", "reservationAffinity"),
                "a4x-highgpu-4g runs only on a shared reservation.",
                "Add the reservation, with reservationAffinityType SPECIFIC_RESERVATION.",
            )


def scarce(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name = machine_of(pool)[0]
        reserved = within(pool, "machineSpec", "reservationAffinity")
        if name in SCARCE and case.strategy == "STANDARD" and not reserved and not case.local:
            yield Finding(
                (*path, "machineSpec", "machineType"),
                f"{name} is scarce; use a reservation or Spot.",
                "Otherwise the job may wait a long time for capacity.",
            )


def partition(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        if within(pool, "machineSpec", "gpuPartitionSize"):
            yield Finding(
                (*path, "machineSpec", "gpuPartitionSize"),
                "GPU partitions are for serving; the documentation does not mention them for training.",
                "Remove the partition size to use entire GPUs.",
            )


def fast_network(case: Case) -> Iterator[Finding]:
    if len(case.used) < 2:
        return
    for path, pool in case.used:
        name, container = machine_of(pool)[0], pool.get("containerSpec") or {}
        words = " ".join(map(str, [*(container.get("command") or []), *(container.get("args") or [])]))
        if name in _RDMA and container.get("command") and GIB not in words:
            yield Finding(
                (*path, "containerSpec", "command"),
                f"on {name}, NCCL uses the fast network only after {GIB} has set its variables.",
                f"Begin the command with `source /usr/local/gib/scripts/{GIB}`, unless the image does so.",
            )


RULES = (
    Rule("machine.type", COMPUTE, machine_type),
    Rule("machine.not-offered", COMPUTE, not_offered),
    Rule("machine.a100-memory", COMPUTE, a100_memory),
    Rule("machine.accelerator", COMPUTE, accelerator),
    Rule("machine.end-of-support", COMPUTE, end_of_support, ProblemSeverity.WARNING),
    Rule("machine.disk-type", COMPUTE, disk_type),
    Rule("machine.disk-size", COMPUTE, disk_size),
    Rule("machine.disk-family", COMPUTE, disk_family, ProblemSeverity.WARNING),
    Rule("machine.small-h100", COMPUTE, small_h100, ProblemSeverity.WARNING),
    Rule("machine.reservation", COMPUTE, needs_reservation),
    Rule("machine.scarce", COMPUTE, scarce, ProblemSeverity.NOTE),
    Rule("machine.partition", SPEC, partition, ProblemSeverity.WARNING),
    Rule("machine.fast-network", "docs/facts/vertex.md 3.9", fast_network, ProblemSeverity.NOTE),
)
