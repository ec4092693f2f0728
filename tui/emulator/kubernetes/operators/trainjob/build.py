"""Builds the JobSet and PodGroup of a TrainJob."""

from __future__ import annotations

from decimal import Decimal

from tui.emulator.kubernetes.operators.metadata import name_of, owned
from tui.emulator.kubernetes.operators.resources import add, pod_requests, render
from tui.emulator.kubernetes.operators.training.gang import (
    COSCHEDULING,
    GROUP_ANNOTATION,
    GROUP_LABEL,
    VOLCANO,
)
from tui.emulator.kubernetes.operators.trainjob.policies import apply_policy
from tui.emulator.kubernetes.operators.trainjob.runtime import NODE, Runtime, pod_spec, upsert
from tui.emulator.kubernetes.resources import Obj

INITIALIZERS = {"dataset-initializer": "dataset", "model-initializer": "model"}


def build_jobset(trainjob: Obj, runtime: Runtime) -> Obj:
    """Return the TrainJob's JobSet; changes the runtime."""
    apply_policy(runtime)
    for job in runtime.jobs:
        if runtime.ancestor(job) in INITIALIZERS:
            _fill_initializer(trainjob, runtime, job)
        if runtime.is_trainer(job):
            job["replicas"] = 1
            _fill_trainer(runtime, job)
        _mark_gang(runtime, job)
    spec = {**runtime.jobset, "suspend": bool(trainjob["spec"].get("suspend"))}
    marks = {"labels": runtime.labels, "annotations": runtime.annotations}
    metadata = {field: values for field, values in marks.items() if values}
    version = "jobset.x-k8s.io/v1alpha2"
    return owned(trainjob, version, "JobSet", name_of(trainjob), metadata=metadata, spec=spec)


def _fill_initializer(trainjob: Obj, runtime: Runtime, job: Obj) -> None:
    job["replicas"] = 1
    step = runtime.ancestor(job)
    initializer = (trainjob["spec"].get("initializer") or {}).get(INITIALIZERS[step])
    container = runtime.container(job, step)
    if not initializer or container is None:
        return
    if initializer.get("storageUri"):
        upsert(container, "env", "name", {"name": "STORAGE_URI", "value": initializer["storageUri"]})
    upsert(container, "env", "name", *initializer.get("env") or ())
    if initializer.get("secretRef"):
        container.setdefault("envFrom", []).append({"secretRef": {"name": initializer["secretRef"]["name"]}})


def _fill_trainer(runtime: Runtime, job: Obj) -> None:
    container, trainer = runtime.container(job), runtime.trainer
    if container is None or trainer is None:
        return
    for field in ("image", "command", "args"):
        if trainer.get(field) is not None:
            container[field] = trainer[field]
    # The policy's variables win; reserved names have been refused before.
    names = {variable["name"] for variable in container.get("env") or ()}
    upsert(
        container,
        "env",
        "name",
        *(variable for variable in trainer.get("env") or () if variable["name"] not in names),
    )
    if (runtime.policy.get("mpi") or {}).get("runLauncherAsNode"):
        for other in runtime.jobs:
            if other["name"] == NODE and (node := runtime.container(other)) is not None:
                upsert(node, "env", "name", *trainer.get("env") or ())


def _mark_gang(runtime: Runtime, job: Obj) -> None:
    metadata = job["template"]["spec"]["template"].setdefault("metadata", {})
    if "coscheduling" in runtime.gang:
        metadata.setdefault("labels", {})[GROUP_LABEL] = runtime.name
    elif "volcano" in runtime.gang:
        metadata.setdefault("annotations", {})[GROUP_ANNOTATION] = runtime.name


def build_pod_group(trainjob: Obj, runtime: Runtime) -> Obj | None:
    """Return the PodGroup, or None if there is no gang policy."""
    if not runtime.gang:
        return None
    total: dict[str, Decimal] = {}
    members = 0
    for job in runtime.jobs:
        count = runtime.count(job)
        members += count
        add(total, pod_requests(pod_spec(job)), count)
    spec: Obj = {"minMember": members}
    if total:
        spec["minResources"] = {resource: render(resource, amount) for resource, amount in total.items()}
    if "coscheduling" in runtime.gang:
        timeout = (runtime.gang["coscheduling"] or {}).get("scheduleTimeoutSeconds")
        spec["scheduleTimeoutSeconds"] = 60 if timeout is None else int(timeout)
        return owned(trainjob, COSCHEDULING, "PodGroup", name_of(trainjob), spec=spec)
    queue = runtime.annotations.get("scheduling.volcano.sh/queue-name")
    if queue:
        spec["queue"] = queue
    return owned(trainjob, VOLCANO, "PodGroup", name_of(trainjob), spec=spec)
