"""MPIJobs of the Training Operator v1: a launcher that reaches its workers by exec instead of ssh."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tui.emulator.kubernetes.operators.metadata import (
    Obj,
    name_of,
    namespace_of,
    owner_reference,
)
from tui.emulator.kubernetes.operators.training.kinds import JOB_ROLE, REPLICA_INDEX, REPLICA_TYPE
from tui.emulator.kubernetes.operators.training.plan import Happening, Plan, Seen, phase_of
from tui.emulator.kubernetes.operators.training.pods import (
    by_index,
    new_pod,
    of_type,
    pod_restart_policy,
)

FOLDER, KUBECTL = "/etc/mpi", "/opt/kube"
VOLUME = "mpi-job-config"


def reconcile_mpi(seen: Seen, plan: Plan) -> None:
    """Keep the config map, the workers and the launcher."""
    launchers = of_type(seen.pods, "Launcher")
    workers = by_index(seen.pods, "Worker")
    plan.status.count("Launcher", launchers, seen.name)
    plan.status.value["replicaStatuses"]["Launcher"].pop("selector")
    done = any(phase_of(pod) in ("Succeeded", "Failed") for pod in launchers)
    counted = [] if done else [pod for pods in workers.values() for pod in pods]
    plan.status.count("Worker", counted, seen.name)
    plan.status.value["replicaStatuses"]["Worker"].pop("selector")
    if done:
        return
    _keep_config(seen, plan)
    account = _owned(seen.job, "ServiceAccount", f"{seen.name}-launcher")
    if ("ServiceAccount", f"{seen.name}-launcher") not in seen.others:
        plan.create.append(account)
    worker = seen.kind.specs(seen.job).get("Worker")
    count = int(worker["replicas"]) if worker else 0
    plan.create += [worker_pod(seen, index) for index in range(count) if index not in workers]
    for index, pods in workers.items():
        if index >= count:
            for pod in pods:
                plan.delete(pod)
    if not launchers:
        plan.create.append(launcher_pod(seen))
    evicted = sum((pod.get("status") or {}).get("reason") == "Evicted" for pod in counted)
    if evicted:
        message = f"{evicted}/{len(counted)} workers are evicted"
        plan.events.append(Happening("MPIJobEvicted", message, warning=True))
        plan.status.put("Failed", "MPIJobEvicted", message)


def conclude_mpi(seen: Seen, plan: Plan) -> None:
    """The state of an MPIJob: the launcher's; a worker's failure is the job's."""
    for replica_type, replica in seen.kind.specs(seen.job).items():
        counts = plan.status.counts(replica_type)
        failed = counts.get("failed", 0)
        if replica_type == "Launcher":
            if counts.get("active"):
                plan.status.set("Running", "Running", f"MPIJob {seen.name} is running.")
            if counts.get("succeeded", 0) >= int(replica["replicas"]):
                message = f"MPIJob {seen.name} is successfully completed."
                plan.say("Succeeded", message)
                plan.status.complete()
                plan.status.set("Succeeded", "Succeeded", message)
                return
        if failed and replica["restartPolicy"] == "ExitCode":
            message = f"MPIJob {seen.name} is restarting because {failed} {replica_type} replica(s) failed."
            plan.say("Restarting", message, warning=True)
            plan.status.set("Restarting", "Restarting", message)
        elif failed:
            message = f"MPIJob {seen.name} is failed because {failed} {replica_type} replica(s) failed."
            plan.say("Failed", message)
            plan.status.complete()
            # The operator puts the kind before the reason twice.
            plan.status.set("Failed", "MPIJobFailed", message)


def _owned(job: Mapping[str, Any], kind: str, name: str, **fields: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace_of(job),
            "labels": {"app": name_of(job)},
            "ownerReferences": [owner_reference(job)],
        },
        **fields,
    }


def _has_gpu_launcher(seen: Seen) -> bool:
    spec = seen.kind.specs(seen.job)["Launcher"]["template"]["spec"]
    limits = [
        name for each in spec["containers"] for name in (each.get("resources") or {}).get("limits") or ()
    ]
    return any("gpu" in name for name in limits)


def _keep_config(seen: Seen, plan: Plan) -> None:
    """The hostfile, the agent by which mpirun reaches a worker, and a script with the hosts that run."""
    spec = seen.job["spec"]
    slots = int(spec.get("slotsPerWorker") or 1)
    worker = seen.kind.specs(seen.job).get("Worker")
    count = int(worker["replicas"]) if worker else 0
    first = [f"{seen.name}-launcher"] if _has_gpu_launcher(seen) else []
    names = first + [f"{seen.name}-worker-{index}" for index in range(count)]
    running = sorted(name_of(pod) for pod in of_type(seen.pods, "Worker") if phase_of(pod) == "Running")
    container = f" --container {spec['mainContainer']}" if spec.get("mainContainer") else ""
    program = f"{KUBECTL}/kubectl exec ${{POD_NAME}}{container}"
    agent = f'#!/bin/sh\nset -x\nPOD_NAME=$1\nshift\n{program} -- /bin/sh -c "$*"'
    data = {
        "hostfile": "".join(f"{name} slots={slots}\n" for name in names),
        "kubexec.sh": agent,
        "discover_hosts.sh": "\n".join(["#!/bin/sh", *(f"echo {name}:{slots}" for name in first + running)]),
    }
    name = f"{seen.name}-config"
    known = seen.others.get(("ConfigMap", name))
    if known is None:
        plan.create.insert(0, _owned(seen.job, "ConfigMap", name, data=data))
    elif known.get("data") != data:
        plan.update.append({**copy.deepcopy(known), "data": data})


def _volume(seen: Seen, *files: tuple[str, int]) -> Obj:
    items = [{"key": name, "path": name, "mode": mode} for name, mode in files]
    return {"name": VOLUME, "configMap": {"name": f"{seen.name}-config", "items": items}}


def worker_pod(seen: Seen, index: int) -> Obj:
    """A worker's pod: it waits for what the launcher runs in it."""
    replica = seen.kind.specs(seen.job)["Worker"]
    template = copy.deepcopy(replica["template"])
    spec = template["spec"]
    spec["restartPolicy"] = pod_restart_policy(replica["restartPolicy"])
    container = spec["containers"][0]
    if not container.get("command"):
        container["command"], container["args"] = ["sleep"], ["365d"]
    container.setdefault("volumeMounts", []).append({"name": VOLUME, "mountPath": FOLDER})
    spec.setdefault("volumes", []).append(_volume(seen, ("kubexec.sh", 0o555)))
    labels = seen.kind.labels(seen.name) | {REPLICA_TYPE: "worker", REPLICA_INDEX: str(index)}
    return new_pod(seen.job, f"{seen.name}-worker-{index}", template, labels)


def launcher_pod(seen: Seen) -> Obj:
    """The launcher's pod. Its init container, which only fetches kubectl, is left out here."""
    replica = seen.kind.specs(seen.job)["Launcher"]
    template = copy.deepcopy(replica["template"])
    spec = template["spec"]
    spec["restartPolicy"] = pod_restart_policy(replica["restartPolicy"])
    spec.setdefault("serviceAccountName", f"{seen.name}-launcher")
    container = spec["containers"][0]
    pairs = [
        ("OMPI_MCA_plm_rsh_agent", f"{FOLDER}/kubexec.sh"),
        ("OMPI_MCA_orte_default_hostfile", f"{FOLDER}/hostfile"),
    ]
    if not _has_gpu_launcher(seen):
        pairs += [("NVIDIA_VISIBLE_DEVICES", ""), ("NVIDIA_DRIVER_CAPABILITIES", "")]
    given = {each["name"] for each in container.get("env") or ()}
    hydra = {"I_MPI_HYDRA_BOOTSTRAP": "rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": f"{FOLDER}/kubexec.sh"}
    pairs += [(name, value) for name, value in hydra.items() if name not in given]
    container.setdefault("env", []).extend({"name": name, "value": value} for name, value in pairs)
    container.setdefault("volumeMounts", []).extend(
        [{"name": "mpi-job-kubectl", "mountPath": KUBECTL}, {"name": VOLUME, "mountPath": FOLDER}]
    )
    files = (("kubexec.sh", 0o555), ("hostfile", 0o444), ("discover_hosts.sh", 0o555))
    spec.setdefault("volumes", []).extend(
        [{"name": "mpi-job-kubectl", "emptyDir": {}}, _volume(seen, *files)]
    )
    labels = seen.kind.labels(seen.name) | {REPLICA_TYPE: "launcher", JOB_ROLE: "master"}
    return new_pod(seen.job, f"{seen.name}-launcher", template, labels)
