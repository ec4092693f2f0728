"""Why a job of a cluster does not run yet, in words, each with what to do about it.

Read in the order in which a job waits: for its queue (Kueue), for its gang (PodGroup), for nodes (the
scheduler and the autoscaler), for its image and volumes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui.domain.kubernetes.conditions import conditions_of, queue_of
from tui.domain.kubernetes.pods import Pod
from tui.domain.kubernetes.workloads import at, elements, fields, whole
from tui.domain.states import JobState

Obj = Mapping[str, Any]
_LONGEST = 300
_TAINT = re.compile(r"untolerated taint(?:\(s\))? \{(?P<taint>[^}:]+)")
# The first pattern that fits gives the next step. In lower case.
_QUEUE_STEPS = (
    (
        "maximum capacity",
        "It asks for more than the queue can ever have: ask for less, or use another queue.",
    ),
    ("exceeds", "It asks for more than the queue can ever have: ask for less, or use another queue."),
    ("topology", "Ask for fewer nodes, or prefer the topology rather than require it."),
    ("insufficient", "It starts when others end; or ask for fewer machines, or use another queue."),
    ("waiting for quota", "It starts when others end; or ask for fewer machines, or use another queue."),
    ("taint", "Give it the tolerations of a flavor of the ClusterQueue."),
    ("affinity", "Give it the node labels of a flavor of the ClusterQueue."),
    ("flavor", "Ask for machines that a flavor of the ClusterQueue has."),
    ("doesn't exist", "Name a queue that exists."),
    ("not found", "Name a queue that exists."),
    ("inactive", "The administrator has to repair or resume the queue."),
    ("stopped", "The administrator has to resume the queue."),
)
_NO_LABELS = "No node has the labels that it asks for: correct its nodeSelector."
_NODE_STEPS = (
    ("insufficient nvidia.com/gpu", "Wait until GPUs are free, or ask for fewer, or for another node pool."),
    ("insufficient", "Ask for less of that per pod, or for another node pool."),
    ("persistentvolumeclaim", "Create the claim, or see why it is not bound."),
    ("volume", "See why its volume can't be used there."),
    ("topology", "Ask for fewer pods in one domain, or relax the topology constraint."),
    ("affinity", _NO_LABELS),
    ("selector", _NO_LABELS),
)
_AUTOSCALER_STEPS = (
    ("max node group size", "The node pool has its greatest size: raise that, or wait until nodes are free."),
    ("max cluster", "The cluster has its greatest size: its administrator can raise that."),
    ("quota", "A quota of the project is used up: ask for more, or use another region."),
    ("stockout", "The zone has none of these machines now: try later, another zone, or not Spot."),
    ("out of resources", "The zone has none of these machines now: try later, another zone, or not Spot."),
    ("backoff", "The cloud refused new nodes a little ago: it will be tried again."),
    ("taint", "Give it the tolerations of a node pool that can grow."),
    ("affinity", "No node pool has the labels that it asks for: correct its nodeSelector."),
)
_CONTAINERS = {
    "ImagePullBackOff": "Check the image's name and tag, and that the nodes may read the repository.",
    "ErrImagePull": "Check the image's name and tag, and that the nodes may read the repository.",
    "InvalidImageName": "Correct the image's name.",
    "CreateContainerConfigError": "Create the ConfigMap or Secret that it names.",
    "CreateContainerError": "Correct the container's command, user or mounts.",
    "RunContainerError": "Correct the container's command: it can't be started.",
    "CrashLoopBackOff": "Its program ends at once: read its log.",
}
_EVENTS = frozenset(
    {"NotTriggerScaleUp", "TriggeredScaleUp", "FailedScaleUp", "FailedMount", "FailedAttachVolume",
     "FailedCreate", "FailedCreatePodSandBox"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An Event about a pod or a job; `about` is the name of that object."""

    reason: str
    message: str
    about: str = ""
    count: int = 1


def events_of(objects: Iterable[Obj]) -> list[ClusterEvent]:
    """The Events that say why something waits, of objects in the order in which they came."""
    return [
        ClusterEvent(
            str(each.get("reason")),
            _line(each.get("message") or each.get("note")),
            str((fields(each, "involvedObject") or fields(each, "regarding")).get("name") or ""),
            whole(each.get("count")) or 1,
        )
        for each in objects
        if each.get("reason") in _EVENTS
    ]


def waits_for(
    job: Obj,
    pods: Sequence[Pod] = (),
    workload: Obj | None = None,
    pod_group: Obj | None = None,
    events: Sequence[ClusterEvent] = (),
) -> tuple[str, ...]:
    """The reasons, the one that counts first; none for a job that has all it needs."""
    queue = _queue(job, workload)
    if queue:
        return queue
    found = [*_gang(pod_group, pods), *_nodes(pods), *_autoscaler(events), *_containers(pods)]
    return tuple(dict.fromkeys([*found, *_others(events)]))


def _queue(job: Obj, workload: Obj | None) -> tuple[str, ...]:
    """Why Kueue does not admit it; nothing once it has."""
    name = queue_of(job)
    if workload is None:
        if not name or at(job, "spec", "suspend") is False:
            return ()
        return (f"In the queue {name}: Kueue has not looked at it yet. See that this LocalQueue exists.",)
    name = str(at(workload, "spec", "queueName") or name)
    conditions = {each.type: each for each in conditions_of(workload)}
    if at(workload, "spec", "active") is False:
        return (f"In the queue {name}: it is deactivated. Resume it to queue it again.",)
    admitted = conditions.get("Admitted")
    if admitted is not None and admitted.true:
        return ()
    reserved = conditions.get("QuotaReserved")
    evicted = conditions.get("Evicted")
    if evicted is not None and evicted.true and not (reserved and reserved.true):
        said = _sentence(evicted.words)
        return (f"In the queue {name} again, as it was evicted: {said} {_later(reserved)}".rstrip(),)
    if reserved is None:
        return (f"In the queue {name}: not looked at yet.",)
    if not reserved.true:
        return (
            _with_step(
                f"In the queue {name}: {_sentence(reserved.message or reserved.reason)}", _QUEUE_STEPS
            ),
        )
    checks = [
        f"{fields(each).get('name')} ({_line(fields(each).get('message') or fields(each).get('state'))})"
        for each in elements(workload, "status", "admissionChecks")
        if fields(each).get("state") != "Ready"
    ]
    return (f"In the queue {name}: its quota is reserved; it waits for {', '.join(checks) or 'admission'}.",)


def _later(reserved: Any) -> str:
    if reserved is None or reserved.true or not reserved.message:
        return "It will be admitted again."
    return _with_step(_sentence(reserved.message), _QUEUE_STEPS)


def _gang(group: Obj | None, pods: Sequence[Pod]) -> list[str]:
    """Why a gang is not complete."""
    if group is None or (all(pod.node for pod in pods) and pods):
        return []
    least = whole(at(group, "spec", "minMember"))
    placed = sum(1 for pod in pods if pod.node)
    told = [c.message for c in conditions_of(group) if c.type == "Unschedulable" and c.true and c.message]
    if not least:
        return []
    words = f"Its pods start together: {least} are needed, {placed} have a node."
    return [_with_step(f"{words} {_sentence(told[-1])}" if told else words, _NODE_STEPS)]


def _nodes(pods: Sequence[Pod]) -> list[str]:
    """What the scheduler says of pods without a node, the same words once."""
    waiting = [pod for pod in pods if pod.reason == "Unschedulable" and not pod.node]
    counts = Counter(pod.message for pod in waiting)
    found = []
    for message, count in counts.most_common(2):
        who = f"{count} of {len(pods)} pods have" if count > 1 else "A pod has"
        words = f"{who} no node: {_sentence(message)}"
        taint = _TAINT.search(message)
        lower = message.casefold()
        if taint is None or "insufficient" in lower:
            found.append(_with_step(words, _NODE_STEPS))
            continue
        words = f"{words} Give it a toleration for {taint['taint'].strip()}"
        # Taints are compared before labels: whether the tainted nodes have the labels is not said.
        unsure = ", if it is meant for these nodes; else correct its nodeSelector"
        found.append(f"{words}{unsure if 'affinity' in lower else ''}.")
    return found


def _autoscaler(events: Sequence[ClusterEvent]) -> list[str]:
    """What the autoscaler last said: either it adds nodes, or it can't."""
    said = [e for e in events if e.reason in {"NotTriggerScaleUp", "TriggeredScaleUp", "FailedScaleUp"}]
    if not said:
        return []
    last = said[-1]
    message = _sentence(last.message.removeprefix("pod triggered scale-up: "))
    if last.reason == "TriggeredScaleUp":
        return [f"The autoscaler adds nodes: {message} That takes a few minutes."]
    message = _sentence(last.message.removeprefix("pod didn't trigger scale-up: "))
    return [_with_step(f"The autoscaler adds no node: {message}", _AUTOSCALER_STEPS)]


def _containers(pods: Sequence[Pod]) -> list[str]:
    """Containers that can't be started."""
    counts = Counter(
        (pod.reason, pod.message)
        for pod in pods
        if pod.reason in _CONTAINERS and pod.state in {JobState.PENDING, JobState.RESTARTING}
    )
    return [
        f"{'A pod' if count == 1 else f'{count} pods'} can't start ({reason}): {_sentence(message)} "
        f"{_CONTAINERS[reason]}".replace(": .", ".")
        for (reason, message), count in counts.most_common(2)
    ]


def _others(events: Sequence[ClusterEvent]) -> list[str]:
    """Volumes and sandboxes that fail, and pods that can't be created."""
    last = {e.reason: e for e in events if e.reason.startswith("Failed") and e.reason != "FailedScaleUp"}
    return [f"{reason}: {_sentence(event.message)}" for reason, event in last.items()]


def _with_step(words: str, steps: Sequence[tuple[str, str]]) -> str:
    lower = words.casefold()
    step = next((step for pattern, step in steps if pattern in lower), "")
    return f"{words} {step}".rstrip()


def _sentence(text: str) -> str:
    found = _line(text)
    return found if not found or found[-1] in ".!?…" else f"{found}."


def _line(text: Any) -> str:
    words = " ".join(str(text or "").split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
