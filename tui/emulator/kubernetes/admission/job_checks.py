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
_OPERATORS = ("In", "NotIn")
_MOST_RULES = 20
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
    yield from _failure_rules(spec)
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


def _failure_rules(spec: Obj) -> Iterator[FieldCause]:
    pod = spec["template"].get("spec") or {}
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or []
    if spec.get("podFailurePolicy") and pod.get("restartPolicy") == "OnFailure":
        why = 'Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified'
        yield FieldCause("spec.template.spec.restartPolicy", why)
    if len(rules) > _MOST_RULES:
        why = f"Too many: {len(rules)}: must have at most {_MOST_RULES} items"
        yield FieldCause("spec.podFailurePolicy.rules", why, "FieldValueTooMany")
    containers = [*(pod.get("initContainers") or ()), *(pod.get("containers") or ())]
    names = {container.get("name") for container in containers}
    for number, rule in enumerate(rules):
        at = f"spec.podFailurePolicy.rules[{number}]"
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        if rule.get("action") not in _ACTIONS:
            yield unsupported(f"{at}.action", rule.get("action", ""), _ACTIONS)
        elif rule["action"] == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            why = 'Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set'
            yield FieldCause(f"{at}.action", why)
        if codes:
            yield from _exit_codes(codes, names, f"{at}.onExitCodes")
        if bool(codes) == bool(conditions):
            both = "both OnExitCodes and OnPodConditions is not supported"
            neither = "one of OnExitCodes and OnPodConditions is required"
            yield FieldCause(at, f"Invalid value: specifying {both if codes else neither}")


def _exit_codes(codes: Obj, names: set[str | None], at: str) -> Iterator[FieldCause]:
    operator, values, name = codes.get("operator", ""), codes.get("values") or [], codes.get("containerName")
    if operator not in _OPERATORS:
        yield unsupported(f"{at}.operator", operator, _OPERATORS)
    if name is not None and name not in names:
        why = "must be one of the container or initContainer names in the pod template"
        yield FieldCause(f"{at}.containerName", f"Invalid value: {json.dumps(name)}: {why}")
    shown = json.dumps(values, separators=(",", ":"))
    if not values:
        yield FieldCause(f"{at}.values", f"Invalid value: {shown}: at least one value is required")
    for number, value in enumerate(values):
        if operator == "In" and value == 0:
            why = "Invalid value: 0: must not be 0 for the In operator"
            yield FieldCause(f"{at}.values[{number}]", why)
        if value in values[:number]:
            yield FieldCause(f"{at}.values[{number}]", f"Duplicate value: {value}", "FieldValueDuplicate")
    if values != sorted(values):
        yield FieldCause(f"{at}.values", f"Invalid value: {shown}: must be ordered")


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
