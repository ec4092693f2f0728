"""What the operators' webhooks fill in and refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kubernetes.cluster import Cluster
from tests.unit.kubernetes.job_sets_support import job_set, replicated
from tests.unit.kubernetes.queues_support import KUEUE, batch_job
from tests.unit.kubernetes.train_jobs_support import train_job
from tests.unit.kubernetes.training_operator_support import pytorch_job, tf_job
from tui.emulator.kubernetes.errors import Forbidden, Invalid
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
    ],
)
def test_what_is_refused_says_by_whom_and_why(cluster: Cluster, job: str, text: str) -> None:
    with pytest.raises(Forbidden) as caught:
        cluster.apply(job)
    assert caught.value.message.startswith('admission webhook "') and text in caught.value.message


ONE = replicated("a")


def rules(*some: dict[str, Any]) -> str:
    """A JobSet with these failure rules."""
    return job_set(
        replicated("a"), failurePolicy={"rules": [{"action": "FailJobSet", **rule} for rule in some]}
    )


def claimed(name: str = "data", mount: str = "data", **more: Any) -> str:
    """A JobSet that claims a volume."""
    job = replicated("a")
    job["template"]["spec"]["template"]["spec"] |= more
    pod = job["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"] = [{"name": mount, "mountPath": "/data"}]
    claim = {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    return job_set(job, volumeClaimPolicies=[{"templates": [claim]}])


REFUSED_SETS = [
    (job_set(replicated("a", dependsOn=[{"name": "b", "status": "Complete"}])), "DependsOn can't be set"),
    (
        job_set(ONE, replicated("b", dependsOn=[{"name": "c", "status": "Ready"}])),
        "<nil>: Internal error: replicatedJob: b cannot depend on replicatedJob: c",
    ),
    (job_set(ONE, network={"subdomain": "a.b"}), "spec.network.subdomain: Invalid value: "),
    (job_set(ONE, network={"subdomain": "x" * 64}), "subdomain is too long, must be less than"),
    (job_set(ONE, managedBy="me"), "spec.managedBy: Invalid value: "),
    (job_set(replicated("a", pods=2**20, replicas=2**12)), "the product of replicas and parallelism"),
    (job_set(replicated("a", groupName="1st")), "spec.replicatedJobs[0].groupName: Invalid value: "),
    (job_set(replicated("A")), "spec.replicatedJobs[0].name: Invalid value: "),
    (job_set(replicated("a" * 60)), "JobSet name is too long, job names generated for this JobSet"),
    (job_set(replicated("a" * 50)), "JobSet name is too long, pod names generated for this JobSet"),
    (job_set(ONE, successPolicy={"operator": "All", "targetReplicatedJobs": ["b"]}), "invalid replicatedJob"),
    (job_set(ONE, failurePolicy={"restartStrategy": "InPlaceRestart"}), "InPlaceRestart restart"),
    (rules({"action": "RestartJob"}), "not allowed when RestartJob feature gate is disabled"),
    (rules({"name": "x"}, {"name": "x"}), "rules with indices [0 1] all have the same name 'x'"),
    (rules({"name": "1"}), "invalid failure policy rule name '1', a failure policy rule name must start"),
    (rules({"name": "x" * 129}), "invalid failure policy rule name of length 129"),
    (rules({"targetReplicatedJobs": ["b"]}), "invalid replicatedJob name 'b' in failure policy"),
    (rules({"onJobFailureReasons": ["Bad"]}), "invalid job failure reason 'Bad' in failure policy"),
    (job_set(ONE, coordinator={"replicatedJob": "b"}), "replicatedJob b does not exist"),
    (job_set(ONE, coordinator={"replicatedJob": "a", "jobIndex": 1}), "job index 1 is invalid"),
    (job_set(ONE, coordinator={"replicatedJob": "a", "podIndex": 1}), "pod index 1 is invalid"),
    (
        job_set(ONE, coordinator={"replicatedJob": "a"}, network={"subdomain": "s" * 60}),
        "spec will lead to invalid label value",
    ),
    (claimed(mount="other", volumes=[{"name": "other", "emptyDir": {}}]), "have a matching volumeMount"),
    (claimed(volumes=[{"name": "data", "emptyDir": {}}]), "volume name conflicts with VolumeClaimPolicy"),
    (claimed(name="d" * 60, mount="d" * 60), "VolumeClaimPolicies template name is too long"),
]  # fmt: skip


@pytest.mark.parametrize(("job", "text"), REFUSED_SETS, ids=[text for _, text in REFUSED_SETS])
def test_the_webhook_of_jobsets_refuses_as_the_real_one(cluster: Cluster, job: str, text: str) -> None:
    with pytest.raises(Invalid) as caught:
        cluster.apply(job)
    denied = 'admission webhook "vjobset.kb.io" denied the request: JobSet.jobset'
    assert caught.value.message.startswith(denied)
    assert text in caught.value.message


def test_only_the_placement_of_a_suspended_jobset_changes(cluster: Cluster) -> None:
    cluster.apply(job_set(ONE, suspend=True))

    def select(nodes: dict[str, str]) -> Any:
        def edit(obj: dict[str, Any]) -> None:
            pods = obj["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
            pods["spec"]["nodeSelector"] = nodes

        return edit

    group = "jobset.x-k8s.io"
    cluster.change("jobsets", "train", group, select({"a": "b"}))
    cluster.change("jobsets", "train", group, lambda obj: obj["spec"].update(suspend=False))
    with pytest.raises(Invalid, match=r"spec.replicatedJobs: .*field is immutable"):
        cluster.change("jobsets", "train", group, select({}))


def test_the_defaults_of_a_jobset_come_before_its_checks(cluster: Cluster) -> None:
    jobset = cluster.apply(rules({}, {"name": "mine"}, {}))["spec"]
    assert [rule["name"] for rule in jobset["failurePolicy"]["rules"]] == [
        "failurePolicyRule0", "mine", "failurePolicyRule2",
    ]  # fmt: skip
    pods = jobset["replicatedJobs"][0]["template"]["spec"]["template"]
    assert pods["spec"]["restartPolicy"] == "OnFailure"
    head = '"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"'
    empty = f'{{{head}, "metadata": {{"name": "x"}}, "spec": null}}'
    assert cluster.apply(empty)["spec"]["network"]["enableDNSHostnames"]


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


def failing(rule: dict[str, Any], restart: str = "Never", **spec: Any) -> str:
    """A batch Job with this rule about failed pods."""
    pod = {"restartPolicy": restart, "containers": [{"name": "main", "image": "x"}], **spec.pop("pod", {})}
    policy = {"podFailurePolicy": {"rules": [rule]}, "template": {"spec": pod}, **spec}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": policy})


def on_codes(*values: int, **more: Any) -> dict[str, Any]:
    return {"action": "FailJob", "onExitCodes": {"operator": "In", "values": list(values), **more}}


ONE_VOLUME = {"name": "v", "emptyDir": {}}
REFUSED_JOBS = [
    (failing(on_codes(1), "OnFailure"), 'only "Never" is supported when podFailurePolicy is specified'),
    (failing({**on_codes(1), "action": "FailIndex"}), "requires the backoffLimitPerIndex to be set"),
    (failing(on_codes(0)), "values[0]: Invalid value: 0: must not be 0 for the In operator"),
    (failing(on_codes(2, 1)), "values: Invalid value: [2,1]: must be ordered"),
    (failing(on_codes(1, 1)), "values[1]: Duplicate value: 1"),
    (failing(on_codes()), "at least one value is required"),
    (failing(on_codes(1, containerName="x")), "must be one of the container or initContainer names"),
    (failing({**on_codes(1), "onPodConditions": [{"type": "X"}]}), "specifying both OnExitCodes and"),
    (failing({"action": "Ignore"}), "specifying one of OnExitCodes and OnPodConditions is required"),
    (failing(on_codes(1), pod={"volumes": [ONE_VOLUME, ONE_VOLUME]}), 'name: Duplicate value: "v"'),
    (failing(on_codes(1), pod={"volumes": [{"emptyDir": {}}]}), "volumes[0].name: Required value"),
]  # fmt: skip


@pytest.mark.parametrize(("job", "text"), REFUSED_JOBS, ids=[text for _, text in REFUSED_JOBS])
def test_a_batch_job_is_refused_as_by_the_api_server(cluster: Cluster, job: str, text: str) -> None:
    with pytest.raises(Invalid) as caught:
        cluster.apply(job)
    assert text in caught.value.message


def queue(**spec: Any) -> str:
    quota = {"name": "cpu", "nominalQuota": 2, **spec.pop("quota", {})}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}
    groups = [group] * spec.pop("groups", 1)
    head = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "q"}}
    return json.dumps({**head, "spec": {"resourceGroups": groups, **spec}})


REFUSED_QUEUES = [
    (queue(groups=2), 'spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"'),
    (queue(quota={"name": "memory"}), "must match the name in coveredResources"),
    (queue(quota={"nominalQuota": -1}), "must be greater than or equal to 0"),
    (queue(quota={"borrowingLimit": 1}), "must be nil when cohort is empty"),
    (queue(quota={"lendingLimit": 3}, cohortName="c"), "must be less than or equal to the nominalQuota"),
    (queue(preemption={"borrowWithinCohort": {"policy": "LowerPriority"}}), "reclaimWithinCohort=Never and"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED_QUEUES, ids=[why for _, why in REFUSED_QUEUES])
def test_a_cluster_queue_is_refused_as_by_kueue(cluster: Cluster, text: str, why: str) -> None:
    with pytest.raises(Forbidden) as caught:
        cluster.apply(text)
    assert caught.value.message.startswith('admission webhook "vclusterqueue.kb.io"')
    assert why in caught.value.message
