"""Checks of batch Jobs beyond their schema."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tui.emulator.kubernetes.admission.names import value_problem
from tui.emulator.kubernetes.admission.pod_checks import pod_causes, unsupported
from tui.emulator.kubernetes.errors import FieldCause
from tui.emulator.kubernetes.resources import Obj

_NOT_NEGATIVE = (
    "parallelism", "completions", "backoffLimit", "backoffLimitPerIndex", "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
)  # fmt: skip
_IMMUTABLE = (
    "completionMode",
    "selector",
    "template",
    "podFailurePolicy",
    "managedBy",
    "backoffLimitPerIndex",
)
_ENUMS = (
    ("completionMode", ("NonIndexed", "Indexed")),
    ("podReplacementPolicy", ("Failed", "TerminatingOrFailed")),
)
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_PLACEMENT = {"nodeSelector", "tolerations", "affinity", "schedulingGates"}


def job_causes(job: Obj, old: Obj | None) -> Iterator[FieldCause]:
    """Yield the invalid fields of a new or changed Job."""
    spec, before = job.setdefault("spec", {}), (old or {}).get("spec")
    spec.setdefault("template", {})
    yield from _numbers(spec)
    yield from _selector(job)
    if old is None:
        label = str(job["metadata"].get("name") or "")
        problem = value_problem(label) if not spec.get("manualSelector") else ""
        if problem:
            yield FieldCause("spec.template.labels", f'Invalid value: "{label}": {problem}')
        yield from pod_causes(spec["template"].get("spec") or {}, "spec.template.spec", job=True)
    policy = (spec["template"].get("spec") or {}).get("restartPolicy")
    if policy not in {"OnFailure", "Never"}:
        why = 'Required value: valid values: "OnFailure", "Never"'
        yield FieldCause("spec.template.spec.restartPolicy", why, "FieldValueRequired")
    for field, supported in _ENUMS:
        value = spec.get(field)
        if value is not None and value not in supported:
            yield unsupported(f"spec.{field}", value, supported)
    yield from _failure_rules((spec.get("podFailurePolicy") or {}).get("rules") or [])
    if spec.get("backoffLimitPerIndex") is not None and spec.get("completionMode") != "Indexed":
        why = f"Invalid value: {spec['backoffLimitPerIndex']}: requires indexed completion mode"
        yield FieldCause("spec.backoffLimitPerIndex", why)
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        why = "Required value: when completion mode is Indexed"
        yield FieldCause("spec.completions", why, "FieldValueRequired")
    if before is not None:
        yield from _changes(spec, before)


def _numbers(spec: Obj) -> Iterator[FieldCause]:
    for field in _NOT_NEGATIVE:
        value = spec.get(field)
        if isinstance(value, int) and value < 0:
            yield FieldCause(f"spec.{field}", f"Invalid value: {value}: must be greater than or equal to 0")


def _selector(job: Obj) -> Iterator[FieldCause]:
    spec, labels = job["spec"], (job["spec"]["template"].get("metadata") or {}).get("labels") or {}
    match_labels = (spec.get("selector") or {}).get("matchLabels") or {}
    if spec.get("manualSelector"):
        if not match_labels:
            yield FieldCause("spec.selector", "Required value", "FieldValueRequired")
    elif set(match_labels) - {"batch.kubernetes.io/controller-uid", "controller-uid"}:
        shown = json.dumps(spec["selector"], separators=(",", ":"))
        yield FieldCause("spec.selector", f"Invalid value: {shown}: `selector` not auto-generated")
    if not match_labels or not match_labels.items() <= labels.items():
        shown = json.dumps(labels, separators=(",", ":"), sort_keys=True) if labels else "null"
        why = f"Invalid value: {shown}: `selector` does not match template `labels`"
        yield FieldCause("spec.template.metadata.labels", why)


def _failure_rules(rules: list[Obj]) -> Iterator[FieldCause]:
    for number, rule in enumerate(rules):
        at = f"spec.podFailurePolicy.rules[{number}]"
        if rule.get("action") not in _ACTIONS:
            yield unsupported(f"{at}.action", rule.get("action", ""), _ACTIONS)
        if not rule.get("onExitCodes") and not rule.get("onPodConditions"):
            why = "specifying one of OnExitCodes and OnPodConditions is required"
            yield FieldCause(at, f"Invalid value: {why}")


def _changes(spec: Obj, before: Obj) -> Iterator[FieldCause]:
    completions = spec.get("completions")
    if completions != before.get("completions"):
        if spec.get("completionMode") != "Indexed":
            yield FieldCause(
                "spec.completions", f"Invalid value: {json.dumps(completions)}: field is immutable"
            )
        elif completions != spec.get("parallelism"):
            why = "can only be modified in tandem with spec.parallelism"
            yield FieldCause("spec.completions", f"Invalid value: {json.dumps(completions)}: {why}")
    for field in _IMMUTABLE:
        changed = spec.get(field) != before.get(field)
        if field == "template" and before.get("suspend"):
            # The placement of pods may change while the job is suspended; Kueue uses that.
            changed = _without_placement(spec["template"]) != _without_placement(before["template"])
        if changed:
            shown = json.dumps(spec.get(field), separators=(",", ":"), sort_keys=True)
            yield FieldCause(f"spec.{field}", f"Invalid value: {shown}: field is immutable")


def _without_placement(template: Obj) -> Obj:
    kept = {key: value for key, value in (template.get("spec") or {}).items() if key not in _PLACEMENT}
    return {"spec": kept}
