"""Jobs of a cluster over the wire: listed by watches, changed by calls that are checked first."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until
from tests.wire.kubernetes.backends import (
    add,
    backend,
    cluster_backend,
    listed,
    pages,
    pytorch_job,
    set_pod,
    template,
    whole,
)
from tests.wire.kubernetes.control import emulator
from tui.actions.operations.jobs import JobOperations
from tui.actions.operations.runner import OperationRunner
from tui.backends.errors import FailedPrecondition, InvalidRequest, NotFound, PermissionDenied, Unavailable
from tui.backends.group import GroupBackend
from tui.backends.interface import LaunchRequest
from tui.config.access import ContextAccess
from tui.config.settings import Context
from tui.domain.core.job import Job
from tui.domain.core.replica import NodeShare
from tui.domain.core.states import JobState
from tui.store.jobs.table import JobStore, RegionStatus
from tui.store.journal import Journal

NAME = "clusters/local-k8s/namespaces/default/pytorchjobs/bert"


async def test_a_job_and_its_pods_come_as_changes() -> None:
    """A page has only what changed; a deleted job is named as gone."""
    async with cluster_backend() as (running, opened):
        service = opened.jobs["pytorch_job"]
        assert list(opened.jobs) == [
            "pytorch_job", "tf_job", "mpi_job", "train_job", "job_set", "batch_job",
        ]  # fmt: skip
        add(running, pytorch_job("other"))
        first = await listed(service)
        assert list(first) == ["other"] and first["other"].state is JobState.PENDING
        add(running, pytorch_job())

        async def with_pods() -> Any:
            found = await listed(service, changes=True)
            return (
                found.get("bert") if "bert" in found and all(r.pod for r in found["bert"].replicas) else None
            )

        assert (await until(with_pods, "its pods")).name == NAME
        for pod in ("bert-master-0", "bert-worker-0", "bert-worker-1"):
            set_pod(running, pod, "Running", state={"running": {"startedAt": "2026-11-25T18:00:00Z"}})

        async def runs() -> Any:
            found = await listed(service, changes=True)
            assert set(found) <= {"bert", "other"}
            job = found.get("bert")
            all_run = job and {job.state, *(r.state for r in job.replicas)} == {JobState.RUNNING}
            return job if all_run else None

        job = await until(runs, "the job to run")
        assert {r.id for r in job.replicas} == {"master-0", "worker-0", "worker-1"}
        jobs = running.objects.resource("pytorchjobs")

        def counted() -> bool:
            """The operator counts the pods after they run: that is a change of the job too."""
            found = running.objects.get(jobs, "default", "bert")["status"]["replicaStatuses"]
            return sum(each.get("active", 0) for each in found.values()) == 3

        await until(counted, "the operator's count")

        async def quiet() -> bool:
            return not [job for page in await pages(service, changes=True) for job in page.jobs]

        async def same() -> bool:
            return await service.get(NAME) == (await listed(service))["bert"]

        # A watch or an Event of the pods may still be on its way to the list.
        await until(same, "the list to have what the cluster has")
        await until(quiet, "no change")
        await service.delete(NAME)

        async def gone() -> Any:
            return [name for page in await pages(service, changes=True) for name in page.gone]

        assert await until(gone, "the deleted job") == [NAME]
        with pytest.raises(NotFound, match="PyTorchJob bert does not exist"):
            await service.get(NAME)


async def test_a_list_of_the_whole_cluster_names_the_jobs_of_every_namespace() -> None:
    """So a snapshot's job in a namespace that has no jobs now is deleted."""
    async with cluster_backend() as (running, opened):
        service = opened.jobs["pytorch_job"]
        add(running, pytorch_job(workers=0))
        (here,) = (await listed(service)).values()
        ghost = replace(here, name=here.name.replace("/default/", "/old/"), region="old")
        store = JobStore()
        store.load([here, ghost])
        store.begin()
        for page in await whole(service):
            store.apply(replace(page, kind="pytorch_job"), datetime.now(UTC))
        store.finish(datetime.now(UTC))
        assert list(store.jobs) == [here.name] and not store.unconfirmed


async def test_a_verb_reads_one_job_without_a_watch() -> None:
    async with cluster_backend() as (running, opened):
        add(running, pytorch_job())
        await until(lambda: len(running.objects.list(running.objects.resource("pods"))) == 3, "its pods")
        (found,) = await opened.find_jobs("bert")
        assert found.name == NAME and found.replicas[0].pod == "bert-master-0"
        assert await opened.find_jobs(NAME) == [found]
        assert await opened.find_jobs("nobody") == [] == await opened.find_jobs("a/../b")
        spec = await opened.job_service(NAME).spec(NAME)
        assert spec["kind"] == "PyTorchJob" and "managedFields" not in spec["metadata"]
        with pytest.raises(InvalidRequest, match="must be the full name"):
            await opened.jobs["tf_job"].get(NAME)


def owned(obj: dict[str, Any], by: dict[str, Any]) -> dict[str, Any]:
    uid = by["metadata"]["uid"]
    owner = {"apiVersion": by["apiVersion"], "kind": by["kind"], "name": by["metadata"]["name"], "uid": uid}
    obj["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return obj


async def test_what_a_job_is_made_of_is_no_job_of_its_own() -> None:
    """A CronJob's Job is one: its owner is no kind that is listed."""
    async with cluster_backend() as (running, opened):
        inner = {"metadata": {}, "spec": {"parallelism": 2, "completions": 2, "template": template()}}
        inner["spec"]["template"]["spec"]["restartPolicy"] = "Never"
        job_set = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": "set", "namespace": "default"},
            "spec": {"replicatedJobs": [{"name": "node", "replicas": 2, "template": inner}]},
        }  # fmt: skip
        add(running, job_set)
        nightly = {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "nightly", "namespace": "default"},
            "spec": inner["spec"],
        }  # fmt: skip
        cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "cron", "uid": "1"}}
        add(running, owned(nightly, cron))
        sets = opened.jobs["job_set"]

        async def with_pods() -> Any:
            job = (await listed(sets)).get("set")
            return job if job and len([r for r in job.replicas if r.pod]) == 4 else None

        job = await until(with_pods, "four pods")
        assert [r.id for r in job.replicas] == [f"node-{i}" for i in range(4)]
        assert list(await listed(opened.jobs["batch_job"])) == ["nightly"]
        assert [job.id for job in await opened.find_jobs("set-node-0")] == []


async def test_a_create_is_found_by_its_label_and_never_sent_twice() -> None:
    async with cluster_backend() as (running, opened):
        service = opened.jobs["pytorch_job"]
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
        manifest = {"apiVersion": "v1", "kind": "List", "items": [config, pytorch_job()]}
        request = LaunchRequest("default", manifest, mark="m1")
        assert await service.launched(request) is None
        made = await service.create(request)
        assert made.name == NAME and made.labels["vxtui-launch"] == "m1"
        assert running.objects.get(running.objects.resource("configmaps"), "default", "c")["data"] == {
            "a": "b"
        }
        # As after a reply that was lost: the same launch finds its job, another one is told.
        assert (await service.create(request)).create_time == made.create_time
        with pytest.raises(FailedPrecondition, match="already exists"):
            await service.create(LaunchRequest("default", manifest, mark="m2"))
        with pytest.raises(InvalidRequest) as refused:
            await service.create(LaunchRequest("default", pytorch_job("Not_A_Name"), mark="m3"))
        assert "metadata.name" in refused.value.fields


async def test_suspend_resume_scale_and_delete() -> None:
    async with cluster_backend() as (running, opened):
        service = opened.jobs["pytorch_job"]
        add(running, pytorch_job(elasticPolicy={"minReplicas": 1, "maxReplicas": 3}))
        pods = running.objects.resource("pods")
        await until(lambda: len(running.objects.list(pods)) == 3, "its pods")
        await service.cancel(NAME)

        async def state() -> JobState:
            return (await service.get(NAME)).state

        async def is_in(wanted: JobState) -> bool:
            return await state() is wanted

        await until(lambda: is_in(JobState.SUSPENDED), "the suspended job")
        await until(lambda: not running.objects.list(pods), "its pods to end")
        await service.resume(NAME)
        await until(lambda: is_in(JobState.PENDING), "the resumed job")

        async def is_resumed() -> bool:
            return (await service.get(NAME)).resume_time is not None

        await until(is_resumed, "the time of the resume")
        await service.scale(NAME, 1)
        await until(lambda: len(running.objects.list(pods)) == 2, "one worker")
        assert [g.replicas for g in (await service.get(NAME)).groups] == [1, 1]
        with pytest.raises(FailedPrecondition, match="allows 1–3 workers, not 4"):
            await service.scale(NAME, 4)
        assert [opened.offers("jobs.scale", kind) for kind in opened.jobs] == [
            True,
            True,
            True,
            False,
            False,
            True,
        ]
        await service.delete(NAME)
        with pytest.raises(NotFound):
            await service.delete(NAME)


async def test_a_job_in_a_queue_is_suspended_through_its_workload() -> None:
    """Kueue would start a job that only says of itself that it is suspended."""
    async with cluster_backend() as (running, opened):
        obj = pytorch_job(runPolicy={"suspend": True})
        obj["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "none"}
        add(running, obj)
        resource = running.objects.resource("workloads")
        await until(lambda: running.objects.list(resource), "its Workload")
        service = opened.jobs["pytorch_job"]

        async def waits() -> bool:
            """Kueue says why of its Workload after it has made it."""
            job = await service.get(NAME)
            return job.state is JobState.QUEUED and bool(job.waiting) and "none" in job.waiting[0]

        await until(waits, "the reason")
        await service.suspend(NAME)
        assert [each["spec"]["active"] for each in running.objects.list(resource)] == [False]
        assert running.objects.get(running.objects.resource("pytorchjobs"), "default", "bert")["spec"][
            "runPolicy"
        ] == {"suspend": True}
        assert "deactivated" in (await service.get(NAME)).waiting[0]
        await service.resume(NAME)
        assert [each["spec"]["active"] for each in running.objects.list(resource)] == [True]


async def test_the_position_in_the_queue_is_told() -> None:
    """By Kueue's visibility API, which is read and not watched."""
    async with cluster_backend() as (running, opened):
        for name in ("first", "second"):
            obj = pytorch_job(name, "training", runPolicy={"suspend": True})
            obj["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "training"}
            for group in obj["spec"]["pytorchReplicaSpecs"].values():
                # More than there is, so that it waits.
                group["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "100000"}}
            add(running, obj)
        service = opened.jobs["pytorch_job"]

        async def told(name: str) -> str:
            job = await service.get(NAME.replace("default", "training").replace("bert", name))
            return job.waiting[-1] if len(job.waiting) > 1 else ""

        # Made in the same second, either may be the first.
        both = {
            "The job is next in its ClusterQueue.",
            "The LocalQueue has 1 earlier job, and the ClusterQueue has 1.",
        }

        async def all_told() -> bool:
            return {await told("first"), await told("second")} == both

        await until(all_told, "their positions")


async def test_what_the_login_may_not_do_is_refused_before_it_is_tried() -> None:
    async with cluster_backend(denied=["patch pytorchjobs.kubeflow.org", "list tfjobs.kubeflow.org"]) as (
        running, opened,
    ):  # fmt: skip
        add(running, pytorch_job())
        await until(lambda: not opened.offers("jobs.suspend", "pytorch_job"), "the answers")
        assert opened.offers("jobs.delete", "pytorch_job") and opened.offers("jobs.suspend", "tf_job")
        with pytest.raises(PermissionDenied, match="may not patch pytorchjobs") as refused:
            await opened.jobs["pytorch_job"].suspend(NAME)
        assert "kubectl auth can-i patch pytorchjobs.kubeflow.org -n default" in refused.value.fix
        (page,) = [page for page in await pages(opened.jobs["tf_job"]) if page.error]
        assert isinstance(page.error, PermissionDenied) and not any(p.whole for p in [page] if not p.error)
        health = {line.name: line for line in await opened.check_health()}
        assert not health["pytorchjobs.kubeflow.org"].ok
        assert health["pytorchjobs.kubeflow.org"].detail == "the login may not patch"
        assert health["jobs.batch"].ok and health["login"].ok


async def test_only_the_named_namespaces_are_read() -> None:
    async with emulator(namespaces=["default", "a", "b"]) as running:
        for namespace in ("default", "a", "b"):
            add(running, pytorch_job(namespace, namespace, workers=0))
        async with backend(running, namespaces=("b", "a")) as opened:
            assert opened.info.regions == ("b", "a")
            found = await whole(opened.jobs["pytorch_job"])
            assert {(page.region, job.id) for page in found for job in page.jobs} == {("a", "a"), ("b", "b")}
        async with backend(running) as opened:
            assert set(await listed(opened.jobs["pytorch_job"])) == {"default", "a", "b"}


async def test_cuts_and_expired_versions_lose_nothing() -> None:
    """Every watch is cut after a moment, and versions expire meanwhile."""
    async with cluster_backend() as (running, opened):
        service = opened.jobs["batch_job"]
        running.faults.add({"verb": "watch", "kind": "cut", "after": 0.2})
        await listed(service)
        alive: set[str] = set()
        for number in range(30):
            name = f"job-{number}"
            inner = template("c")
            inner["spec"]["restartPolicy"] = "Never"
            obj = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": name, "namespace": "default"},
            }
            add(running, {**obj, "spec": {"template": inner, "suspend": True}})
            alive.add(name)
            if number % 3 == 2:
                jobs = running.objects.resource("jobs", "batch")
                running.objects.delete(jobs, "default", f"job-{number - 1}")
                alive.discard(f"job-{number - 1}")
            if number % 7 == 6:
                running.objects.forget_history()
            await asyncio.sleep(0.05)

        async def equal() -> bool:
            return set(await listed(service)) == alive

        await until(equal, "the same jobs as in the cluster")


async def test_what_can_not_be_read_says_since_when_and_its_jobs_stay() -> None:
    async with cluster_backend() as (running, opened):
        add(running, pytorch_job(workers=0))
        store, minute = JobStore(), datetime(2026, 11, 25, 19, tzinfo=UTC)

        async def read(*, changes: bool = True) -> RegionStatus:
            nonlocal minute
            minute += timedelta(minutes=1)
            store.begin()
            async for page in opened.list_jobs(changes=changes):
                store.apply(page, minute)
            store.finish(minute)
            return store.regions["default"]

        assert (await read(changes=False)).error is None
        # Kueue's Workloads and the other kinds go on: only this kind can't be read.
        running.faults.add({"verb": "list", "resource": "pytorchjobs.kubeflow.org", "code": 503})
        running.faults.add({"verb": "watch", "resource": "pytorchjobs.kubeflow.org", "code": 503})
        for watched in opened.cluster.watch.of_kind("pytorch_job"):
            running.faults.add(
                {"verb": "watch", "resource": watched.type.resource, "kind": "cut", "after": 0.0}
            )
        running.objects.forget_history()
        await opened.cluster.connection.aclose()
        await opened.cluster.connection.open()

        async def fails() -> RegionStatus | None:
            found = await read()
            # The end of the connection was an error before.
            return found if isinstance(found.error, Unavailable) else None

        first = await until(fails, "the error")
        again = await read(changes=False)
        assert isinstance(again.error, Unavailable) and again.failing_since == first.failing_since
        assert list(store.jobs) == [NAME]


async def test_events_of_the_autoscaler_are_among_the_reasons() -> None:
    async with cluster_backend() as (running, opened):
        add(running, pytorch_job(workers=0))
        pods = running.objects.resource("pods")
        await until(lambda: running.objects.list(pods), "its pod")
        (pod,) = running.objects.list(pods)
        said = "pod didn't trigger scale-up: 1 max node group size reached"
        running.objects.event(pod, "NotTriggerScaleUp", said, component="cluster-autoscaler")
        service = opened.jobs["pytorch_job"]
        (single,) = await opened.find_jobs("bert")
        await listed(service)
        await until(lambda: opened.cluster.watch.live("pytorch_job", "default"), "the watch")
        assert _says(single, "max node group size", "is at its maximum size"), single.waiting

        async def watched() -> bool:
            return _says(await service.get(NAME), "max node group size", "is at its maximum size")

        await until(watched, "the event")


def _says(job: Job, words: str, step: str) -> bool:
    told = any(words in reason for reason in job.waiting)
    return told and job.diagnosis is not None and step in job.diagnosis.fix


async def test_two_clusters_in_one_group() -> None:
    """A job of each; what is done to one is done where it is."""
    async with emulator() as here, emulator() as there:
        for running, name in ((here, "mine"), (there, "yours")):
            add(running, pytorch_job(name, workers=0))
        async with backend(here, "one") as one, backend(there, "two") as two:
            group = GroupBackend("all", [one, two])
            await group.connect()
            await group.settle()
            found = [job async for page in group.list_jobs() for job in page.jobs]
            assert {(job.context, job.id) for job in found} == {("one", "mine"), ("two", "yours")}
            (job,) = await group.find_jobs("yours")
            await group.job_service(job.name).suspend(job.name)
            spec = there.objects.get(there.objects.resource("pytorchjobs"), "default", "yours")["spec"]
            assert spec["runPolicy"]["suspend"] is True


async def test_a_job_whose_pods_are_not_listed_yet_says_so_until_they_are() -> None:
    async with cluster_backend() as (running, opened):
        add(running, pytorch_job(workers=0))
        running.faults.add({"resource": "pods", "verb": "list", "kind": "error", "code": 500})
        service = opened.jobs["pytorch_job"]
        found = (await listed(service))["bert"]
        assert "The job's pods are unknown: Can't list" in found.reason
        running.faults.clear()

        async def known() -> bool:
            job = (await listed(service, changes=True)).get("bert")
            return bool(job and job.replicas[0].pod and "not known" not in job.reason)

        await until(known, "its pods")


async def test_the_nodes_of_its_pods_are_known_by_their_labels() -> None:
    async with cluster_backend() as (running, opened):
        labels = {"node.kubernetes.io/instance-type": "e2-standard-8", "topology.kubernetes.io/region": "r"}
        add(running, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}})
        service = opened.jobs["pytorch_job"]
        add(running, pytorch_job())
        pods = running.objects.resource("pods")
        await until(lambda: len(running.objects.list(pods)) == 3, "its pods")
        assert (await listed(service))["bert"].nodes == ()
        running.objects.change(pods, "default", "bert-worker-0", lambda pod: pod["spec"].update(nodeName="n"))

        async def nodes() -> Any:
            found = await listed(service, changes=True)
            return found["bert"].nodes if "bert" in found else None

        assert await until(nodes, "its node") == (NodeShare("e2-standard-8", "r"),)
        # A listing waits for the nodes that it meets.
        running.objects.change(pods, "default", "bert-worker-1", lambda pod: pod["spec"].update(nodeName="n"))
        async with backend(running) as other:
            found = (await listed(other.jobs["pytorch_job"]))["bert"]
        assert found.nodes == (NodeShare("e2-standard-8", "r"),)


async def test_a_login_that_may_not_read_nodes_sees_jobs_without_them() -> None:
    async with cluster_backend(denied=["* nodes"]) as (running, opened):
        service = opened.jobs["pytorch_job"]
        add(running, pytorch_job())
        pods = running.objects.resource("pods")
        await until(lambda: len(running.objects.list(pods)) == 3, "its pods")
        running.objects.change(pods, "default", "bert-worker-0", lambda pod: pod["spec"].update(nodeName="n"))

        async def on_node() -> bool:
            found = (await listed(service))["bert"]
            return any(replica.node == "n" for replica in found.replicas) and found.nodes == ()

        await until(on_node, "the pod on its node")
        assert opened.jobs["pytorch_job"]._cluster.watch.nodes.denied


async def test_a_job_has_no_pods_of_an_earlier_one_of_its_name() -> None:
    """Those of a deleted job may end for minutes while the next of its name is there."""

    def hold(pod: dict[str, Any]) -> None:
        pod["metadata"]["finalizers"] = ["test.example/held"]

    async with cluster_backend(node_pools=[]) as (running, opened):
        service, objects = opened.jobs["pytorch_job"], running.objects
        jobs, pods = objects.resource("pytorchjobs"), objects.resource("pods")
        names = {f"bert-{replica}" for replica in ("master-0", "worker-0", "worker-1")}
        add(running, pytorch_job())
        await until(lambda: names == {one["metadata"]["name"] for one in objects.list(pods)}, "its pods")
        for name in names:
            set_pod(running, name, "Running", state={"running": {"startedAt": "2026-11-25T18:00:00Z"}})
            objects.change(pods, "default", name, hold)
        objects.delete(jobs, "default", "bert")
        await until(
            lambda: all("deletionTimestamp" in one["metadata"] for one in objects.list(pods)),
            "their deletion",
        )
        add(running, pytorch_job(runPolicy={"suspend": True}))

        async def followed() -> Any:
            job = (await listed(service)).get("bert")
            return job if job is not None and job.state is JobState.SUSPENDED else None

        for job in (await until(followed, "the next job"), await service.get(NAME)):
            assert job.start_time is None and not any(replica.pod for replica in job.replicas)


async def test_a_verb_says_what_the_login_may_not_do(tmp_path: Path) -> None:
    """Not that jobs of this kind can't be changed so, which is said where they can't."""
    async with cluster_backend(denied=["patch *.kubeflow.org"], node_pools=[]) as (running, opened):
        add(running, pytorch_job())
        await until(lambda: not opened.offers("jobs.suspend", "pytorch_job"), "the answers")
        job = await opened.jobs["pytorch_job"].get(NAME)
        journal = Journal(tmp_path / "audit.jsonl", lambda: datetime.now(UTC))
        runner = OperationRunner(Context("gke", kind="kubernetes"), ContextAccess(), journal, "console")
        operations = JobOperations(runner, opened)
        refused = await operations.suspend(job)
        assert not refused.ok and "may not patch pytorchjobs" in refused.text, refused
        assert "kubectl auth can-i patch" in refused.fix
        set_job = replace(job, name=NAME.replace("pytorchjobs", "jobsets"), kind="job_set")
        assert "A JobSet can't be scaled" in (await operations.scale(set_job, 1)).text
