"""Checks of a worker pool: machine, accelerators, disk, task, mounts (docs/facts/vertex.md 1.3 to 1.9, 8)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator

from google.cloud.aiplatform_v1.types import accelerator_type as accelerator_types

from tui.domain.vertex.catalog import Machine, machines
from tui.emulator.messages import Pb
from tui.emulator.storage.names import uri_problem

Problem = tuple[str, str]
"""Field path, and a sentence that names the error and the valid values."""

DISK_TYPES = ("pd-ssd", "pd-standard", "hyperdisk-balanced")
DISK_GB = range(100, 64_001)
MAX_ENV = 100
MAX_PACKAGES = 100
MAX_ARGS = 100_000

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIFIC, _RESERVATION_KEY = 3, "compute.googleapis.com/reservation-name"
_RESERVATION = re.compile(r"projects/[^/]+/zones/[^/]+/reservations/[^/]+")


def pool_problems(pool: Pb) -> Iterator[Problem]:
    """Yield the problems with a pool that is not skipped. Paths are relative to the pool."""
    for rule in _RULES:
        yield from rule(pool)


def machine_problems(pool: Pb) -> Iterator[Problem]:
    """Yield the problems with a resource pool's machine and disk. Paths are relative to the pool."""
    for rule in (_machine, _accelerator, _disk):
        yield from rule(pool)
    if pool.machine_spec.reservation_affinity.reservation_affinity_type > 1:
        yield "machine_spec.reservation_affinity", "reservations can't be used with a persistent resource"


def accelerator_name(machine_spec: Pb) -> str:
    """Return the name of the accelerator type, or "" if unset or unknown."""
    number = machine_spec.accelerator_type
    known = accelerator_types.AcceleratorType.__members__.items()
    return next((name for name, kind in known if int(kind) == number and number), "")


def _machine(pool: Pb) -> Iterator[Problem]:
    path, name = "machine_spec.machine_type", pool.machine_spec.machine_type
    if not name:
        yield path, "is required"
    elif name not in machines():
        near = difflib.get_close_matches(name, machines(), 3, 0.6)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; see the list of training machine types"
        yield path, f"machine type {name!r} is not supported for training{hint}"


def _accelerator(pool: Pb) -> Iterator[Problem]:
    spec = pool.machine_spec
    machine = machines().get(spec.machine_type)
    kind, count = accelerator_name(spec), spec.accelerator_count
    type_path = "machine_spec.accelerator_type"
    if spec.accelerator_type and not kind:
        yield type_path, f"{spec.accelerator_type} must be a known accelerator type"
    elif (kind and count < 1) or (count and not kind):
        # Vertex AI sends this message (docs/facts/vertex.md 16).
        yield type_path, "Both `accelerator_type` and `accelerator_count` should be specified or none."
    elif machine is not None:
        yield from _fit(machine, kind, count)


def _fit(machine: Machine, kind: str, count: int) -> Iterator[Problem]:
    offered = dict(machine.accelerators)
    type_path, count_path = "machine_spec.accelerator_type", "machine_spec.accelerator_count"
    if not kind:
        # GPUs are optional only on N1; other GPU machines must repeat their own GPUs (docs/facts/vertex.md
        # 8.1).
        if offered and not machine.name.startswith("n1-"):
            pairs = ", ".join(f"{k} × {_counts(c)}" for k, c in offered.items())
            yield type_path, f"is required on {machine.name}, which has {pairs}"
    elif machine.name == "cloud-tpu":
        yield from _cloud_tpu(kind, count)
    elif machine.tpu_topologies:
        yield type_path, f"must be empty on {machine.name}; set machine_spec.tpu_topology"
    elif kind not in offered:
        have = f"it takes {', '.join(offered)}" if offered else "it takes none"
        yield type_path, f"accelerator {kind} is not supported on {machine.name}; {have}"
    elif count not in offered[kind]:
        yield count_path, f"{count} × {kind} is not supported on {machine.name}; use {_counts(offered[kind])}"


def _cloud_tpu(kind: str, count: int) -> Iterator[Problem]:
    if kind not in {"TPU_V2", "TPU_V3"}:
        yield "machine_spec.accelerator_type", f"{kind} is not supported on cloud-tpu; use TPU_V2 or TPU_V3"
    elif count != 8 and (count < 32 or count % 32):
        yield "machine_spec.accelerator_count", f"must be 8, or 32 and its multiples for a pod, not {count}"


def _counts(counts: tuple[int, ...]) -> str:
    return " or ".join(str(count) for count in counts)


def _tpu_topology(pool: Pb) -> Iterator[Problem]:
    path, spec = "machine_spec.tpu_topology", pool.machine_spec
    machine = machines().get(spec.machine_type)
    if machine is None:
        return
    if machine.tpu_topologies and spec.tpu_topology not in machine.tpu_topologies:
        problem = f"{spec.tpu_topology!r} is not offered" if spec.tpu_topology else "is required"
        yield path, f"{problem} on {machine.name}; use one of {', '.join(machine.tpu_topologies)}"
    elif spec.tpu_topology and not machine.tpu_topologies:
        yield path, f"{machine.name} has no TPU; omit the field"
    if (machine.tpu_topologies or machine.name == "cloud-tpu") and pool.replica_count > 1:
        yield "replica_count", f"must be 1, not {pool.replica_count}: a TPU job has one pool with one replica"


def _reservation(pool: Pb) -> Iterator[Problem]:
    affinity = pool.machine_spec.reservation_affinity
    if affinity.reservation_affinity_type != _SPECIFIC:
        return
    path = "machine_spec.reservation_affinity"
    if affinity.key != _RESERVATION_KEY:
        yield f"{path}.key", f"must be {_RESERVATION_KEY} for a specific reservation"
    if not affinity.values:
        yield f"{path}.values", "must name the reservation"
    for index, name in enumerate(affinity.values):
        if not _RESERVATION.fullmatch(name):
            yield f"{path}.values[{index}]", f"{name!r} must have the form projects/P/zones/Z/reservations/R"


def _disk(pool: Pb) -> Iterator[Problem]:
    disk = pool.disk_spec
    if disk.boot_disk_type and disk.boot_disk_type not in DISK_TYPES:
        kinds = ", ".join(DISK_TYPES)
        yield "disk_spec.boot_disk_type", f"{disk.boot_disk_type!r} is not accepted; use one of {kinds}"
    if disk.boot_disk_size_gb and disk.boot_disk_size_gb not in DISK_GB:
        yield "disk_spec.boot_disk_size_gb", f"must be 100 to 64000 GB, not {disk.boot_disk_size_gb}"


def _task(pool: Pb) -> Iterator[Problem]:
    kind = pool.WhichOneof("task")
    if kind is None:
        yield "container_spec", "is required unless python_package_spec is set"
    elif kind == "container_spec":
        yield from _uri("container_spec.image_uri", pool.container_spec.image_uri)
    else:
        yield from _python_package(pool.python_package_spec)


def _python_package(spec: Pb) -> Iterator[Problem]:
    path = "python_package_spec"
    yield from _uri(f"{path}.executor_image_uri", spec.executor_image_uri)
    if not spec.python_module:
        yield f"{path}.python_module", "is required"
    if not 1 <= len(spec.package_uris) <= MAX_PACKAGES:
        yield f"{path}.package_uris", f"has {len(spec.package_uris)} elements; 1 to {MAX_PACKAGES}"
    for index, uri in enumerate(spec.package_uris):
        if not re.match(r"gs://[^/]+/.", uri):
            yield f"{path}.package_uris[{index}]", f"{uri!r} must have the form gs://BUCKET/OBJECT"
        elif problem := uri_problem(uri):
            yield f"{path}.package_uris[{index}]", problem


def _uri(path: str, uri: str) -> Iterator[Problem]:
    if not uri:
        yield path, "is required"
    elif re.search(r"\s", uri):
        yield path, f"{uri!r} must not contain white space"


def _environment(pool: Pb) -> Iterator[Problem]:
    kind = pool.WhichOneof("task")
    variables = getattr(pool, kind).env if kind else ()
    if len(variables) > MAX_ENV:
        yield f"{kind}.env", f"has {len(variables)} variables; the limit is {MAX_ENV}"
    for index, variable in enumerate(variables):
        if not _IDENTIFIER.fullmatch(variable.name):
            yield (
                f"{kind}.env[{index}].name",
                f"{variable.name!r} must be a C identifier (letters, digits and _, no digit first)",
            )


def _arguments(pool: Pb) -> Iterator[Problem]:
    kind = pool.WhichOneof("task")
    total = sum(map(len, getattr(pool, kind).args)) if kind else 0
    if total > MAX_ARGS:
        yield f"{kind}.args", f"has {total} characters in total; the limit is {MAX_ARGS}"


def _mounts(pool: Pb) -> Iterator[Problem]:
    for index, mount in enumerate(pool.nfs_mounts):
        path = f"nfs_mounts[{index}]"
        if not mount.path.startswith("/"):
            yield f"{path}.path", f"{mount.path!r} must be an absolute path"
        yield from _required(mount, path, ("server", "mount_point"))
    for index, mount in enumerate(pool.lustre_mounts):
        fields = ("instance_ip", "volume_handle", "filesystem", "mount_point")
        yield from _required(mount, f"lustre_mounts[{index}]", fields)


def _required(message: Pb, path: str, fields: tuple[str, ...]) -> Iterator[Problem]:
    for field in fields:
        if not getattr(message, field):
            yield f"{path}.{field}", "is required"


_RULES: tuple[Callable[[Pb], Iterator[Problem]], ...] = (
    _machine,
    _accelerator,
    _tpu_topology,
    _reservation,
    _disk,
    _task,
    _environment,
    _arguments,
    _mounts,
)
