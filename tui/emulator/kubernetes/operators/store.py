"""Reads and writes of the object store that tolerate concurrent changes by other controllers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tui.emulator.kubernetes.errors import ApiAlreadyExists, ApiNotFound
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators.metadata import name_of, namespace_of
from tui.emulator.kubernetes.resources import ApiResource, Obj


def create(objects: Objects, obj: Obj) -> bool:
    """Create an object of its declared type; return False if the name is taken."""
    group, _, version = obj["apiVersion"].rpartition("/")
    try:
        objects.create(objects.resource(obj["kind"], group, version), obj)
    except ApiAlreadyExists:
        return False
    return True


def delete(objects: Objects, resource: ApiResource, namespace: str, name: str, **how: Any) -> bool:
    """Delete an object; return False if it does not exist."""
    try:
        objects.delete(resource, namespace, name, **how)
    except ApiNotFound:
        return False
    return True


def set_status(objects: Objects, resource: ApiResource, obj: Obj, status: Obj) -> None:
    """Store a new status, unless the object was deleted."""

    def edit(stored: Obj) -> None:
        stored["status"] = status

    change(objects, resource, obj, edit, status=True)


def set_spec(objects: Objects, resource: ApiResource, obj: Obj, spec: Obj) -> None:
    """Store a new spec, unless the object was deleted."""

    def edit(stored: Obj) -> None:
        stored["spec"] = spec

    change(objects, resource, obj, edit)


def remove_finalizer(objects: Objects, resource: ApiResource, obj: Obj, finalizer: str) -> None:
    """Remove a finalizer, unless the object was deleted."""

    def edit(stored: Obj) -> None:
        left = [name for name in stored["metadata"].get("finalizers") or () if name != finalizer]
        stored["metadata"]["finalizers"] = left
        if not left:
            del stored["metadata"]["finalizers"]

    change(objects, resource, obj, edit)


def change(
    objects: Objects, resource: ApiResource, obj: Obj, edit: Callable[[Obj], None], *, status: bool = False
) -> None:
    """Change an object, unless it was deleted."""
    with suppress(ApiNotFound):
        objects.change(resource, namespace_of(obj), name_of(obj), edit, status=status)
