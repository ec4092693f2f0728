"""The validation of the JobSet webhook (JobSet 0.12, pkg/webhooks/jobset_webhook.go)."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Collection, Iterator

from tui.emulator.kubernetes.admission.names import rfc1035_problems, subdomain_problems, value_problem
from tui.emulator.kubernetes.errors import FieldCause
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators.jobset.child_jobs import (
    claims,
    coordinator_address,
    job_name,
    mounts,
    replicated_jobs,
)
from tui.emulator.kubernetes.operators.metadata import name_of, namespace_of
from tui.emulator.kubernetes.resources import Obj

_REASONS = (
    "BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)  # fmt: skip
_GATED = frozenset({"RestartJob", "RestartJobAndIgnoreMaxRestarts"})
_RULE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_MOST_PODS = 2**31 - 1
_PLACEMENT, _MARKS = ("nodeSelector", "tolerations", "schedulingGates"), ("labels", "annotations")


def jobset_causes(objects: Objects, jobset: Obj, old: Obj | None) -> Iterator[FieldCause]:
    """Yield the webhook's validation errors for a new or changed JobSet that has its defaults."""
    if old is not None:
        yield from _changes(jobset, old)
        return
    spec, jobs = jobset["spec"], replicated_jobs(jobset)
    names, policy = [job["name"] for job in jobs], spec.get("failurePolicy") or {}
    if policy.get("restartStrategy") == "InPlaceRestart":
        strategy = "InPlaceRestart restart strategy"
        yield _error(f"{strategy} cannot be set when InPlaceRestart feature gate is disabled")
    if jobs and jobs[0].get("dependsOn") is not None:
        yield _error("DependsOn can't be set for the first ReplicatedJob")
    subdomain = str(spec["network"].get("subdomain") or "")
    too_long = ".spec.network.subdomain is too long, must be less than 63 characters"
    for problem in subdomain and [*subdomain_problems(subdomain), *rfc1035_problems(subdomain, too_long)]:
        yield _invalid("spec.network.subdomain", subdomain, problem)
    manager = str(spec.get("managedBy", "acme.io/foo"))
    if "/" not in manager or subdomain_problems(manager.partition("/")[0]):
        yield _invalid("spec.managedBy", manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
    for index, job in enumerate(jobs):
        yield from _replicated_job(jobset, job, f"spec.replicatedJobs[{index}]", names[: index + 1])
    for name in spec["successPolicy"].get("targetReplicatedJobs") or ():
        if name not in names:
            yield _error(f"invalid replicatedJob name '{name}' does not appear in .spec.ReplicatedJobs")
    yield from _failure_rules(policy.get("rules") or (), names)
    if spec.get("coordinator"):
        yield from _coordinator(jobset)
    yield from _claims(objects, jobset)


def _replicated_job(jobset: Obj, job: Obj, at: str, names: Collection[str]) -> Iterator[FieldCause]:
    spec, replicas = job["template"]["spec"], int(job["replicas"])
    if not _pod(job).get("containers"):
        where = f"{at}.template.spec.template.spec.containers"
        yield FieldCause(where, "Required value", "FieldValueRequired")
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    if (1 if parallelism is None else int(parallelism)) * replicas > _MOST_PODS:
        most = f"{_MOST_PODS} for replicatedJob '{job['name']}'"
        yield _error(f"the product of replicas and parallelism must not exceed {most}")
    too_long = ".spec.replicatedJob[].groupName is too long, must be less than 63 characters"
    for problem in rfc1035_problems(job["groupName"], too_long):
        yield _invalid(f"{at}.groupName", job["groupName"], problem)
    longest = job_name(jobset, job, replicas - 1)
    generated = {"job": longest}
    if spec.get("completionMode") == "Indexed" and completions is not None:
        generated["pod"] = f"{longest}-{int(completions) - 1}-abcde"
    for kind, name in generated.items():
        too_long = f"{kind} names generated for this JobSet will exceed 63 characters"
        for problem in rfc1035_problems(name, f"JobSet name is too long, {too_long}"):
            yield _invalid(f"{at}.name", longest, problem)
    for dependency in job.get("dependsOn") or ():
        if dependency["name"] not in names:
            yield _error(f"replicatedJob: {job['name']} cannot depend on replicatedJob: {dependency['name']}")


def _failure_rules(rules: Collection[Obj], names: Collection[str]) -> Iterator[FieldCause]:
    if any(rule["action"] in _GATED for rule in rules):
        refusal = "failure policy actions are not allowed when RestartJob feature gate is disabled"
        yield _error(f"RestartJob and RestartJobAndIgnoreMaxRestarts {refusal}")
        return
    indices: dict[str, list[str]] = {}
    for index, rule in enumerate(rules):
        name = rule["name"]
        indices.setdefault(name, []).append(str(index))
        if len(name) > 128:
            limits = "must be at least 1 characters long and at most 128 characters long"
            why = f"of length {len(name)}, the rule name {limits}"
            yield _error(f"invalid failure policy rule name {why}")
        if not _RULE_NAME.fullmatch(name):
            yield _error(
                f"invalid failure policy rule name '{name}', a failure policy rule name must start with an "
                "alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', "
                "and must end with an alphanumeric character or '_'"
            )
        for target in rule.get("targetReplicatedJobs") or ():
            if target not in names:
                where = "in failure policy does not appear in .spec.ReplicatedJobs"
                yield _error(f"invalid replicatedJob name '{target}' {where}")
        for reason in rule.get("onJobFailureReasons") or ():
            if reason not in _REASONS:
                why = "in failure policy is not a recognized job failure reason"
                yield _error(f"invalid job failure reason '{reason}' {why}")
    for name, alike in indices.items():
        if len(alike) > 1:
            which = f"rules with indices [{' '.join(alike)}] all have the same name '{name}'"
            yield _error(f"rule names are not unique, {which}")


def _coordinator(jobset: Obj) -> Iterator[FieldCause]:
    coordinator = jobset["spec"]["coordinator"]
    name, job_index = coordinator["replicatedJob"], int(coordinator.get("jobIndex") or 0)
    job = next((job for job in replicated_jobs(jobset) if job["name"] == name), None)
    spec, pod_index = job["template"]["spec"] if job else {}, int(coordinator.get("podIndex") or 0)
    if job is None:
        yield _error(f"coordinator replicatedJob {name} does not exist")
    elif not 0 <= job_index < int(job["replicas"]):
        yield _error(f"coordinator job index {job_index} is invalid for replicatedJob {name}")
    elif spec.get("completionMode") != "Indexed" or spec.get("completions") is None:
        requirement = "must be indexed completion mode, and completions number must be set"
        yield _error(f"job for coordinator pod {requirement}")
    elif not 0 <= pod_index < int(spec["completions"]):
        where = f"replicatedJob {name} job index {job_index}"
        yield _error(f"coordinator pod index {pod_index} is invalid for {where}")
    address = coordinator_address(jobset)
    problem = value_problem(address)
    if problem:
        label = '"jobset.sigs.k8s.io/coordinator" (long JobSet / ReplicatedJob / SubDomain name?)'
        value = f'invalid label value "{address}" for coordinator label {label}'
        yield _error(f"spec will lead to {value}: {problem}")


def _claims(objects: Objects, jobset: Obj) -> Iterator[FieldCause]:
    jobs, namespace = replicated_jobs(jobset), namespace_of(jobset)
    seen: set[str] = set()
    for at, template, claim in claims(jobset):
        name, own = (template.get("metadata") or {}).get("name", ""), name_of(claim)
        problems = subdomain_problems(name)
        problems += ["names must be unique for VolumeClaimPolicies template"] if name in seen else []
        problems += ["VolumeClaimPolicies template name is too long"] if len(own) > 63 else []
        for problem in problems:
            yield _invalid(f"{at}.name", name, problem)
        seen.add(name)
        for index, job in enumerate(jobs):
            for number, volume in enumerate(_pod(job).get("volumes") or ()):
                if volume.get("name") == name:
                    inner = f"template.spec.template.spec.volumes[{number}].name"
                    why = f"volume name conflicts with VolumeClaimPolicy template name: {name}"
                    yield _invalid(f"spec.replicatedJobs[{index}].{inner}", name, why)
        if not any(mounts(_pod(job), name) for job in jobs):
            why = f"containers don't have a matching volumeMount: {name} from VolumeClaimPolicies"
            yield _invalid("spec.replicatedJobs", [job["name"] for job in jobs], f"replicatedJob {why}")
        present = objects.find(objects.resource("persistentvolumeclaims"), namespace, own)
        if present is not None and present.get("spec") != template.get("spec"):
            why = f"spec does not match existing PVC {own} in namespace {namespace}"
            yield _invalid(f"{at}.spec", template.get("spec"), why)
        if present is not None and claim["metadata"].get("ownerReferences"):
            where = f"{at.partition('.template')[0]}.retentionPolicy.whenDeleted"
            yield _invalid(where, "Delete", "retentionPolicy must be retain when PVC exists")


def _changes(jobset: Obj, old: Obj) -> Iterator[FieldCause]:
    """Check that only the placement of pods changes, and only while the JobSet is suspended."""
    free = bool(old["spec"].get("suspend") or jobset["spec"].get("suspend"))
    before, now = ([_fixed(job, free) for job in replicated_jobs(version)] for version in (old, jobset))
    manager, former = jobset["spec"].get("managedBy"), old["spec"].get("managedBy")
    for field, new, known in (("replicatedJobs", now, before), ("managedBy", manager, former)):
        if new != known:
            yield _invalid(f"spec.{field}", new, "field is immutable")


def _fixed(job: Obj, suspended: bool) -> Obj:
    """Return a replicated job without the fields that may change; their absence equals emptiness."""
    copied: Obj = copy.deepcopy(job)
    pods = copied["template"]["spec"].get("template") or {}
    metadata = pods.get("metadata") or {}
    for holder, names in ((_pod(copied), _PLACEMENT), (metadata, _MARKS)):
        for name in names:
            if suspended or not holder.get(name):
                holder.pop(name, None)
    if not metadata:
        pods.pop("metadata", None)
    return copied


def _pod(job: Obj) -> Obj:
    pod: Obj = (job["template"]["spec"].get("template") or {}).get("spec") or {}
    return pod


def _error(message: str) -> FieldCause:
    return FieldCause("<nil>", f"Internal error: {message}", "InternalError")


def _invalid(field: str, value: object, why: str) -> FieldCause:
    return FieldCause(field, f"Invalid value: {json.dumps(value, separators=(',', ':'))}: {why}")
