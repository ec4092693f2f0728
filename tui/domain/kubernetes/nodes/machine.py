"""The machine of a node, from its labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tui.domain.core.replica import ACCELERATOR_COUNT, INSTANCE_TYPE, REGION
from tui.domain.kubernetes.accelerators import VERTEX
from tui.domain.kubernetes.workloads import ACCELERATOR, FLEX_START, SPOT, fields, whole
from tui.domain.vertex import catalog


@dataclass(frozen=True, slots=True)
class NodeMachine:
    """A node's machine, derived from its labels."""

    machine_type: str = ""
    region: str = ""
    accelerator_type: str = ""
    """Vertex AI's name, as in prices, or GKE's name for a type that Vertex AI lacks."""
    accelerator_count: int = 0
    strategy: str = "STANDARD"


def machine_of(node: Mapping[str, Any]) -> NodeMachine:
    """Return the machine of a node, of which only the metadata is needed."""
    labels = fields(node, "metadata", "labels")
    machine_type, named = str(labels.get(INSTANCE_TYPE) or ""), str(labels.get(ACCELERATOR) or "")
    kind = VERTEX.get(named, named)
    return NodeMachine(
        machine_type,
        str(labels.get(REGION) or ""),
        kind,
        (whole(labels.get(ACCELERATOR_COUNT)) or _built_in(machine_type, kind)) if kind else 0,
        _strategy(labels),
    )


def _built_in(machine_type: str, accelerator: str) -> int:
    """Return the fixed number of accelerators of a machine type, or 0 for a variable number."""
    machine = catalog.machines().get(machine_type)
    counts = dict(machine.accelerators).get(accelerator, ()) if machine else ()
    return counts[0] if len(counts) == 1 else 0


def _strategy(labels: Mapping[str, Any]) -> str:
    for label, strategy in ((SPOT, "SPOT"), (FLEX_START, "FLEX_START")):
        if str(labels.get(label, "")).lower() == "true":
            return strategy
    return "STANDARD"
