"""TrainJobs of Kubeflow Trainer v2: what their pods get from the runtime and from the TrainJob."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.kubernetes.cluster import Cluster, Obj, conditions, environment
from tests.unit.kubernetes.train_jobs_support import GROUP, TRAINER, train_job
from tui.emulator.kubernetes.operators.controllers import controllers
from tui.emulator.kubernetes.operators.resources import render
from tui.emulator.kubernetes.operators.seed import create_missing, ready_made_runtimes
from tui.emulator.kubernetes.operators.trainjob.runtime import merged


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    create_missing(cluster.objects, ready_made_runtimes())
    cluster.controllers = controllers(cluster.objects)
    yield cluster
    cluster.close()


def the_job(cluster: Cluster) -> Obj:
    return cluster.get("trainjobs", "train", GROUP)


def test_a_train_job_trains_on_its_nodes(cluster: Cluster) -> None:
    cluster.apply(train_job(trainer=TRAINER))
    cluster.settle()
    pods = cluster.pods()
    assert [pod["spec"]["hostname"] for pod in pods] == ["train-node-0-0", "train-node-0-1"]
    container = pods[1]["spec"]["containers"][0]
    assert container["image"] == "trainer" and container["command"][0] == "python"
    assert container["resources"] == TRAINER["resourcesPerNode"]
    values = environment(pods[1])
    assert values["SEED"] == "7" and values["PET_NNODES"] == "2" and values["PET_NPROC_PER_NODE"] == "3"
    assert (values["PET_MASTER_ADDR"], values["PET_MASTER_PORT"]) == ("train-node-0-0.train", "29500")
    rank = next(each for each in container["env"] if each["name"] == "PET_NODE_RANK")
    assert rank["valueFrom"]["fieldRef"]["fieldPath"].startswith("metadata.annotations['batch.kubernetes.io/")
    assert pods[1]["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] == "train"
    job = cluster.get("jobs", "train-node-0", "batch")
    assert job["metadata"]["labels"]["trainer.kubeflow.org/trainjob-ancestor-step"] == "trainer"

    cluster.run()
    found = the_job(cluster)["status"]["jobsStatus"]
    assert found == [{"name": "node", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}]
    assert conditions(the_job(cluster)) == {}  # it has no condition Running
    for pod in cluster.pods():
        cluster.end(pod["metadata"]["name"])
    assert conditions(the_job(cluster)) == {"Complete": "AllJobsCompleted"}


def test_a_failure_is_the_job_sets(cluster: Cluster) -> None:
    cluster.apply(train_job(trainer=TRAINER))
    cluster.settle()
    for _ in range(7):
        cluster.run()
        cluster.after(1000)
        running = [pod for pod in cluster.pods() if pod.get("status", {}).get("phase") == "Running"]
        if running:
            cluster.end(running[0]["metadata"]["name"], 1)
        cluster.after(1000)
    cluster.stop()
    assert conditions(the_job(cluster)) == {"Failed": "FailedJobs"}


def test_suspension_reaches_the_pods(cluster: Cluster) -> None:
    cluster.apply(train_job(trainer=TRAINER, suspend=True))
    cluster.settle()
    assert cluster.pods() == [] and conditions(the_job(cluster)) == {"Suspended": "Suspended"}
    assert the_job(cluster)["status"]["jobsStatus"][0]["suspended"] == 1
    cluster.change("trainjobs", "train", GROUP, lambda job: job["spec"].update(suspend=False))
    assert len(cluster.pods()) == 2 and conditions(the_job(cluster)) == {}
    cluster.run()
    cluster.change("trainjobs", "train", GROUP, lambda job: job["spec"].update(suspend=True))
    cluster.stop()
    assert cluster.pods() == [] and conditions(the_job(cluster)) == {"Suspended": "Suspended"}


def test_the_deadline_counts_from_the_resumption(cluster: Cluster) -> None:
    cluster.apply(train_job(trainer=TRAINER, activeDeadlineSeconds=60, suspend=True))
    cluster.settle()
    cluster.after(100)
    cluster.change("trainjobs", "train", GROUP, lambda job: job["spec"].update(suspend=False))
    cluster.after(59)
    assert conditions(the_job(cluster)) == {}
    cluster.after(1)
    assert conditions(the_job(cluster)) == {"Failed": "DeadlineExceeded"}
    cluster.stop()
    assert cluster.names("jobsets", "jobset.x-k8s.io") == [] == cluster.pods()


def test_mpi_has_a_launcher_a_hostfile_and_nodes(cluster: Cluster) -> None:
    cluster.apply(train_job("deepspeed-distributed", trainer={"numNodes": 3, "numProcPerNode": 2}))
    cluster.settle()
    cluster.run()
    cluster.run()
    hosts = [pod["spec"]["hostname"] for pod in cluster.pods()]
    assert hosts == ["train-launcher-0-0", "train-node-0-0", "train-node-0-1"]
    assert cluster.get("configmaps", "train-mpi-hostfile")["data"]["hostfile"] == (
        "train-node-0-0.train slots=2\ntrain-node-0-1.train slots=2\ntrain-launcher-0-0.train slots=2\n"
    )
    values = environment(cluster.pods()[0])
    assert values["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
    assert cluster.get("secrets", "train-mpi-ssh-auth")["type"] == "kubernetes.io/ssh-auth"
    launcher = cluster.pods()[0]["metadata"]["name"]
    cluster.end(launcher)
    assert "Complete" in conditions(the_job(cluster))


def test_runtime_patches_change_the_template(cluster: Cluster) -> None:
    spec = {
        "template": {
            "spec": {"nodeSelector": {"pool": "a100"}, "containers": [{"name": "node", "tty": True}]}
        }
    }
    template = {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": spec}}]}}
    patch = {"manager": "example.com/me", "trainingRuntimeSpec": {"template": template}}
    cluster.apply(train_job(trainer=TRAINER, runtimePatches=[patch]))
    cluster.settle()
    pod = cluster.pods()[0]["spec"]
    assert pod["nodeSelector"] == {"pool": "a100"} and pod["containers"][0]["tty"] is True
    assert len(pod["containers"]) == 1


@pytest.mark.parametrize(
    ("policy", "group"), [("coscheduling", "scheduling.x-k8s.io"), ("volcano", "scheduling.volcano.sh")]
)
def test_gang_scheduling_makes_a_pod_group(cluster: Cluster, policy: str, group: str) -> None:
    runtime = ready_made_runtimes()[0]
    runtime["metadata"] = {"name": "gang"}
    runtime["spec"]["podGroupPolicy"] = {policy: {}}
    create_missing(cluster.objects, [runtime])
    cluster.apply(train_job("gang", trainer=TRAINER))
    cluster.settle()
    spec = cluster.get("podgroups", "train", group)["spec"]
    assert spec["minMember"] == 2 and spec["minResources"] == {"cpu": "6", "memory": "2Gi"}
    metadata = cluster.pods()[0]["metadata"]
    mark = {**metadata["labels"], **metadata["annotations"]}
    assert "train" in (mark.get("scheduling.x-k8s.io/pod-group"), mark.get("scheduling.k8s.io/group-name"))


def test_a_later_change_of_the_runtime_does_not_reach_a_job(cluster: Cluster) -> None:
    cluster.apply(train_job(trainer=TRAINER, suspend=True))
    cluster.settle()
    resource = cluster.objects.resource("clustertrainingruntimes", GROUP)
    cluster.objects.delete(resource, "", "torch-distributed")
    cluster.change("trainjobs", "train", GROUP, lambda job: job["spec"].update(suspend=False))
    assert len(cluster.pods()) == 2


def test_a_missing_runtime_is_said(cluster: Cluster) -> None:
    cluster.apply(train_job())
    resource = cluster.objects.resource("clustertrainingruntimes", GROUP)
    cluster.objects.delete(resource, "", "torch-distributed")
    cluster.settle()
    assert "TrainJobResourcesCreationFailed" in cluster.reasons() and cluster.pods() == []


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from("abc"), JSON), st.dictionaries(st.sampled_from("abc"), JSON))
def test_merging_twice_is_merging_once(source: Obj, patch: Obj) -> None:
    once = merged(source, patch)
    assert merged(once, patch) == once
    assert merged(source, {}) == source


def test_amounts_are_written_as_kubernetes_does() -> None:
    from decimal import Decimal

    assert render("cpu", Decimal("1.5")) == "1500m" and render("cpu", Decimal(2)) == "2"
    assert render("memory", Decimal(3 << 30)) == "3Gi" and render("nvidia.com/gpu", Decimal(8)) == "8"
