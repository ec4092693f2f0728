"""CustomResourceDefinitions of the custom types."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from tui.domain.kubernetes.schema.registry import schema_of
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.resources import DEFINITIONS, REPLICA_SPECS, ApiResource, Obj
from tui.emulator.kubernetes.times import rfc3339


def store_definitions(objects: Objects) -> None:
    """Create the definitions, or update those of an earlier version of vxtui."""
    groups: dict[str, list[ApiResource]] = {}
    for resource in objects.resources:
        if resource.custom:
            groups.setdefault(f"{resource.plural}.{resource.group}", []).append(resource)
    present = {obj["metadata"]["name"] for obj in objects.list(DEFINITIONS)}
    now = rfc3339(objects.now())
    for name, versions in groups.items():
        spec = _spec(tuple(versions))
        if name not in present:
            status = _status(versions, now)
            objects.create(DEFINITIONS, {"metadata": {"name": name}, "spec": spec, "status": status})
        else:
            objects.change(DEFINITIONS, "", name, lambda obj, spec=spec: obj.update(spec=spec))  # type: ignore[misc]


@cache
def _spec(versions: tuple[ApiResource, ...]) -> Obj:
    first = versions[0]
    return {
        "group": first.group,
        "names": _names(first),
        "scope": "Namespaced" if first.namespaced else "Cluster",
        "versions": [_version(version, storage=version is first) for version in versions],
        "conversion": {"strategy": "None"},
    }


def _names(resource: ApiResource) -> Obj:
    return {
        "plural": resource.plural,
        "singular": resource.singular,
        "kind": resource.kind,
        "listKind": resource.list_kind,
        **({"shortNames": list(resource.short)} if resource.short else {}),
    }


def _version(resource: ApiResource, *, storage: bool) -> Obj:
    schema = schema_of(resource.api_version, resource.kind) or {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    # A definition does not describe the metadata.
    properties = {**schema.get("properties", {}), "metadata": {"type": "object"}}
    subresources: Obj = {"status": {}} if "status" in resource.subresources else {}
    if "scale" in resource.subresources:
        group = f".spec.{REPLICA_SPECS[resource.kind]}.Worker"
        subresources["scale"] = {
            "specReplicasPath": f"{group}.replicas",
            "statusReplicasPath": ".status.replicaStatuses.Worker.active",
            "labelSelectorPath": ".status.replicaStatuses.Worker.selector",
        }
    return {
        "name": resource.version,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": _without_patch_keys({**schema, "properties": properties})},
        **({"subresources": subresources} if subresources else {}),
    }


def _status(versions: Iterable[ApiResource], now: str) -> Obj:
    first = next(iter(versions))
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    return {"acceptedNames": _names(first), "conditions": conditions, "storedVersions": [first.version]}


def _without_patch_keys(schema: Any) -> Any:
    """Return a schema without the patch keys of built-in types."""
    if isinstance(schema, dict):
        return {
            key: _without_patch_keys(value)
            for key, value in schema.items()
            if not key.startswith("x-kubernetes-patch-")
        }
    return [_without_patch_keys(item) for item in schema] if isinstance(schema, list) else schema
