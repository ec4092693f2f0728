"""MPIJobs of the MPI operator, and the mpirun of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.kubernetes.cluster import Cluster, Obj, conditions, environment
from tests.unit.kubernetes.mpi_jobs_support import GROUP, VERSION, mpi_job
from tui.emulator.kubernetes.mpi.command_line import (
    HostSlots,
    MpirunRequest,
    MpirunUsageError,
    parse,
    place,
    read_hostfile,
)
from tui.emulator.kubernetes.mpi.mpirun import exit_code, own_pod, pod_of
from tui.emulator.kubernetes.operators.controllers import controllers


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    cluster.controllers = controllers(cluster.objects)
    yield cluster
    cluster.close()


def the_job(cluster: Cluster) -> Obj:
    return cluster.get("mpijobs", "train", GROUP, VERSION)


def launcher(cluster: Cluster) -> str:
    return next(name for name in cluster.names("pods") if "launcher" in name)


@pytest.mark.parametrize(("policy", "left"), [("None", 3), ("Running", 1)])
def test_a_job_ends_with_its_launcher(cluster: Cluster, policy: str, left: int) -> None:
    cluster.apply(mpi_job(slotsPerWorker=2, runPolicy={"cleanPodPolicy": policy}))
    cluster.settle()
    assert cluster.names("jobs", "batch") == ["train-launcher"]
    assert cluster.get("configmaps", "train-config")["data"]["hostfile"] == (
        "train-worker-0.train.default.svc slots=2\ntrain-worker-1.train.default.svc slots=2\n"
    )
    worker = cluster.get("pods", "train-worker-1")
    assert worker["spec"]["containers"][0]["command"] == ["/usr/sbin/sshd", "-De"]
    assert (worker["spec"]["hostname"], worker["spec"]["subdomain"]) == ("train-worker-1", "train")
    assert worker["metadata"]["labels"]["training.kubeflow.org/job-role"] == "worker"
    values = environment(cluster.get("pods", launcher(cluster)))
    assert values["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
    assert values["K_MPI_JOB_ROLE"] == "launcher" and values["OMPI_MCA_orte_set_default_slots"] == "2"
    cluster.run()
    job = the_job(cluster)
    assert conditions(job) == {"Created": "MPIJobCreated", "Running": "MPIJobRunning"}
    assert job["status"]["replicaStatuses"] == {"Launcher": {"active": 1}, "Worker": {"active": 2}}
    cluster.end(launcher(cluster))
    cluster.stop()
    job = the_job(cluster)
    assert set(conditions(job)) == {"Created", "Succeeded"} and job["status"]["completionTime"]
    assert len(cluster.names("pods")) == left


def test_a_launcher_may_wait_for_its_workers(cluster: Cluster) -> None:
    cluster.apply(mpi_job(launcherCreationPolicy="WaitForWorkersReady"))
    cluster.settle()
    assert cluster.names("jobs", "batch") == []
    cluster.run()
    assert cluster.names("jobs", "batch") == ["train-launcher"]


def test_a_failed_launcher_fails_the_job(cluster: Cluster) -> None:
    cluster.apply(
        mpi_job(runPolicy={"backoffLimit": 0}).replace(
            '"Launcher": {', '"Launcher": {"restartPolicy": "Never", '
        )
    )
    cluster.settle()
    cluster.run()
    cluster.end(launcher(cluster), 3)
    assert conditions(the_job(cluster))["Failed"].startswith("BackoffLimitExceeded/")


def test_a_suspended_job_has_no_pods(cluster: Cluster) -> None:
    cluster.apply(mpi_job(runPolicy={"suspend": True}))
    cluster.settle()
    assert cluster.names("pods") == [] and conditions(the_job(cluster))["Suspended"]
    for on in (False, True):
        cluster.change(
            "mpijobs",
            "train",
            GROUP,
            lambda job, on=on: job["spec"]["runPolicy"].update(suspend=on),
            version=VERSION,
        )
        cluster.stop()
        assert len(cluster.names("pods")) == (0 if on else 3)
        cluster.run()
    assert set(conditions(the_job(cluster))) == {"Created", "Suspended"}


ENV = {"OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile", "NCCL_DEBUG": "INFO"}


def test_a_command_line_is_read_as_mpirun_reads_it() -> None:
    options = "-n 2 --allow-run-as-root --bind-to none -mca btl ^openib -x NCCL_DEBUG -x A=b"
    line = f"{options} python3 -m trainer.task -n 3"
    request = parse(line.split(), ENV)
    assert request.command == ["python3", "-m", "trainer.task", "-n", "3"] and request.count == 2
    assert request.exported == {"NCCL_DEBUG": "INFO", "A": "b"} and request.hostfile == "/etc/mpi/hostfile"


@pytest.mark.parametrize("line", ["", "-n", "-n two python", "--unknown 1 python", "-n 1 a : -n 1 b"])
def test_what_mpirun_can_not_do_is_said(line: str) -> None:
    with pytest.raises(MpirunUsageError):
        parse(line.split(), {})


SLOTS = st.lists(st.integers(min_value=1, max_value=4), min_size=1, max_size=4)


@given(SLOTS, st.integers(min_value=1, max_value=20))
def test_each_process_has_a_slot(slots: list[int], count: int) -> None:
    hosts = [HostSlots(f"host{index}", number) for index, number in enumerate(slots)]
    assert read_hostfile("".join(f"{each.host} slots={each.count}\n" for each in hosts)) == hosts
    assert read_hostfile("".join(f"{each.host}:{each.count}\n" for each in hosts)) == hosts
    request = MpirunRequest(command=["train"], count=count)
    if count > sum(slots):
        with pytest.raises(MpirunUsageError, match="not enough slots"):
            place(request, hosts)
        return
    places = place(request, hosts)
    assert [each.rank for each in places] == list(range(count))
    for host in hosts:
        own = [each for each in places if each.host == host.host]
        assert len(own) <= host.count
        assert [each.local_rank for each in own] == list(range(len(own)))
        assert {each.local_size for each in own} <= {len(own)}


def test_a_host_name_is_a_pod_of_the_same_namespace() -> None:
    def pod(name: str, namespace: str, hostname: str = "", phase: str = "Running") -> Obj:
        metadata = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
        return {"metadata": metadata, "spec": {"hostname": hostname}, "status": {"phase": phase}}

    pods = [pod("job-worker-0", "a"), pod("job-worker-0", "b"), pod("x-abcde", "b", "job-node-0-0"),
            pod("job-launcher-xyz", "b"), pod("job-worker-1", "b", phase="Pending")]  # fmt: skip
    own = own_pod(pods, ["/state/pods/uid-b-job-launcher-xyz/run"])
    assert own is not None and own["metadata"]["namespace"] == "b"
    assert pod_of("job-worker-0.job.b.svc", own, pods) == "job-worker-0"
    assert pod_of("job-node-0-0.job", own, pods) == "x-abcde"
    assert pod_of("job-worker-1", own, pods) == ""


def test_the_last_frame_of_an_exec_has_the_exit_code() -> None:
    assert exit_code({"status": "Success"}) == 0
    failed = {"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "17"}]}}
    assert exit_code(failed) == 17 and exit_code({"status": "Failure"}) == 1
