"""Machines of a pipeline's executors, from their containers' resources (docs/facts/vertex.md 11.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.domain.spec.custom_job_spec import within
from tui.domain.spec.field_table import ACCELERATOR
from tui.domain.vertex.catalog import machines

CORES = (4, 8, 16, 32)
"""Cores of e2-standard machines; a component without resources runs on e2-standard-4."""
GB_A_CORE = 4
"""Memory of an e2-standard machine per core, in GB."""
ANY_WITH_ACCELERATOR = "n1-standard-8"
"""Machine type if no documented machine has this number of accelerators."""
_UNITS = {"": 1e-9, "K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3, "Ki": 2**10 / 1e9, "Mi": 2**20 / 1e9,
          "Gi": 2**30 / 1e9, "Ti": 2**40 / 1e9}  # fmt: skip


class NoMachine(Exception):
    """The requested resources do not exist; the message gives the reason, `field` is the location."""

    def __init__(self, message: str, *field: str) -> None:
        super().__init__(message)
        self.field = field


class NotKnown(Exception):
    """The requested resources are known only at run time; the message names the parameter."""


def machine_spec(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the machineSpec (REST format) for the `resources` of a container.

    The service chooses the machine; the result is the smallest documented machine that satisfies the request.

    Raises:
        NoMachine: for an unknown accelerator, or an invalid amount.
        NotKnown: if a parameter determines the resources.
    """
    kind, count = _accelerator(resources)
    cores = _amount(resources, "cpuLimit", "resourceCpuLimit", cpu=True)
    memory = _amount(resources, "memoryLimit", "resourceMemoryLimit", cpu=False)
    if not kind:
        size = next((size for size in CORES if size >= cores and size * GB_A_CORE >= memory), 0)
        bare = [] if size else [m for m in machines().values() if not m.accelerators]
        name = f"e2-standard-{size}" if size else _smallest(bare, cores, memory)
        return {"machineType": name or f"e2-standard-{CORES[-1]}"}
    able = [
        m for m in machines().values() if any(k == kind and count in counts for k, counts in m.accelerators)
    ]
    return {
        "machineType": _smallest(able, max(cores, CORES[0]), memory) or ANY_WITH_ACCELERATOR,
        "acceleratorType": kind,
        "acceleratorCount": count,
    }


def _smallest(able: list[Any], cores: float, memory: float) -> str:
    fitting = [m for m in able if m.vcpus >= cores and m.memory_gb >= memory]
    ordered = sorted(fitting, key=lambda m: (m.vcpus, "-standard-" not in m.name, m.memory_gb, m.name))
    return ordered[0].name if ordered else ""


def _accelerator(resources: Mapping[str, Any]) -> tuple[str, int]:
    requested = resources.get("accelerator")
    accelerator = requested if isinstance(requested, Mapping) else {}
    name = str(accelerator.get("resourceType") or accelerator.get("type") or "")
    _known("accelerator", name)
    # Components use the names of node labels: nvidia-tesla-t4.
    kind = name.upper().replace("-", "_")
    if name and kind not in ACCELERATOR.choices:
        raise NoMachine(f"the accelerator {name!r} does not exist on Vertex AI", "accelerator")
    number = accelerator.get("resourceCount") or accelerator.get("count") or 1
    _known("accelerator", number)
    try:
        count = int(float(number))
    except (TypeError, ValueError, OverflowError) as error:
        raise NoMachine(f"{number!r} must be a number of accelerators", "accelerator") from error
    return kind, max(1, count) if name else 0


def _amount(resources: Mapping[str, Any], old: str, new: str, *, cpu: bool) -> float:
    """Return an amount in cores, or in GB. The old field has numbers; the new field has texts with units."""
    name = new if resources.get(new) else old
    requested = resources.get(name)
    _known(name, requested)
    if requested is None or requested == "":
        return 0.0
    text = str(requested)
    digits = text.rstrip("KMGTikm")
    unit = text[len(digits) :]
    try:
        amount = float(digits)
    except ValueError as error:
        raise NoMachine(f"{requested!r} must be an amount of {'cores' if cpu else 'memory'}", name) from error
    if cpu:
        return amount / 1000 if unit == "m" else amount
    return amount * _UNITS.get(unit, 1.0) if name == new else amount


def _known(name: str, value: Any) -> None:
    if isinstance(value, str) and "{{" in value:
        raise NotKnown(f"a parameter determines its {name}")


def resources_of(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the resources that a container requests."""
    resources = within(container, "resources")
    return resources if isinstance(resources, Mapping) else {}
