"""Machines, accelerators, regions and quota metrics of Vertex AI training, from the facts' tables. The tables
date from 2026-08-22 (documentation crawl); a response of the service overrides them."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tui.domain.core.formatting import ACCELERATOR_SHORT

SERVICE = "aiplatform.googleapis.com"
REDUCTION_SERVER = "vertex-ai-restricted/training/reductionserver"

FLEX_ACCELERATORS = frozenset(
    {
        "NVIDIA_L4",
        "NVIDIA_TESLA_A100",
        "NVIDIA_A100_80GB",
        "NVIDIA_H100_80GB",
        "NVIDIA_H100_MEGA_80GB",
        "NVIDIA_H200_141GB",
        "NVIDIA_B200",
    }
)
"""GPUs that FLEX_START accepts (docs/facts/vertex.md 1.6 and 3.9): L4, A100, H100, H200 and B200, in all
sizes."""

_QUOTA_WORD = {
    "NVIDIA_TESLA_P4": "nvidia_p4_gpus",
    "NVIDIA_TESLA_P100": "nvidia_p100_gpus",
    "NVIDIA_TESLA_V100": "nvidia_v100_gpus",
    "NVIDIA_TESLA_T4": "nvidia_t4_gpus",
    "NVIDIA_L4": "nvidia_l4_gpus",
    "NVIDIA_TESLA_A100": "nvidia_a100_gpus",
    "NVIDIA_A100_80GB": "nvidia_a100_80gb_gpus",
    "NVIDIA_H100_80GB": "nvidia_h100_gpus",
    "NVIDIA_H100_MEGA_80GB": "nvidia_h100_mega_gpus",
    "NVIDIA_H200_141GB": "nvidia_h200_gpus",
    "NVIDIA_B200": "nvidia_b200_gpus",
    "NVIDIA_GB200": "nvidia_gb200_gpus",
    "NVIDIA_RTX_PRO_6000": "nvidia_rtx_pro_6000_gpus",
    "TPU_V2": "tpu_v2",
    "TPU_V3": "tpu_v3",
}


@dataclass(frozen=True, slots=True)
class Machine:
    """A training machine type. `accelerators` are its possible types, each with the allowed counts."""

    name: str
    vcpus: int
    memory_gb: float
    accelerators: tuple[tuple[str, tuple[int, ...]], ...]
    tpu_topologies: tuple[str, ...] = ()


@cache
def _table(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((Path(__file__).parent / "data" / name).read_text())
    return loaded


@cache
def machines() -> dict[str, Machine]:
    """Return every documented training machine type, by name."""
    machines_by_name = {}
    for name, raw in _table("machines.json")["machines"].items():
        pairs = [(kind, tuple(counts)) for kind, counts in raw.get("attachable", {}).items()]
        if raw.get("accelerator_type"):
            pairs.append((raw["accelerator_type"], tuple(raw["accelerator_count"])))
        machines_by_name[name] = Machine(
            name,
            int(raw.get("vcpu") or 0),
            float(raw.get("ram_gb") or 0),
            tuple(pairs),
            tuple(raw.get("tpu_topologies", ())),
        )
    return machines_by_name


def built_in_accelerator(machine: str) -> tuple[str, int]:
    """Return the built-in accelerators of a machine type and their number; ("", 0) without built-in
    accelerators."""
    known = machines().get(machine)
    if known is None or len(known.accelerators) != 1 or len(known.accelerators[0][1]) != 1:
        return "", 0
    kind, (count,) = known.accelerators[0]
    return kind, count


def quota_metrics(
    machine_type: str, accelerator_type: str, accelerator_count: int, *, preemptible: bool
) -> dict[str, int]:
    """Return the training quota metrics (without the service's prefix) that one replica uses, with the
    amounts. The metrics are accelerators by type, and CPUs for the N1 and E2 families, whose metric is the
    only CPU metric with a known name (docs/facts/vertex.md 7.2). Spot and Flex-start use the preemptible
    metrics."""
    stem = "custom_model_training_" + ("preemptible_" if preemptible else "")
    amounts: dict[str, int] = {}
    if accelerator_count and accelerator_type in _QUOTA_WORD:
        amounts[stem + _QUOTA_WORD[accelerator_type]] = accelerator_count
    machine = machines().get(machine_type)
    if machine is not None and machine_type.startswith(("n1-", "e2-")):
        amounts[stem + "cpus"] = machine.vcpus
    return amounts


def quota_word(accelerator_type: str) -> str:
    """Return the accelerator's part of its quota metrics, e.g. `nvidia_a100_gpus`, or ""."""
    return _QUOTA_WORD.get(accelerator_type, "")


def quota_words() -> dict[str, str]:
    """Return accelerators' short names by their part of the metrics, in the order of the API's types."""
    return {word: ACCELERATOR_SHORT[kind] for kind, word in _QUOTA_WORD.items()}


def all_quota_metrics() -> list[str]:
    """Return every known training quota metric, standard and preemptible."""
    words = ["cpus", *dict.fromkeys(_QUOTA_WORD.values())]
    stems = ("custom_model_training_", "custom_model_training_preemptible_")
    return [
        stem + word for stem in stems for word in words if not (word.startswith("tpu") and stem == stems[1])
    ]


@cache
def regions() -> tuple[str, ...]:
    """Return every region of training jobs, with or without accelerators (docs/facts/vertex.md 2.3)."""
    return tuple(_table("regions.json")["regions"])


_ZONE = re.compile(r"[a-z]+-[a-z]+\d+-[a-z]")


@dataclass(frozen=True, slots=True)
class UnknownRegion:
    """The problem with a region's name, and the fix; `meant` is the only possible region, or ""."""

    message: str
    fix: str
    meant: str = ""


def unknown_region(name: str) -> UnknownRegion | None:
    """Return the problem with a region that does not offer training, or `None`."""
    known = regions()
    if name in known:
        return None
    if _ZONE.fullmatch(name) and name[:-2] in known:
        right = name[:-2]
        return UnknownRegion(f"{name} must be a region, not a zone.", f"Write {right}.", right)
    import difflib  # noqa: PLC0415 - only for a wrong name

    near = difflib.get_close_matches(name.lower(), known, 2, 0.6)
    slip = difflib.get_close_matches(name.lower(), known, 2, 0.92)
    fix = f"Did you mean {near[0]}?" if near else "For example us-central1 or europe-west4."
    return UnknownRegion(f"{name} must be a region for training.", fix, slip[0] if len(slip) == 1 else "")


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Network bandwidth of one worker, in Gbps. `certain` is false if the service does not document it."""

    gbps: float
    certain: bool


def bandwidth(machine_type: str, accelerator_type: str = "", accelerator_count: int = 0) -> Bandwidth | None:
    """Return the network bandwidth of a GPU worker (docs/facts/vertex.md 4); None if unknown. For N1 machines
    only the bandwidth with 8 V100 is documented. The others are assumed to have 2 Gbps per vCPU, at most 32;
    with 4 T4 and 96 vCPUs they have 100."""
    known = _table("bandwidth.json")["machines"].get(machine_type)
    if known:
        return Bandwidth(known["gbps"], known["evidence"] == "DOC")
    machine = machines().get(machine_type)
    if machine is None or not machine_type.startswith("n1-"):
        return None
    if accelerator_type == "NVIDIA_TESLA_V100" and accelerator_count == 8:
        return Bandwidth(100, True)
    if accelerator_type == "NVIDIA_TESLA_T4" and accelerator_count == 4 and machine.vcpus >= 96:
        return Bandwidth(100, False)
    return Bandwidth(min(32, 2 * machine.vcpus), False)


@cache
def region_accelerators() -> dict[str, tuple[str, ...]]:
    """Return accelerators documented for training in each region, by their names in the documentation."""
    return {r: tuple(v["training"]) for r, v in _table("region_accelerators.json")["regions"].items()}


_IN_DOCUMENTS = {
    "NVIDIA_TESLA_P100": "P100",
    "NVIDIA_TESLA_V100": "V100",
    "NVIDIA_TESLA_P4": "P4",
    "NVIDIA_TESLA_T4": "T4",
    "NVIDIA_TESLA_A100": "A100 40GB",
    "NVIDIA_A100_80GB": "A100 80GB",
    "NVIDIA_L4": "L4",
    "NVIDIA_H100_80GB": "H100",
    "NVIDIA_H100_MEGA_80GB": "H100 Mega",
    "NVIDIA_H200_141GB": "H200",
    "NVIDIA_B200": "B200",
    "NVIDIA_GB200": "GB200",
    "NVIDIA_RTX_PRO_6000": "RTX PRO 6000",
    "TPU_V2": "TPU v2",
    "TPU_V3": "TPU v3",
}
_TPU_MACHINES = {"ct5lp-": "TPU v5e", "ct6e-": "TPU v6e", "tpu7x-": "TPU7x"}
TPU_POD_CORES = 32
"""Minimum number of cores in a v2 or v3 pod slice (docs/facts/vertex.md 8.4)."""


def documented_name(machine_type: str, accelerator_type: str, accelerator_count: int) -> str:
    """Return the name of a machine's accelerator on the page of regions, or "" for an unlisted one."""
    for head, name in _TPU_MACHINES.items():
        if machine_type.startswith(head):
            return name
    name = _IN_DOCUMENTS.get(accelerator_type, "")
    return f"{name} Pod" if name.startswith("TPU") and accelerator_count >= TPU_POD_CORES else name


def is_tpu(machine_type: str) -> bool:
    """Return whether a machine type is a TPU, whose job has one replica (docs/facts/vertex.md 8.4)."""
    return machine_type == "cloud-tpu" or machine_type.startswith(tuple(_TPU_MACHINES))


ACCELERATOR_TYPES = (
    "ACCELERATOR_TYPE_UNSPECIFIED",
    "NVIDIA_TESLA_K80",
    *ACCELERATOR_SHORT,
    "TPU_V4_POD",
    "TPU_V5_LITEPOD",
)
"""Every name of the enum (docs/facts/vertex.md 1.4)."""


def check_metric(metric: str) -> None:
    """Raise ValueError for an unknown metric. The error names the metric and similar known metrics."""
    known, metric = all_quota_metrics(), metric.removeprefix(f"{SERVICE}/")
    if metric not in known:
        near = difflib.get_close_matches(metric, known, 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"{metric!r} must be a training quota metric{hint}")
