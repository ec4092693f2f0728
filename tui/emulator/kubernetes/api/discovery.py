"""Discovery of the served groups, versions and types."""

from __future__ import annotations

from collections.abc import Iterable

from tui.emulator.kubernetes.resources import ApiResource, Obj

Subresource = tuple[str, str, tuple[str, ...]]
"""Name, kind as `GROUP/VERSION/KIND`, and verbs."""


def _answer(
    group: str, version: str, plural: str, kind: str, *, namespaced: bool = False, verbs: tuple[str, ...] = ()
) -> ApiResource:
    return ApiResource(group, version, plural, kind, namespaced, custom=False, verbs=verbs)


_PENDING: tuple[Subresource, ...] = (("pendingworkloads", "/v1beta2/PendingWorkloadsSummary", ("get",)),)
_SUBRESOURCES: dict[tuple[str, str], tuple[Subresource, ...]] = {
    ("", "namespaces"): (("finalize", "/v1/Namespace", ("update",)),),
    ("", "pods"): (
        ("attach", "/v1/PodAttachOptions", ("create", "get")),
        ("binding", "/v1/Binding", ("create",)),
        ("eviction", "policy/v1/Eviction", ("create",)),
        ("exec", "/v1/PodExecOptions", ("create", "get")),
        ("log", "/v1/Pod", ("get",)),
    ),
    ("visibility.kueue.x-k8s.io", "clusterqueues"): _PENDING,
    ("visibility.kueue.x-k8s.io", "localqueues"): _PENDING,
}
_ORDER = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""Verbs of a custom type in the API server's order."""
_STATUS_VERBS = ("get", "patch", "update")
_REVIEWS = (
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
)
ANSWERS = (
    *(_answer(group, "v1", plural, kind, verbs=("create",)) for group, plural, kind in _REVIEWS),
    _answer("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", verbs=("get", "list")),
    _answer("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", namespaced=True, verbs=("get", "list")),
    _answer("visibility.kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue"),
    _answer("visibility.kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue", namespaced=True),
)
"""Types without stored objects."""


class Discovery:
    """Builds the responses below `/api` and `/apis`."""

    def __init__(self, resources: Iterable[ApiResource]) -> None:
        self._listed = [*resources, *ANSWERS]

    def versions(self) -> Obj:
        """Return the response to `/api`."""
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
        }

    def groups(self) -> Obj:
        """Return the response to `/apis`."""
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [self._group(g) for g in self._groups()],
        }

    def group(self, name: str) -> Obj | None:
        """Return the response to `/apis/GROUP`."""
        is_served = name in self._groups() and name
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(name)} if is_served else None

    def resources(self, group: str, version: str) -> Obj | None:
        """Return the response to `/apis/GROUP/VERSION`, or to `/api/v1`."""
        entries = [entry for entry in self._listed if (entry.group, entry.version) == (group, version)]
        if not entries:
            return None
        items: list[Obj] = []
        for entry in entries:
            if entry.verbs:
                items.append(_item(entry))
            items += [_sub_item(entry, *sub) for sub in _subresources(entry)]
        items.sort(key=lambda item: item["name"])
        api_version = f"{group}/{version}" if group else version
        head = {"kind": "APIResourceList", **({"apiVersion": "v1"} if group else {})}
        return {**head, "groupVersion": api_version, "resources": items}

    def aggregated(self, version: str, *, core: bool) -> Obj:
        """Return all of `/api` or `/apis` in one reply."""
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
                        _aggregated(entry)
                        for entry in self._listed
                        if (entry.group, entry.version) == (group, version)
                    ],
                }
                for version in self._versions(group)
            ],
        }

    def _groups(self) -> list[str]:
        return list(dict.fromkeys(entry.group for entry in self._listed if entry.group))

    def _versions(self, group: str) -> list[str]:
        return list(dict.fromkeys(entry.version for entry in self._listed if entry.group == group))

    def _group(self, name: str) -> Obj:
        versions = [
            {"groupVersion": f"{name}/{version}", "version": version} for version in self._versions(name)
        ]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _subresources(entry: ApiResource) -> list[Subresource]:
    scale = ("scale", "autoscaling/v1/Scale", _STATUS_VERBS)
    own = f"{entry.group}/{entry.version}/{entry.kind}"
    subresources: list[Subresource] = [
        scale if name == "scale" else (name, own, _STATUS_VERBS) for name in sorted(entry.subresources)
    ]
    return [*subresources, *_SUBRESOURCES.get((entry.group, entry.plural), ())]


def _verbs_and_names(entry: ApiResource) -> Obj:
    optional = {"shortNames": list(entry.short), "categories": list(entry.categories)}
    verbs = sorted(entry.verbs, key=_ORDER.index) if entry.custom else list(entry.verbs)
    return {"verbs": verbs, **{key: names for key, names in optional.items() if names}}


def _item(entry: ApiResource) -> Obj:
    return {
        "name": entry.plural,
        "singularName": entry.singular,
        "namespaced": entry.namespaced,
        "kind": entry.kind,
        **_verbs_and_names(entry),
    }


def _sub_item(entry: ApiResource, name: str, kind: str, verbs: tuple[str, ...]) -> Obj:
    group, version, kind = kind.split("/")
    other = {"group": group, "version": version} if (group, version) != (entry.group, entry.version) else {}
    return {
        "name": f"{entry.plural}/{name}",
        "singularName": "",
        "namespaced": entry.namespaced,
        "kind": kind,
        "verbs": list(verbs),
        **other,
    }


def _aggregated(entry: ApiResource) -> Obj:
    # The API server does not repeat the group and version of a built-in type.
    is_built_in = entry.group.endswith(".k8s.io") and not entry.group.endswith(".x-k8s.io")
    own = (entry.group, entry.version) if "." in entry.group and not is_built_in else ("", "")
    below = [_aggregated_sub(entry, own, *sub) for sub in _subresources(entry)]
    return {
        "resource": entry.plural,
        "responseKind": {"group": own[0], "version": own[1], "kind": entry.kind},
        "scope": "Namespaced" if entry.namespaced else "Cluster",
        "singularResource": entry.singular,
        **_verbs_and_names(entry),
        **({"subresources": below} if below else {}),
    }


def _aggregated_sub(
    entry: ApiResource, own: tuple[str, str], name: str, kind: str, verbs: tuple[str, ...]
) -> Obj:
    group, version, kind = kind.split("/")
    if (group, version) == (entry.group, entry.version):
        group, version = own
    return {
        "subresource": name,
        "responseKind": {"group": group, "version": version, "kind": kind},
        "verbs": list(verbs),
    }
