"""Kubeflow's and Kueue's types: defaults, refusals by their schemas, status and scale."""

from __future__ import annotations

from typing import Any

from tests.wire.kubernetes_answers.conversations.objects import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    TABLE,
    custom,
    job_set,
    pytorch_job,
    train_job,
)
from tests.wire.kubernetes_answers.recorder import Recorder

TORCH = custom("kubeflow.org", "v1", "pytorchjobs")
TRAIN = custom("trainer.kubeflow.org", "v1alpha1", "trainjobs")
SETS = custom("jobset.x-k8s.io", "v1alpha2", "jobsets")
DRY = {"dryRun": "All"}


async def talk(call: Recorder) -> None:
    """No operator is needed, and none may run: the jobs are suspended."""
    made = await call("create", "POST", TORCH, pytorch_job("t"))
    path, version = f"{TORCH}/t", made["metadata"]["resourceVersion"]
    await call("again", "POST", TORCH, pytorch_job("t"))
    await call("without a version", "PUT", path, pytorch_job("t"))
    newer = pytorch_job("t", workers=2)
    newer["metadata"]["resourceVersion"] = version
    await call("update", "PUT", path, newer, params=DRY, keep=lambda body: body["metadata"].get("generation"))
    await call(
        "merge",
        "PATCH",
        path,
        {"spec": {"nprocPerNode": "2"}},
        headers=MERGE,
        keep=lambda body: [body["metadata"].get("generation"), body["spec"]["nprocPerNode"]],
    )
    await call("strategic", "PATCH", path, {"spec": {}}, headers=STRATEGIC)
    await call(
        "json",
        "PATCH",
        path,
        [{"op": "replace", "path": "/spec/nprocPerNode", "value": 3}],
        headers=JSON_PATCH,
    )
    await call(
        "status by the object",
        "PATCH",
        path,
        {"status": {"startTime": "2024-01-01T00:00:00Z"}},
        headers=MERGE,
        keep=lambda body: [body["metadata"].get("generation"), body.get("status")],
    )
    status = {
        "conditions": [{"type": "Created", "status": "True"}],
        "replicaStatuses": {"Worker": {"active": 1}},
    }
    await call(
        "status", "PATCH", f"{path}/status", {"status": status, "spec": {"nprocPerNode": "9"}}, headers=MERGE
    )
    await call("a bad status", "PATCH", f"{path}/status", {"status": {"conditions": "x"}}, headers=MERGE)
    await call(
        "apply", "PATCH", path, pytorch_job("t", workers=3), headers=APPLY, params={"fieldManager": "m"}
    )
    await call("table", "GET", path, headers=TABLE, keep=_table)
    await call("table of train jobs", "GET", TRAIN, headers=TABLE, keep=_table)
    await call("table of job sets", "GET", SETS, headers=TABLE, keep=_table)
    await call(
        "fields",
        "GET",
        TORCH,
        params={"fieldSelector": "metadata.name=t"},
        keep=lambda body: [one["metadata"]["name"] for one in body["items"]],
    )
    await call("fields that there are not", "GET", TORCH, params={"fieldSelector": "spec.x=1"})
    await call("delete", "DELETE", path)
    await call("train job", "POST", TRAIN, train_job("t"), params=DRY)
    await call("job set", "POST", SETS, job_set("s"), params=DRY)
    await call(
        "unknown, strict",
        "POST",
        TORCH,
        pytorch_job("u", nprocPerNodes="1"),
        params={**DRY, "fieldValidation": "Strict"},
    )
    await call("unknown, warned", "POST", TORCH, pytorch_job("u", nprocPerNodes="1"), params=DRY)
    await call(
        "unknown, ignored",
        "POST",
        TORCH,
        pytorch_job("u", nprocPerNodes="1"),
        params={**DRY, "fieldValidation": "Ignore"},
    )


def _table(body: Any) -> Any:
    return [
        [one["name"], one["type"], one["priority"], one.get("format")] for one in body["columnDefinitions"]
    ]


def _brief(body: Any) -> Any:
    return body if body.get("kind") == "Status" else body["kind"]


async def refusals(call: Recorder) -> None:
    elastic = {"minReplicas": "x", "rdzvBackend": "mail"}
    worker = pytorch_job("t")["spec"]["pytorchReplicaSpecs"]
    bad: dict[str, tuple[str, Any]] = {
        "text for a number": (TORCH, pytorch_job("t", workers="two")),
        "fraction": (TORCH, pytorch_job("t", workers=1.5)),
        "null": (TORCH, pytorch_job("t", workers=None)),
        "number for text": (TORCH, pytorch_job("t", nprocPerNode=2)),
        "no replicas": (TORCH, pytorch_job("t") | {"spec": {}}),
        "no spec": (TORCH, {key: value for key, value in pytorch_job("t").items() if key != "spec"}),
        "text for an object": (TORCH, pytorch_job("t") | {"spec": "x"}),
        "list for an object": (TORCH, pytorch_job("t", pytorchReplicaSpecs=[])),
        "backend": (TORCH, pytorch_job("t", elasticPolicy={"rdzvBackend": "mail"})),
        "two faults": (TORCH, pytorch_job("t", elasticPolicy=elastic)),
        "quantity": (
            TORCH,
            pytorch_job("t", pytorchReplicaSpecs=worker | {"Worker": _asks({"cpu": "much"})}),
        ),
        "quantity of a list": (
            TORCH,
            pytorch_job("t", pytorchReplicaSpecs=worker | {"Worker": _asks({"cpu": []})}),
        ),
        "no container name": (
            TORCH,
            pytorch_job(
                "t", pytorchReplicaSpecs={"Worker": {"template": {"spec": {"containers": [{"image": "x"}]}}}}
            ),
        ),
        "no containers": (
            TORCH,
            pytorch_job("t", pytorchReplicaSpecs={"Worker": {"template": {"spec": {}}}}),
        ),
        "name": (TORCH, pytorch_job("A b")),
        "long name": (TORCH, pytorch_job("t" * 254)),
        "no runtime": (TRAIN, train_job("t", runtimeRef={})),
        "no runtime at all": (TRAIN, {**train_job("t"), "spec": {}}),
        "nodes of zero": (TRAIN, train_job("t", trainer={"numNodes": 0})),
        "nodes of text": (TRAIN, train_job("t", trainer={"numNodes": "two"})),
        "processes": (TRAIN, train_job("t", trainer={"numProcPerNode": "many"})),
        "managed by": (TRAIN, train_job("t", managedBy="me")),
        "train name": (TRAIN, train_job("1abc")),
        "train name of 64": (TRAIN, train_job("t" * 64)),
        "no replicated jobs": (SETS, job_set("s", replicatedJobs="x")),
        "replicas of text": (
            SETS,
            job_set("s", replicatedJobs=[{"name": "a", "replicas": "x", "template": {}}]),
        ),
        "two of a name": (SETS, job_set("s", replicatedJobs=job_set("s")["spec"]["replicatedJobs"] * 2)),
        "success policy": (SETS, job_set("s", successPolicy={"operator": "Some"})),
        "restarts": (SETS, job_set("s", failurePolicy={"maxRestarts": "x"})),
        "managed set": (SETS, job_set("s", managedBy="me")),
    }
    for label, (path, body) in bad.items():
        await call(label, "POST", path, body, params=DRY, keep=_brief)
    await call("train job", "POST", TRAIN, train_job("fixed", trainer={"numNodes": 1}), keep=_brief)
    for label, spec in (
        ("runtime", {"runtimeRef": {"name": "other"}}),
        ("suspend", {"suspend": False}),
        ("trainer", {"trainer": {"numNodes": 2}}),
    ):
        await call(
            f"change of {label}",
            "PATCH",
            f"{TRAIN}/fixed",
            {"spec": spec},
            headers=MERGE,
            params=DRY,
            keep=_brief,
        )
    await call("job set", "POST", SETS, job_set("fixed"), keep=_brief)
    for label, spec in (
        ("names", {"replicatedJobs": []}),
        ("manager", {"managedBy": "x.example/me"}),
        ("network", {"network": {"subdomain": "x"}}),
    ):
        await call(
            f"change of set's {label}",
            "PATCH",
            f"{SETS}/fixed",
            {"spec": spec},
            headers=MERGE,
            params=DRY,
            keep=_brief,
        )


def _asks(amounts: Any) -> Any:
    limits = {"name": "pytorch", "image": "x", "resources": {"limits": amounts}}
    return {"replicas": 1, "template": {"spec": {"containers": [limits]}}}


async def scale(call: Recorder) -> None:
    await call("create", "POST", TORCH, pytorch_job("t"), keep=_brief)
    path = f"{TORCH}/t/scale"
    found = await call("read", "GET", path)
    await call("merge", "PATCH", path, {"spec": {"replicas": 2}}, headers=MERGE)
    await call("strategic", "PATCH", path, {"spec": {"replicas": 2}}, headers=STRATEGIC)
    await call(
        "json", "PATCH", path, [{"op": "replace", "path": "/spec/replicas", "value": 3}], headers=JSON_PATCH
    )
    await call("negative", "PATCH", path, {"spec": {"replicas": -1}}, headers=MERGE)
    await call("text", "PATCH", path, {"spec": {"replicas": "x"}}, headers=MERGE)
    await call("stale", "PUT", path, found | {"spec": {"replicas": 5}})
    found["metadata"].pop("resourceVersion")
    await call("update", "PUT", path, found | {"spec": {"replicas": 4}})
    await call("update, dry", "PUT", path, found | {"spec": {"replicas": 5}}, params=DRY)
    await call(
        "the job",
        "GET",
        f"{TORCH}/t",
        keep=lambda body: [
            body["metadata"]["generation"],
            body["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"],
        ],
    )
    await call("of none", "GET", f"{TORCH}/none/scale")
    await call("of a train job", "GET", f"{TRAIN}/none/scale")
    groups = {"Master": pytorch_job("m")["spec"]["pytorchReplicaSpecs"]["Master"]}
    await call("master only", "POST", TORCH, pytorch_job("m", pytorchReplicaSpecs=groups), keep=_brief)
    await call("read of a master", "GET", f"{TORCH}/m/scale")
    await call("scale of a master", "PATCH", f"{TORCH}/m/scale", {"spec": {"replicas": 2}}, headers=MERGE)
