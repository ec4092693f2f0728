"""What is served."""

from __future__ import annotations

from typing import Any

from tests.wire.kubernetes_answers.recorder import Recorder

_GROUPS = ("batch", "kubeflow.org", "trainer.kubeflow.org", "jobset.x-k8s.io", "kueue.x-k8s.io")
_TYPES = {
    "pods",
    "services",
    "configmaps",
    "secrets",
    "events",
    "nodes",
    "namespaces",
    "jobs",
    "pytorchjobs",
    "tfjobs",
    "trainjobs",
    "trainingruntimes",
    "clustertrainingruntimes",
    "jobsets",
    "workloads",
    "clusterqueues",
    "localqueues",
    "resourceflavors",
}
_SUBRESOURCES = {"attach", "binding", "eviction", "exec", "log", "status", "scale", "finalize"}
"""Of the subresources, those that are served by both."""
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def _versions(group: Any) -> Any:
    """Without the versions that only one of the two serves: of MPIJob, and Kueue's older one."""
    kept = [one for one in group["versions"] if one["version"] not in {"v2beta1", "v1beta1"}]
    return {**group, "versions": kept, "preferredVersion": kept[0]}


def _groups(body: Any) -> Any:
    found = [_versions(group) for group in body["groups"] if group["name"] in _GROUPS]
    return {**body, "groups": sorted(found, key=lambda group: str(group["name"]))}


def _types(body: Any) -> Any:
    def served(name: str) -> bool:
        plural, _, rest = name.partition("/")
        return plural in _TYPES and (not rest or rest in _SUBRESOURCES)

    found = [
        {key: value for key, value in one.items() if key != "storageVersionHash"}
        for one in body["resources"]
        if served(one["name"])
    ]
    return {**body, "resources": sorted(found, key=lambda one: str(one["name"]))}


def _aggregated(body: Any) -> Any:
    found = []
    for group in body["items"]:
        if group["metadata"].get("name", "") not in (*_GROUPS, ""):
            continue
        group["versions"] = [one for one in group["versions"] if one["version"] not in {"v2beta1", "v1beta1"}]
        for version in group["versions"]:
            version["resources"] = sorted(
                (one for one in version["resources"] if one["resource"] in _TYPES - {"pods"}),
                key=lambda one: str(one["resource"]),
            )
            for one in version["resources"]:
                found_below = [
                    sub for sub in one.pop("subresources", []) if sub["subresource"] in _SUBRESOURCES
                ]
                one["subresources"] = sorted(found_below, key=lambda sub: str(sub["subresource"]))
        found.append(group)
    return {**body, "items": sorted(found, key=lambda group: str(group["metadata"].get("name", "")))}


def _openapi_index(body: Any) -> Any:
    wanted = {"api/v1", "apis/batch/v1", "apis/kubeflow.org/v1", "apis/trainer.kubeflow.org/v1alpha1"}
    return {path: sorted(body["paths"].get(path, {})) for path in sorted(wanted)}


def _openapi(kind: str) -> Any:
    def keep(body: Any) -> Any:
        named = [
            schema
            for schema in body["components"]["schemas"].values()
            if any(one.get("kind") == kind for one in schema.get("x-kubernetes-group-version-kind", ()))
        ]
        return {
            "openapi": body["openapi"],
            "kinds": [one["x-kubernetes-group-version-kind"] for one in named],
            "properties": [sorted(one["properties"]) for one in named],
        }

    return keep


async def talk(call: Recorder) -> None:
    await call("core versions", "GET", "/api", keep=lambda body: {**body, "serverAddressByClientCIDRs": "…"})
    await call("groups", "GET", "/apis", keep=_groups)
    for group in _GROUPS:
        await call(group, "GET", f"/apis/{group}", keep=_versions)
    for path in (
        "/api/v1",
        "/apis/batch/v1",
        "/apis/kubeflow.org/v1",
        "/apis/trainer.kubeflow.org/v1alpha1",
        "/apis/jobset.x-k8s.io/v1alpha2",
        "/apis/kueue.x-k8s.io/v1beta2",
    ):
        await call(path, "GET", path, keep=_types)
    for path in (
        "/api/v2",
        "/apis/batch/v9",
        "/apis/kubeflow.org/v9",
        "/apis/none.example",
        "/nothing",
        "/api/v1/nothing",
        "/apis/batch/v1/nothing",
        "/apis/kubeflow.org/v1/nothing",
    ):
        await call(path, "GET", path)
    await call("aggregated core", "GET", "/api", headers={"accept": AGGREGATED}, keep=_aggregated)
    await call("aggregated", "GET", "/apis", headers={"accept": AGGREGATED}, keep=_aggregated)
    await call(
        "plain first",
        "GET",
        "/apis",
        headers={"accept": f"application/json, {AGGREGATED}"},
        keep=lambda body: body["kind"],
    )
    await call("no JSON", "GET", "/apis", headers={"accept": "text/html"})
    await call(
        "the version",
        "GET",
        "/version",
        keep=lambda body: sorted(
            body.keys()
            & {
                "major",
                "minor",
                "gitVersion",
                "gitCommit",
                "gitTreeState",
                "buildDate",
                "goVersion",
                "platform",
            }
        ),
    )
    await call("OpenAPI", "GET", "/openapi/v3", keep=_openapi_index)
    for path, kind in (("api/v1", "Pod"), ("apis/batch/v1", "Job"), ("apis/kubeflow.org/v1", "PyTorchJob")):
        await call(f"OpenAPI of {path}", "GET", f"/openapi/v3/{path}", keep=_openapi(kind))
    await call("OpenAPI of nothing", "GET", "/openapi/v3/apis/none.example/v1")
