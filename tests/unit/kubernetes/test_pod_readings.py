"""What pods, events and conditions say: names of replicas, the service's lines, samples, ends of shells."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.ui.double import NOON, job
from tui.backends.interface import LogQuery
from tui.backends.kubernetes.job_pods import ReplicaNames
from tui.backends.kubernetes.logs.lines.selection import Selection
from tui.backends.kubernetes.logs.pods import belongs, identity, read_pod, replica_in
from tui.backends.kubernetes.logs.service_entries import condition_entries, event_entry, pod_entries
from tui.backends.kubernetes.metrics.samples import Sample, SampleStore
from tui.backends.kubernetes.shells import end_of
from tui.backends.shells import ShellEnd
from tui.domain.core.log_entry import SERVICE, LogEntry, Severity
from tui.domain.core.metric import CPU
from tui.domain.core.replica import Replica, ReplicaGroup

OWNER = {"kind": "Job", "name": "x", "uid": "u", "controller": True}


def pod(name: str, phase: str = "Running", owner: dict[str, Any] = OWNER, **labels: str) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "n",
        "uid": f"uid-{name}",
        "labels": labels,
        "ownerReferences": [owner],
    }
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("name", "replica"),
    [
        ("train-worker-3", "worker-3"),
        ("train-launcher-x7k2p", "launcher-0"),
        ("train-launcher", "launcher-0"),
        ("train-node-0-3-x7k2p", "node-3"),
        ("train-2-worker-3", ""),
        ("train-workers-3", ""),
        ("other-worker-3", ""),
    ],
)
def test_replicas_in_the_names_of_pods(name: str, replica: str) -> None:
    assert replica_in(name, "train", ["worker", "launcher", "node"]) == replica


def test_pods_are_replicas_by_their_labels_or_in_turn() -> None:
    groups = (ReplicaGroup("launcher", replicas=1), ReplicaGroup("worker", replicas=2))
    known = replace(job(1, "train"), groups=groups, replicas=())
    names = ReplicaNames(known, {})
    kind = "training.kubeflow.org/replica-type"
    worker = pod("a", **{kind: "worker", "training.kubeflow.org/replica-index": "1"})
    assert names(worker) == "worker-1"
    # A launcher that failed gives its place to the next one.
    first, second = pod("l-1", "Failed", **{kind: "launcher"}), pod("l-2", **{kind: "launcher"})
    assert [names(first), names(second), names(first)] == ["launcher-0"] * 3
    # The pods of a Job without indices.
    names = ReplicaNames(replace(known, groups=(ReplicaGroup("worker", replicas=2),)), {})
    assert [names(pod(name)) for name in ("p", "q", "p")] == ["worker-0", "worker-1", "worker-0"]
    # Of a JobSet each Job may have several pods.
    jobs = {"name": "node", "template": {"spec": {"parallelism": 4}}}
    names = ReplicaNames(known, {"spec": {"replicatedJobs": [jobs]}})
    labels = {
        "jobset.sigs.k8s.io/replicatedjob-name": "node", "jobset.sigs.k8s.io/job-index": "2",
        "batch.kubernetes.io/job-completion-index": "3",
    }  # fmt: skip
    assert names(pod("s", **labels)) == "node-11"
    shown = Replica("worker-7", "worker", 7, "worker", pod="z")
    assert ReplicaNames(replace(known, replicas=(shown,)), {})(pod("z")) == "worker-7"
    assert not ReplicaNames(known, {})({"metadata": {"name": "alone"}})


def test_the_pods_of_an_earlier_job_of_the_name_are_not_the_jobs() -> None:
    made = {"name": "x", "namespace": "n", "uid": "new", "creationTimestamp": "2026-11-25T10:00:00Z"}
    here = identity("clusters/c/namespaces/n/pytorchjobs/x", {"metadata": made}, "l=x")
    own = {"kind": "PyTorchJob", "name": "x", "uid": "new"}
    assert belongs(pod("a", owner=own), here)
    assert not belongs(pod("a", owner={**own, "uid": "old"}), here)
    # Of a TrainJob a Job of a JobSet owns it.
    between = pod("a", owner={"kind": "Job", "name": "x-node-0", "uid": "j"})
    between["metadata"]["creationTimestamp"] = "2026-11-25T10:00:00Z"
    assert belongs(between, here)
    between["metadata"]["creationTimestamp"] = "2026-11-25T09:59:59Z"
    assert not belongs(between, here)


def test_the_container_that_trains() -> None:
    def main(*names: str, **annotations: str) -> str:
        found = pod("p")
        found["spec"]["containers"] = [{"name": name} for name in names]
        found["metadata"]["annotations"] = annotations
        return read_pod(found, lambda _: "worker-0").main

    assert main("istio-proxy", "pytorch") == "pytorch"
    assert main("a", "b") == "a"
    assert main("a", "b", **{"kubectl.kubernetes.io/default-container": "b"}) == "b"


def event(**fields: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "train-worker-0.187b51c85a8a4000", "uid": "e"},
        "involvedObject": {"kind": "Pod", "name": "train-worker-0"},
        "reason": "FailedScheduling", "message": "0/5 nodes are\n available", "type": "Warning",
        "lastTimestamp": "2026-11-25T10:00:00Z", **fields,
    }  # fmt: skip


def test_events_are_lines_of_the_service_that_count() -> None:
    found = event_entry(event(), "train", "worker-0")
    assert found is not None
    assert (found.replica, found.severity) == (SERVICE, Severity.WARNING)
    assert found.message == "worker-0: FailedScheduling: 0/5 nodes are available"
    again = event_entry(event(count=3, lastTimestamp="2026-11-25T10:05:00Z"), "train")
    assert again is not None
    assert again.message == "Pod train-worker-0: FailedScheduling: 0/5 nodes are available (3 times)"
    assert again.key > found.key
    newer = event(lastTimestamp=None, eventTime="2026-11-25T10:00:00.123456Z")
    told = event_entry(newer, "train")
    assert told is not None
    assert told.timestamp == datetime(2026, 11, 25, 10, 0, 0, 123456, UTC)
    assert event_entry(event(lastTimestamp=None), "train") is None


def test_a_line_of_the_service_stands_after_what_was_written_within_its_second() -> None:
    at = datetime(2026, 11, 25, 10, 0, 5, tzinfo=UTC)
    written = LogEntry(at + timedelta(milliseconds=700), "0", "master-0", Severity.INFO, "of the first run")
    when = "2026-11-25T10:00:05Z"
    running = {"type": "Running", "status": "True", "lastTransitionTime": when}
    created = {**running, "type": "Created"}
    obj = {"kind": "PyTorchJob", "metadata": {"name": "t"}, "status": {"conditions": [running, created]}}
    # Of an event the name tells the time in ns.
    name = f"t.{int(at.timestamp()) * 10**9 + 800_000_000:x}"
    resumed = event_entry(
        event(metadata={"name": name, "uid": "e"}, reason="Resumed", lastTimestamp=when), "t"
    )
    assert resumed is not None
    assert resumed.timestamp == at + timedelta(milliseconds=800)
    ended = pod("p")
    state = {"terminated": {"finishedAt": when, "exitCode": 0}}
    ended["status"]["containerStatuses"] = [{"name": "c", "state": state}]
    found = [*condition_entries(obj, "t"), *pod_entries(ended, "master-0"), resumed, written]
    said = [entry.message.split(":")[0] for entry in sorted(found, key=lambda entry: entry.key)]
    end = "master-0 (pod p) ended with exit code 0"
    assert said == ["Created", "of the first run", resumed.message.split(":")[0], end, "Running"]


def test_conditions_are_lines_once_they_hold() -> None:
    def condition(kind: str, status: str, reason: str = "R") -> dict[str, str]:
        at = "2026-11-25T10:00:00Z"
        return {"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": at}

    conditions = [condition("Created", "True"), condition("Running", "False"), condition("Failed", "True")]
    obj = {"kind": "PyTorchJob", "metadata": {"name": "t", "uid": "u"}, "status": {"conditions": conditions}}
    found = list(condition_entries(obj, "t"))
    assert [(each.message, each.severity) for each in found] == [
        ("Created (R): m", Severity.INFO), ("Failed (R): m", Severity.ERROR),
    ]  # fmt: skip
    assert found[0].key < found[1].key
    waits = {
        **obj,
        "kind": "Workload",
        "status": {"conditions": [condition("QuotaReserved", "False", "Pending")]},
    }
    assert [each.message for each in condition_entries(waits, "t")] == [
        "Workload t: not QuotaReserved (Pending): m"
    ]


def test_the_ends_of_containers_and_pods_are_lines() -> None:
    obj = pod("train-worker-0", "Failed")
    killed = {
        "exitCode": 137,
        "reason": "OOMKilled",
        "finishedAt": "2026-11-25T10:00:00Z",
        "containerID": "1",
    }
    obj["status"] |= {
        "reason": "Evicted", "message": "low on memory",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-25T10:00:01Z"}],
        "containerStatuses": [{"name": "c", "state": {"terminated": killed}}],
    }  # fmt: skip
    assert [(each.message, each.severity) for each in pod_entries(obj, "worker-0")] == [
        ("worker-0 (pod train-worker-0) ended with exit code 137, OOMKilled", Severity.ERROR),
        ("worker-0 (pod train-worker-0) failed: Evicted: low on memory", Severity.ERROR),
    ]


def test_a_query_selects_by_what_the_node_received_too() -> None:
    behind = LogEntry(NOON - timedelta(hours=2), "1", "worker-0", Severity.INFO, "a line")
    since = Selection(LogQuery("j", since=NOON))
    assert not since.has(behind)
    assert since.has(behind, int(NOON.timestamp()) * 10**9)
    assert Selection(LogQuery("j", text="A LINE")).has(behind)
    assert not Selection(LogQuery("j", replicas=("worker-1",))).service


def test_samples_are_kept_by_time_until_the_job_is_another_one() -> None:
    store, mine = SampleStore(), job(1, "train")
    times = [NOON + timedelta(seconds=n) for n in (2, 0, 1, 1)]
    store.add(mine, [Sample(CPU, "worker-0", at, 0.5) for at in times])
    assert [at for at, _ in store.series(mine, [CPU], None)[0].points] == sorted(set(times))
    assert len(store.series(mine, [CPU], times[2])[0].points) == 2
    assert store.series(replace(mine, create_time=NOON), [CPU], None) == []


@pytest.mark.parametrize(
    ("status", "end"),
    [
        ({"status": "Success"}, ShellEnd(0)),
        (
            {"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "7"}]}},
            ShellEnd(7),
        ),
        ({"status": "Failure", "message": "the container is gone"}, ShellEnd(None, "the container is gone")),
        (
            {"message": 'exec: "sh": executable file not found in $PATH'},
            ShellEnd(None, 'exec: "sh": executable file not found in $PATH. Start one.'),
        ),
    ],
)
def test_how_a_shell_ended(status: dict[str, Any], end: ShellEnd) -> None:
    assert end_of(json.dumps(status).encode(), "Start one.") == end


def test_a_last_frame_that_is_no_json_is_a_reason() -> None:
    assert end_of(b"broken") == ShellEnd(None, "broken")
