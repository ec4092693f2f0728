"""The validation of the ClusterQueue webhook (Kueue 0.19, pkg/webhooks/clusterqueue_webhook.go)."""

from __future__ import annotations

from collections.abc import Iterator

from tui.domain.kubernetes import quantity
from tui.emulator.kubernetes.resources import Obj


def cluster_queue_errors(queue: Obj, _old: Obj | None) -> Iterator[str]:
    """Yield the webhook's validation errors for a ClusterQueue."""
    spec = queue.get("spec") or {}
    resources: set[str] = set()
    flavors: set[str] = set()
    for number, group in enumerate(spec.get("resourceGroups") or ()):
        at, covered = f"spec.resourceGroups[{number}]", group["coveredResources"]
        for index, name in enumerate(covered):
            if name in resources:
                yield f'{at}.coveredResources[{index}]: Duplicate value: "{name}"'
            resources.add(name)
        for index, flavor in enumerate(group["flavors"]):
            where = f"{at}.flavors[{index}]"
            for place, (quota, name) in enumerate(zip(flavor["resources"], covered, strict=False)):
                in_cohort = bool(spec.get("cohortName"))
                yield from _quota(quota, name, f"{where}.resources[{place}]", in_cohort)
            if flavor["name"] in flavors:
                yield f'{where}.name: Duplicate value: "{flavor["name"]}"'
            flavors.add(flavor["name"])
    preemption = spec.get("preemption") or {}
    borrowing = (preemption.get("borrowWithinCohort") or {}).get("policy", "Never")
    if preemption.get("reclaimWithinCohort") == "Never" and borrowing != "Never":
        yield "spec.preemption: Invalid value: reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"


def _quota(quota: Obj, name: str, at: str, in_cohort: bool) -> Iterator[str]:
    if quota["name"] != name:
        yield f'{at}.name: Invalid value: "{quota["name"]}": must match the name in coveredResources'
    nominal = quantity.parse(quota["nominalQuota"])
    for field in ("nominalQuota", "borrowingLimit", "lendingLimit"):
        amount = quota.get(field)
        if amount is None:
            continue
        value, invalid = quantity.parse(amount), f'{at}.{field}: Invalid value: "{amount}"'
        if value < 0:
            yield f"{invalid}: must be greater than or equal to 0"
        if field != "nominalQuota" and not in_cohort:
            yield f"{invalid}: must be nil when cohort is empty"
        if field == "lendingLimit" and value > nominal:
            yield f"{invalid}: must be less than or equal to the nominalQuota"
