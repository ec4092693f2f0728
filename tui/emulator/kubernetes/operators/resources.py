"""Resource requests of pods as exact amounts."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from tui.domain.kubernetes import quantity
from tui.emulator.kubernetes.resources import Obj

Amounts = dict[str, Decimal]


def container_requests(container: Obj) -> Amounts:
    """Return the requests of a container; a limit is also a request."""
    resources = container.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {resource: quantity.parse(amount) for resource, amount in amounts.items()}


def pod_requests(spec: Obj) -> Amounts:
    """Return the requests of a pod: the sum of its containers, or the largest init container."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        add(total, container_requests(container))
    for container in spec.get("initContainers") or ():
        for resource, amount in container_requests(container).items():
            total[resource] = max(total.get(resource, Decimal(0)), amount)
    add(total, {name: quantity.parse(amount) for name, amount in (spec.get("overhead") or {}).items()})
    return total


def add(total: Amounts, more: Mapping[str, Decimal], times: int = 1) -> None:
    """Add amounts, in place."""
    for resource, amount in more.items():
        total[resource] = total.get(resource, Decimal(0)) + amount * times


_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi")


def render(resource: str, amount: Decimal) -> str:
    """Format an amount like Kubernetes: CPUs in thousandths, bytes in the largest whole unit."""
    if resource == "cpu" or amount != amount.to_integral_value():
        thousandths = amount.scaleb(3).to_integral_value()
        whole = thousandths % 1000 == 0
        return str(int(amount)) if whole else f"{int(thousandths)}m"
    number, unit = int(amount), ""
    if resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-"):
        for prefix in _BINARY:
            if number == 0 or number % 1024:
                break
            number, unit = number // 1024, prefix
    return f"{number}{unit}"
