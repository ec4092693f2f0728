"""Bodies with values of wrong types: they are refused with 400 or 422, as by kube-apiserver."""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.unit.kubernetes.job_sets_support import job_set, replicated
from tests.unit.kubernetes.mpi_jobs_support import mpi_job
from tests.unit.kubernetes.train_jobs_support import train_job
from tests.unit.kubernetes.training_operator_support import pytorch_job, tf_job
from tests.wire.kubernetes.control import client, config_map, emulator

Obj = dict[str, Any]
POD: Obj = {
    "apiVersion": "v1", "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}], "hostname": "h",
        "volumes": [{"name": "v", "emptyDir": {}}], "restartPolicy": "Never",
        "schedulingGates": [{"name": "a/b"}],
        "initContainers": [{"name": "i", "image": "x:1"}],
        "containers": [{
            "name": "c", "image": "x:1", "env": [{"name": "A", "value": "1"}],
            "ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}}, "command": ["sh"],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }],
    },
}  # fmt: skip
JOB: Obj = {
    "apiVersion": "batch/v1", "kind": "Job",
    "metadata": {"name": "j", "ownerReferences": [], "finalizers": ["a/b"]},
    "spec": {
        "parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
        "podFailurePolicy": {
            "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]
        },
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": copy.deepcopy(POD["spec"])},
    },
}  # fmt: skip
KUEUE = "kueue.x-k8s.io/v1beta2"
OBJECTS: list[Obj] = [
    POD,
    JOB,
    config_map("m", a="1"),
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}},
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}},
    *(json.loads(text) for text in (
        job_set(
            replicated("a"), replicated("b", dependsOn=[{"name": "a", "status": "Ready"}]),
            failurePolicy={"maxRestarts": 1, "rules": [{"name": "x", "action": "FailJobSet"}]},
            successPolicy={"operator": "All"}, network={"subdomain": "x"}, coordinator={"replicatedJob": "a"},
            volumeClaimPolicies=[
                {"templates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["x"]}}]}
            ],
        ),
        pytorch_job(1, master=True, runPolicy={"cleanPodPolicy": "None"}, elasticPolicy={"minReplicas": 1}),
        tf_job({"Worker": 1}), mpi_job(2),
        train_job(trainer={"numNodes": 2, "env": [{"name": "A", "value": "b"}]}),
    )),
    {
        "apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": "q"},
        "spec": {"clusterQueue": "training"},
    },
    {
        "apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": "q"},
        "spec": {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [
            {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1"}]}]}]},
    },
]  # fmt: skip
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    2**70,
    "",
    "x",
    "-",
    [],
    [None],
    [1],
    ["x"],
    {},
    {"x": None},
    {"x": []},
    "\0",
]


def path_of(obj: Obj) -> str:
    version, kind = obj["apiVersion"], str(obj["kind"]).lower()
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = f"{kind}s"
    return (
        f"{root}/{plural}" if kind in {"namespace", "clusterqueue"} else f"{root}/namespaces/default/{plural}"
    )


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all values of an object."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from places(inner, (*path, name))


def changed(obj: Obj, path: tuple[str | int, ...], odd: Any) -> Any:
    """The object with another value at a path."""
    copied = copy.deepcopy(obj)
    if not path:
        return odd
    holder: Any = copied
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = odd
    return copied


async def sent(http: httpx.AsyncClient, obj: Obj, path: tuple[str | int, ...], odd: Any) -> list[str]:
    """Send one odd object in every way; return the internal errors."""
    body, url, name = changed(obj, path, odd), path_of(obj), obj["metadata"]["name"]
    apply = {"params": {"fieldManager": "t", "dryRun": "All"}}
    tries: list[tuple[str, str, str, Obj]] = [
        ("POST", url, "application/json", {"params": {"dryRun": "All"}}),
        ("PUT", f"{url}/{name}", "application/json", {"params": {"dryRun": "All"}}),
        ("PATCH", f"{url}/{name}", "application/merge-patch+json", {"params": {"dryRun": "All"}}),
        ("PATCH", f"{url}/{name}", "application/strategic-merge-patch+json", {"params": {"dryRun": "All"}}),
        ("PATCH", f"{url}/{name}", "application/apply-patch+yaml", apply),
        ("PATCH", f"{url}/new", "application/apply-patch+yaml", apply),
    ]
    errors = []
    for method, where, media, more in tries:
        reply = await http.request(
            method, where, content=json.dumps(body), headers={"Content-Type": media}, **more
        )
        words = reply.json().get("message", "")[:150]
        # The API server itself does not report this as a bad request.
        if reply.status_code >= 500 and "does not contain declared merge key" not in words:
            errors.append(f"{method} {media} {obj['kind']} {path} = {odd!r}: {words}")
    return errors


async def errors_of(cases: list[tuple[Obj, tuple[str | int, ...], Any]]) -> list[str]:
    """The internal errors of these odd objects, in a cluster that has the good ones."""
    async with emulator(node_pools=[]) as running, client(running) as http:
        for obj in OBJECTS:
            reply = await http.post(path_of(obj), json=obj)
            assert reply.status_code in {201, 409, 422, 403}, reply.text
        found: list[str] = []
        for at in range(0, len(cases), 20):
            for errors in await asyncio.gather(*(sent(http, *case) for case in cases[at : at + 20])):
                found += errors
        return found


async def test_values_of_wrong_types_are_refused() -> None:
    """Each place once, in all kinds; the value is another one at each place."""
    cases = [
        (obj, path, ODD[number % len(ODD)])
        for obj in OBJECTS
        for number, path in enumerate(places(obj))
        if path
    ][::24]
    assert await errors_of(cases) == []


@pytest.mark.slow
async def test_a_search_for_values_that_are_an_internal_error() -> None:
    every = [(obj, path, odd) for obj in OBJECTS for path in places(obj) for odd in ODD]
    assert await errors_of(random.Random(1).sample(every, min(len(every), 4000))) == []


async def test_metadata_of_a_type_without_a_schema_is_checked() -> None:
    url = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/n/status?fieldManager=t"
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": 5}
    async with emulator(node_pools=[]) as running, client(running) as http:
        media = {"Content-Type": "application/apply-patch+yaml"}
        reply = await http.patch(url, content=json.dumps(body), headers=media)
    assert reply.status_code == 400 and ".metadata: expected map, got &{5}" in reply.json()["message"]


async def test_warnings_of_many_unknown_fields_are_cut() -> None:
    fields = {f"field{number}": 1 for number in range(5000)}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "many"}, **fields}
    async with emulator(node_pools=[]) as running, client(running) as http:
        reply = await http.post("/api/v1/namespaces/default/configmaps", json=body)
    assert reply.status_code == 201 and 0 < len(reply.headers.get_list("Warning")) <= 16
