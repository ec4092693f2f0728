"""Values that a container takes from its pod, ConfigMaps and Secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Protocol

from tui.domain.kubernetes import quantity
from tui.emulator.kubernetes.resources import Obj

_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")


class CannotCreate(Exception):
    """A container can't be created yet; the message is the kubelet's (CreateContainerConfigError)."""


class Lookup(Protocol):
    """Access to the objects of the pod's namespace."""

    namespace: str

    def config_map(self, name: str) -> Mapping[str, bytes] | None: ...

    def secret(self, name: str) -> Mapping[str, bytes] | None: ...

    def bind_claim(self, name: str) -> None:
        """Bind a claim. Raises CannotMount if it does not exist."""


def field_value(pod: Obj, path: str) -> str:
    """Return the value of a `fieldRef`. Raises CannotCreate for an unsupported field."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    if keyed := _KEYED.fullmatch(path):
        return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
    if path in {"metadata.labels", "metadata.annotations"}:
        values = metadata.get(path.partition(".")[2]) or {}
        return "\n".join(f'{key}="{value}"' for key, value in sorted(values.items()))
    simple = {
        "metadata.name": metadata.get("name"),
        "metadata.namespace": metadata.get("namespace"),
        "metadata.uid": metadata.get("uid"),
        "spec.nodeName": spec.get("nodeName"),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.hostIP": status.get("hostIP"),
        "status.podIP": status.get("podIP"),
        "status.hostIPs": status.get("hostIP"),
        "status.podIPs": status.get("podIP"),
    }
    if path not in simple:
        raise CannotCreate(f'unsupported fieldPath: "{path}"')
    return str(simple[path] or "")


def resource_value(pod: Obj, container: str, reference: Obj, allocatable: Obj) -> str:
    """Return the value of a `resourceFieldRef`; without a limit, the node's amount. Raises CannotCreate."""
    name = reference.get("containerName") or container
    spec = pod["spec"]
    everything = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    owner = next((candidate for candidate in everything if candidate["name"] == name), None)
    if owner is None:
        raise CannotCreate(f"container {name} not found")
    part, _, resource = str(reference["resource"]).partition(".")
    resources = owner.get("resources") or {}
    amount = (resources.get(part) or {}).get(resource)
    if amount is None and part == "requests":
        amount = (resources.get("limits") or {}).get(resource, "0")
    if amount is None:
        amount = allocatable.get(resource, "0")
    return quantity.divided(amount, reference.get("divisor") or "1")


def values_from(container: Obj, lookup: Lookup) -> dict[str, str]:
    """Return the variables of `envFrom`. Raises CannotCreate."""
    variables: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        prefix = source.get("prefix") or ""
        for _, _, data in _referenced(source, "Ref", lookup):
            variables |= {
                prefix + key: value.decode("utf-8", "replace") for key, value in (data or {}).items()
            }
    return variables


def _referenced(
    source: Obj, suffix: str, lookup: Lookup
) -> Iterator[tuple[str, Obj, Mapping[str, bytes] | None]]:
    """Yield each reference of a source with its kind and data. Raises CannotCreate for missing data, which
    is None if the reference is optional."""
    for kind, field, read in (
        ("ConfigMap", "configMap", lookup.config_map),
        ("Secret", "secret", lookup.secret),
    ):
        reference = source.get(f"{field}{suffix}")
        if reference is not None:
            data = read(reference.get("name", ""))
            if data is None and not reference.get("optional"):
                raise CannotCreate(f'{kind.lower()} "{reference.get("name", "")}" not found')
            yield kind, reference, data


def keyed_value(source: Obj, lookup: Lookup) -> str | None:
    """Return the value of a `configMapKeyRef` or `secretKeyRef`, or None if it is optional and missing.
    Raises CannotCreate if a required value is missing."""
    for kind, reference, data in _referenced(source, "KeyRef", lookup):
        key = reference["key"]
        if data is not None and key in data:
            return data[key].decode("utf-8", "replace")
        if reference.get("optional"):
            return None
        raise CannotCreate(
            f"couldn't find key {key} in {kind} {lookup.namespace}/{reference.get('name', '')}"
        )
    raise CannotCreate("invalid valueFrom: it names no field, resource, ConfigMap or Secret")
