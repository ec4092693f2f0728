"""Pods that no node runs: defaults, logs, exec, eviction, status, refusals."""

from __future__ import annotations

from typing import Any

from tests.wire.kubernetes_answers.conversations.jobs import unmanaged
from tests.wire.kubernetes_answers.conversations.objects import MERGE, PODS, STRATEGIC, container, pod
from tests.wire.kubernetes_answers.recorder import Recorder

GATED = {"schedulingGates": [{"name": "test.example/wait"}]}
"""No scheduler touches such a pod."""


def _kind(body: Any) -> Any:
    return body if body.get("kind") == "Status" else body["kind"]


async def talk(call: Recorder) -> None:
    limits = {"limits": {"cpu": "500m", "memory": "1Gi"}}
    await call(
        "create",
        "POST",
        PODS,
        pod("p", container(resources=limits), container("other"), **GATED),
        keep=unmanaged,
    )
    path = f"{PODS}/p"
    for label, params in (
        ("no container", {}),
        ("a container", {"container": "main"}),
        ("another", {"container": "none"}),
        ("of before", {"container": "main", "previous": "true"}),
        ("lines below zero", {"container": "main", "tailLines": "-1"}),
        ("lines of letters", {"container": "main", "tailLines": "x"}),
        ("two times", {"container": "main", "sinceSeconds": "1", "sinceTime": "2024-01-01T00:00:00Z"}),
        ("no bytes", {"container": "main", "limitBytes": "0"}),
    ):
        await call(f"log: {label}", "GET", f"{path}/log", params=params)
    await call("log of no pod", "GET", f"{PODS}/none/log")
    for label, params in (
        ("", {"container": "main", "command": "x"}),
        (" of no container", {"command": "x"}),
        (" of another", {"container": "none", "command": "x"}),
        (" of nothing", {"container": "main", "stdout": "1"}),
    ):
        await call(f"exec{label}", "GET", f"{path}/exec", params={"stdout": "1", **params})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    await call("evict, dry", "POST", f"{path}/eviction", eviction, params={"dryRun": "All"})
    await call("evict another", "POST", f"{path}/eviction", {**eviction, "metadata": {"name": "q"}})
    await call("evict nothing", "POST", f"{PODS}/none/eviction", {**eviction, "metadata": {"name": "none"}})
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await call(
        "status",
        "PATCH",
        f"{path}/status",
        {"status": status},
        headers=STRATEGIC,
        keep=lambda body: body.get("status"),
    )
    more = {"conditions": [{"type": "Initialized", "status": "True"}]}
    await call(
        "status, merged",
        "PATCH",
        f"{path}/status",
        {"status": more},
        headers=STRATEGIC,
        keep=lambda body: body.get("status"),
    )
    await call(
        "status, replaced",
        "PATCH",
        f"{path}/status",
        {"status": more},
        headers=MERGE,
        keep=lambda body: body.get("status"),
    )
    for label, patch in (
        ("image", {"containers": [{"name": "main", "image": "x:2"}]}),
        ("command", {"containers": [{"name": "main", "command": ["false"]}]}),
        ("node", {"nodeName": "n"}),
        ("priority", {"priority": 5}),
        ("gate", {"schedulingGates": []}),
        ("grace", {"terminationGracePeriodSeconds": 1}),
        ("deadline", {"activeDeadlineSeconds": 5}),
        ("toleration", {"tolerations": [{"key": "a", "operator": "Exists"}]}),
        ("selector", {"nodeSelector": {"a": "b"}}),
    ):
        await call(
            f"change of {label}",
            "PATCH",
            path,
            {"spec": patch},
            headers=STRATEGIC,
            params={"dryRun": "All"},
            keep=_kind,
        )
    await call("evict", "POST", f"{path}/eviction", eviction)
    await call("it is gone", "GET", path)


async def refusals(call: Recorder) -> None:
    bad = {
        "no containers": pod("p", container()) | {"spec": {}},
        "empty containers": pod("p", container()) | {"spec": {"containers": []}},
        "no spec": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}},
        "no image": pod("p", {"name": "a"}),
        "no name": pod("p", {"image": "a"}),
        "two of a name": pod("p", container(), container()),
        "name": pod("p", container("A_b")),
        "image of spaces": pod("p", container(image=" a ")),
        "pull policy": pod("p", container(imagePullPolicy="Often")),
        "restart policy": pod("p", restartPolicy="Sometimes"),
        "mount": pod("p", container(volumeMounts=[{"name": "none", "mountPath": "/x"}])),
        "mount without path": pod("p", container(volumeMounts=[{"name": "v"}]), volumes=[{"name": "v"}]),
        "volume of two sources": pod("p", volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]),
        "quantity": pod("p", container(resources={"limits": {"cpu": "much"}})),
        "negative": pod("p", container(resources={"limits": {"cpu": "-1"}})),
        "request above limit": pod(
            "p", container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})
        ),
        "GPU without limit": pod("p", container(resources={"requests": {"nvidia.com/gpu": "1"}})),
        "GPU of a fraction": pod("p", container(resources={"limits": {"nvidia.com/gpu": "0.5"}})),
        "GPU not equal": pod(
            "p", container(resources={"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}})
        ),
        "unknown resource": pod("p", container(resources={"limits": {"gpu": "1"}})),
        "environment": pod("p", container(env=[{"name": "", "value": "1"}])),
        "environment of =": pod("p", container(env=[{"name": "A=B", "value": "1"}])),
        "environment of two": pod(
            "p",
            container(
                env=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
            ),
        ),
        "port": pod("p", container(ports=[{"containerPort": 70000}])),
        "two ports of a name": pod(
            "p", container(ports=[{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}])
        ),
        "grace": pod("p", terminationGracePeriodSeconds=-1),
        "deadline": pod("p", activeDeadlineSeconds=0),
        "toleration": pod("p", tolerations=[{"operator": "Exists", "value": "x", "key": "a"}]),
        "toleration operator": pod("p", tolerations=[{"operator": "Is", "key": "a"}]),
        "node selector": pod("p", nodeSelector={"a": "x y"}),
        "host name": pod("p", hostname="A_b"),
        "subdomain": pod("p", subdomain="A_b"),
        "command of numbers": pod("p", container(command=[1])),
        "containers of text": pod("p", container()) | {"spec": {"containers": "x"}},
        "priority class": pod("p", priorityClassName="none"),
        "service account": pod("p", serviceAccountName="none"),
        "two faults": pod("p", {"name": "a"}, restartPolicy="Sometimes"),
    }
    for label, body in bad.items():
        await call(label, "POST", PODS, body, keep=_kind)
