"""Ways in which pods begin and end that are less common."""

from __future__ import annotations

import pytest

from tests.processes import asked, running_in
from tests.waiting import until
from tests.wire.kubernetes_node.pods import cluster, python, shell
from tui.emulator.kubernetes.errors import ApiNotFound
from tui.emulator.kubernetes.resources import NODES, PODS

POLITE = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\ntime.sleep(600)"


@pytest.mark.slow
async def test_a_deadline_ends_a_pod() -> None:
    async with cluster() as pods:
        pods.create("p", shell("exec sleep 600"), restartPolicy="Always")
        await pods.runs("p")
        pods.objects.change(PODS, "default", "p", lambda obj: obj["spec"].update(activeDeadlineSeconds=1))
        status = await pods.ended("p")
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
        assert status["message"] == "Pod was active on the node longer than the specified deadline"
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143


@pytest.mark.slow
async def test_a_sidecar_runs_beside_the_others_and_ends_after_them() -> None:
    async with cluster() as pods:
        mounts = [{"name": "d", "mountPath": "/d"}]
        side = shell("touch /d/up; exec sleep 600", "side", restartPolicy="Always", volumeMounts=mounts)
        main = shell("while ! test -e /d/up; do sleep 0.05; done; exit 0", volumeMounts=mounts)
        pods.create("p", main, initContainers=[side], volumes=[{"name": "d", "emptyDir": {}}])
        status = await pods.ended("p")
        assert status["phase"] == "Succeeded"
        assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 143


@pytest.mark.slow
async def test_a_failed_init_container_keeps_the_others_from_starting() -> None:
    async with cluster() as pods:
        pods.create("p", shell("true"), initContainers=[shell("exit 3", "first"), shell("true", "second")])
        status = await pods.ended("p")
        assert status["phase"] == "Failed"
        assert [list(each["state"]) for each in status["initContainerStatuses"]] == [["terminated"]] * 2
        assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


@pytest.mark.slow
async def test_a_pod_that_has_not_started_is_deleted_at_once() -> None:
    async with cluster(missing_images=["gone"]) as pods:
        pods.create("image", {"name": "main", "image": "gone", "command": ["true"]})
        pods.create("config", shell("true", envFrom=[{"secretRef": {"name": "no"}}]))
        pods.create("volume", shell("true"), volumes=[{"name": "v", "configMap": {"name": "no"}}])
        pods.create(
            "claim", shell("true"), volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "no"}}]
        )
        await pods.waits("image", "ErrImagePull")
        assert (await pods.waits("config", "CreateContainerConfigError"))[
            "message"
        ] == 'secret "no" not found'
        await until(lambda: "FailedMount" in pods.events("volume"), "the refusal")
        await until(lambda: "FailedScheduling" in pods.events("claim"), "the refusal")
        assert 'persistentvolumeclaim "no" not found' in pods.events("claim")["FailedScheduling"]
        for name in ("image", "config", "volume", "claim"):
            pods.objects.delete(PODS, "default", name)
        for name in ("image", "config", "volume", "claim"):
            await pods.gone(name)


@pytest.mark.slow
async def test_a_pod_that_is_deleted_by_force_is_gone_at_once_and_ends_soon() -> None:
    async with cluster() as pods:
        stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        pods.create("p", python(stubborn), terminationGracePeriodSeconds=600)
        await pods.runs("p")
        pods.objects.delete(PODS, "default", "p")
        pods.objects.delete(PODS, "default", "p", grace=0)
        await until(lambda: pods.left() == [], "the processes to end")
        folder = pods.emulator.node.kubelet.services.folder.pods
        await until(lambda: list(folder.iterdir()) == [], "the files to go")


@pytest.mark.slow
async def test_an_always_container_that_is_polite_restarts_until_its_pod_is_deleted() -> None:
    async with cluster() as pods:
        pods.create("p", shell("exit 0", "quick"), python(POLITE), restartPolicy="Always")
        await pods.runs("p", 1)
        await until(lambda: pods.container("p")["restartCount"] >= 1, "a restart")
        assert pods.container("p")["lastState"]["terminated"]["reason"] == "Completed"
        assert pods.status("p")["phase"] == "Running"


async def test_a_runner_that_is_killed_with_its_parent_leaves_nothing_and_its_container_restarts() -> None:
    async with cluster() as pods:
        pods.create("p", shell("exec sleep 600"), restartPolicy="OnFailure")
        await pods.runs("p")
        place = str(pods.emulator.state.root)
        for module in ("reaper", "attempt"):
            name = f"tui.emulator.runner.{module}"
            (process,) = [p for p in running_in(place) if name in asked(p.cmdline, [""])]
            process.kill()
        await until(lambda: pods.container("p")["restartCount"] == 1, "the restart")
        last = pods.container("p")["lastState"]["terminated"]
        assert (last["exitCode"], last["reason"]) == (137, "ContainerStatusUnknown")
        await pods.runs("p")
        await until(
            lambda: [asked(p.name, "") for p in pods.left()].count("sleep") == 1, "the program, and only one"
        )


@pytest.mark.slow
async def test_a_deleted_node_takes_its_pods_along_and_a_tainted_one_sends_them_away() -> None:
    async with cluster(node_return_seconds=0.2) as pods:
        pods.create("p", shell("exec sleep 600"))
        await pods.runs("p")
        node = pods.get("p")["spec"]["nodeName"]
        pods.objects.delete(NODES, "", node)
        await pods.gone("p")

        def back() -> bool:
            try:
                return bool(pods.objects.get(NODES, "", node))
            except ApiNotFound:
                return False

        await until(back, "the node to come back")
        stays = [{"key": "broken", "operator": "Exists"}]
        pods.create("q", shell("exec sleep 600"), nodeSelector={"kubernetes.io/hostname": node})
        pods.create(
            "r", shell("exec sleep 600"), nodeSelector={"kubernetes.io/hostname": node}, tolerations=stays
        )
        await pods.runs("q")
        await pods.runs("r")
        taint = {"key": "broken", "value": "yes", "effect": "NoExecute"}
        pods.objects.change(NODES, "", node, lambda obj: obj["spec"].update(taints=[taint]))
        await pods.gone("q")
        assert "running" in pods.container("r")["state"]


@pytest.mark.slow
async def test_working_directory_home_and_files_are_the_containers_own() -> None:
    async with cluster() as pods:
        pods.create("p", shell("touch here; exec sleep 600", workingDir="/app"))
        await pods.runs("p")
        folder = pods.emulator.node.kubelet.services.folder.pod(pods.get("p")["metadata"]["uid"])
        found = folder.run("main", 1).workdir("main") / "app" / "here"
        await until(found.exists, "the file")
