"""PodGroups of jobs with a scheduling policy, whose pods start together or not at all.

The operator creates PodGroups if started with a gang scheduler. Here a job's schedulingPolicy requests a
PodGroup, of Volcano if the policy names a queue, otherwise of scheduler-plugins.
"""

from __future__ import annotations

from decimal import Decimal

from tui.emulator.kubernetes.operators.metadata import annotations_of, name_of, owned
from tui.emulator.kubernetes.operators.resources import add, pod_requests, render
from tui.emulator.kubernetes.operators.training.kinds import REPLICA_TYPE, JobKind
from tui.emulator.kubernetes.resources import Obj

COSCHEDULING, VOLCANO = "scheduling.x-k8s.io/v1alpha1", "scheduling.volcano.sh/v1beta1"
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"


def policy_of(job: Obj) -> Obj | None:
    """Return the job's scheduling policy."""
    policy: Obj | None = (job["spec"].get("runPolicy") or {}).get("schedulingPolicy")
    return policy


def pod_group(kind: JobKind, job: Obj) -> Obj | None:
    """Return the PodGroup of a job that has its defaults, or None if there is no scheduling policy."""
    policy = policy_of(job)
    if policy is None:
        return None
    replicas = kind.specs(job)
    least = policy.get("minAvailable")
    least = sum(int(replica["replicas"]) for replica in replicas.values()) if least is None else int(least)
    resources = policy.get("minResources") or _least_resources(replicas, least)
    spec: Obj = {"minMember": least} | ({"minResources": resources} if resources else {})
    if policy.get("queue"):
        version = VOLCANO
        spec["queue"] = policy["queue"]
        if policy.get("priorityClass"):
            spec["priorityClassName"] = policy["priorityClass"]
    else:
        version = COSCHEDULING
        if policy.get("scheduleTimeoutSeconds") is not None:
            spec["scheduleTimeoutSeconds"] = policy["scheduleTimeoutSeconds"]
    metadata = {"annotations": dict(annotations_of(job))} if annotations_of(job) else {}
    return owned(job, version, "PodGroup", name_of(job), metadata=metadata, spec=spec)


def _least_resources(replicas: Obj, least: int) -> Obj:
    total: dict[str, Decimal] = {}
    left = least
    for replica in replicas.values():
        count = min(left, int(replica["replicas"]))
        add(total, pod_requests(replica["template"]["spec"]), count)
        left -= count
    return {resource: render(resource, amount) for resource, amount in total.items() if amount}


def join(pod: Obj, group: Obj) -> None:
    """Add a new pod to the job's group, in place."""
    metadata, spec = pod["metadata"], pod["spec"]
    if group["apiVersion"] == VOLCANO:
        spec["schedulerName"] = spec.get("schedulerName") or "volcano"
        marks = {GROUP_ANNOTATION: name_of(group), "volcano.sh/task-spec": metadata["labels"][REPLICA_TYPE]}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **marks}
    else:
        spec["schedulerName"] = spec.get("schedulerName") or "scheduler-plugins-scheduler"
        metadata["labels"][GROUP_LABEL] = name_of(group)
