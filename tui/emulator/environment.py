"""A replica's environment, as Vertex sets it (vertex facts 3), on one machine.

What differs here and why: every host is 127.0.0.1 with a port of its own; gs:// and /gcs paths lie below
`$VXTUI_GCS_ROOT`; gloo is bound to the loopback interface; the threads are shared out among the replicas.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from tui.domain import catalog
from tui.emulator.config import EmulatorConfig
from tui.emulator.images import CannotRun, Images
from tui.emulator.interfaces import CustomJobPb, JobRecord
from tui.emulator.paths import AttemptDir, StateDir
from tui.emulator.plan import AttemptPlan, ReplicaPlan

__all__ = ["CannotRun", "build_plan", "expand", "ports_needed"]

_ROOT = Path(__file__).resolve().parents[2]
_TF_ROLE = ("chief", "worker", "ps", "evaluator")
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_GCS = re.compile(r"/gcs/([a-z0-9][a-z0-9._-]*)")


@dataclass(frozen=True, slots=True)
class Place:
    """One replica's position and its host."""

    pool: int
    index: int
    host: str

    @property
    def id(self) -> str:
        return f"workerpool{self.pool}-{self.index}"


def _count(job: CustomJobPb) -> int:
    return sum(int(pool.replica_count) for pool in job.job_spec.worker_pool_specs)


def ports_needed(job: CustomJobPb) -> int:
    """One for each replica, and one where the primary waits for the others."""
    return _count(job) + 1


def build_plan(  # noqa: PLR0917 - the order of `job_run.Planner`
    job: CustomJobPb,
    record: JobRecord,
    attempt: int,
    attempt_dir: AttemptDir,
    state: StateDir,
    config: EmulatorConfig,
    ports: Sequence[int],
) -> AttemptPlan:
    """What to run for one attempt.

    Raises:
        CannotRun: when an image has no meaning on this machine.
    """
    places = _places(job, ports)
    images = Images.of(config.images)
    common = _common(job, record, attempt_dir, state, config, len(places))
    replicas = []
    for place in places:
        pool = job.job_spec.worker_pool_specs[place.pool]
        env = {**common, **_cluster(job, places, place, ports[-1])}
        workdir = attempt_dir.workdir(place.id)
        env |= {"HOSTNAME": f"{record.id}-{place.id}", "HOME": str(workdir), "TMPDIR": str(workdir)}
        devices = _devices(pool, place, places, job)
        env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, devices))
        task = pool.container_spec if pool.HasField("container_spec") else pool.python_package_spec
        for variable in task.env:
            env[variable.name] = _local(expand(variable.value, env), state)
        argv = tuple(_local(expand(a, env), state) for a in _argv(pool, images, state))
        replicas.append(
            ReplicaPlan(place.id, argv, env, str(workdir), primary=place.pool == 0, accelerators=devices)
        )
    return AttemptPlan(
        record.id,
        attempt,
        tuple(replicas),
        grace=config.grace_seconds,
        stop_grace=config.cancel_grace_seconds,
        sample_period=config.sample_period,
        restart_job_on_worker_restart=job.job_spec.scheduling.restart_job_on_worker_restart,
    )


def _places(job: CustomJobPb, ports: Sequence[int]) -> list[Place]:
    found: list[Place] = []
    for position, pool in enumerate(job.job_spec.worker_pool_specs):
        for index in range(int(pool.replica_count)):
            found.append(Place(position, index, f"127.0.0.1:{ports[len(found)]}"))
    return found


def _argv(pool: Any, images: Images, state: StateDir) -> tuple[str, ...]:
    if pool.HasField("container_spec"):
        spec = pool.container_spec
        return images.argv(spec.image_uri, list(spec.command), list(spec.args))
    spec = pool.python_package_spec
    packages = [str(state.buckets / uri.removeprefix("gs://")) for uri in spec.package_uris]
    run = [sys.executable, "-m", "tui.emulator.package_bootstrap", *packages, "--", spec.python_module]
    return (*run, *spec.args)


def _common(  # noqa: PLR0917
    job: CustomJobPb,
    record: JobRecord,
    attempt_dir: AttemptDir,
    state: StateDir,
    config: EmulatorConfig,
    replicas: int,
) -> dict[str, str]:
    """Variables that every replica has. Nothing of the server's own environment but what names programs."""
    threads = max(1, (os.cpu_count() or 1) // max(1, replicas))
    env = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(_ROOT),
        "OMP_NUM_THREADS": str(threads),
        "GLOO_SOCKET_IFNAME": "lo",
        "VXTUI_GCS_ROOT": str(state.buckets),
        "VXTUI_ATTEMPT": str(attempt_dir.root),
        "CLOUD_ML_PROJECT_ID": config.project_number,
        "CLOUD_ML_JOB_ID": record.id,
        "CLOUD_ML_REGION": record.location,
    }
    for name in ("TZ", "LD_LIBRARY_PATH", "STORAGE_EMULATOR_HOST"):
        if name in os.environ:
            env[name] = os.environ[name]
    base = job.job_spec.base_output_directory.output_uri_prefix
    if base:
        stem = base.rstrip("/")
        env["AIP_MODEL_DIR"] = f"{stem}/model/"
        env["AIP_CHECKPOINT_DIR"] = f"{stem}/checkpoints/"
        env["AIP_TENSORBOARD_LOG_DIR"] = f"{stem}/logs/"
    if job.job_spec.tensorboard:
        env["AIP_TENSORBOARD_RESOURCE_NAME"] = job.job_spec.tensorboard
    return env


def _cluster(job: CustomJobPb, places: Sequence[Place], me: Place, port: int) -> dict[str, str]:
    """CLUSTER_SPEC always; TF_CONFIG and the PyTorch variables only for several replicas (facts 3.1-3.3)."""
    hosts: dict[str, list[str]] = {}
    for place in places:
        hosts.setdefault(f"workerpool{place.pool}", []).append(place.host)
    spec = json_format.MessageToDict(job.job_spec)
    cluster = {
        "cluster": hosts,
        "environment": "cloud",
        "task": {"type": f"workerpool{me.pool}", "index": me.index},
        "job": json.dumps(spec),
    }
    env = {"CLUSTER_SPEC": json.dumps(cluster)}
    if len(places) == 1:
        return env
    roles: dict[str, list[str]] = {}
    for place in places:
        # Reducers are not parameter servers, and an evaluator is never part of the cluster.
        if place.pool != 3 and not _reduces(job, place.pool):
            roles.setdefault(_TF_ROLE[place.pool], []).append(place.host)
    task = {"type": _TF_ROLE[me.pool], "index": me.index}
    if not _reduces(job, me.pool):
        env["TF_CONFIG"] = json.dumps({"cluster": roles, "task": task, "environment": "cloud", "job": spec})
    training = [p for p in places if p.pool in {0, 1}]
    if me in training and len(training) > 1:
        env |= {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "RANK": str(training.index(me)),
            "WORLD_SIZE": str(len(training)),
        }
    return env


def _reduces(job: CustomJobPb, pool: int) -> bool:
    return catalog.REDUCTION_SERVER in job.job_spec.worker_pool_specs[pool].container_spec.image_uri


def _devices(pool: Any, me: Place, places: Sequence[Place], job: CustomJobPb) -> tuple[int, ...]:
    """GPU indices for this replica: the machine's, dealt out in order to pools that ask for any."""
    present = len([p for p in Path("/dev").glob("nvidia[0-9]*") if p.name[6:].isdigit()])
    wanted = int(pool.machine_spec.accelerator_count)
    if not present or not wanted:
        return ()
    before = sum(
        int(job.job_spec.worker_pool_specs[p.pool].machine_spec.accelerator_count)
        for p in places[: places.index(me)]
    )
    return tuple(sorted({(before + i) % present for i in range(min(wanted, present))}))


def _local(text: str, state: StateDir) -> str:
    """/gcs/BUCKET paths where they lie on this machine; the bucket is made when it is first named."""

    def place(match: re.Match[str]) -> str:
        bucket = state.buckets / match[1]
        bucket.mkdir(parents=True, exist_ok=True)
        return str(bucket)

    return _GCS.sub(place, text) if "/gcs/" in text else text


def expand(text: str, env: Mapping[str, str]) -> str:
    """`$(NAME)` replaced by its value, an unknown one left as it is, `$$` by `$` (vertex facts 1.9)."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return env.get(match[1], match[0])

    return _REFERENCE.sub(value, text)
