"""Debian's kubectl against the API, or against the cluster of `VXTUI_TEST_KUBECONFIG`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import LIMIT
from tests.wire.kubernetes.control import REAL, cluster, config_map, needs_kubectl, program, unique

pytestmark = needs_kubectl
emulator_only = pytest.mark.skipif(bool(REAL), reason="needs what only local-k8s has, or changes namespaces")


@pytest.fixture
async def kubeconfig() -> AsyncIterator[str]:
    async with cluster() as found:
        yield found


def pytorch_job(name: str, workers: Any = 1, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "pytorch", "image": "python:3.11", "command": ["true"]}]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": template},
                "Worker": {"replicas": workers, "template": template},
            },
            "runPolicy": {"suspend": True},
            **spec,
        },
    }


async def test_apply_edit_and_delete_a_config_map(kubeconfig: str) -> None:
    name = unique("map")

    async def kubectl(*words: str, stdin: Any = None, expect: int | None = 0) -> str:
        text = json.dumps(stdin) if stdin is not None else ""
        return await program("kubectl", *words, kubeconfig=kubeconfig, stdin=text, expect=expect)

    try:
        first = await kubectl("apply", "-f", "-", stdin=config_map(name, a="1", b="2"))
        assert first == f"configmap/{name} created\n"
        changed = config_map(name, a="1", c="3")
        difference = await kubectl("diff", "-f", "-", stdin=changed, expect=1)
        assert "-  b: " in difference and "+  c: " in difference
        dry = await kubectl("apply", "-f", "-", "--dry-run=server", "-o", "json", stdin=changed)
        assert json.loads(dry)["data"] == {"a": "1", "c": "3"}
        assert "configured" in await kubectl("apply", "-f", "-", stdin=changed)
        await kubectl("label", "configmap", name, "app=x")
        await kubectl("annotate", "configmap", name, "note=y")
        await kubectl("patch", "configmap", name, "-p", '{"data": {"c": null, "d": "4"}}')
        found = json.loads(await kubectl("get", "configmap", name, "-o", "json"))
        assert found["data"] == {"a": "1", "d": "4"} and found["metadata"]["labels"] == {"app": "x"}
        assert name in await kubectl("get", "cm", "-l", "app=x", "--field-selector", f"metadata.name={name}")
        assert f"Name:         {name}" in await kubectl("describe", "configmap", name)
        conflict = await kubectl(
            "apply", "--server-side", "--field-manager=other", "-f", "-",
            stdin=config_map(name, d="5"), expect=1,
        )  # fmt: skip
        assert 'conflict with "kubectl-patch" using v1: .data.d' in conflict
        await kubectl(
            "apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-",
            stdin=config_map(name, d="5", e="6"),
        )  # fmt: skip
        await kubectl(
            "apply", "--server-side", "--field-manager=other", "-f", "-", stdin=config_map(name, d="5")
        )
        # What the manager no longer applies goes, what others own stays; kubectl has moved to the manager
        # what its own client-side apply owned, which was a.
        found = json.loads(await kubectl("get", "configmap", name, "-o", "json"))
        assert found["data"] == {"d": "5"}
    finally:
        assert "deleted" in await kubectl("delete", "configmap", name, expect=None)


async def test_a_watch_prints_each_change(kubeconfig: str, tmp_path: Path) -> None:
    name = unique("watched")
    command = [
        "kubectl",
        "get",
        "cm",
        "-w",
        "--output-watch-events",
        "--field-selector",
        f"metadata.name={name}",
    ]
    watch = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": kubeconfig},
    )  # fmt: skip
    assert watch.stdout is not None
    try:
        await program("kubectl", "create", "configmap", name, "--from-literal=a=1", kubeconfig=kubeconfig)

        async def line() -> list[str]:
            assert watch.stdout is not None
            async with asyncio.timeout(LIMIT):
                return (await watch.stdout.readline()).decode().split()

        assert (await line())[:2] == ["EVENT", "NAME"]
        assert (await line())[:3] == ["ADDED", name, "1"]
        patch = ("kubectl", "patch", "cm", name, "--type=merge", "-p", '{"data": {"b": "2"}}')
        await program(*patch, kubeconfig=kubeconfig)
        assert (await line())[:3] == ["MODIFIED", name, "2"]
        await program("kubectl", "delete", "cm", name, kubeconfig=kubeconfig)
        assert (await line())[:2] == ["DELETED", name]
    finally:
        with contextlib.suppress(ProcessLookupError):
            watch.kill()
        await watch.wait()


@emulator_only
async def test_types_and_their_fields_are_explained(kubeconfig: str) -> None:
    types = await program("kubectl", "api-resources", kubeconfig=kubeconfig)
    for kind in ("PyTorchJob", "TrainJob", "JobSet", "LocalQueue", "CustomResourceDefinition", "Pod"):
        assert f" {kind}\n" in types
    rows = [line.split() for line in types.splitlines()]
    for kind, version in (("mpijobs", "v2beta1"), ("pytorchjobs", "v1"), ("tfjobs", "v1")):
        assert [row[-3] for row in rows if row[0] == kind] == [f"kubeflow.org/{version}"]
    explained = await program("kubectl", "explain", "trainjob.spec.trainer", kubeconfig=kubeconfig)
    assert "numProcPerNode\t<integer>" in explained
    assert "yes" in await program("kubectl", "auth", "can-i", "create", "pytorchjobs", kubeconfig=kubeconfig)


async def needs_pytorch_jobs(kubeconfig: str) -> None:
    """Skip the test on a cluster that does not serve them."""
    served = await program(
        "kubectl", "api-resources", "--api-group=kubeflow.org", "-o", "name", kubeconfig=kubeconfig
    )
    if "pytorchjobs.kubeflow.org" not in served:
        pytest.skip("the cluster does not serve pytorchjobs.kubeflow.org")


async def test_a_list_is_applied(kubeconfig: str) -> None:
    """kubectl checks it against OpenAPI v2, which it reads in protobuf alone."""
    await needs_pytorch_jobs(kubeconfig)

    async def kubectl(*words: str, stdin: Any = None, expect: int | None = 0) -> str:
        return await program("kubectl", *words, kubeconfig=kubeconfig, stdin=stdin or "", expect=expect)

    name = unique("in-list")
    items = [config_map(name, a="1"), pytorch_job(name)]
    both = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    made = await kubectl("apply", "-f", "-", stdin=both)
    assert made == f"configmap/{name} created\npytorchjob.kubeflow.org/{name} created\n"
    again = await kubectl("get", "configmap,pytorchjob", name, "-o", "yaml")
    assert (await kubectl("apply", "-f", "-", stdin=again)).count(name) == 2
    client_side = await kubectl(
        "apply", "-f", "-", stdin=both.replace('"replicas": 1', '"replicas": {}'), expect=1
    )
    assert "replicas" in client_side
    await kubectl("delete", "-f", "-", stdin=both)


async def test_invalid_objects_are_refused_with_their_fields(kubeconfig: str) -> None:
    await needs_pytorch_jobs(kubeconfig)

    async def refused(obj: dict[str, Any]) -> str:
        return await program(
            "kubectl", "apply", "-f", "-", kubeconfig=kubeconfig, stdin=json.dumps(obj), expect=1
        )

    unknown = await refused(pytorch_job("x", nprocPerNodes="1"))
    assert 'strict decoding error: unknown field "spec.nprocPerNodes"' in unknown
    wrong = await refused(pytorch_job("x", workers="two"))
    assert "spec.pytorchReplicaSpecs.Worker.replicas: Invalid value" in wrong
    assert "must be of type integer" in wrong
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a"}]},
    }
    assert "spec.containers[0].image: Required value" in await refused(pod)


@emulator_only
async def test_a_job_is_scaled_and_waited_for(kubeconfig: str) -> None:
    async def kubectl(*words: str, stdin: Any = None) -> str:
        text = json.dumps(stdin) if stdin is not None else ""
        return await program("kubectl", *words, kubeconfig=kubeconfig, stdin=text)

    await kubectl("create", "namespace", "team")
    await kubectl("apply", "-n", "team", "-f", "-", stdin=pytorch_job("train"))
    await kubectl(
        "wait", "-n", "team", "pytorchjob/train", "--for=condition=Suspended", f"--timeout={LIMIT:.0f}s"
    )
    assert "Suspended" in await kubectl("get", "-n", "team", "pytorchjobs")
    await kubectl("scale", "-n", "team", "pytorchjob", "train", "--replicas=3")
    path = "jsonpath={.spec.pytorchReplicaSpecs.Worker.replicas} {.metadata.generation}"
    assert await kubectl("get", "-n", "team", "pytorchjob", "train", "-o", path) == "3 2"
    await kubectl("delete", "namespace", "team")
    gone = await program(
        "kubectl", "get", "-n", "team", "pytorchjob", "train", kubeconfig=kubeconfig, expect=1
    )
    assert "NotFound" in gone
