"""Defaults that an operator's admission webhook sets before the API checks a new object."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tui.domain.kubernetes.workloads import elements


def with_webhook_defaults(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of an object with its webhook's defaults; ill-typed fields stay as they are."""
    filled: dict[str, Any] = copy.deepcopy(dict(obj))
    spec = filled.get("spec")
    if filled.get("kind") == "JobSet" and spec is None:
        spec = filled["spec"] = {}
    if filled.get("kind") != "JobSet" or not isinstance(spec, dict):
        return filled
    _default(spec, successPolicy={"operator": "All"}, startupPolicy={"startupPolicyOrder": "AnyOrder"})
    _default(_filled(spec, "network"), enableDNSHostnames=True, publishNotReadyAddresses=True)
    for index, rule in enumerate(elements(spec, "failurePolicy", "rules")):
        _default(rule, name=f"failurePolicyRule{index}")
    for policy in elements(spec, "volumeClaimPolicies"):
        _default(policy, retentionPolicy={"whenDeleted": "Delete"})
    for replicated in elements(spec, "replicatedJobs"):
        job = _filled(replicated, "template", "spec")
        _default(job, completionMode="Indexed")
        _default(_filled(job, "template", "spec"), restartPolicy="OnFailure")
    return filled


def _filled(holder: Any, *path: str) -> Any:
    """Return the fields at a path, created where they are missing, as Go decodes them."""
    for name in path:
        _default(holder, **{name: {}})
        holder = holder.get(name) if isinstance(holder, dict) else None
    return holder


def _default(holder: Any, **defaults: Any) -> None:
    for name, value in defaults.items():
        if isinstance(holder, dict) and holder.get(name) in (None, ""):
            holder[name] = value
