"""Plan of one run of a container: its command line and variables on this machine.

Differences from a real node: `_image` supplies the image's variables; host names and ports are translated
(`hostnames`), and so are mount paths (`volumes`); all processes share this machine's CPUs and GPUs.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tui.domain.kubernetes import quantity
from tui.emulator.kubernetes.mpi.programs import local_words, write_programs
from tui.emulator.kubernetes.node.kubelet.references import (
    CannotCreate,
    Lookup,
    field_value,
    keyed_value,
    resource_value,
    values_from,
)
from tui.emulator.kubernetes.node.kubelet.volumes import path_translator
from tui.emulator.kubernetes.node.pools import GPU
from tui.emulator.kubernetes.resources import Obj
from tui.emulator.paths import AttemptDir, StateDir
from tui.emulator.runner import host
from tui.emulator.runner.plan import AttemptPlan, ReplicaPlan
from tui.emulator.runs import gpus
from tui.emulator.runs.images import ProgramTable
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

TERMINATION_LOG = "/dev/termination-log"
_BUCKET = re.compile(r"\bgs://([a-z0-9][a-z0-9._-]*[a-z0-9])")


@dataclass(frozen=True, slots=True)
class Site:
    """Resources of this machine for one run of a container."""

    state: StateDir
    images: ProgramTable
    run: AttemptDir
    message: Path
    """File that replaces the termination message path."""
    mounts: Mapping[str, str]
    allocatable: Obj
    devices: tuple[int, ...]
    simulate: bool
    siblings: int
    """Number of pods of the same job, which share the machine."""
    translate: Callable[[Mapping[str, str]], dict[str, str]]
    """A function that translates host names and ports in variables."""
    translate_text: Callable[[str], str]
    """A function that translates host names with ports in a command-line word."""


def build_plan(
    pod: Obj, container: Obj, site: Site, lookup: Lookup, *, grace: float, sample_period: float
) -> AttemptPlan:
    """Build the plan of one run. Raises CannotCreate for a reference to a missing object, CannotRun for an
    image without a program on this machine, and OSError."""
    name = container["name"]
    workdir = site.run.workdir(name)
    paths = path_translator({**site.mounts, _message_path(container): str(site.message)})

    def local(text: str) -> str:
        return to_local_paths(paths(text), site.state)

    own = _own_variables(pod, container, site, lookup)
    base = _image(pod, site, workdir)
    seen = site.translate(own)
    env = base | {key: local(value) for key, value in seen.items()}
    # References resolve to the variables as inside the container.
    known = {**base, **env}
    command = [expand(str(word), known) for word in container.get("command") or ()]
    args = [expand(str(word), known) for word in container.get("args") or ()]
    words = site.images.container_argv(container["image"], command, args)
    argv = [local(site.translate_text(word)) for word in words]
    argv = local_words(argv, site.state.root / "bin")
    # As on `local`, create the buckets that a job names.
    named = "\n".join([*own.values(), *command, *args, *argv, *env.values()])
    make_buckets(_BUCKET.findall(named), site.state)
    gpu_count = _gpus(container)
    env |= {key: value for key, value in gpus.variables(site.devices).items() if key not in own}
    limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    replica = ReplicaPlan(
        name,
        tuple(argv),
        env,
        str(_workdir(container, workdir, local)),
        primary=True,
        accelerators=site.devices,
        simulated=gpu_count if site.simulate and not site.devices else 0,
        memory_limit=int(quantity.parse(limit)) if limit else 0,
        one_output=True,
    )
    job = str(pod["metadata"]["uid"])
    return AttemptPlan(
        job,
        site.run.number,
        (replica,),
        grace=grace,
        stop_grace=grace,
        sample_period=sample_period,
        worker_restarts=0,
    )


def requested_gpus(pod: Obj) -> int:
    return sum(_gpus(container) for container in pod["spec"].get("containers") or ())


def _gpus(container: Obj) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return int(quantity.parse(limits.get(GPU, "0")))


def _message_path(container: Obj) -> str:
    return str(container.get("terminationMessagePath") or TERMINATION_LOG)


def _workdir(container: Obj, workdir: Path, local: Callable[[str], str]) -> Path:
    """Return the run's folder, or the folder mounted at the container's working directory."""
    folder = str(container.get("workingDir") or "")
    if not folder.startswith("/"):
        return workdir
    translated = local(folder)
    return Path(translated) if translated != folder else workdir / folder.lstrip("/")


def _own_variables(pod: Obj, container: Obj, site: Site, lookup: Lookup) -> dict[str, str]:
    """Return the variables of `envFrom` and `env`. A later variable may refer to an earlier variable."""
    variables = values_from(container, lookup)
    for variable in container.get("env") or ():
        name, source = variable["name"], variable.get("valueFrom")
        if not source:
            variables[name] = expand(str(variable.get("value") or ""), variables)
        elif "fieldRef" in source:
            variables[name] = field_value(pod, source["fieldRef"].get("fieldPath", ""))
        elif "resourceFieldRef" in source:
            reference = source["resourceFieldRef"]
            variables[name] = resource_value(pod, container["name"], reference, site.allocatable)
        elif (value := keyed_value(source, lookup)) is not None:
            variables[name] = value
    for name, value in variables.items():
        if "\0" in value or "\0" in name or "=" in name:
            raise CannotCreate(
                f"environment variable {name!r} contains a character that no variable may contain"
            )
    return variables


def _image(pod: Obj, site: Site, workdir: Path) -> dict[str, str]:
    """Return the variables that image and runtime set: paths, host name, home."""
    programs = site.state.root / "bin"
    write_wrappers(programs)
    write_programs(programs, site.state.root / "kubeconfig")
    key = f"{pod['metadata']['uid']}/{site.run.root.parent.name}/{site.run.number}"
    digest = hashlib.sha256(key.encode()).hexdigest()[:10]
    env = {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{SYSTEM_PATH}",
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(max(1, math.floor(host.cpus() / max(1, site.siblings)))),
        "GLOO_SOCKET_IFNAME": "lo",
        "VXTUI_GCS_ROOT": str(site.state.buckets),
        "HOSTNAME": str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63],
        "HOME": str(workdir),
        "TMPDIR": str(site.state.root / "t" / digest),
        "PIP_TARGET": str(workdir / PACKAGES),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONPATH": os.pathsep.join([str(workdir / PACKAGES), *CHECKOUT]),
    }
    buckets = os.environ.get(STORAGE_HOST) or site.state.bucket_url()
    if buckets:
        env[STORAGE_HOST] = buckets
    return env


def words_of(command: Sequence[str], mounts: Mapping[str, str], state: StateDir) -> list[str]:
    """Translate the paths of a command line that runs next to the container."""
    paths = path_translator(mounts)
    return [to_local_paths(paths(word), state) for word in command]
