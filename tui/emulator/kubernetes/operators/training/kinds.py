"""The job kinds of the Training Operator v1 and the MPI operator as data, and their defaults."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from tui.emulator.kubernetes.resources import Obj

JOB_NAME = "training.kubeflow.org/job-name"
REPLICA_TYPE = "training.kubeflow.org/replica-type"
REPLICA_INDEX = "training.kubeflow.org/replica-index"
OPERATOR_NAME = "training.kubeflow.org/operator-name"
JOB_ROLE = "training.kubeflow.org/job-role"

OPERATOR = "kubeflow.org/training-operator"
"""`runPolicy.managedBy` of this operator's jobs."""


@dataclass(frozen=True)
class JobKind:
    """One kind of job."""

    kind: str
    plural: str
    replica_specs: str
    """Field of the spec that holds the replicas by type."""
    replica_types: tuple[str, ...]
    container: str
    """Name of the main container, which determines exit code, ports and environment."""
    port_name: str
    port: int
    restart_policy: str
    """Default restart policy of replicas."""
    operator: str

    def specs(self, job: Obj) -> dict[str, Obj]:
        """Return the replicas by type, in the operator's order."""
        declared = job["spec"].get(self.replica_specs) or {}
        return {kind: declared[kind] for kind in self.replica_types if declared.get(kind) is not None}

    def labels(self, job_name: str) -> dict[str, str]:
        """Return the labels of a job's pods and services."""
        return {OPERATOR_NAME: self.operator, JOB_NAME: job_name}


PYTORCH = JobKind(
    kind="PyTorchJob",
    plural="pytorchjobs",
    replica_specs="pytorchReplicaSpecs",
    replica_types=("Master", "Worker"),
    container="pytorch",
    port_name="pytorchjob-port",
    port=23456,
    restart_policy="OnFailure",
    operator="pytorchjob-controller",
)
TENSORFLOW = JobKind(
    kind="TFJob",
    plural="tfjobs",
    replica_specs="tfReplicaSpecs",
    replica_types=("Chief", "Evaluator", "Master", "PS", "Worker"),
    container="tensorflow",
    port_name="tfjob-port",
    port=2222,
    restart_policy="Never",
    operator="tfjob-controller",
)
MPI = JobKind(
    kind="MPIJob",
    plural="mpijobs",
    replica_specs="mpiReplicaSpecs",
    replica_types=("Launcher", "Worker"),
    container="mpi",
    port_name="mpi-port",
    port=9999,
    restart_policy="Never",
    operator="mpijob-controller",
)


def with_defaults(kind: JobKind, job: Obj) -> Obj:
    """Return a copy of the job with the operator's defaults; the stored object stays unchanged."""
    filled: Obj = copy.deepcopy(dict(job))
    spec = filled["spec"]
    policy = spec.setdefault("runPolicy", {})
    if policy.get("cleanPodPolicy") is None:
        policy["cleanPodPolicy"] = "None"
    spec[kind.replica_specs] = _camel_case(kind, spec.get(kind.replica_specs) or {})
    for replica_type, replica in kind.specs(filled).items():
        if replica.get("replicas") is None:
            replica["replicas"] = 0 if (kind is MPI and replica_type == "Worker") else 1
        replica["restartPolicy"] = replica.get("restartPolicy") or kind.restart_policy
        if kind is not MPI:
            _default_port(kind, replica)
    if kind is PYTORCH:
        _default_elastic_policy(filled)
    if kind is TENSORFLOW and spec.get("successPolicy") is None:
        spec["successPolicy"] = ""
    return filled


def _camel_case(kind: JobKind, declared: Obj) -> Obj:
    names = {name.lower(): name for name in kind.replica_types}
    return {names.get(name.lower(), name): replica for name, replica in declared.items()}


def main_container(kind: JobKind, replica: Obj) -> Obj | None:
    """Return the main container of a replica's template."""
    containers: list[Obj] = replica["template"]["spec"].get("containers") or []
    return next((container for container in containers if container.get("name") == kind.container), None)


def _default_port(kind: JobKind, replica: Obj) -> None:
    containers = replica["template"]["spec"].get("containers") or []
    if not containers:
        return
    container = main_container(kind, replica) or containers[0]
    ports = container.setdefault("ports", [])
    if all(port.get("name") != kind.port_name for port in ports):
        ports.append({"name": kind.port_name, "containerPort": kind.port})


def port_of(kind: JobKind, replica: Obj) -> int:
    """Return the port of this type's replicas."""
    container = main_container(kind, replica) or {}
    for port in container.get("ports") or ():
        if port.get("name") == kind.port_name:
            return int(port["containerPort"])
    return kind.port


def _default_elastic_policy(job: Obj) -> None:
    spec = job["spec"]
    elastic = spec.get("elasticPolicy")
    if elastic is not None:
        worker = (spec[PYTORCH.replica_specs].get("Worker") or {}).get("replicas")
        least, most = elastic.get("minReplicas"), elastic.get("maxReplicas")
        if least is None and most is None:
            least = most = worker
        elastic["minReplicas"] = most if least is None else least
        elastic["maxReplicas"] = least if most is None else most
    if spec.get("nprocPerNode") is None and (elastic or {}).get("nProcPerNode") is None:
        spec["nprocPerNode"] = "auto"
