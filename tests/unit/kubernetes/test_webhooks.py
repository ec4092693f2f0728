"""What the operators' webhooks fill in and refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.kubernetes.cluster import Cluster
from tests.unit.kubernetes.job_sets_support import job_set, replicated
from tests.unit.kubernetes.queues_support import KUEUE, batch_job
from tests.unit.kubernetes.train_jobs_support import train_job
from tests.unit.kubernetes.training_operator_support import pytorch_job, tf_job
from tui.emulator.kubernetes.errors import Forbidden
from tui.emulator.kubernetes.node.pools import NodePool
from tui.emulator.kubernetes.operators.controllers import controllers
from tui.emulator.kubernetes.operators.seed import create_missing, queue_over, ready_made_runtimes
from tui.emulator.kubernetes.resources import NAMESPACES


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    create_missing(cluster.objects, ready_made_runtimes())
    yield cluster
    cluster.close()


ENV = {"env": [{"name": "PET_NNODES", "value": "3"}]}


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (
            pytorch_job(0, master=True).replace('"replicas": 1', '"replicas": 2'),
            "[Master].replicas: Forbidden: must be 1",
        ),
        (pytorch_job(1).replace('"name": "pytorch"', '"name": "main"'), "with name pytorch"),
        (pytorch_job(0, elasticPolicy={}), "must be configured if elastic policy is used"),
        (pytorch_job(1).replace('"train"', '"1train"'), "should match: a DNS-1035 label"),
        (pytorch_job(1, runPolicy={"managedBy": "me"}), "spec.runPolicy.managedBy: Unsupported value"),
        (tf_job({"Boss": 1}), 'tfReplicaSpecs[Boss]: Unsupported value: "Boss"'),
        (train_job("nowhere"), "must be created before the TrainJob is created"),
        (train_job(trainer=ENV), "must not have reserved envs, invalid envs configured: [PET_NNODES]"),
        (job_set(replicated("a", dependsOn=[{"name": "b", "status": "Complete"}])), "DependsOn can't be set"),
    ],
)
def test_what_is_refused_says_by_whom_and_why(cluster: Cluster, job: str, text: str) -> None:
    with pytest.raises(Forbidden) as caught:
        cluster.apply(job)
    assert caught.value.message.startswith('admission webhook "') and text in caught.value.message


def test_a_job_with_a_queue_starts_suspended(cluster: Cluster) -> None:
    job = batch_job("train").replace('"suspend": true, ', "")
    assert cluster.apply(job)["spec"]["suspend"] is True


def test_a_running_job_stays_in_its_queue(cluster: Cluster) -> None:
    cluster.apply(batch_job("train"))
    change = cluster.change
    change(
        "jobs", "train", "batch", lambda job: job["metadata"]["labels"].update({f"{KUEUE}/queue-name": "b"})
    )
    change("jobs", "train", "batch", lambda job: job["spec"].update(suspend=False))
    with pytest.raises(Forbidden, match="field is immutable"):
        change(
            "jobs",
            "train",
            "batch",
            lambda job: job["metadata"]["labels"].update({f"{KUEUE}/queue-name": "c"}),
        )


def test_a_new_cluster_has_a_queue_of_the_size_of_its_pools(cluster: Cluster) -> None:
    spot = NodePool(name="spot", nodes=4, cpus=96, memory="680Gi", accelerators=8, spot=True)
    pools = [NodePool(name="cpu", nodes=2), spot, NodePool(name="off", nodes=0)]
    cluster.objects.create(NAMESPACES, {"metadata": {"name": "training"}})
    cluster.controllers = controllers(cluster.objects)
    create_missing(cluster.objects, queue_over(pools))
    cluster.settle()
    queue = cluster.objects.get(cluster.objects.resource("clusterqueues", KUEUE), "", "training")
    assert queue["status"]["conditions"][0]["status"] == "True"
    quotas = {each["name"]: each["resources"] for each in queue["spec"]["resourceGroups"][0]["flavors"]}
    assert [each["nominalQuota"] for each in quotas["spot"]] == ["384", "2720Gi", "32"]
    flavor = cluster.objects.get(cluster.objects.resource("resourceflavors", KUEUE), "", "spot")["spec"]
    assert [each["key"] for each in flavor["tolerations"]] == ["nvidia.com/gpu", "cloud.google.com/gke-spot"]
    assert "off" not in cluster.names("resourceflavors", KUEUE)
