"""A pod's status from its containers' states, as a kubelet reports it. The module does no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tui.emulator.kubernetes.resources import Obj

CREATING, INITIALIZING = "ContainerCreating", "PodInitializing"
DEADLINE = "DeadlineExceeded"


@dataclass
class KubeletContainerState:
    """Status of one container. `state` and `last` are in REST format."""

    name: str
    image: str
    init: bool = False
    sidecar: bool = False
    """Whether this is an init container that continues to run alongside the main containers."""
    state: Obj = field(default_factory=lambda: {"waiting": {"reason": CREATING}})
    last: Obj = field(default_factory=dict)
    restarts: int = 0
    container_id: str = ""
    image_id: str = ""
    resources: Obj = field(default_factory=dict)

    @property
    def running(self) -> bool:
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """Exit code, or None while the container has not ended."""
        ended = self.state.get("terminated")
        return None if ended is None else int(ended["exitCode"])

    @property
    def ready(self) -> bool:
        """Whether the container is ready. Without probes: while it runs, or an init container succeeded."""
        return self.exit_code == 0 if self.init and not self.sidecar else self.running

    @property
    def done(self) -> bool:
        """Whether an init container no longer delays the other containers."""
        return self.running or self.exit_code == 0 if self.sidecar else self.exit_code == 0

    def status(self) -> Obj:
        """Return the container's entry in the pod's status."""
        entry: Obj = {
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
    """The reason why a pod ends other than by its containers: status reason, message and conditions."""

    reason: str
    message: str
    conditions: tuple[dict[str, str], ...] = ()


def phase_of(spec: Obj, containers: Sequence[KubeletContainerState]) -> str:
    """Return the phase that follows from the containers."""
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
    # Sidecars end after the main containers.
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
    # OnFailure: a failed container restarts.
    return "Running"


def conditions(
    pod: Obj, containers: Sequence[KubeletContainerState], phase: str, extra: Iterable[Obj], now: str
) -> list[Obj]:
    """Return the pod's conditions. Unchanged conditions retain their time."""
    names = [container.name for container in containers if container.init and not container.done]
    unready = [
        container.name
        for container in containers
        if not container.ready and (not container.init or container.sidecar)
    ]
    own: list[Obj] = [
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
    # Keep conditions of other writers, such as the scheduler.
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
    """Addresses and start time of a pod."""

    host_ip: str
    pod_ip: str
    start_time: str


@dataclass(frozen=True, slots=True)
class PodFate:
    """The way a pod ends: `ended` if no container restarts; a `verdict` makes it failed."""

    verdict: PodVerdict | None = None
    ended: bool = False


def pod_status(
    pod: Obj, containers: Sequence[KubeletContainerState], place: PodPlacement, fate: PodFate, now: str
) -> Obj:
    """Return the complete status of the pod."""
    spec, before = pod["spec"], pod.get("status") or {}
    phase = phase_of(spec, containers)
    if fate.ended and phase not in {"Succeeded", "Failed"}:
        clean = all(container.exit_code == 0 for container in containers if not container.init)
        phase = "Succeeded" if clean else "Failed"
    status: Obj = {
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
    """Return whether a container restarts after this exit code."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def back_off(failures: int, first: float, longest: float) -> float:
    """Return the seconds until a container's next start; the first restart is immediate."""
    if failures <= 1:
        return 0.0
    exponent = min(failures - 2, 30)
    return float(min(first * 2**exponent, longest))
