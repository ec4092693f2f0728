"""How a cluster's job looks that waits, or lost a pod: from the objects of a cluster to the screen.

`faulted_jobs` holds what a cluster of this machine had after each fault, as `python -m
tests.wire.kubernetes_node.faulted_jobs tests/ui/faulted_jobs` writes it: the job was read first after that.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.cluster_job_snapshots_support import A100, FAULTS, PYTORCH, read
from tests.ui.double import NOON, console
from tests.ui.job_double import ControlledJobs, JobBackend, line
from tests.ui.job_snapshots_support import TABS, _utc, ready_screen  # noqa: F401 - times of the pictures
from tests.ui.jobs_screen_support import until
from tests.unit.kubernetes.jobs_support import job, pod, pytorch
from tui.app import VxtuiApp
from tui.config.settings import Context, Settings
from tui.domain.core.job import Job
from tui.domain.jobs.diagnosis import diagnosis_of
from tui.domain.kubernetes.nodes.shares import node_shares

SIZES = {"80": (80, 24), "120": (120, 40), "200": (200, 60)}


class ClusterJobs(ControlledJobs):
    """Jobs of a cluster in memory."""

    def owns(self, name: str) -> bool:
        return name.startswith("clusters/")


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


@pytest.mark.parametrize("tab", ["overview", "list"])
def test_a_restart_moves_no_start(tab: str, tmp_path: Path, snap_compare: Any) -> None:
    """Start, wait, duration and cost are those of the job; the restart of its pods has a time of its own."""
    began, again = (f"{NOON - ago:%Y-%m-%dT%H:%M:%SZ}" for ago in (timedelta(days=3), timedelta(minutes=5)))
    obj = pytorch(("Created", began), ("Running", again), startTime=began)
    obj["metadata"] |= {"creationTimestamp": began, "namespace": "training"}
    running = {"created": again, "state": {"running": {"startedAt": again}}}
    pods = [pod("bert-master-0", 0, kind="master", **running)]
    pods += [pod(f"bert-worker-{n}", n, **running) for n in range(3)]
    shares = node_shares(pods, {each.node: A100 for each in pods})
    backend = backend_with(job(obj, pods=pods, nodes=shares))
    app = console_on(backend, tmp_path)

    async def listed(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.store.jobs, "the list")
        await pilot.pause()

    overview = partial(ready_screen, app=app, backend=backend, keys=TABS["overview"], fail=None)
    assert snap_compare(app, terminal_size=SIZES["120"], run_before=listed if tab == "list" else overview)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_picture_has_a_reason_and_a_next_step(fault: str) -> None:
    """What the pictures show is there at all: a picture alone would be accepted without it."""
    found = read(fault)
    diagnosis = diagnosis_of(found)
    assert found.reason or found.waiting or found.error
    assert diagnosis is not None and diagnosis.fix and diagnosis.short
