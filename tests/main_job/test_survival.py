"""Cancel, and the death of the emulator: nothing is left over, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.main_job.survival_support import (
    place,  # noqa: F401 - fixtures
    profile,
)
from tests.shell import Home
from tests.waiting import LIMIT, wait_for
from tui.emulator.client import admin_call
from tui.emulator.paths import StateDir

COUNTER = """
import pathlib, sys, time
here, half = pathlib.Path({folder!r}), {n} // 2
def told(word):
    while not (here / word).exists(): time.sleep(0.02)
for i in range({n}):
    print(f"line {{i}}", flush=True)
    time.sleep(0.01)
    if i == half: told("go on")
told("end")
sys.exit(3)
"""
"""Counts to the half of `n` and, told to go on, to the end; told to end, it fails."""


def launch(place: Home, path: Path) -> str:
    job_id = str(place.json("launch", str(path), "--yes")["id"])
    wait_for(lambda: place.count("RUNNING"), "RUNNING")
    return job_id


def test_cancel_leaves_no_process(place: Home) -> None:
    # A grandchild in a session of its own is what a launcher's workers look like.
    code = (
        "import subprocess,sys,time;"
        "subprocess.Popen([sys.executable,'-c','import time; time.sleep(600)'],start_new_session=True);"
        "time.sleep(600)"
    )
    job_id = launch(place, profile(place, code))
    wait_for(lambda: len(place.job_processes(job_id)) >= 4, "two replicas and their children")
    assert place.run("cancel", job_id, "--yes").returncode == 0
    wait_for(lambda: place.count("CANCELLED"), "CANCELLED")
    assert place.job_processes(job_id) == []


def test_a_killed_emulator_loses_neither_the_job_nor_its_log(place: Home) -> None:
    lines = 120
    job_id = launch(place, profile(place, COUNTER.format(n=lines, folder=str(place.root))))
    os.kill(place.emulator_pid(), signal.SIGKILL)
    (place.root / "go on").touch()
    replicas = ("workerpool0-0", "workerpool1-0")
    outputs = [place.state / "jobs" / job_id / "attempt-1" / f"{replica}.stdout" for replica in replicas]
    last = f"line {lines - 1}\n"
    wait_for(lambda: all(out.read_text().endswith(last) for out in outputs), "all lines, with no emulator")
    (place.root / "end").touch()
    job = wait_for(
        lambda: next((j for j in place.jobs() if j["state"] == "FAILED"), None), "the true end", every=0.5
    )
    assert 3 in {r["exit_code"] for r in job["replicas"]}
    out = place.run("logs", job_id, "--json").stdout.splitlines()
    entries = [json.loads(line) for line in out]
    for replica in replicas:
        texts = [e["message"] for e in entries if e["replica"] == replica]
        assert [t for t in texts if t.startswith("line ")] == [f"line {i}" for i in range(lines)]


# Many seconds: two replicas load torch and train, in two attempts.
def test_a_preempted_spot_job_comes_back_and_goes_on_from_its_checkpoint(place: Home) -> None:
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": 1,
        "containerSpec": {
            "imageUri": "us-docker.pkg.dev/vxtui/vxtui/trainer:latest",
            "args": ["--preset=tiny", "--batch=4", "--steps=160", "--log-every=5", "--checkpoint-every=40"],
        },
    }
    spec = {
        "workerPoolSpecs": [pool, pool],
        "scheduling": {"strategy": "SPOT"},
        "baseOutputDirectory": {"outputUriPrefix": "gs://rehearsal/run"},
    }
    path = place.root / "spot.yaml"
    path.write_text(json.dumps({"displayName": "spot", "jobSpec": spec}))
    waiting = place.popen("launch", str(path), "--yes", "--wait", "--json")
    jobs = place.state / "jobs"

    def trains() -> bool:
        # Looked up in its own output: a command each time would take the time from the training.
        return any('"step": 40' in out.read_text() for out in jobs.glob("*/attempt-1/workerpool0-0.stdout"))

    wait_for(trains, "step 40")
    (job_id,) = (folder.name for folder in jobs.iterdir())
    # The verb takes seconds on a loaded machine, in which the training may end.
    request = {"do": "preempt", "job": job_id, "replica": "workerpool1-0"}
    assert admin_call(StateDir(place.state), request)["replicas"] == ["workerpool1-0"]
    out, err = waiting.communicate(timeout=2 * LIMIT)
    assert waiting.returncode == 0, err
    job = json.loads(out)
    assert job["id"] == job_id and job["state"] == "SUCCEEDED", job["error"]
    entries = [json.loads(line) for line in place.run("logs", job_id, "--json").stdout.splitlines()]
    said = [e["json"]["vxtui"] for e in entries if e["json"] and "vxtui" in e["json"]]
    left = next(x["step"] for x in said if x["kind"] == "preempted")
    assert next(x["step"] for x in said if x["kind"] == "resumed") == left, "no step was lost"
    assert any("STOCKOUT" in e["message"] for e in entries if e["replica"] == "service")
    assert (place.state / "jobs" / job_id / "attempt-2").is_dir()
