"""A training pipeline by verbs and keys: one piece of work with a custom job, which may be deleted."""

from __future__ import annotations

from tests.shell import VXTUI, home
from tests.terminal import Terminal
from tests.waiting import wait_for

PROFILE = """\
displayName: bert
trainingPipeline:
  trainingTaskInputs:
    workerPoolSpecs:
      - machineSpec: {machineType: n1-standard-4}
        replicaCount: 1
        containerSpec: {imageUri: python, command: [sh, -c, "echo up | tee -a UPS; exec sleep 600"]}
"""


# Seconds: a dozen commands, each a process of its own.
def test_a_pipeline_is_one_piece_of_work_for_verbs_and_keys() -> None:
    with home() as place:
        ups = place.root / "ups"
        (place.root / "bert.yaml").write_text(PROFILE.replace("UPS", str(ups)))
        pipeline = place.json("launch", str(place.root / "bert.yaml"), "--yes")["id"]

        # A verb is a process: what may take its time is waited for without one.
        def restarted(count: int) -> bool:
            return ups.read_text().count("up\n") == count

        wait_for(lambda: place.count("RUNNING"), "the job to run")
        wait_for(lambda: {job["state"] for job in place.jobs()} == {"RUNNING"}, "the pipeline to run")
        shown = place.json("describe", pipeline)
        child = shown["tasks"][0]["job"]
        (pool,) = shown["resource"]["trainingTaskInputs"]["workerPoolSpecs"]
        assert str(pool["replicaCount"]) == "1"
        assert place.json("describe", child)["parent"] == shown["name"]
        words = place.run("describe", child).stdout
        assert f"custom job, part of the training pipeline bert ({pipeline})" in words

        hit = place.json("emulator", "fault", "preempt", pipeline)
        assert hit == {"schema": 1, "job": child, "replicas": ["workerpool0-0"]}
        wait_for(lambda: restarted(2), "the restart")
        wait_for(lambda: place.run("logs", "bert").stdout.count(" up\n") == 2, "the log of the restart")
        screen = Terminal([VXTUI], place.env)
        try:
            screen.wait("▸ bert")
            screen.press("f")
            screen.wait("└ custom-job")
            screen.press(":")
            screen.type(f"preempt {pipeline}\r".encode())
            screen.wait("Preempt bert ")
            screen.press("y")
            wait_for(lambda: restarted(3), "the restart")
            wait_for(lambda: place.run("logs", "bert").stdout.count(" up\n") == 3, "the log of the restart")
            screen.press("ctrl+q")
            assert screen.wait_exit() == 0
        finally:
            screen.close()

        place.json("cancel", pipeline, "--yes")
        wait_for(lambda: place.count("CANCELLED"), "the end of the job")
        wait_for(lambda: {job["state"] for job in place.jobs()} == {"CANCELLED"}, "the end of both")
        place.json("profiles", "import", pipeline, "--name", "again")
        sent = [
            place.json("profiles", "show", name)["body"] for name in ("again", str(place.root / "bert.yaml"))
        ]
        assert sent[0] == sent[1] and "trainingTaskInputs" in sent[0]

        place.json("delete", child, "--yes")
        refused = place.json("metrics", "bert", code=3)["error"]
        assert refused["message"] == "bert no longer has metrics: its custom job was deleted."
        left = place.run("logs", "bert", "--follow")
        assert left.returncode == 0 and "its custom job was deleted" in left.stderr
        assert left.stdout.count(" up\n") == 3
