"""A cluster for the tests of controllers: the real store, a clock, and pods that end as the test says."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tui.emulator.kubernetes.admission.admit import Admission
from tui.emulator.kubernetes.controller import Controller, Key
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators.webhooks import Webhooks
from tui.emulator.kubernetes.resources import NAMESPACES
from tui.emulator.kubernetes.watching import WatchEvent

Obj = dict[str, Any]
START = datetime(2026, 11, 25, 18, 0, tzinfo=UTC)


class Cluster:
    """Objects and controllers, without an event loop: `settle` reconciles until nothing changes any more."""

    def __init__(self, directory: Path) -> None:
        self.now = START
        self.objects = Objects(directory / "objects.sqlite", now=lambda: self.now)
        self.objects.open()
        self.objects.admit = Webhooks(self.objects, Admission(self.objects))
        self.objects.create(NAMESPACES, {"metadata": {"name": "default"}})
        self.controllers: Sequence[Controller] = ()
        self.again: dict[Key, float] = {}
        """When the controllers want to look again, in seconds, after the last `settle`."""
        resources = [each for each in self.objects.resources if each.plural != "events"]
        self._changes = self.objects.watch(resources)

    def close(self) -> None:
        self.objects.close()

    def apply(self, text: str) -> Obj:
        """Create the object of a manifest."""
        obj = yaml.safe_load(text)
        group, _, version = obj["apiVersion"].rpartition("/")
        resource = self.objects.resource(obj["kind"], group, version)
        if resource.namespaced:
            obj["metadata"].setdefault("namespace", "default")
        return self.objects.create(resource, obj)

    def settle(self, rounds: int = 30) -> None:
        """Reconcile every key of every controller, as after a restart, until the store stays as it is."""
        for _ in range(rounds):
            self._changes.take()
            self.again = {}
            for controller in self.controllers:
                for key in self.keys(controller):
                    again = controller.reconcile(key)
                    assert again is None or isinstance(again, int | float)
                    if again is not None:
                        self.again[key] = again
            if not self._changes.take():
                return
        raise AssertionError("the controllers never come to rest")

    def keys(self, controller: Controller) -> list[Key]:
        """All keys that the objects of the store lead to."""
        found: dict[Key, None] = {}
        for resource in controller.watched:
            for obj in self.objects.list(resource):
                found.update(dict.fromkeys(controller.keys(WatchEvent("ADDED", resource, obj))))
        return list(found)

    def after(self, seconds: float) -> None:
        """Let time pass, and what it leads to."""
        self.now += timedelta(seconds=seconds)
        self.settle()

    def get(self, plural: str, name: str, group: str = "", version: str = "") -> Obj:
        return self.objects.get(self.objects.resource(plural, group, version), "default", name)

    def pods(self, **labels: str) -> list[Obj]:
        """The pods, of these labels, in order of their names."""
        return self.objects.list(self.objects.resource("pods"), "", labels)

    def names(self, plural: str, group: str = "") -> list[str]:
        return [obj["metadata"]["name"] for obj in self.objects.list(self.objects.resource(plural, group))]

    def reasons(self) -> set[str]:
        """The reasons of all Events."""
        return {event["reason"] for event in self.objects.list(self.objects.resource("events"))}

    def change(self, plural: str, name: str, group: str, edit: Any, *, version: str = "") -> None:
        """Change a specification as a user does, and let the controllers follow."""
        self.objects.change(self.objects.resource(plural, group, version), "default", name, edit)
        self.settle()

    def run(self, *names: str) -> None:
        """The kubelet starts these pods, or all that wait."""
        for pod in self.objects.list(self.objects.resource("pods")):
            waits = pod["status"]["phase"] == "Pending" and not pod["metadata"].get("deletionTimestamp")
            if pod["metadata"]["name"] in names or (not names and waits):
                self._set(pod, "Running", {"running": {"startedAt": "2026-11-25T18:00:00Z"}}, ready=True)
        self.settle()

    def end(self, name: str, code: int = 0, *, reason: str = "") -> None:
        """A pod's container ends with this exit code, not to start again; the controllers follow."""
        pod = self.get("pods", name)
        ended: Obj = {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}
        ended["finishedAt"] = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        self._set(pod, "Failed" if code else "Succeeded", {"terminated": ended}, reason=reason)
        self.settle()

    def restart(self, name: str, times: int) -> None:
        """The kubelet has started a pod's container again so many times."""
        self._set(self.get("pods", name), "Running", {"running": {}}, restarts=times, ready=True)
        self.settle()

    def stop(self) -> None:
        """The kubelet ends the pods that are being deleted."""
        pods = self.objects.resource("pods")
        for pod in self.objects.list(pods):
            if pod["metadata"].get("deletionTimestamp"):
                meta = pod["metadata"]
                self.objects.delete(pods, meta["namespace"], meta["name"], grace=0)
        self.settle()

    def _set(
        self, pod: Obj, phase: str, state: Obj, *, reason: str = "", restarts: int = 0, ready: bool = False
    ) -> None:
        def edit(obj: Obj) -> None:
            obj["spec"].setdefault("nodeName", "cpu-0")
            status = obj.setdefault("status", {})
            status["phase"] = phase
            status.setdefault("startTime", "2026-11-25T18:00:00Z")
            if reason:
                status["reason"] = reason
            status["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
            status["containerStatuses"] = [
                {"name": each["name"], "state": state, "restartCount": restarts, "ready": ready}
                for each in obj["spec"]["containers"]
            ]

        meta = pod["metadata"]
        pods = self.objects.resource("pods")
        # The node's name is part of the specification, the rest of the status.
        self.objects.change(pods, meta["namespace"], meta["name"], edit)
        self.objects.change(pods, meta["namespace"], meta["name"], edit, status=True)


def conditions(obj: Obj) -> dict[str, str]:
    """The conditions that are True, with their reasons."""
    found = obj.get("status", {}).get("conditions") or []
    return {each["type"]: each.get("reason", "") for each in found if each["status"] == "True"}


def environment(pod: Obj, container: int = 0) -> dict[str, str]:
    """The variables of a container."""
    return {
        each["name"]: each.get("value", "") for each in pod["spec"]["containers"][container].get("env") or ()
    }
