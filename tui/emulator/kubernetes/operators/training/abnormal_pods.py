"""Reasons that keep active pods from running, for Events about the job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tui.emulator.kubernetes.operators.metadata import Obj, is_terminating, name_of


def abnormal(pods: Iterable[Obj]) -> Iterator[tuple[str, str]]:
    """Yield reason and message of each container that failed or can't start, and of pods without
    containers."""
    for pod in pods:
        status = pod.get("status") or {}
        if status.get("phase") in ("Failed", "Succeeded") or is_terminating(pod):
            continue
        containers = status.get("containerStatuses") or status.get("initContainerStatuses")
        if containers:
            for container in containers:
                yield from _of_container(pod, container)
        else:
            yield from _of_condition(pod, status.get("conditions") or [])


def _of_container(pod: Obj, container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    state = container.get("state") or {}
    which = f"Error pod {name_of(pod)} container {container.get('name')}"
    ended, waiting = state.get("terminated"), state.get("waiting")
    if ended and ended.get("exitCode"):
        text = f"{which} exitCode: {ended['exitCode']} terminated message: {ended.get('message', '')}"
        yield ended.get("reason") or "Error", text
    if waiting and waiting.get("message"):
        yield waiting.get("reason") or "Waiting", f"{which} waiting message: {waiting['message']}"


def _of_condition(pod: Obj, conditions: list[Obj]) -> Iterator[tuple[str, str]]:
    latest = max(conditions, key=lambda condition: condition.get("lastTransitionTime") or "", default=None)
    if latest is not None and latest.get("status") != "True" and latest.get("reason"):
        text = f"Error pod {name_of(pod)} condition message: {latest.get('message', '')}"
        yield str(latest["reason"]), text
