"""What helps after a replica of a cluster's job failed: the field to change, with its present value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui.domain.core.diagnosis import Diagnosis, explain_exit
from tui.domain.core.states import JobState
from tui.domain.kubernetes.failures.failure import DELETED_BY_SOMEBODY, Failure
from tui.domain.kubernetes.workloads import Group, elements, fields, groups

Obj = Mapping[str, Any]
_KILLED = 137
_BY_ITSELF = {
    JobState.RUNNING: "It runs again, from its last checkpoint where it has one.",
    JobState.RESTARTING: "It is being started again, from its last checkpoint where it has one.",
    JobState.PENDING: "It is being started again, from its last checkpoint where it has one.",
    JobState.QUEUED: "It is started again once it is admitted.",
}
_MPI = "An MPIJob ends with a worker that is lost: launch it again, and it goes on from its last checkpoint."
_RESTART = "A restartPolicy such as OnFailure, or a backoffLimit, starts it again from its last checkpoint."


@dataclass(frozen=True, slots=True)
class Container:
    """The container that failed, and where a manifest or a profile says what it may use."""

    group: str
    """The replica group as the manifest calls it."""
    name: str
    resources: Mapping[str, Any]
    path: str
    """Of its resources."""
    in_form: bool = True
    """The form of the job's profile has them."""

    @property
    def words(self) -> str:
        """`the container pytorch of Worker`."""
        return f"the container {self.name} of {self.group}" if self.name else f"the container of {self.group}"

    def now(self, part: str) -> str:
        """What it may use, or asks for, of memory; "" where nothing says it."""
        found = fields(self.resources, part).get("memory")
        return "" if found is None else str(found)

    def field(self, part: str) -> str:
        """The path of that, and its name in the form of a profile."""
        label = "memory limit" if part == "limits" else "memory"
        form = f", `{label}` of {self.group} in a profile's form" if self.in_form else ""
        return f"{self.path}.{part}.memory{form}"


def container_of(obj: Obj, job_set: Obj | None, failure: Failure) -> Container | None:
    """The container of a job object in which a replica failed; None where its manifest does not say it."""
    name = failure.replica.rpartition("-")[0]
    own = groups(obj)
    if obj.get("kind") == "TrainJob":
        trainer = own[0]
        made = next((each for each in groups(job_set or {}) if each.name == name), None)
        if name != "node":
            # What an initializer may use its runtime says.
            return _container(made, failure, "the runtime's spec.template.") if made is not None else None
        resources = fields(trainer.container, "resourcesPerNode")
        resources = resources or (fields(made.container, "resources") if made is not None else {})
        called = str(made.container.get("name") or "") if made is not None else ""
        return Container("Nodes", called, resources, "spec.trainer.resourcesPerNode")
    group = next((each for each in own if each.name == name), None)
    return _container(group, failure) if group is not None else None


def _container(group: Group, failure: Failure, before: str = "") -> Container:
    path, container = list(group.container_path), group.container
    for index, each in enumerate(elements(group.pod, "containers")):
        if failure.container and fields(each).get("name") == failure.container:
            path[-1], container = index, fields(each)
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
    failure: Failure, container: Container | None, state: JobState, kind: str = ""
) -> Diagnosis | None:
    """What a failure means and what to do; None where only the program's own log can say it.

    `kind` is that of the job's object, e.g. `MPIJob`.
    """
    found = next((make for reasons, make in _ADVICE if failure.reason in reasons), None)
    if found is not None:
        over = _MPI if kind == "MPIJob" else _RESTART
        return found(failure, container, f"{_BY_ITSELF.get(state, over)} ")
    if failure.exit_code == _KILLED and failure.reason in {"", "Error"}:
        return _out_of_memory(failure, container, "", guess=True)
    if state is JobState.FAILED or failure.exit_code is None:
        return None
    code = failure.exit_code
    time = f" before {failure.at:%H:%M:%S} UTC" if failure.at else ""
    return Diagnosis(
        f"{failure.replica} ended with code {code}: {explain_exit(code)}.",
        f"{_BY_ITSELF.get(state, '')} Its log{time} says why, as far as that is kept.",
        short=f"exit {code} {failure.replica}",
    )


def _out_of_memory(
    failure: Failure, container: Container | None, again: str, *, guess: bool = False
) -> Diagnosis:
    who = container.words if container is not None else f"the container of {failure.replica}"
    limit = container.now("limits") if container is not None else ""
    said = f"{who[0].upper()}{who[1:]} used more memory than "
    field = f": {container.field('limits')}" if container is not None else ""
    if limit:
        meaning = f"{said}its limit of {limit}, and was killed for that."
        raise_ = f"Raise the memory limit of {who}, now {limit}{field}"
    else:
        meaning = (
            f"{said}its node had, or than a LimitRange of the namespace allows, and was killed for that."
        )
        raise_ = f"Set a memory limit of {who}, which has none now, and request as much{field}"
    if guess:
        meaning = f"{failure.replica} was killed (SIGKILL), which often is for too much memory."
    fix = f"{raise_}; or use fewer data loader workers, or smaller batches on the host."
    return Diagnosis(meaning, fix, guess, short=f"OOM {failure.replica}")


def _evicted(failure: Failure, container: Container | None, again: str) -> Diagnosis:
    short = f"evicted {failure.replica}"
    if "ephemeral-storage" in failure.words:
        return Diagnosis(
            "The node ran out of disk, and its kubelet evicted the pod.",
            f"{again}Request ephemeral-storage for what the pod writes, write less there, or mount a volume.",
            short=short,
        )
    if "memory" in failure.words:
        now = container.now("requests") or container.now("limits") if container is not None else ""
        field = f", now {now}" if now else ""
        field += f": {container.field('requests')}" if container is not None else ""
        return Diagnosis(
            "The node ran out of memory, and its kubelet evicted the pod.",
            f"{again}Request as much memory as the pod uses{field}. It then gets a node that has it, and is "
            "evicted last.",
            short=short,
        )
    return Diagnosis(
        "The pod was evicted from its node.", f"{again}Its events say by whom and why.",
        keys=f"{again}Events says by whom and why.", short=short,
    )  # fmt: skip


def _node_lost(failure: Failure, container: Container | None, again: str) -> Diagnosis:
    if "Spot" in failure.words:
        return Diagnosis(
            "GKE took the Spot node away, and its pods ended.",
            f"{again}Nodes that are not Spot are not taken away.",
            short=f"node preempted {failure.replica}",
        )
    return Diagnosis(
        "The node was shut down or lost, and its pods ended.", again.rstrip(),
        short=f"node lost {failure.replica}",
    )  # fmt: skip


def _outranked(failure: Failure, container: Container | None, again: str) -> Diagnosis:
    return Diagnosis(
        "A pod of higher priority took its place.",
        f"{again}A higher priority class, or a place with room, keeps it running; `vxtui quotas` shows it.",
        keys=f"{again}A higher priority class, or a place with room, keeps it running; 4 shows the quotas.",
        short=f"preempted {failure.replica}",
    )


def _deleted(failure: Failure, container: Container | None, again: str) -> Diagnosis:
    return Diagnosis(
        "The pod was deleted while it ran, by a user, a drain of its node or another controller.",
        again.rstrip(), short=f"deleted {failure.replica}",
    )  # fmt: skip


_Make = Callable[[Failure, Container | None, str], Diagnosis]
"""The last is whether and how it is started again, as a sentence with a space after it."""
_ADVICE: Sequence[tuple[frozenset[str], _Make]] = (
    (frozenset({"OOMKilled"}), _out_of_memory),
    (frozenset({"Evicted", "EvictionByEvictionAPI", "TaintManagerEviction"}), _evicted),
    (frozenset({"NodeLost", "ContainerStatusUnknown"}), _node_lost),
    (frozenset({"Preempted", "PreemptionByScheduler"}), _outranked),
    (frozenset({DELETED_BY_SOMEBODY}), _deleted),
)


def unexplained(restarts: int) -> str:
    """The reason of a job that was restarted so often, where nothing says why any more."""
    times = "once" if restarts == 1 else f"{restarts} times"
    return f"Restarted {times}; the cluster does not say why any more: it keeps Events for an hour"
