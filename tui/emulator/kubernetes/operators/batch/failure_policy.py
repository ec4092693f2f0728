"""Evaluates a Job's podFailurePolicy for a failed pod."""

from __future__ import annotations

from dataclasses import dataclass

from tui.emulator.kubernetes.operators.metadata import name_of, namespace_of
from tui.emulator.kubernetes.resources import Obj


@dataclass(frozen=True)
class FailureVerdict:
    """Whether the failure counts towards the backoff limit, and why it fails the job, if it does."""

    counts: bool = True
    fails: str = ""


def judge(policy: Obj | None, pod: Obj) -> FailureVerdict:
    """Apply the first rule that matches the pod; a failure without a match counts."""
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        reason = _match(rule, pod)
        if not reason or rule["action"] == "FailIndex":
            continue
        if rule["action"] == "Ignore":
            return FailureVerdict(counts=False)
        if rule["action"] == "FailJob":
            return FailureVerdict(fails=f"{reason} matching FailJob rule at index {index}")
        return FailureVerdict()
    return FailureVerdict()


def _match(rule: Obj, pod: Obj) -> str:
    where = f"{namespace_of(pod)}/{name_of(pod)}"
    status = pod.get("status") or {}
    codes = rule.get("onExitCodes")
    if codes is not None:
        for field in ("containerStatuses", "initContainerStatuses"):
            for container in status.get(field) or ():
                code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode")
                if code and _is_meant(codes, container.get("name"), code):
                    return f"Container {container.get('name')} for pod {where} failed with exit code {code}"
        return ""
    patterns = rule.get("onPodConditions") or ()
    for condition in status.get("conditions") or ():
        for pattern in patterns:
            expected = (pattern["type"], pattern.get("status", "True"))
            if (condition.get("type"), condition.get("status")) == expected:
                return f"Pod {where} has condition {condition['type']}"
    return ""


def _is_meant(codes: Obj, container: object, code: int) -> bool:
    if codes.get("containerName") not in (None, container):
        return False
    listed = code in (codes.get("values") or ())
    return listed if codes.get("operator") == "In" else not listed
