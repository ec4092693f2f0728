"""Deletes namespaces, contents first."""

from __future__ import annotations

from tui.emulator.kubernetes.controller import Controller, Key
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.resources import NAMESPACES, Obj

FINALIZER = "kubernetes"
POLL_SECONDS = 0.2
"""Poll interval while a terminating namespace has contents, e.g. pods in their grace period."""


class NamespaceController(Controller):
    """Deletes the contents of a terminating namespace, then releases it."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects, (NAMESPACES,))
        self._contents = [resource for resource in objects.resources if resource.namespaced]

    def reconcile(self, key: Key) -> float | None:
        namespace = self.objects.find(NAMESPACES, "", key.name)
        if namespace is None:
            return None
        finalizers = (namespace.get("spec") or {}).get("finalizers") or []
        if "deletionTimestamp" not in namespace["metadata"] or FINALIZER not in finalizers:
            return None
        left = 0
        for resource in self._contents:
            for obj in self.objects.list(resource, key.name):
                left += 1
                if "deletionTimestamp" not in obj["metadata"]:
                    self.objects.delete(resource, key.name, obj["metadata"]["name"])
        if left:
            return POLL_SECONDS

        def release(obj: Obj) -> None:
            obj["spec"]["finalizers"] = [finalizer for finalizer in finalizers if finalizer != FINALIZER]

        self.objects.change(NAMESPACES, "", key.name, release)
        return None
