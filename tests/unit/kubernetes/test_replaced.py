"""How pods failed that exist no more, from Events as a cluster writes them: what a new reader finds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.unit.kubernetes.jobs_support import GPU_POD, job, pod, pytorch
from tui.domain.kubernetes.failures.events import EventIndex, index_of
from tui.domain.kubernetes.failures.replaced import OwningJob
from tui.domain.kubernetes.pods import Pod

JOB_UID = "job-1"
START = "2026-11-25T18:00:00Z"
EVICTED = "The node was low on resource: memory. Container pytorch was using 70Gi, request is 64Gi."


def clock(second: float) -> str:
    return (datetime(2026, 11, 25, 18, tzinfo=UTC) + timedelta(seconds=second)).isoformat()


class Events:
    """Events in the order in which they are written."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []

    def add(
        self, about: tuple[str, str, str], reason: str, message: str, second: float, *,
        first: float | None = None, count: int = 1,
    ) -> None:  # fmt: skip
        begun = second if first is None else first
        self.objects.append(
            {
                "metadata": {"namespace": "team", "name": f"e{len(self.objects)}"},
                "involvedObject": dict(zip(("kind", "name", "uid"), about, strict=True)),
                "reason": reason, "message": message, "count": count,
                "firstTimestamp": clock(begun), "lastTimestamp": clock(second),
            }
        )  # fmt: skip

    def pod(self, name: str, uid: str, reason: str, message: str, second: float) -> None:
        self.add(("Pod", name, uid), reason, message, second)

    def placed(self, name: str, uid: str, node: str, second: float) -> None:
        self.pod(name, uid, "Scheduled", f"Successfully assigned team/{name} to {node}", second)

    def job(self, reason: str, message: str, second: float, **more: Any) -> None:
        self.add(("PyTorchJob", "bert", JOB_UID), reason, message, second, **more)

    def node(self, name: str, reason: str, second: float, **more: Any) -> None:
        self.add(("Node", name, name), reason, "", second, **more)

    @property
    def index(self) -> EventIndex:
        return index_of(self.objects)


def operated() -> dict[str, Any]:
    obj = pytorch(("Running", START))
    obj["metadata"]["uid"] = JOB_UID
    obj["metadata"]["creationTimestamp"] = START
    return obj


def present(name: str = "bert-worker-0", uid: str = "new", index: int = 0, created: float = 60) -> Pod:
    return pod(name, index, metadata={"uid": uid, "creationTimestamp": clock(created)})


def read(events: Events, *pods: Pod, obj: dict[str, Any] | None = None) -> Any:
    return job(obj or operated(), pods=pods or [present()], events=events.index)


def worker(found: Any, name: str = "worker-0") -> Any:
    return next(each for each in found.replicas if each.id == name)


def replaced(*, evicted: bool = False) -> Events:
    """Events of a worker that ran from 0 to 50 s on node-1, and was replaced."""
    events = Events()
    events.placed("bert-worker-0", "old", "node-1", 0)
    if evicted:
        events.pod("bert-worker-0", "old", "Evicted", EVICTED, 50)
    events.placed("bert-worker-0", "new", "node-2", 60)
    events.job("SuccessfulCreatePod", "Created pod: bert-worker-0", 60, first=0, count=2)
    return events


def exited(events: Events, code: int, *, count: int = 1) -> Events:
    said = f"Pod: team.bert-worker-0 exited with code {code}"
    events.job("ExitedWithCode", said, 50, count=count)
    return events


def test_an_eviction() -> None:
    found = read(exited(replaced(evicted=True), 143))
    assert found.reason == (
        f"Restarted: worker-0 failed at 18:00:50 UTC: evicted: {EVICTED.rstrip('.')}, exit code 143"
    )
    assert worker(found).restarts == 1
    assert worker(found).reason == "restarted: evicted, exit code 143, at 18:00:50 UTC"
    assert found.diagnosis.short == "evicted worker-0" and "64Gi" not in found.diagnosis.fix
    assert "Worker.template.spec.containers[0].resources.requests.memory" in found.diagnosis.fix


def test_an_eviction_without_an_exit_code() -> None:
    """A node that runs out of memory may not tell how the container ended."""
    found = read(replaced(evicted=True))
    assert worker(found).restarts == 1 and "18:00:50 UTC: evicted" in found.reason


def test_an_operator_that_says_an_exit_code_again_and_again_does_not_restart_more_often() -> None:
    found = read(exited(replaced(), 1, count=4))
    assert worker(found).restarts == 1
    assert worker(found).reason == "restarted: exit code 1, at 18:00:50 UTC"
    assert found.diagnosis.short == "exit 1 worker-0"


def test_a_kernel_that_kills_on_the_node_of_the_pod() -> None:
    events = exited(replaced(), 137)
    assert "SIGKILL" in read(events).reason
    events.node("node-2", "OOMKilling", 50)
    assert "SIGKILL" in read(events).reason, "another node"
    events.node("node-1", "OOMKilling", 49)
    assert "out of memory (OOMKilled), exit code 137" in read(events).reason


def test_an_operator_names_the_reason_of_a_container() -> None:
    events = exited(replaced(), 137)
    said = "Error pod bert-worker-0 container pytorch exitCode: 137 terminated message: "
    events.job("OOMKilled", said, 50)
    found = read(events)
    assert "out of memory (OOMKilled), exit code 137" in found.reason
    assert found.diagnosis.meaning.startswith("The container pytorch of Worker used more memory")


def test_a_node_that_goes_away_near_to_the_end_of_its_pod() -> None:
    events = exited(replaced(), 143)
    events.node("node-1", "Shutdown", 300)
    assert "preempted" not in read(events).reason, "its node went away long after"
    events.node("node-1", "Shutdown", 45)
    found = read(events)
    assert "18:00:50 UTC: node preempted (GKE Spot), exit code 143" in found.reason
    assert found.diagnosis.fix.startswith("The job runs again, from its last checkpoint")


def test_an_eviction_of_long_ago_does_not_explain_a_later_failure() -> None:
    events = replaced(evicted=True)
    events.placed("bert-worker-0", "third", "node-3", 400)
    exits = "Pod: team.bert-worker-0 exited with code 1"
    events.job("ExitedWithCode", exits, 390)
    found = read(events, present(uid="third", created=400))
    assert worker(found).restarts == 2 and "18:06:30 UTC: exit code 1" in found.reason


def test_pods_that_were_taken_away_did_not_fail() -> None:
    """A suspend ends them, or a job of fewer workers; nothing says that they failed."""
    events = replaced()
    events.pod("bert-worker-0", "old", "Killing", "Stopping container pytorch", 20)
    events.node("node-1", "NodeNotReady", 58)
    found = read(events)
    assert (worker(found).restarts, worker(found).reason, found.diagnosis) == (0, "", None)
    assert not found.reason


def test_events_of_another_job_or_of_an_earlier_one_of_this_name_do_not_count() -> None:
    events = Events()
    events.pod("bert-large-worker-0", "x", "Evicted", EVICTED, 50)
    events.pod("bert-worker-1", "before", "Evicted", EVICTED, -50)
    said = "Pod: team.bert-worker-0 exited with code 1"
    events.job("SuccessfulCreatePod", "Created pod: bert-worker-0", 1, count=1)
    another = ("PyTorchJob", "bert", "another")
    events.add(another, "ExitedWithCode", said, 50)
    events.add(another, "SuccessfulCreatePod", "Created pod: bert-worker-0", 50, count=9)
    assert read(events).diagnosis is None


def test_numbers_are_kept_where_the_events_of_the_pods_are_not() -> None:
    """A number that grows keeps its Event; those of pods end after an hour."""
    events = Events()
    events.job("SuccessfulCreatePod", "Created pod: bert-worker-0", 60, first=0, count=4)
    exited(events, 1, count=7)
    found = read(events)
    assert worker(found).restarts == 3 and "18:00:50 UTC: exit code 1" in found.reason


def test_what_was_seen_and_what_events_tell_is_one_failure() -> None:
    state = {
        "terminated": {"exitCode": 143, "reason": "Error", "startedAt": clock(1), "finishedAt": clock(50)}
    }
    seen = pod("bert-worker-0", 0, "Failed", state=state, metadata={"uid": "old"})
    events = exited(replaced(evicted=True), 143, count=2)
    found = job(operated(), pods=[present()], seen=[seen], events=events.index)
    assert worker(found).restarts == 1 and "evicted" in worker(found).reason


def job_set(restarts: int) -> dict[str, Any]:
    inner = {"parallelism": 2, "template": GPU_POD}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "set", "namespace": "team", "creationTimestamp": START},
        "spec": {"replicatedJobs": [{"name": "node", "replicas": 2, "template": {"spec": inner}}]},
        "status": {"restarts": restarts, "replicatedJobsStatus": [{"name": "node", "ready": 2, "active": 2}]},
    }  # fmt: skip


def set_pods() -> list[Pod]:
    found = []
    for place in range(4):
        labels = {
            "jobset.sigs.k8s.io/replicatedjob-name": "node", "jobset.sigs.k8s.io/job-index": str(place // 2),
            "batch.kubernetes.io/job-completion-index": str(place % 2),
        }  # fmt: skip
        metadata = {"uid": f"new{place}", "labels": labels, "creationTimestamp": clock(60)}
        name = f"set-node-{place // 2}-{place % 2}-abcd{place}"
        found.append(pod(name, 0, metadata=metadata))
    return found


def test_a_job_set_counts_its_restarts_and_events_say_whose_pod_was_first() -> None:
    events = Events()
    for place in range(4):
        name = f"set-node-{place // 2}-{place % 2}-zzzz{place}"
        events.placed(name, f"old{place}", "node-1", 0)
        if place != 3:
            events.pod(name, f"old{place}", "Killing", "Stopping container pytorch", 52)
    found = job(job_set(2), pods=set_pods(), events=events.index)
    assert [each.restarts for each in found.replicas] == [2, 2, 2, 2] and found.restarts_note == ""
    assert found.reason == "Restarted: node-3 failed: its exit code is unknown"
    events.node("node-1", "OOMKilling", 50)
    found = job(job_set(2), pods=set_pods(), events=events.index)
    assert found.reason == "Restarted: node-3 failed at 18:00:50 UTC: out of memory (OOMKilled)"
    assert [bool(each.reason) for each in found.replicas] == [False, False, False, True]
    nothing = job(job_set(1), pods=set_pods(), events=Events().index)
    assert nothing.reason.startswith("Restarted once; the cause is unknown by now")


def test_what_the_number_of_restarts_leaves_out_is_said() -> None:
    assert read(replaced()).restarts_note == ""
    assert "may not read Events" in job(operated(), pods=[present()]).restarts_note
    assert "for an hour" in read(Events()).restarts_note, "the Event of its first pod is gone"
    later = Events()
    later.job("SuccessfulCreatePod", "Created pod: bert-worker-0", 8000, first=7500)
    assert "for an hour" in read(later).restarts_note, "what was before that is not known"


def test_names_of_pods() -> None:
    set_ = OwningJob("team", "JobSet", "set", "u", None, {"node": 2, "data-initializer": 1})
    assert set_.replica_of("set-node-1-1-x7k2p") == "node-3"
    assert set_.replica_of("set-data-initializer-0-0-x7k2p") == "data-initializer-0"
    assert set_.replica_of("set-other-0-0-x7k2p") == ""
    batch = OwningJob("team", "Job", "bert", "u", None, {"worker": 1})
    assert (batch.replica_of("bert-3-x7k2p"), batch.replica_of("bert-x7k2p")) == ("worker-3", "worker-0")
    v1 = OwningJob("team", "MPIJob", "bert", "u", None, {"launcher": 1, "worker": 1})
    assert (v1.replica_of("bert-launcher-x7k2p"), v1.replica_of("bert-worker-12")) == (
        "launcher-0",
        "worker-12",
    )


def test_an_index_forgets_what_is_dropped() -> None:
    events = replaced(evicted=True)
    index = events.index
    for number in range(len(events.objects)):
        index.drop(f"team/e{number}")
    assert index.pods("team", "bert-") == [] and index.assigned("node-1") == []
    assert index.about("team", "Pod", "bert-worker-0") == []


def elastic(workers: int) -> dict[str, Any]:
    obj = operated()
    obj["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = workers
    return obj


def scaled_down(to: int, second: float = 100) -> Events:
    """Events of three workers of which the operator has removed the last ones; the first one trains on."""
    events = Events()
    for index in range(3):
        name = f"bert-worker-{index}"
        events.placed(name, f"old{index}", f"node-{index}", 0)
        events.job("SuccessfulCreatePod", f"Created pod: {name}", 0)
        if index >= to:
            events.job("SuccessfulDeletePod", f"Deleted pod: {name}", second)
            events.pod(name, f"old{index}", "Killing", "Stopping container pytorch", second)
            events.job("ExitedWithCode", f"Pod: team.{name} exited with code 203", second + 3)
    return events


def test_workers_that_a_scale_down_removes_did_not_fail() -> None:
    first = present(uid="old0", created=0)
    found = read(scaled_down(1), first, obj=elastic(1))
    assert (found.reason, found.diagnosis) == ("", None)
    assert worker(found).restarts == 0
    restarting = elastic(1)
    restarting["status"]["conditions"] = [
        {"type": "Restarting", "status": "True", "reason": "Restarting", "lastTransitionTime": clock(103),
         "message": "job bert is restarting because Worker replica(s) failed."}
    ]  # fmt: skip
    found = read(scaled_down(1), first, obj=restarting)
    assert found.reason == "Scaled down: worker-1, worker-2 ended"


def test_workers_that_come_again_after_a_scale_down_were_not_restarted() -> None:
    events = scaled_down(1)
    pods = [present(uid="old0", created=0)]
    for index in (1, 2):
        name = f"bert-worker-{index}"
        events.placed(name, f"new{index}", "node-9", 200)
        events.job("SuccessfulCreatePod", f"Created pod: {name}", 200)
        pods.append(present(name, f"new{index}", index, 200))
    found = read(events, *pods, obj=elastic(3))
    assert [(each.restarts, each.reason) for each in found.replicas if each.pod] == [(0, "")] * 3
    assert not found.reason


def test_workers_that_leave_as_others_are_removed_did_not_fail() -> None:
    """Below minReplicas, or with processes that can't change their groups, the rest ends with 203 too."""
    events = scaled_down(2)
    events.job("ExitedWithCode", "Pod: team.bert-worker-0 exited with code 203", 104)
    events.job("SuccessfulDeletePod", "Deleted pod: bert-worker-0", 105)
    events.placed("bert-worker-0", "new", "node-5", 110)
    events.job("SuccessfulCreatePod", "Created pod: bert-worker-0", 110)
    pods = [present(created=110), present("bert-worker-1", "old1", 1, 0)]
    found = read(events, *pods, obj=elastic(2))
    assert (found.reason, found.diagnosis, worker(found).restarts) == ("", None, 0)
    events.job("ExitedWithCode", "Pod: team.bert-worker-1 exited with code 1", 104)
    events.placed("bert-worker-1", "new1", "node-5", 110)
    pods[1] = present("bert-worker-1", "new1", 1, 110)
    assert "worker-1 failed at 18:01:44 UTC: exit code 1" in read(events, *pods, obj=elastic(2)).reason


def test_a_failure_of_a_worker_that_a_later_scale_down_removed_is_not_the_jobs() -> None:
    events = exited(replaced(), 1)
    assert "worker-0 failed" in read(events).reason
    assert not read(events, pod("bert-master-0", 0, kind="master"), obj=elastic(0)).reason


def test_a_pod_that_somebody_deleted() -> None:
    """The operator says that it failed, and deletes nothing itself."""
    events = exited(replaced(), 143)
    events.pod("bert-worker-0", "old", "Killing", "Stopping container pytorch", 47)
    found = read(events)
    assert found.reason == "Restarted: worker-0 was deleted at 18:00:50 UTC, and ended with exit code 143"
    assert worker(found).reason == "restarted: deleted, exit code 143, at 18:00:50 UTC"
    assert found.diagnosis.short == "deleted worker-0" and "while it ran" in found.diagnosis.meaning


def test_an_eviction_that_is_told_after_the_pod_was_seen_to_be_lost() -> None:
    """A console that is open says the same as one that is opened later."""
    lost = {"reason": "Terminated", "message": "Pod was terminated."}
    state = {
        "terminated": {"exitCode": 137, "reason": "Error", "startedAt": clock(1), "finishedAt": clock(50)}
    }
    seen = pod("bert-worker-0", 0, "Failed", state=state, metadata={"uid": "old"}, **lost)
    before = job(operated(), pods=[present()], seen=[seen], events=replaced().index)
    assert "node preempted" in before.reason
    after = job(operated(), pods=[present()], seen=[seen], events=exited(replaced(evicted=True), 137).index)
    assert after.reason == read(exited(replaced(evicted=True), 137)).reason
    assert after.diagnosis == read(exited(replaced(evicted=True), 137)).diagnosis
    assert "evicted" in worker(after).reason


def test_a_pod_that_was_evicted_is_not_called_removed_as_its_operator_deletes_it_in_the_same_second() -> None:
    events = exited(replaced(evicted=True), 203)
    events.pod("bert-worker-0", "old", "Killing", "Stopping container pytorch", 50)
    events.job("SuccessfulDeletePod", "Deleted pod: bert-worker-0", 50)
    found = read(events)
    assert found.reason.startswith("Restarted: worker-0 failed at 18:00:50 UTC: evicted")
    assert worker(found).restarts == 1
    lost = exited(replaced(), 203)
    lost.pod("bert-worker-0", "old", "Killing", "Stopping container pytorch", 50)
    lost.job("SuccessfulDeletePod", "Deleted pod: bert-worker-0", 50)
    lost.node("node-1", "Shutdown", 45)
    assert "node preempted (GKE Spot)" in read(lost).reason
