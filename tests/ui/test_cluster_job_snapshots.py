"""How a cluster's job looks that waits, or lost a pod: from the objects of a cluster to the screen.

`faulted_jobs` holds what a cluster of this machine had after each fault, as `python -m
tests.wire.kubernetes_node.faulted_jobs tests/ui/faulted_jobs` writes it: the job was read first after that.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.double import NOON, console
from tests.ui.job_double import ControlledJobs, JobBackend, line
from tests.ui.test_job_snapshots import (
    TABS,
    _utc,  # noqa: F401 - times of the pictures
    ready_screen,
)
from tests.ui.test_jobs_screen import until
from tui.app import VxtuiApp
from tui.config.settings import Context, Settings
from tui.domain.job import Job
from tui.domain.jobs.diagnosis import diagnosis_of
from tui.domain.kubernetes.failures.events import index_of
from tui.domain.kubernetes.jobs import Found, job_of
from tui.domain.kubernetes.nodes.machine import NodeMachine
from tui.domain.kubernetes.nodes.shares import node_shares
from tui.domain.kubernetes.pods import reduced
from tui.domain.kubernetes.waiting import wait_events, waits_for
from tui.domain.kubernetes.workloads import WORKLOADS

Obj = dict[str, Any]
FOLDER = Path(__file__).parent / "faulted_jobs"
SIZES = {"80": (80, 24), "120": (120, 40), "200": (200, 60)}
PYTORCH = next(each for each in WORKLOADS if each.key == "pytorch_job")
FAULTS = ("evicted", "out-of-memory", "node-preempted", "unschedulable", "queue-full")
_TIME = re.compile(r'"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)Z"')


class ClusterJobs(ControlledJobs):
    """Jobs of a cluster in memory."""

    def owns(self, name: str) -> bool:
        return name.startswith("clusters/")


def recorded(fault: str) -> Obj:
    """What a cluster had after a fault, as if its job had been made twenty minutes before the pictures."""
    text = (FOLDER / f"{fault}.json").read_text()
    made = datetime.fromisoformat(json.loads(text)["job"]["metadata"]["creationTimestamp"])
    shift = NOON - timedelta(minutes=20) - made

    def moved(found: re.Match[str]) -> str:
        time = datetime.fromisoformat(f"{found[1]}+00:00") + shift
        return f'"{time:%Y-%m-%dT%H:%M:%SZ}"'

    return dict(json.loads(_TIME.sub(moved, text)))


def read(fault: str) -> Job:
    """The job as the console reads it that comes after the fault."""
    found = recorded(fault)
    obj, events = found["job"], index_of(found["events"])
    pods = [pod for each in found["pods"] if (pod := reduced(each)) is not None]
    place = obj["metadata"]["namespace"], obj["kind"], obj["metadata"]["name"]
    waiting = waits_for(obj, pods, found["workload"], None, wait_events(events, place, pods))
    shares = node_shares(pods, {pod.node: A100 for pod in pods})
    known = Found(pods=pods, waiting=waiting, events=events, workload=found["workload"], nodes=shares)
    return job_of(obj, PYTORCH, "gke", "gke_p_us-central1_train", known)


def backend_with(*jobs: Job) -> JobBackend:
    backend = JobBackend(jobs[0], local=False)
    for each in jobs:
        backend.stored[each.name] = each
    backend.info = replace(backend.info, regions=("training",))
    backend.use(jobs={PYTORCH.key: ClusterJobs(backend)})
    return backend


def console_on(backend: JobBackend, state_dir: Path, theme: str = "vxtui-dark") -> VxtuiApp:
    here = Context("gke", kind="kubernetes", namespaces=["training"])
    return console(backend, state_dir, context=here, settings=Settings(theme=theme))


A100 = NodeMachine("a2-highgpu-8g", "us-central1", "NVIDIA_TESLA_A100", 8)
LOOKS = [
    *((name, size, "overview", "vxtui-dark") for name in FAULTS for size in SIZES),
    ("unschedulable", "200", "overview", "vxtui-light"),
    ("node-preempted", "80", "replicas", "vxtui-dark"),
    ("out-of-memory", "120", "replicas", "vxtui-light"),
    ("evicted", "200", "replicas", "vxtui-dark"),
]


@pytest.mark.parametrize("look", LOOKS, ids=["-".join(look) for look in LOOKS])
def test_why_a_job_does_not_run(look: tuple[str, str, str, str], tmp_path: Path, snap_compare: Any) -> None:
    name, size, tab, theme = look
    backend = backend_with(read(name))
    backend.say(line(30, "step 12/400 loss 3.1", "worker-0"))
    app = console_on(backend, tmp_path, theme)
    ready = partial(ready_screen, app=app, backend=backend, keys=TABS[tab], fail=None)
    assert snap_compare(app, terminal_size=SIZES[size], run_before=ready)


@pytest.mark.parametrize("size", SIZES)
def test_the_faults_in_the_list(size: str, tmp_path: Path, snap_compare: Any) -> None:
    jobs = []
    for number, fault in enumerate(FAULTS):
        found = read(fault)
        jobs.append(replace(found, name=f"{found.name}-{number}", id=fault, display_name=fault))
    app = console_on(backend_with(*jobs), tmp_path)

    async def listed(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(app.store.jobs) == len(jobs), "the list")
        await pilot.pause()

    assert snap_compare(app, terminal_size=SIZES[size], run_before=listed)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_picture_has_a_reason_and_a_next_step(fault: str) -> None:
    """What the pictures show is there at all: a picture alone would be accepted without it."""
    found = read(fault)
    diagnosis = diagnosis_of(found)
    assert found.reason or found.waiting or found.error
    assert diagnosis is not None and diagnosis.fix and diagnosis.short
