"""The reasons, as text, why a job of a cluster does not run yet, and the next step.

The checks are in the order of a job's waits: for its queue (Kueue), for its gang (PodGroup), for nodes (the
scheduler and the autoscaler), and for its image and volumes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tui.domain.core.formatting import pieces
from tui.domain.core.states import JobState
from tui.domain.kubernetes.conditions import conditions_of, queue_of
from tui.domain.kubernetes.failures.events import WAITS, ClusterEvent, EventIndex, seconds
from tui.domain.kubernetes.pods import Pod
from tui.domain.kubernetes.workloads import at, elements, fields, whole

Obj = Mapping[str, Any]
_LONGEST = 300
_MOST_PODS = 20
"""Number of pods whose Events are read. The Events of other pods repeat the same messages."""
_TAINT = re.compile(r"untolerated taint(?:\(s\))? \{(?P<taint>[^}:]+)")
_REASON = re.compile(r", (?=insufficient )")
"""The separator between the reasons of two flavors."""
# The first matching pattern in the lower-case text gives the next step.
_QUEUE_STEPS = (
    (
        "maximum capacity",
        "The job requests more than the queue can ever have: request less, or use another queue.",
    ),
    ("exceeds", "The job requests more than the queue can ever have: request less, or use another queue."),
    ("topology", "Request fewer nodes, or prefer the topology instead of requiring it."),
    (
        "insufficient",
        "The job starts when other jobs end; otherwise request fewer machines, or use another queue.",
    ),
    (
        "waiting for quota",
        "The job starts when other jobs end; otherwise request fewer machines, or use another queue.",
    ),
    ("taint", "Add the tolerations of a flavor of the ClusterQueue."),
    ("affinity", "Add the node labels of a flavor of the ClusterQueue."),
    ("flavor", "Request machines that a flavor of the ClusterQueue has."),
    ("doesn't exist", "Use an existing queue."),
    ("not found", "Use an existing queue."),
    ("inactive", "The administrator has to repair or resume the queue."),
    ("stopped", "The administrator has to resume the queue."),
)
_NO_LABELS = "No node has the required labels: correct the nodeSelector."
_NODE_STEPS = (
    ("insufficient nvidia.com/gpu", "Wait until GPUs are free, request fewer, or use another node pool."),
    ("insufficient", "Request a smaller amount per pod, or use another node pool."),
    ("persistentvolumeclaim", "Create the claim, or check why it is not bound."),
    ("volume", "Check why the node can't use the volume."),
    ("topology", "Request fewer pods per domain, or relax the topology constraint."),
    ("affinity", _NO_LABELS),
    ("selector", _NO_LABELS),
)
_AUTOSCALER_STEPS = (
    ("max node group size", "The node pool is at its maximum size: raise it, or wait until nodes are free."),
    ("max cluster", "The cluster is at its maximum size: its administrator can raise it."),
    ("quota", "A quota of the project is used up: request more, or use another region."),
    (
        "stockout",
        "The zone has none of these machines now: try again later, or use another zone or standard VMs.",
    ),
    (
        "out of resources",
        "The zone has none of these machines now: try again later, or use another zone or standard VMs.",
    ),
    ("backoff", "The cloud refused new nodes recently: the autoscaler will try again."),
    ("taint", "Add the tolerations of a node pool that can grow."),
    ("affinity", "No node pool has the required labels: correct the nodeSelector."),
)
_CREATE_STEPS = (
    ("metadata.name: invalid", "Launch the job again with a shorter name: the operator appends a suffix."),
)
_CONTAINERS = {
    "ImagePullBackOff": "Check the image's name and tag, and that the nodes may read the repository.",
    "ErrImagePull": "Check the image's name and tag, and that the nodes may read the repository.",
    "InvalidImageName": "Correct the image's name.",
    "CreateContainerConfigError": "Create the ConfigMap or Secret that the pod names.",
    "CreateContainerError": "Correct the container's command, user or mounts.",
    "RunContainerError": "Correct the container's command: it can't start.",
    "CrashLoopBackOff": "The program exits at once: read its log.",
}


@dataclass(frozen=True, slots=True)
class Wait:
    """One reason why a job waits."""

    words: str
    step: str = ""
    """The next step; "" if the wait ends automatically."""
    short: str = ""
    """The reason in a table cell, e.g. `queue team-a is full`."""


def wait_events(index: EventIndex, job: tuple[str, str, str], pods: Sequence[Pod]) -> list[ClusterEvent]:
    """Return Events about a job (namespace, kind and name) and some of its pods that have not started."""
    namespace, kind, name = job
    waiting = [pod.name for pod in pods if not pod.started][:_MOST_PODS]
    about = [(kind, name), *(("Pod", pod_name) for pod_name in waiting)]
    about_job = [event for of, object_name in about for event in index.about(namespace, of, object_name)]
    return sorted(
        (event for event in about_job if event.reason in WAITS), key=lambda event: seconds(event.last)
    )


def cannot_start(pod: Pod) -> bool:
    """Return whether a pod has no node or can't start there; its job may run or wait in the meantime."""
    if pod.state not in {JobState.PENDING, JobState.RESTARTING}:
        return False
    return pod.reason in _CONTAINERS or (pod.reason == "Unschedulable" and not pod.node)


def waits_for(
    job: Obj,
    pods: Sequence[Pod] = (),
    workload: Obj | None = None,
    pod_group: Obj | None = None,
    events: Sequence[ClusterEvent] = (),
) -> tuple[Wait, ...]:
    """Return the reasons for a wait, the decisive one first; empty if the job has all resources."""
    queue = _queue(job, workload)
    if queue is not None:
        return (queue,)
    waits = [*_gang(pod_group, pods), *_nodes(pods), *_autoscaler(events), *_containers(pods)]
    return tuple(dict.fromkeys([*waits, *_others(events)]))


def _queue(job: Obj, workload: Obj | None) -> Wait | None:
    """Return why Kueue does not admit the job, or None after the admission."""
    name = queue_of(job)
    if workload is None:
        if not name or at(job, "spec", "suspend") is False:
            return None
        return Wait(
            f"The queue {name} has not been processed by Kueue yet.", "Check that this LocalQueue exists.",
            f"queue {name}",
        )  # fmt: skip
    name = str(at(workload, "spec", "queueName") or name)
    conditions = {entry.type: entry for entry in conditions_of(workload)}
    if at(workload, "spec", "active") is False:
        return Wait(
            f"The job is deactivated in the queue {name}.",
            "Resume the job to queue it again.",
            f"queue {name}",
        )
    admitted = conditions.get("Admitted")
    if admitted is not None and admitted.true:
        return None
    reserved, evicted = conditions.get("QuotaReserved"), conditions.get("Evicted")
    if evicted is not None and evicted.true and not (reserved and reserved.true):
        words = f"The job waits in the queue {name} again after an eviction: {_sentence(evicted.words)}"
        if reserved is None or reserved.true or not reserved.message:
            return Wait(f"{words} The job will be admitted again.", short=f"evicted, queue {name}")
        return _with_step(f"{words} {_sentence(reserved.message)}", _QUEUE_STEPS, f"evicted, queue {name}")
    if reserved is None:
        return Wait(f"The queue {name} has not processed the job yet.", short=f"queue {name}")
    if not reserved.true:
        words = _possible_flavors(reserved.message or reserved.reason)
        full = any(word in words for word in ("insufficient unused", "waiting for quota"))
        full = full and "maximum capacity" not in words
        wait = _with_step(
            f"The job waits in the queue {name}: {_sentence(words)}", _QUEUE_STEPS, f"queue {name}"
        )
        return replace(wait, short=f"queue {name} is full") if full else wait
    checks = [
        f"{fields(check).get('name')} ({_line(fields(check).get('message') or fields(check).get('state'))})"
        for check in elements(workload, "status", "admissionChecks")
        if fields(check).get("state") != "Ready"
    ]
    return Wait(
        f"The job has its quota in the queue {name}, and waits for {', '.join(checks) or 'admission'}.",
        short=f"queue {name}",
    )


def _possible_flavors(message: str) -> str:
    """Reduce Kueue's message for each pod set to the flavors that could ever fit, unless no flavor could."""
    pod_sets = []
    for pod_set in message.split("; "):
        head, _, text = pod_set.partition(": ")
        reasons = _REASON.split(text)
        possible = [reason for reason in reasons if "maximum capacity" not in reason]
        pod_sets.append(f"{head}: {', '.join(possible)}" if text and possible else pod_set)
    return "; ".join(pod_sets)


def _gang(group: Obj | None, pods: Sequence[Pod]) -> list[Wait]:
    """Return the missing pods of a gang, as a wait."""
    if group is None or (all(pod.node for pod in pods) and pods):
        return []
    least = whole(at(group, "spec", "minMember"))
    placed = sum(1 for pod in pods if pod.node)
    messages = [c.message for c in conditions_of(group) if c.type == "Unschedulable" and c.true and c.message]
    if not least:
        return []
    words = f"The pods start together: {least} are needed, and {placed} have a node."
    if messages:
        words = f"{words} {_sentence(messages[-1])}"
    return [_with_step(words, _NODE_STEPS, f"{placed} of {least} pods placed")]


def _nodes(pods: Sequence[Pod]) -> list[Wait]:
    """Return the scheduler's messages about pods without a node, without duplicates."""
    waiting = [pod for pod in pods if pod.reason == "Unschedulable" and not pod.node]
    counts = Counter(pod.message for pod in waiting)
    waits = []
    for message, count in counts.most_common(2):
        subject = f"{count} of {len(pods)} pods have" if count > 1 else "A pod has"
        words = f"{subject} no node: {_sentence(message)}"
        taint = _TAINT.search(message)
        lower = message.casefold()
        if taint is None or "insufficient" in lower:
            waits.append(_with_step(words, _NODE_STEPS, _no_node(lower)))
            continue
        step = f"Give the pod a toleration for {taint['taint'].strip()}"
        # The scheduler checks taints before labels, so the labels of tainted nodes are unknown.
        unsure = " if these nodes are right; otherwise correct its nodeSelector"
        step = f"{step}{unsure if 'affinity' in lower else ''}."
        waits.append(Wait(words, step, f"no node without {taint['taint'].strip()}"))
    return waits


def _no_node(message: str) -> str:
    """Return the short form of the wait for a table cell, e.g. `no node has enough nvidia.com/gpu`."""
    short = re.search(r"insufficient (?P<what>[\w./-]*\w)", message)
    return f"no node has enough {short['what'].rpartition('/')[2]}" if short else "no node"


def _autoscaler(events: Sequence[ClusterEvent]) -> list[Wait]:
    """Return the autoscaler's last message, which reports new nodes, or the reason for none."""
    scaling = [e for e in events if e.reason in {"NotTriggerScaleUp", "TriggeredScaleUp", "FailedScaleUp"}]
    if not scaling:
        return []
    last = scaling[-1]
    message = _sentence(last.message.removeprefix("pod triggered scale-up: "))
    if last.reason == "TriggeredScaleUp":
        return [
            Wait(
                f"The autoscaler adds nodes: {message} Scaling takes a few minutes.", short="nodes are added"
            )
        ]
    message = _sentence(last.message.removeprefix("pod didn't trigger scale-up: "))
    return [_with_step(f"The autoscaler adds no node: {message}", _AUTOSCALER_STEPS, "no node is added")]


def _containers(pods: Sequence[Pod]) -> list[Wait]:
    """Return the containers that can't start."""
    counts = Counter(
        (pod.reason, pod.message) for pod in pods if pod.reason in _CONTAINERS and cannot_start(pod)
    )
    waits = []
    for (reason, message), count in counts.most_common(2):
        detail = f": {_sentence(message)}" if message else "."
        subject = "A pod" if count == 1 else f"{count} pods"
        waits.append(Wait(f"{subject} can't start ({reason}){detail}", _CONTAINERS[reason], reason))
    return waits


def _others(events: Sequence[ClusterEvent]) -> list[Wait]:
    """Return failing volumes and sandboxes, and pods that can't be created."""
    last = {e.reason: e for e in events if "Failed" in e.reason and e.reason != "FailedScaleUp"}
    return [
        _with_step(f"{reason}: {_sentence(event.message)}", _CREATE_STEPS, reason)
        for reason, event in last.items()
        if reason in WAITS
    ]


def _with_step(words: str, steps: Sequence[tuple[str, str]], short: str) -> Wait:
    lower = words.casefold()
    return Wait(words, next((step for pattern, step in steps if pattern in lower), ""), short)


def _sentence(text: str) -> str:
    line = _line(text)
    return line if not line or line[-1] in ".!?…" else f"{line}."


def _line(text: Any) -> str:
    words = " ".join(str(text or "").split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def is_pending(workload: Obj) -> bool:
    """Return whether the queue has yet to admit the Workload."""
    held = {entry.type for entry in conditions_of(workload) if entry.true}
    return at(workload, "spec", "active") is not False and not held & {"QuotaReserved", "Finished"}


def position_words(summary: Obj, workload: Obj) -> str:
    """Return a Workload's position as a sentence, or "" if the summary does not list it. Positions count from
    0 (Kueue, pkg/visibility): a position is the number of earlier workloads."""
    name = at(workload, "metadata", "name")
    for item in map(fields, elements(summary, "items")):
        if at(item, "metadata", "name") == name:
            local, cluster = (
                whole(item.get(f"positionIn{queue}Queue")) or 0 for queue in ("Local", "Cluster")
            )
            if not cluster:
                return "The job is next in its ClusterQueue."
            if local:
                return (
                    f"The LocalQueue has {pieces(local, 'earlier job')}, and the ClusterQueue has {cluster}."
                )
            return (
                f"The job is next in its LocalQueue; the ClusterQueue has {pieces(cluster, 'earlier job')}."
            )
    return ""
