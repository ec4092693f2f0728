"""What a container sees: variables, files, paths, usage."""

from __future__ import annotations

import json

import pytest

from tests.waiting import until
from tests.wire.kubernetes.control import client, needs_kubectl, program
from tests.wire.kubernetes_node.pods import Pods, cluster, python, shell
from tui.emulator.kubernetes.node.serving.logs import LogOptions, read_log
from tui.emulator.kubernetes.resources import PODS

MEET = """
import os, socket, sys, time
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    with socket.create_server(("", address[1])) as server:
        print(server.accept()[0].recv(9).decode(), flush=True)
else:
    while True:
        try:
            with socket.create_connection(address) as client:
                client.sendall(b"hello")
            break
        except OSError:
            time.sleep(0.02)
"""


async def log_of(pods: Pods, name: str) -> str:
    parts = read_log(pods.emulator.node.kubelet, pods.get(name), LogOptions())
    return b"".join([part async for part in parts]).decode()


async def test_variables_of_the_pod_of_objects_and_of_others() -> None:
    env = [
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "TEAM", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {
            "name": "MEMORY",
            "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
        },
        {"name": "LR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "lr"}}},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
        {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "no", "key": "x", "optional": True}}},
        {"name": "BOTH", "value": "$(NAME)/$(LR) $$(LR) $(UNKNOWN)"},
    ]
    names = ["NAME", "TEAM", "IP", "NODE", "MEMORY", "LR", "KEY", "NONE", "BOTH", "ALL_lr", "ALL_steps"]
    code = f"import json, os, sys\nprint(json.dumps({{n: os.environ.get(n) for n in {names}}}), sys.argv[1:])"
    main = python(
        code, args=["--lr=$(LR)", "$$(LR)"], env=env, resources={"limits": {"memory": "512Mi"}},
        envFrom=[{"prefix": "ALL_", "configMapRef": {"name": "settings"}}],
    )  # fmt: skip
    main["command"] = [*main["command"]]
    async with cluster() as pods:
        pods.create("p", main, meta={"labels": {"team": "vision"}})
        waiting = await pods.waits("p", "CreateContainerConfigError")
        assert waiting["message"] == 'configmap "settings" not found'
        assert pods.events("p")["Failed"] == 'Error: configmap "settings" not found'
        namespaced = {"namespace": "default"}
        pods.objects.create(
            pods.objects.resource("configmaps"),
            {"metadata": {"name": "settings", **namespaced}, "data": {"lr": "0.1", "steps": "9"}},
        )
        pods.objects.create(
            pods.objects.resource("secrets"),
            {"metadata": {"name": "keys", **namespaced}, "data": {"token": "czNjcjN0"}},
        )
        status = await pods.ended("p")
        assert status["phase"] == "Succeeded"
        text, _, arguments = (await log_of(pods, "p")).rpartition("} ")
        assert json.loads(text + "}") == {
            "NAME": "p", "TEAM": "vision", "IP": status["podIP"], "NODE": pods.get("p")["spec"]["nodeName"],
            "MEMORY": "512", "LR": "0.1", "KEY": "s3cr3t", "NONE": None, "BOTH": "p/0.1 $(LR) $(UNKNOWN)",
            "ALL_lr": "0.1", "ALL_steps": "9",
        }  # fmt: skip
        assert arguments.strip() == "['--lr=0.1', '$(LR)']"


async def test_two_pods_of_a_job_meet_by_name_and_two_jobs_don_t_mix() -> None:
    async with cluster() as pods:
        for job in ("one", "two"):
            for rank, role in enumerate(("master", "worker")):
                env = {"MASTER_ADDR": f"{job}-master-0", "MASTER_PORT": "23456", "RANK": str(rank)}
                variables = [{"name": key, "value": value} for key, value in env.items()]
                labels = {"labels": {"training.kubeflow.org/job-name": job}}
                pods.create(f"{job}-{role}-0", python(MEET, env=variables), meta=labels)
        for job in ("one", "two"):
            assert (await pods.ended(f"{job}-master-0"))["phase"] == "Succeeded"
            assert await log_of(pods, f"{job}-master-0") == "hello\n"
        held = json.loads(pods.emulator.node.kubelet.services.folder.ports.read_text())
        assert set(held) == {"default/one-master-0:23456", "default/two-master-0:23456"}
        for job in ("one", "two"):
            for role in ("master", "worker"):
                pods.objects.delete(PODS, "default", f"{job}-{role}-0")
        ports = pods.emulator.node.kubelet.services.folder.ports
        await until(lambda: json.loads(ports.read_text()) == {}, "the ports to be free")


@pytest.mark.slow
async def test_volumes_are_folders() -> None:
    volumes = [
        {"name": "settings", "configMap": {"name": "settings",
                                           "items": [{"key": "a", "path": "deep/a.yaml"}]}},
        {"name": "about", "downwardAPI": {"items": [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "bucket", "csi": {"driver": "gcsfuse.csi.storage.gke.io",
                                   "volumeAttributes": {"bucketName": "data"}}},
    ]  # fmt: skip
    mounts = [
        {"name": "settings", "mountPath": "/etc/settings"}, {"name": "about", "mountPath": "/etc/about"},
        {"name": "shm", "mountPath": "/dev/shm"}, {"name": "bucket", "mountPath": "/mnt/data"},
    ]  # fmt: skip
    code = (
        "cat /etc/settings/deep/a.yaml; echo; cat /etc/about/labels; echo; echo x > /mnt/data/x; "
        "cat /gcs/data/x; cat $VXTUI_GCS_ROOT/data/x; test -d /dev/shm && echo shared"
    )
    async with cluster() as pods:
        main = shell(code, volumeMounts=mounts, workingDir="/mnt/data")
        pods.create("p", main, volumes=volumes, meta={"labels": {"a": "b"}})
        await until(lambda: "FailedMount" in pods.events("p"), "the refusal")
        wanted = 'MountVolume.SetUp failed for volume "settings" : configmap "settings" not found'
        assert pods.events("p")["FailedMount"] == wanted
        pods.objects.create(
            pods.objects.resource("configmaps"),
            {"metadata": {"name": "settings", "namespace": "default"}, "data": {"a": "k: v", "b": "no"}},
        )
        assert (await pods.ended("p"))["phase"] == "Succeeded"
        lines = (await log_of(pods, "p")).splitlines()
        assert lines == ["k: v", 'a="b"', "x", "x", "shared"]


@pytest.mark.slow
@needs_kubectl
async def test_usage_is_measured_and_accelerators_are_simulated() -> None:
    async with cluster() as pods, client(pods.emulator) as http:
        limits = {"limits": {"nvidia.com/gpu": "2", "cpu": "1", "memory": "1Gi"}}
        busy = "kept = b'x' * (50 << 20)\nwhile True: pass"
        pods.create("p", python(busy, resources=limits), shell("exec sleep 600", "side"))
        node = await until(lambda: pods.get("p")["spec"].get("nodeName"), "a node")
        path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/p"

        async def measured() -> dict[str, dict[str, str]] | None:
            reply = await http.get(path)
            if reply.status_code == 404:
                return None
            found = {each["name"]: each["usage"] for each in reply.json()["containers"]}
            return found if len(found) == 2 else None

        found = await until(measured, "the usage")
        assert int(found["main"]["cpu"].removesuffix("n")) > 10_000_000
        assert int(found["main"]["memory"].removesuffix("Ki")) > 50 << 10
        kubeconfig = str(pods.emulator.state.kubeconfig)
        text = await program("kubectl", "top", "pods", "--containers", kubeconfig=kubeconfig)
        assert [line.split()[:2] for line in text.splitlines()[1:]] == [["p", "main"], ["p", "side"]]
        assert node in await program("kubectl", "top", "nodes", kubeconfig=kubeconfig)
        text = (await http.get(f"/api/v1/nodes/{node}/proxy/metrics/cadvisor")).text
        busy_lines = [x for x in text.splitlines() if x.startswith("container_accelerator_duty_cycle{")]
        assert len(busy_lines) == 2
        assert all('container="main"' in line and 'simulated="true"' in line for line in busy_lines)
        assert (await http.get("/apis/metrics.k8s.io/v1beta1/nodes")).json()["kind"] == "NodeMetricsList"
