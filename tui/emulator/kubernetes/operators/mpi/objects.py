"""Objects of an MPIJob v2beta1: workers, launcher Job, hostfile, key and service."""

from __future__ import annotations

import copy
from typing import Any

from tui.emulator.kubernetes.operators.metadata import name_of, namespace_of, owned
from tui.emulator.kubernetes.operators.training.kinds import JOB_NAME, JOB_ROLE, OPERATOR_NAME, REPLICA_INDEX
from tui.emulator.kubernetes.operators.training.pods import new_pod, pod_restart_policy
from tui.emulator.kubernetes.resources import Obj

OPERATOR = "mpi-operator"
MANAGER = "kubeflow.org/mpi-operator"
FOLDER = "/etc/mpi"
KEY_FILES = (
    ("ssh-privatekey", "id_rsa"),
    ("ssh-publickey", "id_rsa.pub"),
    ("ssh-publickey", "authorized_keys"),
)
OPEN_MPI = (
    ("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
    ("OMPI_MCA_orte_default_hostfile", f"{FOLDER}/hostfile"),
    ("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10"),
)


def with_defaults(job: Obj) -> Obj:
    """Return a copy of the job with the operator's defaults."""
    filled: Obj = copy.deepcopy(dict(job))
    spec = filled["spec"]
    policy = spec.setdefault("runPolicy", {})
    policy["cleanPodPolicy"] = policy.get("cleanPodPolicy") or "None"
    spec["slotsPerWorker"] = 1 if spec.get("slotsPerWorker") is None else spec["slotsPerWorker"]
    spec["sshAuthMountPath"] = spec.get("sshAuthMountPath") or "/root/.ssh"
    spec["mpiImplementation"] = spec.get("mpiImplementation") or "OpenMPI"
    spec["launcherCreationPolicy"] = spec.get("launcherCreationPolicy") or "AtStartup"
    for name, count, policy_name in (("Launcher", 1, "OnFailure"), ("Worker", 0, "Never")):
        replica = spec["mpiReplicaSpecs"].get(name)
        if replica is not None:
            replica["replicas"] = count if replica.get("replicas") is None else replica["replicas"]
            replica["restartPolicy"] = replica.get("restartPolicy") or policy_name
    return filled


def labels(job: Obj, role: str = "") -> dict[str, str]:
    """Return the labels of a job's pods, of one or all roles."""
    common = {OPERATOR_NAME: OPERATOR, JOB_NAME: name_of(job)}
    return common | ({JOB_ROLE: role} if role else {})


def workers(job: Obj) -> int:
    """Return the number of workers."""
    replica = job["spec"]["mpiReplicaSpecs"].get("Worker") or {}
    return int(replica.get("replicas") or 0)


def launcher_name(job: Obj) -> str:
    """Return the name of the launcher's Job, which is also its pod's host name."""
    return f"{name_of(job)}-launcher"


def worker_name(job: Obj, index: int) -> str:
    """Return the name of a worker's pod."""
    return f"{name_of(job)}-worker-{index}"


def _launcher_works(job: Obj) -> bool:
    return bool(job["spec"].get("runLauncherAsWorker"))


def _owned(job: Obj, kind: str, name: str, **fields: Any) -> Obj:
    version = "batch/v1" if kind == "Job" else "v1"
    return owned(job, version, kind, name, metadata={"labels": {"app": name_of(job)}}, **fields)


def service(job: Obj) -> Obj:
    """Return the service that gives the pods DNS names."""
    spec = {
        "clusterIP": "None",
        "selector": labels(job),
        "publishNotReadyAddresses": _launcher_works(job),
    }
    return _owned(job, "Service", name_of(job), spec=spec)


def config_map(job: Obj, running: list[str]) -> Obj:
    """Return the ConfigMap with the hostfile and a script that prints the running hosts."""
    domain = f"{name_of(job)}.{namespace_of(job)}.svc"
    first = [launcher_name(job)] if _launcher_works(job) else []
    names = first + [worker_name(job, index) for index in range(workers(job))]
    count = job["spec"]["slotsPerWorker"]
    slots = f" slots={count}" if job["spec"]["mpiImplementation"] == "OpenMPI" else f":{count}"
    hosts = "".join(f"{name}.{domain}{slots}\n" for name in names)
    script = "".join(f"echo {name}.{domain}\n" for name in first + sorted(running))
    data = {"hostfile": hosts, "discover_hosts.sh": f"#!/bin/sh\n{script}"}
    return _owned(job, "ConfigMap", f"{name_of(job)}-config", data=data)


def _mount_key(job: Obj, spec: Obj) -> None:
    mode = {"defaultMode": 0o600} if job["spec"]["sshAuthMountPath"] == "/root/.ssh" else {}
    items = [{"key": key, "path": path} for key, path in KEY_FILES]
    secret = {"secretName": f"{name_of(job)}-ssh", **mode, "items": items}
    spec.setdefault("volumes", []).append({"name": "ssh-auth", "secret": secret})
    mount = {"name": "ssh-auth", "mountPath": job["spec"]["sshAuthMountPath"]}
    spec["containers"][0].setdefault("volumeMounts", []).append(mount)


def _variables(*pairs: tuple[str, str]) -> list[Obj]:
    return [{"name": name, "value": value} for name, value in pairs]


def worker_pod(job: Obj, index: int) -> Obj:
    """Return a worker's pod."""
    replica = job["spec"]["mpiReplicaSpecs"]["Worker"]
    template = copy.deepcopy(replica["template"])
    spec = template["spec"]
    spec["hostname"], spec["subdomain"] = worker_name(job, index), name_of(job)
    spec["restartPolicy"] = pod_restart_policy(replica["restartPolicy"])
    container = spec["containers"][0]
    if not container.get("command") and not container.get("args"):
        container["command"] = ["/usr/sbin/sshd", "-De"]
    container.setdefault("env", []).extend(_variables(("K_MPI_JOB_ROLE", "worker")))
    _mount_key(job, spec)
    own = labels(job, "worker") | {REPLICA_INDEX: str(index + _launcher_works(job))}
    return new_pod(job, worker_name(job, index), template, own)


def launcher_template(job: Obj) -> Obj:
    """Return the template of the launcher's pod."""
    replica = job["spec"]["mpiReplicaSpecs"]["Launcher"]
    template: Obj = copy.deepcopy(replica["template"])
    metadata = template.setdefault("metadata", {})
    own = labels(job, "launcher") | ({REPLICA_INDEX: "0"} if _launcher_works(job) else {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **own}
    spec = template["spec"]
    spec["hostname"], spec["subdomain"] = launcher_name(job), name_of(job)
    spec["restartPolicy"] = pod_restart_policy(replica["restartPolicy"])
    container = spec["containers"][0]
    container.setdefault("env", []).extend(_launcher_variables(job))
    _mount_key(job, spec)
    items = [
        {"key": "hostfile", "path": "hostfile", "mode": 0o444},
        {"key": "discover_hosts.sh", "path": "discover_hosts.sh", "mode": 0o555},
    ]
    source = {"name": f"{name_of(job)}-config", "items": items}
    spec.setdefault("volumes", []).append({"name": "mpi-job-config", "configMap": source})
    container.setdefault("volumeMounts", []).append({"name": "mpi-job-config", "mountPath": FOLDER})
    return template


def _launcher_variables(job: Obj) -> list[Obj]:
    slots = str(job["spec"]["slotsPerWorker"])
    by_implementation = {
        "OpenMPI": (*OPEN_MPI, ("OMPI_MCA_orte_set_default_slots", slots)),
        "Intel": (
            ("I_MPI_HYDRA_HOST_FILE", f"{FOLDER}/hostfile"),
            ("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "-o ConnectionAttempts=10"),
            ("I_MPI_PERHOST", slots),
        ),
        "MPICH": (
            ("HYDRA_HOST_FILE", f"{FOLDER}/hostfile"),
            ("HYDRA_LAUNCH_EXTRA_ARGS", "-o ConnectionAttempts=10"),
        ),
    }
    variables = _variables(
        ("K_MPI_JOB_ROLE", "launcher"), *by_implementation[job["spec"]["mpiImplementation"]]
    )
    if not _launcher_works(job):
        # A launcher that runs no process must not use its node's GPUs.
        variables += _variables(("NVIDIA_VISIBLE_DEVICES", ""), ("NVIDIA_DRIVER_CAPABILITIES", ""))
    return variables


def launcher_job(job: Obj) -> Obj:
    """Return the launcher's Job with the limits of the run policy."""
    policy = job["spec"]["runPolicy"]
    fields = ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
    spec: Obj = {field: policy[field] for field in fields if policy.get(field) is not None}
    spec["template"] = launcher_template(job)
    if policy.get("suspend"):
        spec["suspend"] = True
    return _owned(job, "Job", launcher_name(job), spec=spec)
