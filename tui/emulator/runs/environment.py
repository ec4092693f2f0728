"""A replica's plan and environment as on Vertex (docs/facts/vertex.md 3), on one machine.

Differences from Vertex: every host is 127.0.0.1 with a separate port; gs:// and /gcs paths are below
`$VXTUI_GCS_ROOT`; gloo is bound to the loopback interface, because all replicas share this machine; the
replicas share its CPUs and GPUs. Only `STORAGE_EMULATOR_HOST` is passed on from the server's environment, so
that no job sees the user's credentials.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tui.emulator.config import EmulatorConfig
from tui.emulator.interfaces import CustomJobPb, JobRecord, project_number
from tui.emulator.messages import Pb
from tui.emulator.paths import AttemptDir, StateDir
from tui.emulator.runner import host
from tui.emulator.runner.plan import AttemptPlan, ReplicaPlan
from tui.emulator.runner.process_owners import ATTEMPT_VARIABLE, REPLICA_VARIABLE
from tui.emulator.runs import gpus
from tui.emulator.runs.cluster import (
    TRIAL_VARIABLE,
    ReplicaAddress,
    cluster_variables,
    replica_addresses,
)
from tui.emulator.runs.images import CannotRun, ProgramTable
from tui.emulator.runs.local_paths import (
    CHECKOUT,
    STORAGE_HOST,
    SYSTEM_PATH,
    expand,
    make_buckets,
    to_local_paths,
)
from tui.emulator.runs.package_bootstrap import PACKAGES
from tui.emulator.runs.replica_pip import write_wrappers
from tui.emulator.shells.access_uris import PORT_VARIABLE, PRIMARY, dashboard_ports
from tui.emulator.storage.names import InvalidObjectName, file_at

__all__ = ["CannotRun", "build_plan", "expand", "ports_needed"]

API_HOST = "AIPLATFORM_EMULATOR_HOST"
"""Variable with the target of a gRPC channel (without TLS) to the emulator's own API."""
METRIC_FILE = "CLOUD_ML_HP_METRIC_FILE"
"""Variable with the path of the file that cloudml-hypertune writes."""
_METRICS = "hypertune/output.metrics"
_WORKER_RESTARTS = 5
"""Number of restarts of one worker in place (docs/facts/vertex.md 3.8)."""


def ports_needed(job: CustomJobPb) -> int:
    """Return the number of ports: one per replica, MASTER_PORT for rank 0, and one for a dashboard."""
    replicas = sum(int(pool.replica_count) for pool in job.job_spec.worker_pool_specs)
    return replicas + 1 + dashboard_ports(job)


def build_plan(  # noqa: PLR0917
    job: CustomJobPb,
    record: JobRecord,
    attempt: int,
    attempt_dir: AttemptDir,
    state: StateDir,
    config: EmulatorConfig,
    ports: Sequence[int],
) -> AttemptPlan:
    """Build the plan of one attempt and create the buckets that the job names.

    The plan has no `timeout`: the timeout covers the entire job, and the scheduler computes the remaining
    time.

    Raises:
        CannotRun: an image or a package does not exist on this machine.
        OSError: a bucket can't be created.
    """
    pools, scheduling = job.job_spec.worker_pool_specs, job.job_spec.scheduling
    addresses = replica_addresses(job, ports)
    images = ProgramTable.of(config.images)
    counts = [int(pools[p.pool].machine_spec.accelerator_count) for p in addresses]
    devices = gpus.assign(counts)
    common = _job_variables(job, record, attempt_dir, state, config, len(addresses))
    replicas = []
    for address, count, mine in zip(addresses, counts, devices, strict=True):
        workdir = attempt_dir.workdir(address.id)
        env = common | cluster_variables(job, record, addresses, address, ports[len(addresses)])
        env |= _replica_variables(address, record, attempt, workdir, state) | gpus.variables(mine)
        if address.id == PRIMARY and dashboard_ports(job):
            env[PORT_VARIABLE] = str(ports[-1])
        task = _task(pools[address.pool])
        for variable in task.env:
            env[variable.name] = to_local_paths(expand(variable.value, env), state)
        if TRIAL_VARIABLE in env:
            # Vertex reads one file of the container; here each trial needs a separate file.
            env.setdefault(METRIC_FILE, str(workdir / _METRICS))
        argv = [to_local_paths(word, state) for word in _argv(address, pools[address.pool], images, state)]
        replicas.append(
            ReplicaPlan(
                address.id,
                tuple(argv),
                env,
                str(workdir),
                address.pool == 0,
                accelerators=mine,
                simulated=count if config.simulate_accelerators and not mine else 0,
            )
        )
    # "overrides restart_job_on_worker_restart to false" (docs/facts/vertex.md 1.6).
    retries = not scheduling.disable_retries
    return AttemptPlan(
        record.id,
        attempt,
        tuple(replicas),
        grace=config.grace_seconds,
        stop_grace=config.cancel_grace_seconds,
        sample_period=config.sample_period,
        worker_restarts=_WORKER_RESTARTS if retries else 0,
        restart_job_on_worker_restart=retries and scheduling.restart_job_on_worker_restart,
        restart_delay=config.restart_delay_seconds,
    )


def _task(pool: Pb) -> Pb:
    return pool.container_spec if pool.HasField("container_spec") else pool.python_package_spec


def _argv(address: ReplicaAddress, pool: Pb, images: ProgramTable, state: StateDir) -> tuple[str, ...]:
    if pool.HasField("container_spec"):
        spec = pool.container_spec
        return images.argv(spec.image_uri, list(spec.command), list(spec.args))
    spec = pool.python_package_spec
    packages = [_package(uri, address, state) for uri in spec.package_uris]
    bootstrap = (sys.executable, "-m", "tui.emulator.runs.package_bootstrap")
    return (*bootstrap, *packages, "--", spec.python_module, *spec.args)


def _package(uri: str, address: ReplicaAddress, state: StateDir) -> str:
    with contextlib.suppress(InvalidObjectName):
        path = file_at(state.buckets, uri)
        if path.is_file():
            return str(path)
    raise CannotRun(
        f"The Python package {uri} of worker pool {address.pool} does not exist: on this machine gs:// is "
        f"{state.buckets}",
        f"Copy the package to {state.buckets}/{uri.removeprefix('gs://')} and launch again.",
    )


def _job_variables(  # noqa: PLR0917
    job: CustomJobPb,
    record: JobRecord,
    attempt_dir: AttemptDir,
    state: StateDir,
    config: EmulatorConfig,
    replicas: int,
) -> dict[str, str]:
    programs = state.root / "bin"
    write_wrappers(programs)
    env = {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{SYSTEM_PATH}",
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(max(1, host.cpus() // replicas)),
        "GLOO_SOCKET_IFNAME": "lo",
        "VXTUI_GCS_ROOT": str(state.buckets),
        API_HOST: state.target,
        ATTEMPT_VARIABLE: str(attempt_dir.root),
        "CLOUD_ML_PROJECT_ID": project_number(record.project),
        "CLOUD_ML_JOB_ID": record.id,
    }
    buckets = os.environ.get(STORAGE_HOST) or state.bucket_url()
    if buckets:
        env[STORAGE_HOST] = buckets
    base = job.job_spec.base_output_directory.output_uri_prefix.rstrip("/")
    if base:
        make_buckets([base.removeprefix("gs://").split("/")[0]], state)
        env["AIP_MODEL_DIR"] = f"{base}/model/"
        env["AIP_CHECKPOINT_DIR"] = f"{base}/checkpoints/"
        env["AIP_TENSORBOARD_LOG_DIR"] = f"{base}/logs/"
    if job.job_spec.tensorboard:
        env["AIP_TENSORBOARD_RESOURCE_NAME"] = job.job_spec.tensorboard
    return env


def _replica_variables(
    address: ReplicaAddress, record: JobRecord, attempt: int, workdir: Path, state: StateDir
) -> dict[str, str]:
    """Return the variables with the names of this replica, its host and its directories.

    HOSTNAME has the format of a pod's name and is the same in every attempt, as after a maintenance. TMPDIR
    is a short link to the working directory; see `tui.emulator.runner.replica_start`.
    """
    digest = hashlib.sha256(f"{record.id}/{attempt}/{address.id}".encode()).hexdigest()[:10]
    name = hashlib.sha256(record.id.encode()).hexdigest()[:10]
    return {
        "HOSTNAME": f"cmle-training-workerpool{address.pool}-{name}-{address.index}",
        REPLICA_VARIABLE: address.id,
        "HOME": str(workdir),
        "TMPDIR": str(state.root / "t" / digest),
        # A job's `pip install` never changes the emulator's environment (`replica_pip`).
        "PIP_TARGET": str(workdir / PACKAGES),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        # Append a source checkout last, because it contains the trainer and the placeholders.
        "PYTHONPATH": os.pathsep.join([str(workdir / PACKAGES), *CHECKOUT]),
    }
