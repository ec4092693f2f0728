"""Jobs of every kind on real processes: their end, a restart of the server, scaling, suspension."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import yaml

from tests.processes import command_line, running_in
from tests.waiting import until
from tests.wire.kubernetes.control import needs_kubectl, program, state_dir
from tests.wire.kubernetes_node.pods import Pods, cluster
from tests.wire.kubernetes_operators.manifests import Obj, container, every_kind, job, template
from tui.emulator.kubernetes.errors import ApiNotFound
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.paths import KubernetesState
from tui.emulator.kubernetes.resources import PODS
from tui.emulator.kubernetes.server import KubernetesEmulator

FINISHED = {"Succeeded", "Failed", "Complete", "Completed"}


def find(objects: Objects, made: Obj) -> Obj:
    group, _, version = made["apiVersion"].rpartition("/")
    resource = objects.resource(made["kind"], group, version)
    return objects.get(resource, made["metadata"].get("namespace", "default"), made["metadata"]["name"])


def end(objects: Objects, made: Obj) -> str:
    conditions = (find(objects, made).get("status") or {}).get("conditions") or ()
    return next(
        (str(each["type"]) for each in conditions if each["status"] == "True" and each["type"] in FINISHED),
        "",
    )


@asynccontextmanager
async def jobs() -> AsyncIterator[Pods]:
    """An emulator whose jobs end with the test; else their pods would be made again and again."""
    async with cluster() as pods:
        try:
            yield pods
        finally:
            for resource in pods.objects.resources:
                if resource.kind.endswith("Job") or resource.kind == "JobSet":
                    for each in pods.objects.list(resource):
                        meta = each["metadata"]
                        with suppress(ApiNotFound):
                            pods.objects.delete(resource, meta["namespace"], meta["name"])


@needs_kubectl
async def test_two_processes_of_every_kind_of_job_meet() -> None:
    async with jobs() as pods:
        made = every_kind()
        text = yaml.safe_dump_all(made)
        kubeconfig = str(pods.emulator.state.kubeconfig)
        await program("kubectl", "apply", "-f", "-", kubeconfig=kubeconfig, stdin=text)
        await until(lambda: all(end(pods.objects, each) for each in made), "the end of all jobs")
        found = {f"{each['kind']} {each['metadata']['name']}": end(pods.objects, each) for each in made}
        assert set(found.values()) <= FINISHED - {"Failed"}, found
        workloads = pods.objects.list(pods.objects.resource("workloads", "kueue.x-k8s.io"))
        assert len(workloads) == 1

        def finished() -> str | None:
            """Kueue says it of its Workload after the job has said it of itself."""
            (workload,) = pods.objects.list(pods.objects.resource("workloads", "kueue.x-k8s.io"))
            reasons = {each["type"]: each["reason"] for each in workload["status"]["conditions"]}
            return reasons.get("Finished")

        assert await until(finished, "the end of the Workload") == "Succeeded"
        # The launcher prints what all of its processes print.
        log = await program("kubectl", "logs", "job/mj-launcher", kubeconfig=kubeconfig)
        assert sorted(log.splitlines()) == ["rank 0 has met 2", "rank 1 has met 2"]


def workers(count: int, code: str) -> Obj:
    """An elastic PyTorchJob whose processes run `code`."""
    pods = template(container("pytorch", sys.executable, "-c", code))
    worker = {"replicas": count, "restartPolicy": "OnFailure", "template": pods}
    spec = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}, "pytorchReplicaSpecs": {"Worker": worker}}
    return job("kubeflow.org/v1", "PyTorchJob", "el", spec)


async def test_a_job_scales_and_stops_with_its_processes() -> None:
    async with jobs() as pods:
        objects = pods.objects
        made = workers(3, "import time; time.sleep(600)")
        made["metadata"]["namespace"] = "default"
        resource = objects.resource("pytorchjobs")
        objects.create(resource, made)

        def running() -> int:
            return sum((each.get("status") or {}).get("phase") == "Running" for each in objects.list(PODS))

        def processes() -> int:
            return sum("time.sleep(600)" in command_line(each) for each in pods.left())

        for count in (3, 1, 3):
            objects.change(
                resource, "default", "el",
                lambda job, count=count: job["spec"]["pytorchReplicaSpecs"]["Worker"].update(replicas=count),
            )  # fmt: skip
            await until(lambda count=count: running() == processes() == count, f"{count} workers")
        objects.change(resource, "default", "el", lambda job: job["spec"].update(runPolicy={"suspend": True}))
        await until(lambda: not objects.list(PODS) and not processes(), "the end of the pods")


@pytest.mark.parametrize("while_pods_run", [False, True])
async def test_a_job_goes_on_when_the_server_starts_again(while_pods_run: bool, tmp_path: Path) -> None:
    """The first server ends before the pods run, or while they do."""
    go = tmp_path / "go"
    with state_dir() as state:
        made = workers(2, f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.05)")
        made["metadata"]["namespace"] = "default"
        async with KubernetesEmulator(state) as first:
            first.objects.create(first.objects.resource("pytorchjobs"), made)
            if while_pods_run:
                await until(lambda: _phases(first.objects) == ["Running", "Running"], "two pods that run")
        async with KubernetesEmulator(state) as second:
            go.touch()
            await until(lambda: end(second.objects, made), "the end of the job")
            assert end(second.objects, made) == "Succeeded"
            await until(lambda: not _sleepers(state), "the end of the processes")


def _sleepers(state: KubernetesState) -> list[str]:
    return [line for each in running_in(str(state.root)) if "sleep" in (line := command_line(each))]


def _phases(objects: Objects) -> list[str]:
    return [str((each.get("status") or {}).get("phase")) for each in objects.list(PODS)]
