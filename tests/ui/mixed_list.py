"""Both emulators of a home with hundreds of jobs each: of every kind one that runs and one that has ended, in
the cluster also one that is suspended; the others have ended.

Custom jobs and objects that have ended are written into the files of the servers before they start; the
others are created through the API.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from google.cloud.aiplatform_v1.types import job_state

from tests.shell import Home, home
from tests.waiting import until
from tests.wire.kubernetes_operators.manifests import container, job, replica, template
from tests.wire.pipelines import ROOT, leaf, spec, task
from tui.backends.interface import Backend, ContextInfo, LaunchRequest
from tui.backends.kubernetes.backend import KubernetesBackend
from tui.backends.kubernetes.login.local import LocalCluster
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.domain.core.states import JobState
from tui.emulator.client import stop_server
from tui.emulator.database import Database, created_us
from tui.emulator.interfaces import CustomJobPb, JobRecord
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.paths import KubernetesState
from tui.emulator.kubernetes.times import rfc3339
from tui.emulator.paths import StateDir
from tui.emulator.vertex.job_table import Control

Obj = dict[str, Any]
EACH = 500
REGION, NAMESPACE = "us-central1", "default"
CLUSTER_KINDS = {
    "pytorch_job": "torch", "tf_job": "tf", "mpi_job": "mpi", "train_job": "train", "job_set": "set",
    "batch_job": "batch",
}  # fmt: skip
"""Kinds of the cluster, and the first part of the names of their jobs."""
VERTEX_KINDS = {
    "custom_job": "custom", "training_pipeline": "training", "tuning_job": "tuning",
    "pipeline_job": "pipeline",
}  # fmt: skip
RUNS, ENDED, HELD = "runs", "ended", "held"
"""The last part of the name of the one job in this state."""
STEP = {
    "severity": "INFO", "message": "step 5",
    "vxtui": {"kind": "step", "step": 5, "total_steps": 10, "loss": 2.5},
}  # fmt: skip
CODE = (
    "import sys, time\n"
    f"print({json.dumps(json.dumps(STEP))}, flush=True)\n"
    "print('a long line ' * 30, flush=True)\n"
    "print('Error: nothing is wrong', file=sys.stderr, flush=True)\n"
)
FOREVER = CODE + "time.sleep(3600)\n"
_ENDS = {"train_job": "Complete", "job_set": "Completed", "batch_job": "Complete"}
"""The condition of a job that has succeeded, where it is not the Training Operator's."""


def vertex_state(place: Home) -> StateDir:
    return StateDir(place.state)


def cluster_state(place: Home) -> KubernetesState:
    return KubernetesState(place.state / "kubernetes")


@contextmanager
def mixed_list(each: int = EACH) -> Iterator[Home]:
    """A home with both emulators running; they and their jobs end with it."""
    with home() as place:
        try:
            fill(place, each)
            yield place
        finally:
            stop_server(cluster_state(place))


def fill(place: Home, each: int = EACH) -> None:
    """Start both emulators of a home with so many jobs each."""
    fixed = len(VERTEX_KINDS) * 2 + 3
    vertex_state(place).prepare()
    cluster_state(place).prepare()
    asyncio.run(_store_custom_jobs(vertex_state(place), each - fixed))
    _store_objects(cluster_state(place), each)
    asyncio.run(_launch(place))


def _name(number: int) -> str:
    """A name as a schedule or a sweep gives: what tells it from others is its end."""
    return f"nightly-pretraining-of-the-base-model-{number:04}"


# Vertex AI


async def _store_custom_jobs(state: StateDir, count: int) -> None:
    database = Database(state.database)
    await database.open()
    began = int(time.time()) - 1_000_000
    rows = []
    for number in range(count):
        record = JobRecord("local", REGION, str(10**18 + number))
        pb = CustomJobPb(name=record.name, display_name=_name(number))
        pb.state = job_state.JobState.JOB_STATE_SUCCEEDED
        for field, after in (
            ("create_time", 0),
            ("start_time", 60),
            ("end_time", 3600),
            ("update_time", 3601),
        ):
            getattr(pb, field).seconds = began + number * 600 + after
        pool = pb.job_spec.worker_pool_specs.add(replica_count=2)
        pool.machine_spec.machine_type = "n1-standard-4"
        pool.container_spec.image_uri = "us-docker.pkg.dev/research/train/arr-coc:1.4.2"
        values = (int(record.id), record.project, record.location, created_us(pb), pb.state)
        rows.append((*values, pb.SerializeToString(), Control().attempt, 0, 0, 0, 0, 0))
    await database.write(lambda db: db.executemany(f"INSERT INTO jobs VALUES ({','.join('?' * 12)})", rows))
    await database.close()


def _pool(code: str) -> Obj:
    return {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": 1,
        "containerSpec": {"imageUri": "python:3.11", "command": [sys.executable, "-c", code]},
    }


def vertex_job(kind: str, name: str, code: str) -> Obj:
    """The resource of one job of a kind, whose replicas run `code`."""
    pools = {"workerPoolSpecs": [_pool(code)]}
    match kind:
        case "custom_job":
            return {"displayName": name, "jobSpec": pools}
        case "training_pipeline":
            schema = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"
            return {"displayName": name, "trainingTaskDefinition": schema, "trainingTaskInputs": pools}
        case "tuning_job":
            study = {
                "metrics": [{"metricId": "score", "goal": "MAXIMIZE"}],
                "parameters": [{"parameterId": "x", "discreteValueSpec": {"values": [1, 2]}}],
                "algorithm": "GRID_SEARCH",
            }
            counts = {"maxTrialCount": 1, "parallelTrialCount": 1}
            return {"displayName": name, "trialJobSpec": pools, "studySpec": study, **counts}
    executors = {
        "run": {"container": {"image": "python:3.11", "command": [sys.executable, "-c"], "args": [code]}}
    }
    made = spec({"train": task("run")}, {"run": leaf("run")}, executors)
    return {"displayName": name, "pipelineSpec": made, "runtimeConfig": {"gcsOutputDirectory": ROOT}}


# The cluster


def cluster_job(kind: str, name: str, code: str = FOREVER) -> Obj:
    """The object of one job of a kind, whose pods run `code`."""
    command = (sys.executable, "-c", code)
    match kind:
        case "pytorch_job":
            replicas = {"Master": replica("pytorch", *command), "Worker": replica("pytorch", *command)}
            return job("kubeflow.org/v1", "PyTorchJob", name, {"pytorchReplicaSpecs": replicas})
        case "tf_job":
            replicas = {"Chief": replica("tensorflow", *command), "Worker": replica("tensorflow", *command)}
            return job("kubeflow.org/v1", "TFJob", name, {"tfReplicaSpecs": replicas})
        case "mpi_job":
            mpi = {"Launcher": replica("mpi", *command), "Worker": replica("mpi", "/usr/sbin/sshd", "-De")}
            return job("kubeflow.org/v2beta1", "MPIJob", name, {"mpiReplicaSpecs": mpi})
        case "train_job":
            trainer = {"numNodes": 1, "image": "python:3.11", "command": list(command)}
            runs = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer}
            return job("trainer.kubeflow.org/v1alpha1", "TrainJob", name, runs)
        case "job_set":
            parts = [{"name": "node", "template": {"spec": _pods(command)}}]
            return job("jobset.x-k8s.io/v1alpha2", "JobSet", name, {"replicatedJobs": parts})
    return job("batch/v1", "Job", name, _pods(command))


def _pods(command: tuple[str, ...]) -> Obj:
    one = template(container("main", *command), restartPolicy="Never")
    return {"parallelism": 1, "completions": 1, "template": one}


def suspended(of: Obj) -> Obj:
    """The same job without pods until it is resumed."""
    if str(of["apiVersion"]).startswith("kubeflow.org"):
        of["spec"].setdefault("runPolicy", {})["suspend"] = True
    else:
        of["spec"]["suspend"] = True
    return of


def _store_objects(state: KubernetesState, each: int) -> None:
    """Jobs of every kind that have ended, in turns."""
    kinds = list(CLUSTER_KINDS)
    count = each - len(kinds) * 2
    ago = datetime.now(UTC) - timedelta(days=9)
    objects = Objects(state.database, now=lambda: ago)
    objects.open()
    for number in range(count):
        ago += timedelta(minutes=10)
        kind = kinds[number % len(kinds)]
        last = number >= count - len(kinds)
        obj = cluster_job(kind, f"{CLUSTER_KINDS[kind]}-{ENDED}" if last else _name(number), CODE)
        obj["metadata"]["namespace"] = NAMESPACE
        began, ended = rfc3339(ago), rfc3339(ago + timedelta(hours=1))
        condition = {
            "type": _ENDS.get(kind, "Succeeded"), "status": "True", "reason": "JobSucceeded", "message": "",
            "lastTransitionTime": ended, "lastUpdateTime": ended,
        }  # fmt: skip
        obj["status"] = {"conditions": [condition], "startTime": began, "completionTime": ended}
        group, _, version = obj["apiVersion"].rpartition("/")
        objects.create(objects.resource(obj["kind"], group, version), obj)
    objects.close()


# What runs


async def _launch(place: Home) -> None:
    info = ContextInfo("local", "local", (REGION,), str(vertex_state(place).socket), local=True)
    there = ContextInfo("local-k8s", "", (NAMESPACE,), local=True, family="kubernetes", watched=True)
    async with AsyncExitStack() as stack:
        vertex = await stack.enter_async_context(VertexBackend(info, LocalEndpoint(vertex_state(place))))
        cluster = await stack.enter_async_context(
            KubernetesBackend(there, LocalCluster(cluster_state(place)))
        )
        waiting = []
        for kind, first in VERTEX_KINDS.items():
            for last, code, state in ((ENDED, "pass", None), (RUNS, FOREVER, JobState.RUNNING)):
                body = vertex_job(kind, f"{first}-{last}", code)
                made = await vertex.jobs[kind].create(LaunchRequest(REGION, body))
                waiting.append(_reach(vertex, kind, made.name, state))
        for kind, first in CLUSTER_KINDS.items():
            held = suspended(cluster_job(kind, f"{first}-{HELD}"))
            for body, state in (
                (held, JobState.SUSPENDED),
                (cluster_job(kind, f"{first}-{RUNS}"), JobState.RUNNING),
            ):
                made = await cluster.jobs[kind].create(LaunchRequest(NAMESPACE, body))
                waiting.append(_reach(cluster, kind, made.name, state))
        await asyncio.gather(*waiting)


async def _reach(backend: Backend, kind: str, name: str, state: JobState | None) -> None:
    """Return when the job is in this state, by default when it has ended."""

    async def there() -> bool:
        found = (await backend.jobs[kind].get(name)).state
        return found is state or (state is None and found.terminal)

    await until(there, f"{name} to be {state or 'at its end'}", every=0.2)
