"""A pod's status from the states of its containers, as a kubelet reports it. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Obj = Mapping[str, Any]
CREATING, INITIALIZING = "ContainerCreating", "PodInitializing"
DEADLINE = "DeadlineExceeded"


@dataclass
class KubeletContainerState:
    """One container as its status shows it: `state` and `last` in REST form."""

    name: str
    image: str
    init: bool = False
    sidecar: bool = False
    """An init container that goes on beside the others."""
    state: dict[str, Any] = field(default_factory=lambda: {"waiting": {"reason": CREATING}})
    last: dict[str, Any] = field(default_factory=dict)
    restarts: int = 0
    container_id: str = ""
    image_id: str = ""
    resources: Mapping[str, Any] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """Of a container that has ended."""
        ended = self.state.get("terminated")
        return None if ended is None else int(ended["exitCode"])

    @property
    def ready(self) -> bool:
        """Probes are not run: a container is ready while it runs, an init container once it has succeeded."""
        return self.exit_code == 0 if self.init and not self.sidecar else self.running

    @property
    def done(self) -> bool:
        """An init container that no longer holds up the others."""
        return self.running or self.exit_code == 0 if self.sidecar else self.exit_code == 0

    def status(self) -> dict[str, Any]:
        """Its entry in the pod's status."""
        entry: dict[str, Any] = {
            "name": self.name,
            "state": self.state,
            "lastState": self.last,
            "ready": self.ready,
            "restartCount": self.restarts,
            "image": self.image,
            "imageID": self.image_id,
            "started": self.running or (self.init and not self.sidecar and self.exit_code == 0),
        }
        if self.container_id:
            entry["containerID"] = self.container_id
        if self.resources:
            entry["resources"] = dict(self.resources)
        return entry


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """Why a pod ends other than by its containers: status reason, message, and conditions that say so."""

    reason: str
    message: str
    conditions: tuple[dict[str, str], ...] = ()


def phase_of(spec: Obj, containers: Sequence[KubeletContainerState]) -> str:
    """The phase that follows from the containers."""
    policy = spec.get("restartPolicy", "Always")
    init = [container for container in containers if container.init]
    main = [container for container in containers if not container.init]
    if (
        any(container.exit_code not in {None, 0} for container in init if not container.sidecar)
        and policy == "Never"
    ):
        return "Failed"
    if not all(container.done for container in init) and all(
        "waiting" in container.state and not container.last for container in main
    ):
        return "Pending"
    waiting = [container for container in main if "waiting" in container.state and not container.last]
    stopped = [container for container in main if container not in waiting and not container.running]
    if waiting:
        return "Pending"
    # A sidecar ends after the others.
    if any(container.running for container in main) or any(
        container.running for container in init if container.sidecar
    ):
        return "Running"
    if policy == "Always":
        return "Running"
    if all(container.exit_code == 0 for container in stopped):
        return "Succeeded"
    if policy == "Never":
        return "Failed"
    # OnFailure: one of them starts again.
    return "Running"


def conditions(
    pod: Obj, containers: Sequence[KubeletContainerState], phase: str, extra: Iterable[Obj], now: str
) -> list[dict[str, Any]]:
    """The pod's conditions; the time of one that did not change stays."""
    names = [container.name for container in containers if container.init and not container.done]
    unready = [
        container.name
        for container in containers
        if not container.ready and (not container.init or container.sidecar)
    ]
    own: list[dict[str, Any]] = [
        {"type": "PodReadyToStartContainers", "status": _word(phase not in {"Succeeded", "Failed"})},
        _initialized(names, phase),
        _ready("Ready", unready, phase),
        _ready("ContainersReady", unready, phase),
    ]
    before = (pod.get("status") or {}).get("conditions") or ()
    known = {present["type"]: dict(present) for present in before}
    result = []
    for condition in [*own, *(dict(more) for more in extra)]:
        old = known.pop(condition["type"], None)
        same = old is not None and old.get("status") == condition["status"]
        since = old["lastTransitionTime"] if same and old and old.get("lastTransitionTime") else now
        result.append({"lastProbeTime": None, "lastTransitionTime": since, **condition})
    # Those of others, such as the scheduler's.
    return [*result, *known.values()]


def _word(holds: bool) -> str:
    return "True" if holds else "False"


def _initialized(missing: Sequence[str], phase: str) -> dict[str, str]:
    if phase == "Succeeded":
        return {"type": "Initialized", "status": "True", "reason": "PodCompleted"}
    if not missing:
        return {"type": "Initialized", "status": "True"}
    return {
        "type": "Initialized",
        "status": "False",
        "reason": "ContainersNotInitialized",
        "message": f"containers with incomplete status: [{' '.join(missing)}]",
    }


def _ready(kind: str, unready: Sequence[str], phase: str) -> dict[str, str]:
    if phase in {"Succeeded", "Failed"}:
        reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
        return {"type": kind, "status": "False", "reason": reason}
    if not unready:
        return {"type": kind, "status": "True"}
    return {
        "type": kind,
        "status": "False",
        "reason": "ContainersNotReady",
        "message": f"containers with unready status: [{' '.join(unready)}]",
    }


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """Where a pod runs."""

    host_ip: str
    pod_ip: str
    start_time: str


@dataclass(frozen=True, slots=True)
class PodFate:
    """`ended` says that no container starts again; with a `verdict` the pod has failed then."""

    verdict: PodVerdict | None = None
    ended: bool = False


def pod_status(
    pod: Obj, containers: Sequence[KubeletContainerState], place: PodPlacement, fate: PodFate, now: str
) -> dict[str, Any]:
    """The whole status."""
    spec, before = pod["spec"], pod.get("status") or {}
    phase = phase_of(spec, containers)
    if fate.ended and phase not in {"Succeeded", "Failed"}:
        clean = all(container.exit_code == 0 for container in containers if not container.init)
        phase = "Succeeded" if clean else "Failed"
    status: dict[str, Any] = {
        key: before[key]
        for key in ("nominatedNodeName", "qosClass", "resourceClaimStatuses")
        if key in before
    }
    extra: tuple[dict[str, str], ...] = ()
    if fate.verdict is not None:
        extra = fate.verdict.conditions
        if fate.ended:
            phase = "Failed"
            texts = {"reason": fate.verdict.reason, "message": fate.verdict.message}
            status |= {key: text for key, text in texts.items() if text}
    status |= {
        "phase": phase,
        "conditions": conditions(pod, containers, phase, extra, now),
        "hostIP": place.host_ip,
        "hostIPs": [{"ip": place.host_ip}],
        "podIP": place.pod_ip,
        "podIPs": [{"ip": place.pod_ip}],
        "startTime": place.start_time,
        "containerStatuses": [container.status() for container in containers if not container.init],
    }
    if init := [container.status() for container in containers if container.init]:
        status["initContainerStatuses"] = init
    return status


def restarts(policy: str, exit_code: int) -> bool:
    """Whether a container that ended with this code starts again."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def back_off(failures: int, first: float, longest: float) -> float:
    """Seconds from the end of a container's run to its next start; the first restart is at once."""
    if failures <= 1:
        return 0.0
    exponent = min(failures - 2, 30)
    return float(min(first * 2**exponent, longest))
