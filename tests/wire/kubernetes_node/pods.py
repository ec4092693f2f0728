"""Pods of a Kubernetes API in this process, made and watched by the tests."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.processes import asked, running_in
from tests.waiting import until
from tests.wire.kubernetes.control import emulator
from tui.emulator.kubernetes.errors import ApiNotFound
from tui.emulator.kubernetes.resources import EVENTS, PODS
from tui.emulator.kubernetes.server import KubernetesEmulator

Obj = dict[str, Any]
FAST = {"sample_period": 0.3, "crash_back_off_seconds": 0.2, "spot_notice_seconds": 4.0}
ENDED = {"Succeeded", "Failed"}


def python(code: str, name: str = "main", **container: Any) -> Obj:
    """A container that runs `code`."""
    return {"name": name, "image": "python:3.11", "command": [sys.executable, "-c", code], **container}


def shell(code: str, name: str = "main", **container: Any) -> Obj:
    return {"name": name, "image": "python:3.11", "command": ["sh", "-c", code], **container}


def pod(name: str, *containers: Obj, meta: Obj | None = None, **spec: Any) -> Obj:
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 3, **spec}
    return {"metadata": {"name": name, "namespace": "default", **(meta or {})},
            "spec": {"containers": list(containers), **spec}}  # fmt: skip


class Pods:
    """The pods of one emulator."""

    def __init__(self, running: KubernetesEmulator) -> None:
        self.emulator, self.objects = running, running.objects

    def create(self, *args: Any, **spec: Any) -> Obj:
        return self.objects.create(PODS, pod(*args, **spec))

    def get(self, name: str) -> Obj:
        return self.objects.get(PODS, "default", name)

    def status(self, name: str) -> Obj:
        return dict(self.get(name).get("status") or {})

    def container(self, name: str, index: int = 0) -> Obj:
        found = self.status(name).get("containerStatuses")
        return dict(found[index]) if found else {"state": {}, "lastState": {}, "restartCount": 0}

    async def ended(self, name: str) -> Obj:
        """The pod's status once its phase is terminal."""
        await until(lambda: self.status(name).get("phase") in ENDED, f"the end of {name}")
        return self.status(name)

    async def runs(self, name: str, index: int = 0) -> None:
        await until(lambda: "running" in self.container(name, index)["state"], f"{name} to run")

    async def waits(self, name: str, reason: str) -> Obj:
        """The waiting state of its container with this reason."""

        def look() -> Obj | None:
            found = self.container(name)["state"].get("waiting")
            return found if found and found["reason"] == reason else None

        return dict(await until(look, f"{name} to wait for {reason}"))

    async def gone(self, name: str) -> None:
        def look() -> bool:
            try:
                self.get(name)
            except ApiNotFound:
                return True
            return False

        await until(look, f"{name} to be gone")

    def events(self, name: str) -> dict[str, str]:
        """The messages of events about an object by reason."""
        return {
            each["reason"]: each["message"]
            for each in self.objects.list(EVENTS)
            if each["involvedObject"]["name"] == name
        }

    def left(self) -> list[Any]:
        """Processes of pods."""
        return [p for p in running_in(str(self.emulator.state.root)) if asked(p.name, "") != "pytest"]


@asynccontextmanager
async def cluster(**config: Any) -> AsyncIterator[Pods]:
    """An emulator whose pods' processes end with the test."""
    async with emulator(**{**FAST, **config}) as running:
        pods = Pods(running)
        try:
            yield pods
        finally:
            for each in running.objects.list(PODS):
                running.objects.delete(PODS, each["metadata"]["namespace"], each["metadata"]["name"], grace=0)
            await until(lambda: not running.node.kubelet.workers, "the end of the pods")
            await until(lambda: not pods.left(), "the end of their processes")
