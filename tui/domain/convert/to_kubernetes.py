"""Convert a profile for Vertex AI into a profile with a manifest."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tui.domain.convert.pods import (
    NAME_LABELS,
    output_variables,
    place_variables,
    placed,
    seconds,
    spot_pod,
    task,
)
from tui.domain.convert.source import CannotConvert, ConversionSource
from tui.domain.kubernetes.shared_memory import DEV_SHM, SHARED_MEMORY, loader_workers
from tui.domain.kubernetes.workloads import Path, WorkloadKind, whole
from tui.domain.vertex.cost import DEFAULT_TIMEOUT
from tui.domain.vertex.reducers import is_reducer

SPEC = "jobSpec"
_HEADER = ("displayName", "description", "labels", "progress")
_ROLES: Mapping[str, tuple[str, ...]] = {
    "pytorch_job": ("Master", "Worker"),
    "tf_job": ("Chief", "Worker", "PS", "Evaluator"),
}
_TRAINER = ["python3", "-m", "trainer.task"]


@dataclass(slots=True)
class Pool:
    """A worker pool to convert into pods."""

    position: int
    path: Path
    replicas: Any
    selector: dict[str, str]
    tolerations: list[dict[str, str]]
    container: dict[str, Any]

    @property
    def kind(self) -> tuple[Any, ...]:
        """The properties that all pools of a replica group share."""
        return self.selector, self.tolerations, self.container


@dataclass(slots=True)
class Result:
    """The fields of the converted profile, grouped by profile part."""

    header: dict[str, Any] = field(default_factory=dict)
    objects: list[dict[str, Any]] = field(default_factory=list)


def to_manifest(source: ConversionSource, kind: WorkloadKind) -> Result:
    """Return the header and the objects of a job of this kind. Raises CannotConvert."""
    spec = source.get(SPEC)
    if not isinstance(spec, Mapping) or not spec.get("workerPoolSpecs"):
        raise CannotConvert("there are no worker pools to convert.", "Add workerPoolSpecs to the job's spec.")
    header = {name: source.take(name) for name in _HEADER if source.get(name) is not None}
    strategy = str(source.fixed(SPEC, "scheduling", "strategy") or "STANDARD")
    pools = [pool for i in range(len(spec["workerPoolSpecs"])) if (pool := _pool(source, kind, i, strategy))]
    _name_outputs(source, kind, pools)
    duration = source.fixed(SPEC, "scheduling", "timeout")
    timeout = seconds(duration) or DEFAULT_TIMEOUT
    if duration not in (None, f"{timeout}s"):
        words = f"a deadline is an integer number of seconds, so it is {timeout}."
        source.say(words, (SPEC, "scheduling", "timeout"))
    builders = {"train_job": _train_job, "mpi_job": _mpi_job, "job_set": _job_set, "batch_job": _batch_job}
    build = builders.get(kind.key, _replicas)
    job_spec = build(source, kind, pools, timeout, strategy)
    _name_choices(source, kind, job_spec)
    return Result(header, [{"apiVersion": kind.api_versions[0], "kind": kind.kind, "spec": job_spec}])


def _name_choices(source: ConversionSource, kind: WorkloadKind, spec: Mapping[str, Any]) -> None:
    """Report the settings that a cluster needs and Vertex AI lacks."""
    head: Path = ("manifest", 0, "spec")
    if kind.replicas:
        groups: Path = (*head, kind.replicas, "*")
        restart = next(iter(spec[kind.replicas].values()))["restartPolicy"]
        note = f"a failed pod is restarted by restartPolicy {restart}, chosen by vxtui."
        source.say(note, target=(*groups, "restartPolicy"))
        clean = spec["runPolicy"]["cleanPodPolicy"]
        note = f"cleanPodPolicy {clean} is chosen by vxtui: it determines which logs outlive the job."
        source.say(note, target=(*head, "runPolicy", "cleanPodPolicy"))
    elif kind.key in {"job_set", "batch_job"}:
        name = "failurePolicy" if kind.key == "job_set" else "backoffLimit"
        source.say(f"{name} is chosen by vxtui: it limits the retries of the job.", target=(*head, name))


def _pool(source: ConversionSource, kind: WorkloadKind, position: int, strategy: str) -> Pool | None:
    """Return a pool that this kind of job can have."""
    path: Path = (SPEC, "workerPoolSpecs", position)
    value = source.get(*path)
    if not value:
        return None
    if is_reducer(value):
        source.say("Reduction Server exists only on Vertex AI: NCCL reduces among the GPUs themselves.", path)
        source.consumed.add(path)
        return None
    roles = _ROLES.get(kind.key)
    if position > 1 and (roles is None or position >= len(roles)):
        noun = "parameter servers" if position == 2 else "evaluators"
        source.say(f"a {kind.noun} has no {noun}; convert with --kind TFJob to keep them.", path)
        source.consumed.add(path)
        return None
    selector, resources, tolerations = placed(source, path)
    spot, allowed = spot_pod(strategy)
    container = task(source, path)
    if resources:
        container["resources"] = resources
    replicas = source.take(*path, "replicaCount")
    return Pool(position, path, 1 if replicas is None else replicas, {**selector, **spot},
                [*allowed, *tolerations], container)  # fmt: skip


def _name_outputs(source: ConversionSource, kind: WorkloadKind, pools: Sequence[Pool]) -> None:
    """Add the variables of the output folder to every pod."""
    prefix = source.take(SPEC, "baseOutputDirectory", "outputUriPrefix")
    if not prefix:
        return
    for pool in pools:
        names = {variable.get("name") for variable in pool.container.get("env", [])}
        own = [
            variable
            for variable in output_variables(str(prefix), NAME_LABELS[kind.key])
            if variable["name"] not in names
        ]
        pool.container["env"] = [*pool.container.get("env", []), *own]


def _pod(pool: Pool, name: str, restart: str = "") -> dict[str, Any]:
    """Return the pod template of a pool."""
    pod: dict[str, Any] = {"restartPolicy": restart} if restart else {}
    pod |= {"nodeSelector": dict(pool.selector)} if pool.selector else {}
    pod |= {"tolerations": copy.deepcopy(pool.tolerations)} if pool.tolerations else {}
    container = {"name": name, **copy.deepcopy(pool.container)}
    if loader_workers(container):
        # A pod has 64 MB of shared memory; on Vertex AI a replica has its machine's memory.
        container["volumeMounts"] = [{"name": "dshm", "mountPath": DEV_SHM}]
        return {"spec": {**pod, "containers": [container], "volumes": [copy.deepcopy(SHARED_MEMORY)]}}
    return {"spec": {**pod, "containers": [container]}}


def _restart(strategy: str) -> str:
    return "ExitCode"


def _run_policy(timeout: int) -> dict[str, Any]:
    return {"activeDeadlineSeconds": timeout, "cleanPodPolicy": "None"}


def _replicas(
    source: ConversionSource, kind: WorkloadKind, pools: Sequence[Pool], timeout: int, strategy: str
) -> dict[str, Any]:
    """Return a PyTorchJob or TFJob: a role for each pool."""
    roles = _ROLES[kind.key]
    specs = {
        roles[pool.position]: {
            "replicas": pool.replicas,
            "restartPolicy": _restart(strategy),
            "template": _pod(pool, kind.container),
        }
        for pool in pools
    }
    first = {"successPolicy": "AllWorkers"} if kind.key == "tf_job" else {}
    return {**first, "runPolicy": _run_policy(timeout), kind.replicas: specs}


def _nodes(source: ConversionSource, kind: WorkloadKind, pools: Sequence[Pool]) -> tuple[Pool, int]:
    """Return one group for all pools and its number of nodes, and report the pools' differences."""
    first = pools[0]
    total = 0
    for pool in pools:
        total += _number(source, pool)
        if pool is not first and pool.kind != first.kind:
            source.say(f"all nodes of a {kind.noun} must be alike: the machine of pool 0 is used.", pool.path)
    return first, total


def _number(source: ConversionSource, pool: Pool) -> int:
    count = whole(pool.replicas)
    if count is not None:
        return count
    default = whole(source.fixed(*pool.path, "replicaCount"))
    return 1 if default is None else default


def _assumed(source: ConversionSource, pools: Sequence[Pool], why: str) -> None:
    """Report that the trainer's command replaces the image's entry point."""
    words = f"{why}, so {' '.join(_TRAINER)} replaces the image's entry point."
    for pool in pools:
        source.say(words, (*pool.path, "containerSpec", "command"))


def _train_job(
    source: ConversionSource, kind: WorkloadKind, pools: Sequence[Pool], timeout: int, strategy: str
) -> dict[str, Any]:
    pool, nodes = _nodes(source, kind, pools)
    container = copy.deepcopy(pool.container)
    resources = container.pop("resources", None)
    if "command" not in container:
        # The runtime's own command is torchrun, not the image's entry point.
        container = {"image": container.pop("image", ""), "command": _TRAINER, **container}
        _assumed(source, pools, "a runtime has its own command")
    trainer = {"numNodes": nodes, **container}
    trainer |= {"resourcesPerNode": resources} if resources else {}
    spec: dict[str, Any] = {"activeDeadlineSeconds": timeout, "runtimeRef": {"name": "torch-distributed"}}
    spec["trainer"] = trainer
    pod: dict[str, Any] = {"nodeSelector": dict(pool.selector)} if pool.selector else {}
    pod |= {"tolerations": copy.deepcopy(pool.tolerations)} if pool.tolerations else {}
    if pod:
        node = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
        patch = {"template": {"spec": {"replicatedJobs": [node]}}}
        spec["runtimePatches"] = [{"manager": "vxtui.dev/profile", "trainingRuntimeSpec": patch}]
    return spec


def _mpi_job(
    source: ConversionSource, kind: WorkloadKind, pools: Sequence[Pool], timeout: int, strategy: str
) -> dict[str, Any]:
    """Return an MPIJob, whose launcher starts the task on workers; mpirun needs a command."""
    pool, nodes = _nodes(source, kind, pools)
    container = copy.deepcopy(pool.container)
    command = container.get("command")
    if command is None:
        command = _TRAINER
        _assumed(source, pools, "mpirun starts a command")
    start = ["mpirun", "-n", str(nodes), "--allow-run-as-root", "--bind-to", "none", *command]
    rest = {name: value for name, value in container.items() if name in {"args", "env"}}
    launcher = {"name": "launcher", "image": container.get("image", ""), "command": start, **rest}
    worker = {
        "name": "worker", "image": container.get("image", ""), "command": ["/usr/sbin/sshd", "-De"],
        **({"resources": container["resources"]} if "resources" in container else {}),
    }  # fmt: skip
    pods = _pod(pool, "worker")
    pods["spec"]["containers"] = [worker]
    return {
        "slotsPerWorker": 1,
        "runPolicy": {"activeDeadlineSeconds": timeout, "cleanPodPolicy": "Running"},
        kind.replicas: {
            "Launcher": {
                "replicas": 1,
                "restartPolicy": "OnFailure",
                "template": {"spec": {"containers": [launcher]}},
            },
            "Worker": {"replicas": nodes, "template": pods},
        },
    }


def _indexed(pool: Pool, nodes: int, timeout: int, *, of_set: bool = False) -> dict[str, Any]:
    known = pool.container.get("env", [])
    names = {variable.get("name") for variable in known}
    own = [variable for variable in place_variables(nodes, of_set=of_set) if variable["name"] not in names]
    pool.container = {**pool.container, "env": [*known, *own]}
    return {
        "parallelism": nodes,
        "completions": nodes,
        "completionMode": "Indexed",
        "activeDeadlineSeconds": timeout,
        "template": _pod(pool, "trainer", "Never"),
    }


def _job_set(
    source: ConversionSource, kind: WorkloadKind, pools: Sequence[Pool], timeout: int, strategy: str
) -> dict[str, Any]:
    pool, nodes = _nodes(source, kind, pools)
    job = {
        "name": "node",
        "replicas": 1,
        "template": {"spec": {**_indexed(pool, nodes, timeout, of_set=True), "backoffLimit": 0}},
    }
    return {"failurePolicy": {"maxRestarts": 20 if strategy == "SPOT" else 3}, "replicatedJobs": [job]}


def _batch_job(
    source: ConversionSource, kind: WorkloadKind, pools: Sequence[Pool], timeout: int, strategy: str
) -> dict[str, Any]:
    pool, nodes = _nodes(source, kind, pools)
    if nodes > 1:
        source.say(
            "the pods of a Job can't resolve one another's addresses; use --kind JobSet.",
            pool.path,
        )
    return {"backoffLimit": 20 if strategy == "SPOT" else 3, **_indexed(pool, nodes, timeout)}
