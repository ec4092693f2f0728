"""Readiness, status and restarts of a pod for `kubectl get pods`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tui.emulator.kubernetes.resources import Obj


def ready(pod: Obj) -> str:
    """Return ready and total containers, e.g. `1/2`."""
    statuses = _statuses(pod, "containerStatuses")
    containers = (pod.get("spec") or {}).get("containers") or []
    count = sum(
        1 for container in statuses if container.get("ready") and "running" in (container.get("state") or {})
    )
    return f"{count}/{len(containers)}"


def status(pod: Obj) -> str:
    """Return the most specific reason: of deletion, an init container, a container, or the phase."""
    state = pod.get("status") or {}
    reason = str(state.get("reason") or state.get("phase") or "Unknown")
    for condition in state.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    reason = _initializing(pod) or _of_containers(pod, reason)
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if state.get("reason") == "NodeLost" else "Terminating"
    return reason


def restarts(pod: Obj, age: Callable[[Any], str]) -> str:
    """Return the restarts of all containers and the time since the last."""
    statuses = _statuses(pod, "containerStatuses")
    count = sum(int(container.get("restartCount") or 0) for container in statuses)
    ends = [
        (container.get("lastState") or {}).get("terminated", {}).get("finishedAt") for container in statuses
    ]
    newest = max(filter(None, ends), default=None)
    return f"{count} ({age(newest)} ago)" if count and newest else str(count)


def _statuses(pod: Obj, field: str) -> list[Obj]:
    return (pod.get("status") or {}).get(field) or []


def _initializing(pod: Obj) -> str:
    total = len((pod.get("spec") or {}).get("initContainers") or [])
    for number, container in enumerate(_statuses(pod, "initContainerStatuses")):
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting")
        if terminated is not None:
            if terminated.get("exitCode") == 0:
                continue
            return f"Init:{_ended(terminated)}"
        if waiting and waiting.get("reason") not in {None, "", "PodInitializing"}:
            return f"Init:{waiting['reason']}"
        return f"Init:{number}/{total}"
    return ""


def _of_containers(pod: Obj, reason: str) -> str:
    running = False
    for container in reversed(_statuses(pod, "containerStatuses")):
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = str(waiting["reason"])
        elif terminated is not None:
            reason = _ended(terminated)
        elif container.get("ready") and "running" in state:
            running = True
    # The pod runs while one of its containers does.
    return "Running" if reason == "Completed" and running else reason


def _ended(terminated: Obj) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    signal = terminated.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{terminated.get('exitCode')}"
