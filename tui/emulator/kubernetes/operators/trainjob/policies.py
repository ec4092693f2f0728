"""Variables, volumes and counts of a runtime's policy (torch, jax, mpi, plain)."""

from __future__ import annotations

from tui.emulator.kubernetes.operators.batch.pods import INDEX
from tui.emulator.kubernetes.operators.metadata import name_of, owned
from tui.emulator.kubernetes.operators.trainjob.runtime import (
    LAUNCHER,
    NODE,
    PORT,
    Runtime,
    pod_spec,
    upsert,
)
from tui.emulator.kubernetes.resources import Obj

HOSTFILE_SUFFIX, KEY_SUFFIX = "-mpi-hostfile", "-mpi-ssh-auth"
HOSTFILE_FOLDER = "/etc/mpi"


def apply_policy(runtime: Runtime) -> None:
    """Apply the runtime's policy to its pods."""
    if "mpi" in runtime.policy:
        _apply_mpi(runtime)
    elif "torch" in runtime.policy:
        _apply_torch(runtime)
    elif "jax" in runtime.policy:
        _apply_jax(runtime)
    for job in runtime.jobs:
        count = runtime.count(job)
        job["template"]["spec"].update(parallelism=count, completions=count)


def _variable(name: str, value: str) -> Obj:
    return {"name": name, "value": value}


def _rank(name: str) -> Obj:
    path = f"metadata.annotations['{INDEX}']"
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _trainer_container(runtime: Runtime) -> Obj | None:
    """Return the trainer's container, or None if the TrainJob has no trainer."""
    job = runtime.job_of_trainer()
    return None if job is None or runtime.trainer is None else runtime.container(job)


def _apply_torch(runtime: Runtime) -> None:
    variables = [
        _variable("PET_NNODES", str(runtime.nodes)),
        _variable("PET_NPROC_PER_NODE", runtime.per_node()),
        _rank("PET_NODE_RANK"),
        _variable("PET_MASTER_ADDR", f"{runtime.name}-{NODE}-0-0.{runtime.name}"),
        _variable("PET_MASTER_PORT", str(PORT)),
    ]
    container = _trainer_container(runtime)
    if container is not None:
        upsert(container, "env", "name", *(runtime.trainer or {}).get("env") or (), *variables)
        upsert(container, "ports", "containerPort", {"containerPort": PORT})
    for target in (runtime.policy["torch"].get("envInjection") or {}).get("targets") or ():
        job = next((job for job in runtime.jobs if job["name"] == target["jobName"]), None)
        for name in target.get("containerNames") or () if job else ():
            spec = pod_spec(job or {})
            for target_container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
                if target_container["name"] == name:
                    upsert(target_container, "env", "name", *variables)


def _apply_jax(runtime: Runtime) -> None:
    container = _trainer_container(runtime)
    if container is None:
        return
    upsert(
        container,
        "env",
        "name",
        _variable("JAX_NUM_PROCESSES", str(runtime.nodes)),
        _rank("JAX_PROCESS_ID"),
        _variable("JAX_COORDINATOR_ADDRESS", f"{runtime.name}-{NODE}-0-0.{runtime.name}:{PORT}"),
    )
    upsert(container, "ports", "containerPort", {"containerPort": PORT})


def slots(runtime: Runtime) -> int:
    """Return the number of processes per node under MPI."""
    policy = runtime.policy["mpi"]
    processes = (runtime.trainer or {}).get("numProcPerNode")
    if processes is not None:
        return int(processes)
    declared = policy.get("numProcPerNode")
    declared = 1 if declared is None else int(declared)
    return max(runtime.gpus(), 1) if declared == 1 else declared


def _apply_mpi(runtime: Runtime) -> None:
    keys: Obj = {
        "name": "mpi-ssh-auth",
        "secret": {
            "secretName": f"{runtime.name}{KEY_SUFFIX}",
            "defaultMode": 0o400,
            "items": [
                {"key": "ssh-privatekey", "path": "id_rsa", "mode": 0o640},
                {"key": "ssh-publickey", "path": "id_rsa.pub", "mode": 0o644},
                {"key": "ssh-publickey", "path": "authorized_keys", "mode": 0o644},
            ],
        },
    }
    hosts: Obj = {
        "name": "mpi-hostfile",
        "configMap": {
            "name": f"{runtime.name}{HOSTFILE_SUFFIX}",
            "items": [{"key": "hostfile", "path": "hostfile", "mode": 0o444}],
        },
    }
    mount = runtime.policy["mpi"].get("sshAuthMountPath") or "/root/.ssh"
    for job in runtime.jobs:
        if job["name"] not in (NODE, LAUNCHER):
            continue
        launches = job["name"] == LAUNCHER
        upsert(pod_spec(job), "volumes", "name", keys, *([hosts] if launches else []))
        container = runtime.container(job)
        if container is None:
            continue
        upsert(container, "volumeMounts", "mountPath", {"name": "mpi-ssh-auth", "mountPath": mount})
        if launches:
            place = {"name": "mpi-hostfile", "mountPath": HOSTFILE_FOLDER}
            upsert(container, "volumeMounts", "mountPath", place)
            upsert(
                container,
                "env",
                "name",
                _variable("OMPI_MCA_orte_default_hostfile", f"{HOSTFILE_FOLDER}/hostfile"),
                _variable("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
                _variable("OMPI_MCA_orte_set_default_slots", str(slots(runtime))),
                _variable("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10"),
            )


def hostfile(trainjob: Obj, runtime: Runtime) -> Obj | None:
    """Return the ConfigMap with mpirun's hostfile, or None for any other policy."""
    policy = runtime.policy.get("mpi")
    if policy is None:
        return None
    names = {NODE, LAUNCHER} if policy.get("runLauncherAsNode") else {NODE}
    lines = [
        f"{endpoint} slots={slots(runtime)}\n"
        for job in runtime.jobs
        if job["name"] in names
        for endpoint in runtime.endpoints(job)
    ]
    name = f"{name_of(trainjob)}{HOSTFILE_SUFFIX}"
    return owned(trainjob, "v1", "ConfigMap", name, data={"hostfile": "".join(lines)})
