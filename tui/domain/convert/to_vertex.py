"""Convert a profile with a manifest into a profile for Vertex AI."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tui.domain.convert.pods import (
    GPU_TAINT,
    JOB_ID,
    OUTPUTS,
    PLACE,
    is_place,
    machine_spec,
    variables,
)
from tui.domain.convert.source import CannotConvert, ConversionSource
from tui.domain.core.replica import INSTANCE_TYPE
from tui.domain.kubernetes.workloads import (
    ACCELERATOR,
    FLEX_START,
    GPU,
    SPOT,
    ManifestGroup,
    Path,
    WorkloadKind,
    elements,
    fields,
    groups,
    job_index,
    whole,
    workload_of,
)
from tui.domain.vertex.cost import DEFAULT_TIMEOUT

MANIFEST = "manifest"
_HEADER = ("displayName", "description", "labels", "progress")
_POSITIONS = {"Master": 0, "Chief": 0, "Worker": 1, "PS": 2, "Evaluator": 3}
_LABEL = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_JOB_NAME = re.compile(r"/?\$\([A-Za-z_]\w*\)/?$")
_WITH_VALUE = frozenset(
    {"-n", "-np", "-N", "-H", "-x", "--host", "--hostfile", "--bind-to", "--map-by", "-bind-to", "-map-by"}
)


def to_job_spec(source: ConversionSource) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the CustomJobSpec. Raises CannotConvert."""
    objects = elements(source.value, MANIFEST)
    index = job_index(objects)
    if index is None:
        raise CannotConvert("there is no training job among the objects.")
    job, head = fields(objects, index), (MANIFEST, index)
    kind = workload_of(job)
    assert kind is not None
    header = {name: source.take(name) for name in _HEADER if source.get(name) is not None}
    source.consumed |= {(*head, "apiVersion"), (*head, "kind"), (*head, "metadata", "name")}
    _take_labels(source, header, (*head, "metadata", "labels"))
    job_groups = groups(job)
    if not job_groups:
        raise CannotConvert(f"the {kind.noun} has no replicas to convert.")
    mpi = kind.key == "mpi_job"
    launcher = next((g for g in job_groups if g.role == "Launcher"), None) if mpi else None
    pools, spot = _pools(source, head, kind, job_groups, launcher)
    spec: dict[str, Any] = {"workerPoolSpecs": pools}
    scheduling = _scheduling(source, head, kind, job, spot)
    spec |= {"scheduling": scheduling} if scheduling else {}
    prefix = _output(source, head, job_groups, pools)
    spec |= {"baseOutputDirectory": {"outputUriPrefix": prefix}} if prefix else {}
    return header, spec


def _take_labels(source: ConversionSource, header: dict[str, Any], path: Path) -> None:
    """Copy the job's labels whose names Vertex AI accepts to the header."""
    for name, value in fields(source.value, *path).items():
        if _LABEL.fullmatch(str(name)):
            header["labels"] = {**header.get("labels", {}), name: source.take(*path, name)}
        elif value in ("", None):
            source.consumed.add((*path, name))


def _pools(
    source: ConversionSource,
    head: Path,
    kind: WorkloadKind,
    job_groups: Sequence[ManifestGroup],
    launcher: ManifestGroup | None,
) -> tuple[list[Any], set[str]]:
    """Return the worker pools, and the scheduling strategies of their nodes."""
    placed: dict[int, dict[str, Any]] = {}
    strategies: set[str] = set()
    for group in job_groups:
        if group is launcher:
            continue
        pool = _pool(source, head, group, launcher, strategies)
        count = source.take(*head, *group.count_path)
        count = 1 if count is None else count
        position = _POSITIONS.get(group.role, 1) if kind.replicas else 1
        if 0 not in placed and position == 1 and not any(g.role in {"Master", "Chief"} for g in job_groups):
            if kind.replicas:
                where = (*head, "spec", kind.replicas)
                source.say(f"the first {group.role} is the primary replica that Vertex AI demands.", where)
            placed[0] = {**pool, "replicaCount": 1}
            number = (
                whole(count) if whole(count) is not None else whole(source.fixed(*head, *group.count_path))
            )
            count = (number or 1) - 1
            if count == 0:
                continue
        if position in placed:
            source.say("Vertex AI has no further worker pool for it.", (*head, *group.path))
            continue
        placed[position] = {**pool, "replicaCount": count}
    last = max(placed, default=0)
    return [placed.get(i, {}) for i in range(last + 1)], strategies


def _pool(
    source: ConversionSource,
    head: Path,
    group: ManifestGroup,
    launcher: ManifestGroup | None,
    strategies: set[str],
) -> dict[str, Any]:
    """Return the pool of a replica group, without its replica count."""
    container = (*head, *group.container_path)
    selector, pod = _placement(source, head, group)
    key = "resourcesPerNode" if not group.template else "resources"
    resources = fields(group.container, key)
    spec, chosen = machine_spec(selector, resources)
    source.consumed |= {
        (*pod, "nodeSelector", k) for k in (ACCELERATOR, INSTANCE_TYPE, SPOT, FLEX_START) if k in selector
    }
    source.consumed |= {(*container, key, part, GPU) for part in ("limits", "requests")}
    if chosen:
        machine_path = ("jobSpec", "workerPoolSpecs", "*", "machineSpec")
        amounts = {**fields(resources, "requests"), **fields(resources, "limits")}
        requested = ", ".join(f"{name} {value}" for name, value in amounts.items()) or "nothing is requested"
        source.say(f"{spec['machineType']} is chosen for it ({requested}).", (*container, key), machine_path)
    if chosen or not selector.get(INSTANCE_TYPE):
        source.consumed |= {
            (*container, key, part, n) for part in ("limits", "requests") for n in ("cpu", "memory")
        }
    for name, strategy in ((SPOT, "SPOT"), (FLEX_START, "FLEX_START")):
        if str(selector.get(name)) == "true":
            strategies.add(strategy)
    _take_tolerations(source, pod)
    source.consumed |= {(*container, "name")}
    running = launcher if launcher is not None else group
    return {"machineSpec": spec, "containerSpec": _task(source, head, running, group)}


def _placement(source: ConversionSource, head: Path, group: ManifestGroup) -> tuple[Mapping[str, Any], Path]:
    """Return the nodeSelector of a group's pods and the pod spec's path; a TrainJob's is in its patches."""
    if group.template:
        return fields(group.pod, "nodeSelector"), (*head, *group.pod_path)
    inner: Path = (
        "trainingRuntimeSpec",
        "template",
        "spec",
        "replicatedJobs",
        0,
        "template",
        "spec",
        "template",
        "spec",
    )
    path: Path = (*head, "spec", "runtimePatches", 0, *inner)
    source.consumed.add((*head, "spec", "runtimePatches", 0, "manager"))
    source.consumed.add((*path[:-5], "name"))
    return fields(source.value, *path, "nodeSelector"), path


def _take_tolerations(source: ConversionSource, pod: Path) -> None:
    """Mark as used the tolerations that Vertex AI itself replaces."""
    for i, toleration in enumerate(elements(source.value, *pod, "tolerations")):
        if fields(toleration).get("key") in (SPOT, FLEX_START, GPU_TAINT["key"]):
            source.consumed.add((*pod, "tolerations", i))


def _task(
    source: ConversionSource, head: Path, running: ManifestGroup, group: ManifestGroup
) -> dict[str, Any]:
    """Return the containerSpec: the container's program, or the program that an MPIJob's launcher starts."""
    container = (*head, *running.container_path)
    image = source.take(*container, "image")
    container_spec: dict[str, Any] = {"imageUri": image} if image else {}
    command = source.take(*container, "command")
    if running is not group:
        source.consumed |= {(*head, *running.count_path), (*head, *group.container_path, "image")}
        source.consumed |= {(*container, "name"), (*head, *group.container_path, "command")}
        command = started(command)
        source.say(
            "each replica runs the program that mpirun starts; Vertex AI has no launcher.",
            (*head, *running.path),
        )
    container_spec |= {"command": command} if command else {}
    arguments = source.take(*container, "args")
    container_spec |= {"args": list(arguments)} if arguments else {}
    kept = []
    for i, variable in enumerate(elements(source.value, *container, "env")):
        if "valueFrom" in fields(variable):
            if fields(variable).get("name") in (JOB_ID, *PLACE):
                source.consumed.add((*container, "env", i))
            continue
        if is_place(fields(variable)):
            # The service sets the number of replicas in variables.
            source.consumed.add((*container, "env", i))
            continue
        source.consumed.add((*container, "env", i))
        kept.append(dict(variable))
    return {**container_spec, **({"env": kept} if kept else {})}


def started(command: Any) -> list[str]:
    """Return mpirun's program: the first word that is neither a flag nor a flag's value, and all later
    words."""
    words = [str(word) for word in command] if isinstance(command, list) else []
    if not words or words[0].rpartition("/")[2] not in {"mpirun", "mpiexec", "horovodrun"}:
        return words
    i = 1
    while i < len(words) and words[i].startswith("-"):
        name = words[i].partition("=")[0]
        i += 3 if name in {"-mca", "--mca"} else 2 if name in _WITH_VALUE and "=" not in words[i] else 1
    return words[i:]


def _scheduling(
    source: ConversionSource, head: Path, kind: WorkloadKind, job: Mapping[str, Any], strategies: set[str]
) -> dict[str, Any]:
    path: Path = (
        ("spec", "runPolicy", "activeDeadlineSeconds")
        if kind.operator_v1
        else ("spec", "activeDeadlineSeconds")
    )
    if kind.key == "job_set":
        path = ("spec", "replicatedJobs", 0, "template", "spec", "activeDeadlineSeconds")
    value = source.fixed(*head, *path)
    scheduling: dict[str, Any] = {}
    if whole(value) is not None and whole(value) != DEFAULT_TIMEOUT:
        scheduling["timeout"] = f"{whole(value)}s"
    elif value is None:
        source.say(
            "a job on Vertex AI ends after at most 7 days, but this one never ends.",
            (*head, *path),
            ("jobSpec", "scheduling", "timeout"),
        )
    if kind.key in {"job_set", "batch_job"}:
        inner = path[:-1]
        source.consumed |= {(*head, *inner, name) for name in ("completionMode", "completions")}
        source.consumed.add((*head, *inner, "template", "spec", "restartPolicy"))
    if strategies:
        scheduling["strategy"] = sorted(strategies)[-1]
    return scheduling


def _output(
    source: ConversionSource, head: Path, job_groups: Sequence[ManifestGroup], pools: Sequence[Any]
) -> str:
    """Return the output folder and remove its variables, because the service sets them itself."""
    tasks = [pool["containerSpec"] for pool in pools if pool]
    named = [
        str(variable.get("value") or "")
        for task in tasks
        for variable in variables(task)
        if variable["name"] in OUTPUTS
    ]
    own = next(
        (
            variable["value"]
            for task in tasks
            for variable in variables(task)
            if variable["name"] == "AIP_CHECKPOINT_DIR"
        ),
        None,
    )
    if own is None:
        return ""
    prefix = str(own).rstrip("/")
    exact = prefix.endswith("/checkpoints")
    prefix = prefix.removesuffix("/checkpoints") if exact else _JOB_NAME.sub("", prefix)
    if any(not value.startswith(prefix) for value in named) or "$(" in prefix:
        return ""
    for task in tasks:
        task["env"] = [variable for variable in variables(task) if variable["name"] not in OUTPUTS]
        if not task["env"]:
            del task["env"]
    for group in job_groups if not exact else ():
        output_path = ("jobSpec", "baseOutputDirectory", "outputUriPrefix")
        words = f"Vertex AI makes the folders itself: checkpoints go to {prefix}/checkpoints/JOB."
        source.say(words, (*head, *group.container_path, "env"), output_path)
    return prefix


def dropped_words(path: Path) -> str:
    """Return why a field of a manifest has no counterpart."""
    names = [part for part in path if isinstance(part, str)]
    for name in reversed(names):
        if name in WORDS and (name != "containers" or names[-1] == name):
            return WORDS[name]
    return "it has no counterpart on Vertex AI."


WORDS = {
    "cleanPodPolicy": "there are no pods to keep: Cloud Logging has the logs.",
    "restartPolicy": "the service decides which failures it retries.",
    "backoffLimit": "the service decides how often it retries.",
    "elasticPolicy": "pools have a fixed size; the trainer's --elastic continues with fewer nodes.",
    "nprocPerNode": "the code starts its own processes.",
    "numProcPerNode": "the code starts its own processes.",
    "slotsPerWorker": "the code starts its own processes.",
    "successPolicy": "a job ends with its primary replica.",
    "runtimeRef": "there are no runtimes: the image contains all programs.",
    "schedulingPolicy": "all machines of a job are allocated together.",
    "suspend": "a job can't be suspended.",
    "volumes": "there are no volumes; use NFS mounts or /gcs instead.",
    "volumeMounts": "there are no volumes; use NFS mounts or /gcs instead.",
    "serviceAccountName": "a Google service account is named instead, as serviceAccount.",
    "terminationGracePeriodSeconds": "the service sets the notice of a Spot replica.",
    "initContainers": "a replica has one container.",
    "containers": "a replica has one container.",
    "namespace": "there are no namespaces; a launch names a region.",
    "labels": "the labels belong to the cluster's own components.",
    "annotations": "the annotations belong to the cluster's own components.",
    "resources": "a job gets entire machines.",
    "env": "a variable must have a literal value; the service sets CLOUD_ML_JOB_ID to the job's id.",
    "kueue.x-k8s.io/queue-name": "there are no queues; FLEX_START waits for capacity.",
    "failurePolicy": "the service decides how often it retries.",
}
