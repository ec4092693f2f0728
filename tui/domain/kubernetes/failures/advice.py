"""The fix for a failed replica: the field to change, with its current value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui.domain.core.diagnosis import Diagnosis, explain_exit
from tui.domain.core.states import JobState
from tui.domain.kubernetes.failures.failure import DELETED_BY_SOMEBODY, ReplicaFailure
from tui.domain.kubernetes.workloads import ManifestGroup, elements, fields, groups

Obj = Mapping[str, Any]
_KILLED = 137
_BY_ITSELF = {
    JobState.RUNNING: "The job runs again, from its last checkpoint, if there is one.",
    JobState.RESTARTING: "The job is restarting, from its last checkpoint, if there is one.",
    JobState.PENDING: "The job is restarting, from its last checkpoint, if there is one.",
    JobState.QUEUED: "The job restarts once it is admitted.",
}
_MPI = "An MPIJob ends when it loses a worker: launch it again to resume from the last checkpoint."
_RESTART = "A restartPolicy such as OnFailure, or a backoffLimit, restarts it from its last checkpoint."


@dataclass(frozen=True, slots=True)
class Container:
    """The failed container, and the location of its resources in a manifest or a profile."""

    group: str
    """The replica group's name in the manifest."""
    name: str
    resources: Mapping[str, Any]
    path: str
    """Path of the container's resources in the manifest or profile."""
    in_form: bool = True
    """Whether the profile's form has a field for the container's resources."""

    @property
    def words(self) -> str:
        """The container as text, e.g. `the container pytorch of Worker`."""
        return f"the container {self.name} of {self.group}" if self.name else f"the container of {self.group}"

    def now(self, part: str) -> str:
        """Return the current memory limit or request of the container, or "" if unset."""
        amount = fields(self.resources, part).get("memory")
        return "" if amount is None else str(amount)

    def field(self, part: str) -> str:
        """Return the path of the memory limit or request, with its label in the profile's form."""
        label = "memory limit" if part == "limits" else "memory"
        form = f", `{label}` of {self.group} in a profile's form" if self.in_form else ""
        return f"{self.path}.{part}.memory{form}"


def container_of(obj: Obj, job_set: Obj | None, failure: ReplicaFailure) -> Container | None:
    """Return the container in which a replica failed, or None if the manifest does not have it."""
    name = failure.replica.rpartition("-")[0]
    own = groups(obj)
    if obj.get("kind") == "TrainJob":
        trainer = own[0]
        template = next((group for group in groups(job_set or {}) if group.name == name), None)
        if name != "node":
            # The runtime sets the resources of an initializer container.
            return (
                _container(template, failure, "the runtime's spec.template.")
                if template is not None
                else None
            )
        resources = fields(trainer.container, "resourcesPerNode")
        resources = resources or (fields(template.container, "resources") if template is not None else {})
        called = str(template.container.get("name") or "") if template is not None else ""
        return Container("Nodes", called, resources, "spec.trainer.resourcesPerNode")
    group = next((candidate for candidate in own if candidate.name == name), None)
    return _container(group, failure) if group is not None else None


def _container(group: ManifestGroup, failure: ReplicaFailure, before: str = "") -> Container:
    path, container = list(group.container_path), group.container
    for index, item in enumerate(elements(group.pod, "containers")):
        if failure.container and fields(item).get("name") == failure.container:
            path[-1], container = index, fields(item)
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    name = failure.container or str(container.get("name") or "")
    known = name == container.get("name")
    return Container(
        group.role,
        name,
        fields(container, "resources") if known else {},
        f"{before}{text}.resources",
        in_form=not before,
    )


def advice(
    failure: ReplicaFailure, container: Container | None, state: JobState, kind: str = ""
) -> Diagnosis | None:
    """Return the meaning of a failure and the remedy; None if only the program's own log can explain it.
    `kind` is the kind of the job's object, e.g. `MPIJob`."""
    diagnose = next((make for reasons, make in _ADVICE if failure.reason in reasons), None)
    if diagnose is not None:
        over = _MPI if kind == "MPIJob" else _RESTART
        return diagnose(failure, container, f"{_BY_ITSELF.get(state, over)} ")
    if failure.exit_code == _KILLED and failure.reason in {"", "Error"}:
        return _out_of_memory(failure, container, "", guess=True)
    if state is JobState.FAILED or failure.exit_code is None:
        return None
    code = failure.exit_code
    time = f" before {failure.at:%H:%M:%S} UTC" if failure.at else ""
    return Diagnosis(
        f"{failure.replica} ended with code {code}: {explain_exit(code)}.",
        f"{_BY_ITSELF.get(state, '')} The log{time} shows the reason, as far as it is stored.",
        short=f"exit {code} {failure.replica}",
    )


def _out_of_memory(
    failure: ReplicaFailure, container: Container | None, again: str, *, guess: bool = False
) -> Diagnosis:
    subject = container.words if container is not None else f"the container of {failure.replica}"
    limit = container.now("limits") if container is not None else ""
    used = f"{subject[0].upper()}{subject[1:]} used more memory than "
    field = f": {container.field('limits')}" if container is not None else ""
    if limit:
        meaning = f"{used}its limit of {limit} and was killed."
        raise_ = f"Raise the memory limit of {subject}, now {limit}{field}"
    else:
        meaning = f"{used}its node had, or than a LimitRange of the namespace allows, and was killed."
        raise_ = f"Set a memory limit of {subject}, which has none, and request the same amount{field}"
    if guess:
        meaning = f"{failure.replica} was killed (SIGKILL), often for using too much memory."
    fix = f"{raise_}; or use fewer data loader workers, or smaller batches on the host."
    return Diagnosis(meaning, fix, guess, short=f"OOM {failure.replica}")


def _evicted(failure: ReplicaFailure, container: Container | None, again: str) -> Diagnosis:
    short = f"evicted {failure.replica}"
    if "ephemeral-storage" in failure.words:
        return Diagnosis(
            "The node ran out of disk, and its kubelet evicted the pod.",
            f"{again}Request ephemeral-storage for the pod's files, write less there, or mount a volume.",
            short=short,
        )
    if "memory" in failure.words:
        now = container.now("requests") or container.now("limits") if container is not None else ""
        field = f", now {now}" if now else ""
        field += f": {container.field('requests')}" if container is not None else ""
        return Diagnosis(
            "The node ran out of memory, and its kubelet evicted the pod.",
            f"{again}Request as much memory as the pod uses{field}: it gets a node with room, and is evicted "
            "last.",
            short=short,
        )
    return Diagnosis(
        "The pod was evicted from its node.", f"{again}The pod's events show the cause of the eviction.",
        keys=f"{again}Events shows the cause of the eviction.", short=short,
    )  # fmt: skip


def _node_lost(failure: ReplicaFailure, container: Container | None, again: str) -> Diagnosis:
    if "Spot" in failure.words:
        return Diagnosis(
            "GKE preempted the Spot node, and its pods ended.",
            f"{again}Standard nodes are not preempted.",
            short=f"node preempted {failure.replica}",
        )
    return Diagnosis(
        "The node was shut down or lost, and its pods ended.", again.rstrip(),
        short=f"node lost {failure.replica}",
    )  # fmt: skip


def _outranked(failure: ReplicaFailure, container: Container | None, again: str) -> Diagnosis:
    return Diagnosis(
        "A pod of higher priority preempted this pod.",
        f"{again}A higher priority class, or a queue with room, keeps it running; `vxtui quotas` shows it.",
        keys=f"{again}A higher priority class, or a queue with room, keeps it running; 4 shows the quotas.",
        short=f"preempted {failure.replica}",
    )


def _deleted(failure: ReplicaFailure, container: Container | None, again: str) -> Diagnosis:
    return Diagnosis(
        "The pod was deleted while it ran, by a user, a drain of its node or another controller.",
        again.rstrip(), short=f"deleted {failure.replica}",
    )  # fmt: skip


_Make = Callable[[ReplicaFailure, Container | None, str], Diagnosis]
"""Function that returns the advice; the last argument is a sentence and a space about the restart."""
_ADVICE: Sequence[tuple[frozenset[str], _Make]] = (
    (frozenset({"OOMKilled"}), _out_of_memory),
    (frozenset({"Evicted", "EvictionByEvictionAPI", "TaintManagerEviction"}), _evicted),
    (frozenset({"NodeLost", "ContainerStatusUnknown"}), _node_lost),
    (frozenset({"Preempted", "PreemptionByScheduler"}), _outranked),
    (frozenset({DELETED_BY_SOMEBODY}), _deleted),
)


def unexplained(restarts: int) -> str:
    """Return the reason to show for a restarted job if the cause is no longer known."""
    times = "once" if restarts == 1 else f"{restarts} times"
    return f"Restarted {times}; the cause is unknown by now: the cluster stores Events for an hour"
