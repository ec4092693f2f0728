"""The program that replaces a model's container, and its environment.

Both follow the documentation 'Custom container requirements for prediction'. Differences: the server listens
on a free port of this machine, in AIP_HTTP_PORT, whatever `ports` says; AIP_STORAGE_URI is the artifact_uri
itself, in the emulator's buckets, instead of a copy; /gcs paths are below $VXTUI_GCS_ROOT; VXTUI_LISTEN makes
the trainer's own server listen on the loopback.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tui.emulator.config import EmulatorConfig
from tui.emulator.interfaces import project_number
from tui.emulator.messages import Pb
from tui.emulator.paths import StateDir
from tui.emulator.runs import gpus
from tui.emulator.runs.images import ProgramTable
from tui.emulator.runs.local_paths import CHECKOUT, STORAGE_HOST, SYSTEM_PATH, expand, to_local_paths
from tui.emulator.serving.guard import ServerPlan
from tui.emulator.vertex.validate_pools import accelerator_name

MARK = "VXTUI_MODEL_SERVER"
"""Variable of every process of a model server: its working directory, which is unique among all emulators."""


def routes(endpoint: Pb, deployed: Pb, spec: Pb) -> tuple[str, str]:
    """Return the paths of predictions and of health checks."""
    default = f"/v1/endpoints/{endpoint.name.rsplit('/', 1)[1]}/deployedModels/{deployed.id}"
    return spec.predict_route or f"{default}:predict", spec.health_route or default


def workdir(state: StateDir, endpoint: str, deployed_id: str) -> Path:
    """Return the working directory of a deployed model's server. `endpoint` is the endpoint's full name."""
    _, project, _, location, _, endpoint_id = endpoint.split("/")
    return state.root / "serving" / project / location / endpoint_id / deployed_id


def server_plan(  # noqa: PLR0917
    endpoint: Pb, deployed: Pb, model: Pb, port: int, state: StateDir, config: EmulatorConfig
) -> ServerPlan:
    """Plan the process that serves `model` (in the API's format) as `deployed` on `port`.

    Raises:
        CannotRun: the image does not exist on this machine.
        OSError: a bucket can't be created.
    """
    spec = model.container_spec
    place = workdir(state, endpoint.name, deployed.id)
    env = _variables(endpoint, deployed, model, port, config) | _of_this_machine(place, deployed, state)
    for variable in spec.env:
        env[variable.name] = to_local_paths(expand(variable.value, env), state)
    command, args = ([expand(word, env) for word in words] for words in (spec.command, spec.args))
    argv = ProgramTable.of(config.images).argv(spec.image_uri, command, args)
    return ServerPlan(
        tuple(to_local_paths(word, state) for word in argv), env, str(place), config.cancel_grace_seconds
    )


def _variables(endpoint: Pb, deployed: Pb, model: Pb, port: int, config: EmulatorConfig) -> dict[str, str]:
    _, project, *_, endpoint_id = endpoint.name.split("/")
    predict, health = routes(endpoint, deployed, model.container_spec)
    machine = deployed.dedicated_resources.machine_spec
    return {
        "AIP_HTTP_PORT": str(port),
        "AIP_PREDICT_ROUTE": predict,
        "AIP_HEALTH_ROUTE": health,
        "AIP_STORAGE_URI": model.artifact_uri,
        "AIP_MODE": "PREDICTION",
        "AIP_MODE_VERSION": "1.0.0",
        "AIP_FRAMEWORK": "CUSTOM_CONTAINER",
        "AIP_ENDPOINT_ID": endpoint_id,
        "AIP_DEPLOYED_MODEL_ID": deployed.id,
        "AIP_MODEL_NAME": model.name.rsplit("/", 1)[1],
        "AIP_VERSION_NAME": model.version_id,
        "AIP_MACHINE_TYPE": machine.machine_type,
        "AIP_ACCELERATOR_TYPE": accelerator_name(machine),
        "AIP_PROJECT_NUMBER": project_number(project),
    }


def _of_this_machine(place: Path, deployed: Pb, state: StateDir) -> dict[str, str]:
    (devices,) = gpus.assign([int(deployed.dedicated_resources.machine_spec.accelerator_count)])
    env = {
        "PATH": f"{Path(sys.executable).parent}:{SYSTEM_PATH}",
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(CHECKOUT),
        "HOME": str(place),
        "TMPDIR": str(place / "tmp"),
        "VXTUI_GCS_ROOT": str(state.buckets),
        MARK: str(place),
        "VXTUI_LISTEN": "127.0.0.1",
        **gpus.variables(devices),
    }
    buckets = os.environ.get(STORAGE_HOST) or state.bucket_url()
    return env | ({STORAGE_HOST: buckets} if buckets else {})
