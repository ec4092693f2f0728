"""What several tests share with test_cluster_job_snapshots."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.ui.double import NOON
from tests.ui.job_snapshots_support import TABS, _utc, ready_screen  # noqa: F401 - times of the pictures
from tui.domain.core.job import Job
from tui.domain.kubernetes.failures.events import index_of
from tui.domain.kubernetes.jobs import RelatedObjects, job_of
from tui.domain.kubernetes.nodes.machine import NodeMachine
from tui.domain.kubernetes.nodes.shares import node_shares
from tui.domain.kubernetes.pods import reduced
from tui.domain.kubernetes.waiting import wait_events, waits_for
from tui.domain.kubernetes.workloads import WORKLOADS

Obj = dict[str, Any]
FOLDER = Path(__file__).parent / "faulted_jobs"
PYTORCH = next(each for each in WORKLOADS if each.key == "pytorch_job")
FAULTS = ("evicted", "out-of-memory", "node-preempted", "unschedulable", "queue-full")
_TIME = re.compile(r'"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)Z"')


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
    workload = found["workload"]
    known = RelatedObjects(pods=pods, waiting=waiting, events=events, workload=workload, nodes=shares)
    return job_of(obj, PYTORCH, "gke", "gke_p_us-central1_train", known)


A100 = NodeMachine("a2-highgpu-8g", "us-central1", "NVIDIA_TESLA_A100", 8)
