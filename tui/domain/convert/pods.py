"""Convert the machine, the task and the outputs of a worker pool into parts of a pod, and back."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from tui.domain.convert.source import ConversionSource
from tui.domain.core.replica import INSTANCE_TYPE
from tui.domain.kubernetes.accelerators import VERTEX, of_vertex
from tui.domain.kubernetes.workloads import ACCELERATOR, FLEX_START, GPU, SPOT, Path, elements, fields, whole
from tui.domain.vertex.catalog import Machine, machines

OUTPUTS = {"AIP_MODEL_DIR": "model", "AIP_CHECKPOINT_DIR": "checkpoints", "AIP_TENSORBOARD_LOG_DIR": "logs"}
"""Variables that Vertex AI sets for the output folder, and their folders (docs/facts/vertex.md 3.6)."""
JOB_ID = "CLOUD_ML_JOB_ID"
GPU_TAINT = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
NAME_LABELS = {
    "pytorch_job": "training.kubeflow.org/job-name",
    "tf_job": "training.kubeflow.org/job-name",
    "mpi_job": "training.kubeflow.org/job-name",
    "train_job": "jobset.sigs.k8s.io/jobset-name",
    "job_set": "jobset.sigs.k8s.io/jobset-name",
    "batch_job": "batch.kubernetes.io/job-name",
}
PLACE = {
    "JOBSET_NAME": "jobset-name",
    "REPLICATED_JOB_NAME": "replicatedjob-name",
    "JOB_INDEX": "job-index",
    "JOBSET_REPLICAS": "replicatedjob-replicas",
}
"""Variables for the trainer's rank in a JobSet, and the labels with their values."""
NODES = "NNODES"
MASTER, PORT = "$(JOBSET_NAME)-node-0-0.$(JOBSET_NAME)", "29500"
_KEPT = 0.75
"""Fraction of a machine's memory that a pod may request; the system uses the remaining memory."""
_GI = {"Ki": 1 / 1048576, "Mi": 1 / 1024, "Gi": 1.0, "Ti": 1024.0, "K": 1e3 / 2**30, "M": 1e6 / 2**30,
       "G": 1e9 / 2**30, "": 1 / 2**30}  # fmt: skip


def spot_pod(strategy: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Return the nodeSelector and the tolerations of a scheduling strategy."""
    key = {"SPOT": SPOT, "FLEX_START": FLEX_START}.get(strategy)
    if key is None:
        return {}, []
    return {key: "true"}, [{"key": key, "operator": "Equal", "value": "true", "effect": "NoSchedule"}]


def requests_of(machine: Machine) -> dict[str, str]:
    """Return the pod requests that correspond to a machine without accelerators."""
    return {"cpu": str(max(machine.vcpus - 1, 1)), "memory": f"{int(machine.memory_gb * _KEPT)}Gi"}


def machine_for(cpu: float, gib: float) -> str:
    """Return the smallest machine without accelerators that exceeds these requests."""
    fits = [
        machine
        for machine in machines().values()
        if machine.name.startswith("n1-standard-") and machine.vcpus > cpu and machine.memory_gb > gib
    ]
    least = min(fits, key=lambda machine: (machine.vcpus, machine.memory_gb), default=None)
    return least.name if least is not None else "n1-standard-4"


def machine_with(accelerator: str, count: int) -> str:
    """Return the smallest machine with exactly these accelerators, or ""."""
    fits = [
        machine for machine in machines().values() if count in dict(machine.accelerators).get(accelerator, ())
    ]
    built_in = [machine for machine in fits if not machine.name.startswith("n1-")] or fits
    least = min(
        built_in,
        key=lambda machine: (
            max(dict(machine.accelerators)[accelerator]) != count,
            machine.vcpus,
            machine.memory_gb,
        ),
        default=None,
    )
    return least.name if least is not None else ""


def cpus(value: Any) -> float:
    """Return the CPUs of a quantity: `500m` is 0.5."""
    words = str(value)
    try:
        return float(words[:-1]) / 1000 if words.endswith("m") else float(words)
    except ValueError:
        return 0.0


def gibibytes(value: Any) -> float:
    """Return the GiB of a memory quantity."""
    match = re.fullmatch(r"([\d.]+)([KMGT]i?|)", str(value))
    try:
        return float(match[1]) * _GI.get(match[2], 1.0) if match else 0.0
    except ValueError:
        return 0.0


def placed(
    source: ConversionSource, pool: Path
) -> tuple[dict[str, str], dict[str, Any], list[dict[str, str]]]:
    """Return the nodeSelector, the resources and the tolerations of a pool's machine."""
    kind = source.fixed(*pool, "machineSpec", "acceleratorType")
    name = source.fixed(*pool, "machineSpec", "machineType")
    count = source.take(*pool, "machineSpec", "acceleratorCount")
    selector: dict[str, str] = {}
    resources: dict[str, Any] = {}
    tolerations = []
    if kind:
        gke = of_vertex(str(kind))
        if gke:
            selector[ACCELERATOR] = gke
            resources["limits"] = {GPU: 1 if count is None else count}
            tolerations.append(dict(GPU_TAINT))
        else:
            where = (*pool, "machineSpec", "acceleratorType")
            source.say(f"{kind} is not a GPU of GKE's nodes: set the nodeSelector yourself.", where)
    if name:
        machine = machines().get(str(name))
        if kind or machine is None or (machine.accelerators and not str(name).startswith("n1-")):
            selector[INSTANCE_TYPE] = str(name)
        else:
            resources["requests"] = requests_of(machine)
    return selector, resources, tolerations


def task(source: ConversionSource, pool: Path) -> dict[str, Any]:
    """Return the image, command, arguments and variables of a pool."""
    package = source.get(*pool, "pythonPackageSpec")
    key = "pythonPackageSpec" if package else "containerSpec"
    here = (*pool, key)
    container: dict[str, Any] = {}
    if package:
        container["image"] = source.take(*here, "executorImageUri")
    else:
        container["image"] = source.take(*here, "imageUri")
        container["command"] = source.take(*here, "command")
    container["args"] = source.take(*here, "args")
    container["env"] = list(source.take(*here, "env") or [])
    for name in ("command", "args"):
        if any("/gcs/" in str(word) for word in container.get(name) or ()):
            source.say(
                "no bucket is mounted at /gcs; the Cloud Storage FUSE driver of GKE can mount one.",
                (*here, name),
            )
    return {name: value for name, value in container.items() if value not in (None, "", [])}


def output_variables(prefix: str, label: str) -> list[dict[str, Any]]:
    """Return Vertex AI's output folder variables for a pod whose label has its job's name."""
    root = prefix.rstrip("/")
    name = {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}
    variables: list[dict[str, Any]] = [{"name": JOB_ID, "valueFrom": name}]
    return [*variables, *({"name": v, "value": f"{root}/{folder}/"} for v, folder in OUTPUTS.items())]


def place_variables(nodes: int, *, of_set: bool) -> list[dict[str, Any]]:
    """Return the variables with a Job's number of pods, and for a JobSet each pod's rank."""
    variables: list[dict[str, Any]] = [{"name": NODES, "value": str(nodes)}]
    for name, label in PLACE.items() if of_set else ():
        path = f"metadata.labels['jobset.sigs.k8s.io/{label}']"
        variables.append({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
    if of_set:
        variables += [{"name": "MASTER_ADDR", "value": MASTER}, {"name": "MASTER_PORT", "value": PORT}]
    return variables


def is_place(variable: Mapping[str, Any]) -> bool:
    """Return whether `place_variables` returns this variable."""
    name, value = variable.get("name"), variable.get("value")
    return name == NODES or (name, value) in (("MASTER_ADDR", MASTER), ("MASTER_PORT", PORT))


def machine_spec(group: Mapping[str, Any], resources: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the machineSpec for the nodeSelector `group` and the resources. The second value is true if
    vxtui chose the machine type."""
    gke = str(group.get(ACCELERATOR) or "")
    count = fields(resources, "limits").get(GPU, fields(resources, "requests").get(GPU))
    named = str(group.get(INSTANCE_TYPE) or "")
    kind = VERTEX.get(gke, "")
    machine_spec: dict[str, Any] = {}
    number = whole(count)
    chosen = False
    if named:
        machine_spec["machineType"] = named
    elif kind and number:
        machine_spec["machineType"] = machine_with(kind, number) or "?"
        chosen = True
    if kind and count is not None:
        machine_spec |= {"acceleratorType": kind, "acceleratorCount": number if number is not None else count}
    if not machine_spec.get("machineType"):
        amounts = {**fields(resources, "limits"), **fields(resources, "requests")}
        cpu, gib = cpus(amounts.get("cpu", 0)), gibibytes(amounts.get("memory", 0))
        name = machine_for(cpu, gib)
        machine_spec = {"machineType": name, **machine_spec}
        machine = machines().get(name)
        chosen = machine is None or fields(resources, "requests") != requests_of(machine)
    return machine_spec, chosen


def seconds(value: Any) -> int | None:
    """Return the integer seconds of a duration such as `3600s`, or None."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(value or ""))
    return math.ceil(float(match[1])) if match else None


def variables(container: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the variables of a container."""
    return [variable for variable in elements(container, "env") if isinstance(variable, Mapping)]
