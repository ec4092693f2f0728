"""Pods run as processes of this machine, with the status that a kubelet reports."""

from __future__ import annotations

import pytest

from tests.waiting import until
from tests.wire.kubernetes_node.pods import cluster, python, shell
from tui.emulator.kubernetes.node.serving.logs import LogOptions, read_log
from tui.emulator.kubernetes.resources import PODS


async def test_pods_end_with_the_status_of_their_containers() -> None:
    async with cluster() as pods:
        pods.create("good", shell("echo fine"))
        pods.create("bad", shell("echo no > /dev/termination-log; exit 3"))
        pods.create("missing", {"name": "main", "image": "python", "command": ["no-such-program"]})
        pods.create("killed", shell("kill -9 $$$$"))
        good, bad = await pods.ended("good"), await pods.ended("bad")
        assert good["phase"] == "Succeeded"
        state = good["containerStatuses"][0]["state"]["terminated"]
        assert (state["exitCode"], state["reason"]) == (0, "Completed")
        assert good["podIP"].startswith("127.") and good["podIP"] != bad["podIP"]
        assert bad["phase"] == "Failed"
        state = bad["containerStatuses"][0]["state"]["terminated"]
        assert (state["exitCode"], state["reason"], state["message"]) == (3, "Error", "no\n")
        missing = (await pods.ended("missing"))["containerStatuses"][0]["state"]["terminated"]
        assert (missing["exitCode"], missing["reason"]) == (128, "StartError")
        assert 'exec: "no-such-program": executable file not found in $PATH' in missing["message"]
        killed = (await pods.ended("killed"))["containerStatuses"][0]["state"]["terminated"]
        assert (killed["exitCode"], killed["reason"]) == (137, "Error")
        events = pods.events("good")
        node = pods.get("good")["spec"]["nodeName"]
        assert events["Scheduled"] == f"Successfully assigned default/good to {node}"
        assert {"Pulled", "Created", "Started"} <= set(events)


async def test_init_containers_run_in_order_and_volumes_are_shared() -> None:
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    where = {"name": "WHERE", "value": "/scratch"}
    async with cluster() as pods:
        pods.create(
            "p",
            shell("cat /scratch/words; cat $WHERE/words", env=[where], volumeMounts=mounts),
            initContainers=[
                shell("echo one >> /scratch/words", "first", volumeMounts=mounts),
                shell("echo two >> /scratch/words", "second", volumeMounts=mounts),
            ],
            volumes=[{"name": "scratch", "emptyDir": {}}],
        )
        status = await pods.ended("p")
        assert status["phase"] == "Succeeded"
        assert [each["name"] for each in status["initContainerStatuses"]] == ["first", "second"]
        log = [part async for part in read_log(pods.emulator.node.kubelet, pods.get("p"), LogOptions())]
        assert b"".join(log) == b"one\ntwo\none\ntwo\n"


@pytest.mark.slow
async def test_a_container_that_fails_again_and_again_backs_off() -> None:
    async with cluster(crash_back_off_seconds=0.5) as pods:
        pods.create("p", shell("exit 5"), restartPolicy="OnFailure")
        waiting = await pods.waits("p", "CrashLoopBackOff")
        uid = pods.get("p")["metadata"]["uid"]
        assert waiting["message"] == f"back-off 500ms restarting failed container=main pod=p_default({uid})"
        found = pods.container("p")
        assert found["lastState"]["terminated"]["exitCode"] == 5
        assert pods.status("p")["phase"] == "Running"
        await until(lambda: pods.container("p")["restartCount"] >= 2, "another restart")


async def test_a_restarted_container_runs_once() -> None:
    """The first restart is at once: what it has started must not count as ended like the run before."""
    async with cluster(crash_back_off_seconds=0.1) as pods:
        code = "cd /kept; test -e done && sleep 1 && exit 0; touch done; exit 5"
        main = shell(code, volumeMounts=[{"name": "kept", "mountPath": "/kept"}])
        pods.create("p", main, restartPolicy="OnFailure", volumes=[{"name": "kept", "emptyDir": {}}])
        assert (await pods.ended("p"))["phase"] == "Succeeded"
        assert pods.container("p")["restartCount"] == 1


async def test_deletion_leaves_no_process() -> None:
    async with cluster() as pods:
        stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        pods.create(
            "p", python(stubborn), shell("sleep 600 & sleep 600", "side"), terminationGracePeriodSeconds=1
        )
        await pods.runs("p")
        await pods.runs("p", 1)
        pods.objects.delete(PODS, "default", "p")
        assert "deletionTimestamp" in pods.get("p")["metadata"]
        await pods.gone("p")
        await until(lambda: not pods.left(), "the end of the processes")
