"""The Jobs, service and claims of a JobSet."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping

from tui.emulator.kubernetes.operators import conditions
from tui.emulator.kubernetes.operators.metadata import (
    annotations_of,
    labels_of,
    name_of,
    namespace_of,
    owned,
    owner_reference,
    uid_of,
)
from tui.emulator.kubernetes.resources import Obj

PREFIX = "jobset.sigs.k8s.io"
JOBSET_NAME = f"{PREFIX}/jobset-name"
REPLICATED_JOB = f"{PREFIX}/replicatedjob-name"
RESTART_ATTEMPT = f"{PREFIX}/restart-attempt"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
MANAGER = "jobset.sigs.k8s.io/jobset-controller"


def replicated_jobs(jobset: Obj) -> list[Obj]:
    """Return the replicated jobs in order."""
    jobs: list[Obj] = jobset["spec"].get("replicatedJobs") or []
    return jobs


def job_name(jobset: Obj, replicated: Obj, index: int) -> str:
    """Return the name of a child Job."""
    return f"{name_of(jobset)}-{replicated['name']}-{index}"


def subdomain(jobset: Obj) -> str:
    """Return the name of the service that gives the pods DNS names."""
    return str((jobset["spec"].get("network") or {}).get("subdomain") or name_of(jobset))


def restarts(jobset: Obj) -> int:
    """Return the number of restarts of the JobSet."""
    return int((jobset.get("status") or {}).get("restarts") or 0)


def attempt_of(job: Obj) -> int:
    """Return the restart of the JobSet that a Job belongs to."""
    return int(labels_of(job).get(RESTART_ATTEMPT, "0"))


def end_of(job: Obj) -> str:
    """Return Complete or Failed, or "" if the Job has not ended."""
    status = job.get("status") or {}
    return next(
        (condition for condition in ("Complete", "Failed") if conditions.is_true(status, condition)), ""
    )


def _before(jobset: Obj, replicated: Obj, *, group: str = "") -> int:
    """Return the number of Jobs of the preceding replicated jobs."""
    total = 0
    for other in replicated_jobs(jobset):
        if other["name"] == replicated["name"]:
            break
        if not group or other["groupName"] == group:
            total += int(other["replicas"])
    return total


def child_labels(jobset: Obj, replicated: Obj, index: int) -> dict[str, str]:
    """Return the labels of a child Job and its pods, which are also its annotations."""
    every, group = replicated_jobs(jobset), replicated["groupName"]
    own_name = job_name(jobset, replicated, index)
    labels = {
        "jobset-name": name_of(jobset),
        "jobset-uid": uid_of(jobset),
        "replicatedjob-name": replicated["name"],
        "restart-attempt": str(restarts(jobset)),
        "replicatedjob-replicas": str(replicated["replicas"]),
        "global-replicas": str(sum(int(other["replicas"]) for other in every)),
        "job-index": str(index),
        "job-key": hashlib.sha1(f"{namespace_of(jobset)}/{own_name}".encode()).hexdigest(),
        "job-global-index": str(_before(jobset, replicated) + index),
        "group-name": group,
        "group-replicas": str(sum(int(other["replicas"]) for other in every if other["groupName"] == group)),
        "job-group-index": str(_before(jobset, replicated, group=group) + index),
    }
    if jobset["spec"].get("coordinator"):
        labels["coordinator"] = coordinator_address(jobset)
    return {f"{PREFIX}/{name}": value for name, value in labels.items()}


def coordinator_address(jobset: Obj) -> str:
    """Return the DNS name of the pod that all others get as their coordinator."""
    coordinator = jobset["spec"]["coordinator"]
    place = f"{coordinator.get('jobIndex', 0)}-{coordinator.get('podIndex', 0)}"
    return f"{name_of(jobset)}-{coordinator['replicatedJob']}-{place}.{subdomain(jobset)}"


def child_job(jobset: Obj, replicated: Obj, index: int) -> Obj:
    """Return one Job of a replicated job; the JobSet has its defaults."""
    template = copy.deepcopy(replicated["template"])
    labels = child_labels(jobset, replicated, index)
    annotations = dict(labels)
    topology = annotations_of(jobset).get(EXCLUSIVE) or annotations_of(
        {"metadata": template.get("metadata", {})}
    ).get(EXCLUSIVE)
    if topology:
        annotations[EXCLUSIVE] = topology
    metadata = _marked(template.get("metadata") or {}, labels, annotations)
    name = job_name(jobset, replicated, index)
    job = owned(jobset, "batch/v1", "Job", name, metadata=metadata, spec=template["spec"])
    pods = job["spec"]["template"]
    pods["metadata"] = {
        **(pods.get("metadata") or {}),
        **_marked(pods.get("metadata") or {}, labels, annotations),
    }
    if (jobset["spec"].get("network") or {}).get("enableDNSHostnames"):
        pods["spec"]["subdomain"] = subdomain(jobset)
    for _, template, claim in claims(jobset):
        volume: Obj = {"name": template["metadata"]["name"]}
        if mounts(pods["spec"], volume["name"]):
            source = {"persistentVolumeClaim": {"claimName": name_of(claim)}}
            pods["spec"]["volumes"] = [*(pods["spec"].get("volumes") or ()), volume | source]
    job["spec"]["suspend"] = bool(jobset["spec"].get("suspend"))
    return job


def _marked(metadata: Obj, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Obj:
    return {
        "labels": {**(metadata.get("labels") or {}), **labels},
        "annotations": {**(metadata.get("annotations") or {}), **annotations},
    }


def resumed_spec(job: Obj, replicated: Obj) -> Obj:
    """Return a suspended Job's spec for its start, with Kueue's changes of the JobSet."""
    spec: Obj = copy.deepcopy(job["spec"])
    spec["suspend"] = False
    ours, theirs = spec["template"], replicated["template"]["spec"]["template"]
    metadata = ours.setdefault("metadata", {})
    for field in ("labels", "annotations"):
        changed = (theirs.get("metadata") or {}).get(field)
        if changed:
            metadata[field] = {**(metadata.get(field) or {}), **changed}
    pod, changed_pod = ours["spec"], theirs["spec"]
    if changed_pod.get("nodeSelector"):
        pod["nodeSelector"] = {**(pod.get("nodeSelector") or {}), **changed_pod["nodeSelector"]}
    for field in ("tolerations", "schedulingGates"):
        for entry in changed_pod.get(field) or ():
            if entry not in pod.setdefault(field, []):
                pod[field].append(entry)
    return spec


def headless_service(jobset: Obj) -> Obj:
    """Return the headless service that gives the pods DNS names."""
    publish = (jobset["spec"].get("network") or {}).get("publishNotReadyAddresses", True)
    spec = {
        "clusterIP": "None",
        "selector": {JOBSET_NAME: name_of(jobset)},
        "publishNotReadyAddresses": publish,
    }
    return owned(jobset, "v1", "Service", subdomain(jobset), spec=spec)


def mounts(pod: Obj, volume: str) -> bool:
    """Return whether a container of the pod mounts the volume."""
    containers = [*(pod.get("initContainers") or ()), *(pod.get("containers") or ())]
    mounted = (mount for container in containers for mount in container.get("volumeMounts") or ())
    return any(mount.get("name") == volume for mount in mounted)


def claims(jobset: Obj) -> Iterator[tuple[str, Obj, Obj]]:
    """Yield the path, the template and the claim of each volume that all Jobs of a JobSet share."""
    for number, policy in enumerate(jobset["spec"].get("volumeClaimPolicies") or ()):
        deleted = ((policy.get("retentionPolicy") or {}).get("whenDeleted") or "Delete") == "Delete"
        for index, template in enumerate(policy.get("templates") or ()):
            claim: Obj = copy.deepcopy(template)
            claim.update(apiVersion="v1", kind="PersistentVolumeClaim")
            metadata = claim.setdefault("metadata", {})
            metadata["name"] = f"{metadata.get('name', '')}-{name_of(jobset)}"
            metadata["namespace"] = namespace_of(jobset)
            metadata["labels"] = {**(metadata.get("labels") or {}), JOBSET_NAME: name_of(jobset)}
            if deleted:
                metadata["ownerReferences"] = [owner_reference(jobset)]
            yield f"spec.volumeClaimPolicies[{number}].template[{index}]", template, claim
