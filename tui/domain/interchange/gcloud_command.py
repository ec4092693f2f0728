"""Writes a CustomJob as the gcloud command that creates it.

The flags have the fields that gcloud's config lacks (display name, labels, key), and the config has the
complete CustomJobSpec through standard input, so no delimiter or quoting can change a value. gcloud refuses a
config with a pool that has no image (`validation.py` of gcloud 578.0.0). A job with such a placeholder has
its pools in `--worker-pool-spec` flags, as far as these have names for its fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui.domain.profile.edit import render_new
from tui.domain.profile.gcloud_config import has_one_task
from tui.domain.shell.scanning import word
from tui.domain.spec.field_table import ACCELERATOR, RESOURCE

_DELIMITERS = ";:|#@~%!+&?*" + "".join(map(chr, range(0x2460, 0x2480)))


class NotExpressible(ValueError):
    """No gcloud command can create the job; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Command:
    """The flags of a create command, and the config for the remaining fields; "" without remaining fields.

    `whole` is the config of the entire job. Flags with pools replace the pools of the config. `kind` is
    gcloud's name for the kind of job.
    """

    flags: tuple[tuple[str, str], ...]
    config: str
    whole: str
    kind: str = "custom-jobs"

    def with_config_inside(self, remarks: Sequence[str] = ()) -> str:
        """Return the command for a shell, with its config as a here-document; `remarks` become comments of
        the config."""
        head = "".join(f"# {line}\n" for line in remarks)
        if not self.config:
            return f"{head}{self._typed()}\n"
        body = head + self.config
        end = "YAML"
        while end in body.splitlines():
            end += "_"
        return f"{self._typed('-')} <<'{end}'\n{body}{end}\n"

    def with_config_in(self, file: str) -> str:
        """Return the command with the complete config in this file."""
        return self._typed(file)

    def _typed(self, config: str = "") -> str:
        flags = [*self.flags, ("config", config)] if config else self.flags
        create = f"gcloud ai {self.kind} create"
        return " \\\n  ".join([create, *(f"--{name}={word(value)}" for name, value in flags)])


def of(job: Mapping[str, Any], *, project: str, region: str, unfinished: bool = False) -> Command:
    """Return the command that creates the CustomJob `job` (REST format). Without `project`, gcloud uses its
    default. The config of an `unfinished` job has all its pools, though gcloud refuses pools without an
    image. Raises NotExpressible if gcloud refuses the config and its flags lack names for a pool's fields."""
    spec, flags = job["jobSpec"], _header(job, project, region)
    pools = spec.get("workerPoolSpecs") or []
    if not unfinished and not all(map(has_one_task, pools)):
        flags += _pools(pools)
        spec = {name: value for name, value in spec.items() if name != "workerPoolSpecs"}
    return Command(tuple(flags), render_new(spec) if spec else "", render_new(job["jobSpec"]))


def of_tuning(resource: Mapping[str, Any], *, project: str, region: str) -> Command:
    """Return the command that creates a HyperparameterTuningJob (REST format). Its config has all fields
    except the header."""
    rest = {name: value for name, value in resource.items() if name not in RESOURCE}
    config = render_new(rest)
    return Command(tuple(_header(resource, project, region)), config, config, "hp-tuning-jobs")


def _header(job: Mapping[str, Any], project: str, region: str) -> list[tuple[str, str]]:
    """Return the flags for fields that a config can't have."""
    flags = [("region", region), ("display-name", str(job["displayName"]))]
    flags = [("project", project), *flags] if project else flags
    labels = job.get("labels") or {}
    if labels:
        flags.append(("labels", _joined([f"{key}={value}" for key, value in labels.items()])))
    key = (job.get("encryptionSpec") or {}).get("kmsKeyName")
    return [*flags, ("kms-key", key)] if key else flags


def _pools(pools: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return `--worker-pool-spec` flags for the pools. Raises NotExpressible."""
    if not pools[0]:
        raise NotExpressible("gcloud can't create a job whose first pool is empty.")
    flags = [
        ("worker-pool-spec", _joined(list(_pool(i, pool)) if pool else [])) for i, pool in enumerate(pools)
    ]
    tasks = [
        (i, kind, pool[kind])
        for i, pool in enumerate(pools)
        for kind in ("containerSpec", "pythonPackageSpec")
        if kind in pool
    ]
    packages = [task for task in tasks if task[1] == "pythonPackageSpec"]
    containers = [task for task in tasks if task[1] == "containerSpec"]
    for flag, field, having in (
        ("args", "args", tasks),
        ("command", "command", containers),
        ("python-package-uris", "packageUris", packages),
    ):
        values = [list(task.get(field) or []) for _, _, task in having]
        if any(value != values[0] for value in values):
            raise _no_flag(having[0][0], f"its own {field}")
        if not values or not values[0]:
            continue
        if flag != "python-package-uris" and len(set(values[0])) < len(values[0]):
            raise _no_flag(having[0][0], f"two identical {field}, which gcloud refuses in --{flag}")
        flags.append((flag, _joined(values[0])))
    return flags


def _pool(number: int, pool: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of one pool as key=value. Raises NotExpressible."""
    machine = dict(pool.get("machineSpec") or {})
    kind, count = machine.pop("acceleratorType", None), machine.pop("acceleratorCount", None)
    if not machine.get("machineType") or not pool.get("replicaCount"):
        raise _no_flag(number, "no machine type or no replica count")
    yield f"machine-type={machine.pop('machineType')}"
    yield f"replica-count={pool['replicaCount']}"
    if kind is not None or count is not None:
        if not count or kind not in ACCELERATOR.choices:
            raise _no_flag(number, "accelerators without type or count")
        yield f"accelerator-type={kind}"
        yield f"accelerator-count={count}"
    container, package = dict(pool.get("containerSpec") or {}), dict(pool.get("pythonPackageSpec") or {})
    if container.get("imageUri") and "pythonPackageSpec" not in pool:
        yield f"container-image-uri={container.pop('imageUri')}"
    elif package.get("executorImageUri") and package.get("pythonModule") and "containerSpec" not in pool:
        yield f"executor-image-uri={package.pop('executorImageUri')}"
        yield f"python-module={package.pop('pythonModule')}"
    else:
        raise _no_flag(number, "no image")
    known = {"machineSpec", "replicaCount", "containerSpec", "pythonPackageSpec"}
    rest = [*machine, *(name for name in pool if name not in known)]
    rest += [
        name
        for task in (container, package)
        for name in task
        if name not in {"args", "command", "packageUris"}
    ]
    if rest:
        raise _no_flag(number, ", ".join(sorted(rest)))


def _no_flag(number: int, reason: str) -> NotExpressible:
    return NotExpressible(
        "gcloud can't create this job: it refuses a config with a pool that has no image, and its flags "
        f"can't describe pool {number}, which has {reason}."
    )


def _joined(values: Sequence[str]) -> str:
    """Join a list for gcloud, with a delimiter if the values contain commas or start like a delimiter."""
    delimiter, sign = ",", ""
    text = "".join(values)
    if "," in text or text.startswith("^"):
        free = next((sign for sign in _DELIMITERS if sign not in text), None)
        if free is None:
            raise NotExpressible("gcloud's flags have no delimiter that is absent from these values.")
        delimiter, sign = free, f"^{free}^"
    # gcloud drops a delimiter at the end.
    end = delimiter if values and not values[-1] else ""
    return sign + delimiter.join(values) + end
