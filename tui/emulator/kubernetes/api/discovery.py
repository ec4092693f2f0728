"""Discovery: which groups, versions and types are served."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tui.emulator.kubernetes.resources import ApiResource

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DiscoveredResource:
    """A type as discovery shows it: one that is stored, or one that only answers."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    singular: str = ""
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """Name, kind as `GROUP/VERSION/KIND`, and verbs of each."""


def _review(group: str, plural: str, kind: str) -> DiscoveredResource:
    return DiscoveredResource(group, "v1", plural, kind, False, ("create",))


_SUBRESOURCES: dict[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {
    "namespaces": (("finalize", "/v1/Namespace", ("update",)),),
    "pods": (
        ("attach", "/v1/PodAttachOptions", ("create", "get")),
        ("binding", "/v1/Binding", ("create",)),
        ("eviction", "policy/v1/Eviction", ("create",)),
        ("exec", "/v1/PodExecOptions", ("create", "get")),
        ("log", "/v1/Pod", ("get",)),
    ),
}
_ORDER = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""The verbs of a custom type, as the API server lists them."""
_STATUS_VERBS = ("get", "patch", "update")
ANSWERS = (
    _review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _review("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _review("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
    _review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    DiscoveredResource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, ("get", "list")),
    DiscoveredResource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", True, ("get", "list")),
    DiscoveredResource(
        "visibility.kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", False, (),
        subresources=(("pendingworkloads", "/v1beta2/PendingWorkloadsSummary", ("get",)),),
    ),
    DiscoveredResource(
        "visibility.kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue", True, (),
        subresources=(("pendingworkloads", "/v1beta2/PendingWorkloadsSummary", ("get",)),),
    ),
)  # fmt: skip
"""Types of which nothing is stored."""


class Discovery:
    """Answers under `/api` and `/apis`."""

    def __init__(
        self, resources: Iterable[ApiResource], answers: Sequence[DiscoveredResource] = ANSWERS
    ) -> None:
        self._listed = [*map(_listed, resources), *answers]

    def versions(self) -> Obj:
        """`/api`"""
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
        }

    def groups(self) -> Obj:
        """`/apis`"""
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [self._group(g) for g in self._groups()],
        }

    def group(self, name: str) -> Obj | None:
        """`/apis/GROUP`"""
        found = name in self._groups() and name
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(name)} if found else None

    def resources(self, group: str, version: str) -> Obj | None:
        """`/apis/GROUP/VERSION`, or `/api/v1`"""
        found = [one for one in self._listed if (one.group, one.version) == (group, version)]
        if not found:
            return None
        items: list[Obj] = []
        for one in found:
            if one.verbs:
                items.append(_item(one))
            items += [_sub_item(one, *sub) for sub in one.subresources]
        items.sort(key=lambda item: item["name"])
        api_version = f"{group}/{version}" if group else version
        head = {"kind": "APIResourceList", **({"apiVersion": "v1"} if group else {})}
        return {**head, "groupVersion": api_version, "resources": items}

    def aggregated(self, version: str, *, core: bool) -> Obj:
        """All of `/api` or `/apis` in one reply."""
        groups = [""] if core else self._groups()
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{version}",
            "metadata": {},
            "items": [self._aggregated_group(group) for group in groups],
        }

    def _aggregated_group(self, group: str) -> Obj:
        return {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": version,
                    "freshness": "Current",
                    "resources": [
                        _aggregated(one)
                        for one in self._listed
                        if (one.group, one.version) == (group, version)
                    ],
                }
                for version in self._versions(group)
            ],
        }

    def _groups(self) -> list[str]:
        return list(dict.fromkeys(one.group for one in self._listed if one.group))

    def _versions(self, group: str) -> list[str]:
        return list(dict.fromkeys(one.version for one in self._listed if one.group == group))

    def _group(self, name: str) -> Obj:
        versions = [{"groupVersion": f"{name}/{one}", "version": one} for one in self._versions(name)]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _listed(resource: ApiResource) -> DiscoveredResource:
    scale = ("scale", "autoscaling/v1/Scale", _STATUS_VERBS)
    own = f"{resource.group}/{resource.version}/{resource.kind}"
    subresources: list[tuple[str, str, tuple[str, ...]]] = [
        scale if name == "scale" else (name, own, _STATUS_VERBS) for name in sorted(resource.subresources)
    ]
    if not resource.group:
        subresources += _SUBRESOURCES.get(resource.plural, ())
    verbs = tuple(sorted(resource.verbs, key=_ORDER.index)) if resource.custom else resource.verbs
    return DiscoveredResource(
        resource.group, resource.version, resource.plural, resource.kind, resource.namespaced, verbs,
        resource.singular, resource.short, resource.categories, tuple(subresources),
    )  # fmt: skip


def _item(one: DiscoveredResource) -> Obj:
    return {
        "name": one.plural, "singularName": one.singular or one.kind.lower(), "namespaced": one.namespaced,
        "kind": one.kind, "verbs": list(one.verbs),
        **({"shortNames": list(one.short)} if one.short else {}),
        **({"categories": list(one.categories)} if one.categories else {}),
    }  # fmt: skip


def _sub_item(one: DiscoveredResource, name: str, kind: str, verbs: tuple[str, ...]) -> Obj:
    group, version, kind = kind.split("/")
    other = {"group": group, "version": version} if (group, version) != (one.group, one.version) else {}
    return {
        "name": f"{one.plural}/{name}", "singularName": "", "namespaced": one.namespaced, "kind": kind,
        "verbs": list(verbs), **other,
    }  # fmt: skip


def _aggregated(one: DiscoveredResource) -> Obj:
    # The API server does not repeat the group and version of a built-in type.
    own = (one.group, one.version) if "." in one.group and not one.group.endswith(".k8s.io") else ("", "")
    own = (one.group, one.version) if one.group.endswith(".x-k8s.io") else own
    below = [_aggregated_sub(one, own, *sub) for sub in one.subresources]
    return {
        "resource": one.plural,
        "responseKind": {"group": own[0], "version": own[1], "kind": one.kind},
        "scope": "Namespaced" if one.namespaced else "Cluster",
        "singularResource": one.singular or one.kind.lower(),
        "verbs": list(one.verbs),
        **({"shortNames": list(one.short)} if one.short else {}),
        **({"categories": list(one.categories)} if one.categories else {}),
        **({"subresources": below} if below else {}),
    }


def _aggregated_sub(
    one: DiscoveredResource, own: tuple[str, str], name: str, kind: str, verbs: tuple[str, ...]
) -> Obj:
    group, version, kind = kind.split("/")
    if (group, version) == (one.group, one.version):
        group, version = own
    return {
        "subresource": name,
        "responseKind": {"group": group, "version": version, "kind": kind},
        "verbs": list(verbs),
    }
