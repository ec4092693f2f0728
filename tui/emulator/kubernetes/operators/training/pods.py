"""Pods and services of a Training Operator job, by replica type and index."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from tui.emulator.kubernetes.operators.metadata import labels_of, name_of, owned
from tui.emulator.kubernetes.operators.training.environment import (
    pytorch_environment,
    replica_name,
    tf_config,
)
from tui.emulator.kubernetes.operators.training.kinds import (
    JOB_ROLE,
    PYTORCH,
    REPLICA_INDEX,
    REPLICA_TYPE,
    TENSORFLOW,
    JobKind,
    main_container,
)
from tui.emulator.kubernetes.resources import Obj

NO_EXIT_CODE = 0xBEEF
"""Exit code of a pod whose main container has none, as in the operator. The operator treats this code as
retryable."""


def by_index(objs: list[Obj], replica_type: str) -> dict[int, list[Obj]]:
    """Return the objects of a replica type by index."""
    by_number: dict[int, list[Obj]] = {}
    for obj in objs:
        labels = labels_of(obj)
        index = labels.get(REPLICA_INDEX, "")
        if labels.get(REPLICA_TYPE) == replica_type.lower() and index.isdigit():
            by_number.setdefault(int(index), []).append(obj)
    return by_number


def of_type(objs: list[Obj], replica_type: str) -> list[Obj]:
    """Return the objects of a replica type."""
    return [obj for obj in objs if labels_of(obj).get(REPLICA_TYPE) == replica_type.lower()]


def exit_code(kind: JobKind, pod: Obj) -> int:
    """Return the exit code of the main container, or NO_EXIT_CODE."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (status.get("state") or {}).get("terminated")
        if status.get("name") == kind.container and ended is not None:
            return int(ended.get("exitCode", 0))
    return NO_EXIT_CODE


def has_master_role(kind: JobKind, job: Obj, replica_type: str, index: int) -> bool:
    """Return whether the pod is the master, whose log and end represent the job."""
    masters = {"Master", "Chief"} & set(kind.specs(job))
    return replica_type in masters if masters else (replica_type == "Worker" and index == 0)


def desired_pod(kind: JobKind, job: Obj, replica_type: str, index: int) -> Obj:
    """Return the pod of one replica of a PyTorchJob or TFJob that has its defaults."""
    replica = kind.specs(job)[replica_type]
    template = copy.deepcopy(replica["template"])
    labels = kind.labels(name_of(job)) | {REPLICA_TYPE: replica_type.lower(), REPLICA_INDEX: str(index)}
    if has_master_role(kind, job, replica_type, index):
        labels[JOB_ROLE] = "master"
    spec = template["spec"]
    _inject_environment(kind, job, spec, replica_type, index)
    spec["restartPolicy"] = pod_restart_policy(replica["restartPolicy"])
    return new_pod(job, replica_name(name_of(job), replica_type, index), template, labels)


def pod_restart_policy(policy: str) -> str:
    """Return a pod's restart policy; kubelets do not support ExitCode."""
    return "Never" if policy == "ExitCode" else policy


def new_pod(job: Obj, name: str, template: Obj, labels: Mapping[str, str]) -> Obj:
    """Return a pod of the job, from a template with its labels and annotations."""
    declared = template.get("metadata") or {}
    metadata = {
        "labels": {**(declared.get("labels") or {}), **labels},
        "annotations": dict(declared.get("annotations") or {}),
    }
    return owned(job, "v1", "Pod", name, metadata=metadata, spec=template["spec"])


def _inject_environment(kind: JobKind, job: Obj, spec: Obj, replica_type: str, index: int) -> None:
    if kind is PYTORCH:
        for container in spec["containers"]:
            added = pytorch_environment(job, replica_type, index)
            container["env"] = [*(container.get("env") or []), *added]
    elif kind is TENSORFLOW:
        config = tf_config(job, replica_type, index)
        container = main_container(kind, {"template": {"spec": spec}})
        if config and container is not None:
            container["env"] = [*(container.get("env") or []), {"name": "TF_CONFIG", "value": config}]


def desired_service(kind: JobKind, job: Obj, replica_type: str, index: int) -> Obj:
    """Return the headless service that gives a replica its DNS name."""
    labels = kind.labels(name_of(job)) | {REPLICA_TYPE: replica_type.lower(), REPLICA_INDEX: str(index)}
    container = main_container(kind, kind.specs(job)[replica_type]) or {}
    ports = [
        {"name": port.get("name", ""), "port": port["containerPort"], "targetPort": port["containerPort"]}
        | ({"protocol": "TCP"})
        for port in container.get("ports") or ()
    ]
    spec = {"clusterIP": "None", "selector": labels, "ports": ports}
    name = replica_name(name_of(job), replica_type, index)
    return owned(job, "v1", "Service", name, metadata={"labels": labels}, spec=spec)
