"""Names of fields and values that the service never had, or that belong to another tool."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.spec.custom_job_spec import whole
from tui.domain.spec.field_table import NAMES
from tui.domain.spec.findings import Finding, Path
from tui.domain.spec.spec_format import bodies, format_of
from tui.domain.vertex import catalog, reducers
from tui.domain.vertex.sources import COMPUTE, DISTRIBUTED, JSON_MAPPING, SPEC, TUNING_JOB

_SOURCE = "docs/facts/vertex.md 14.1"
_POOLS = "workerPoolSpecs"

# Fields that belong one level below a worker pool, or that have the spelling of gcloud's flags.
_MACHINE_FIELDS = ("machineType", "acceleratorType", "acceleratorCount", "tpuTopology", "reservationAffinity")
_DISK_FIELDS = {
    "bootDiskType": "bootDiskType",
    "bootDiskSizeGb": "bootDiskSizeGb",
    "bootDiskSize": "bootDiskSizeGb",
}
_TASK_FIELDS = ("imageUri", "command", "args", "env")
_POOL_PLACES: Mapping[str, Path] = {
    **{name: ("machineSpec", name) for name in _MACHINE_FIELDS},
    **{name: ("diskSpec", right) for name, right in _DISK_FIELDS.items()},
    **{name: ("containerSpec", name) for name in _TASK_FIELDS},
    "containerImageUri": ("containerSpec", "imageUri"),
    "image": ("containerSpec", "imageUri"),
    "executorImageUri": ("pythonPackageSpec", "executorImageUri"),
    "pythonModule": ("pythonPackageSpec", "pythonModule"),
    "packageUris": ("pythonPackageSpec", "packageUris"),
    "pythonPackageUris": ("pythonPackageSpec", "packageUris"),
    "replicas": ("replicaCount",),
    "count": ("replicaCount",),
}
_AUTOPACKAGING = (
    "localPackagePath",
    "script",
    "outputImageUri",
    "requirements",
    "extraPackages",
    "extraDirs",
)
_REDUCERS = (
    "reductionServer",
    "reductionServerSpec",
    "reductionServerContainerSpec",
    "reductionServerContainerUri",
    "reductionServerMachineType",
    "reductionServerReplicaCount",
)
_SPOT = ("spot", "useSpot", "enableSpot", "spotVm", "preemptible", "usePreemptible")
_DISKS = (
    "persistentDisk",
    "persistentDisks",
    "persistentDiskSpec",
    "attachedDisks",
    "dataDisks",
    "dataDiskSpec",
    "localSsd",
    "localSsdCount",
    "volumes",
    "volumeMounts",
)
_BETA = ("multihostGpuNodeCount", "minGpuDriverVersion")
_TUNING = ("studySpec", "trialJobSpec", "maxTrialCount", "parallelTrialCount", "maxFailedTrialCount")
_TRIALS = ("maxTrialCount", "parallelTrialCount")
_HEADER = ("displayName", "labels", "region", "encryptionSpec", "description", "parameters")
_SCHEDULING = ("timeout", "strategy", "restartJobOnWorkerRestart", "disableRetries", "maxWaitDuration")

_ACCELERATORS = {
    "K80": "NVIDIA_TESLA_K80",
    "P100": "NVIDIA_TESLA_P100",
    "V100": "NVIDIA_TESLA_V100",
    "P4": "NVIDIA_TESLA_P4",
    "T4": "NVIDIA_TESLA_T4",
    "A100": "NVIDIA_TESLA_A100",
    "A100_40GB": "NVIDIA_TESLA_A100",
    "A100_80GB": "NVIDIA_A100_80GB",
    "L4": "NVIDIA_L4",
    "H100": "NVIDIA_H100_80GB",
    "H100_80GB": "NVIDIA_H100_80GB",
    "H100_MEGA": "NVIDIA_H100_MEGA_80GB",
    "H100_MEGA_80GB": "NVIDIA_H100_MEGA_80GB",
    "H200": "NVIDIA_H200_141GB",
    "H200_141GB": "NVIDIA_H200_141GB",
    "B200": "NVIDIA_B200",
    "GB200": "NVIDIA_GB200",
    "RTX_PRO_6000": "NVIDIA_RTX_PRO_6000",
    "TPU_V2_POD": "TPU_V2",
    "TPU_V3_POD": "TPU_V3",
}
_AMBIGUOUS = {
    "A100": ("NVIDIA_TESLA_A100 (40 GB)", "NVIDIA_A100_80GB"),
    "H100": ("NVIDIA_H100_80GB", "NVIDIA_H100_MEGA_80GB"),
}
_STRATEGIES = {
    "PREEMPTIBLE": "SPOT",
    "SPOT_VM": "SPOT",
    "SPOT_VMS": "SPOT",
    "LOWCOST": "SPOT",
    "ONDEMAND": "STANDARD",
    "REGULAR": "STANDARD",
    "DEFAULT": "STANDARD",
    "FLEX": "FLEX_START",
    "DWS": "FLEX_START",
    "DWS_FLEX_START": "FLEX_START",
}


def misnomer(path: Path, value: Any, root: Any = None) -> Finding | None:
    """Return the finding for a nonexistent field or enum value, or None for an unknown name. `path` is in
    camelCase, `value` is the unchecked value at the path, and `root` is the entire document."""
    name = _camel(str(path[-1]))
    for matcher in _MATCHERS:
        hint = matcher(path, name, value, root)
        if hint is not None:
            return hint
    return None


def misnomers_below(path: Path, value: Any, root: Any) -> list[Finding]:
    """Return findings below a nonexistent field, about values that would be wrong in the right field too."""
    if _camel(str(path[-1])) not in _REDUCERS or not isinstance(value, Mapping):
        return []
    hints = []
    image = str(_get(value, "containerSpec", "imageUri") or "")
    if image and catalog.REDUCTION_SERVER not in image:
        hints.append(
            Finding(
                (*path, "containerSpec", "imageUri"),
                f"{image} must be the image of Reduction Server.",
                f"Write {reducers.IMAGE}.",
                (),
                "reduction.image",
                ProblemSeverity.ERROR,
                DISTRIBUTED,
            )
        )
    pools = _get(root, *_spec_path(path, root), _POOLS)
    count, needed = _replicas(value), reducers.propose({"jobSpec": {_POOLS: _plain(pools)}})
    if 0 < count < needed.count:
        hints.append(
            Finding(
                (*path, "replicaCount"),
                f"{count} reducers × {reducers.GBPS} Gbps are slower than {needed.nodes} workers with "
                f"{needed.worker_gbps:g} Gbps together and would slow them down.",
                f"Use {needed.count}, which is {needed.worker_gbps:g} / {reducers.GBPS} rounded up.",
                (),
                "reduction.sizing",
                ProblemSeverity.WARNING,
                DISTRIBUTED,
            )
        )
    return hints


def _plain(pools: Any) -> list[Mapping[str, Any]]:
    """Return the machines of the pools in REST format, where their structure is valid."""
    machines: list[Mapping[str, Any]] = []
    for pool in pools if isinstance(pools, list) else []:
        machine = _get(pool, "machineSpec")
        keys = {_camel(str(k)): v for k, v in machine.items()} if isinstance(machine, Mapping) else {}
        machines.append({"machineSpec": keys, "replicaCount": _get(pool, "replicaCount")})
    return machines


def document_notes(root: Any) -> list[Finding]:
    """Return notes about an entire file whose fields are correct."""
    if not isinstance(root, Mapping) or not {"jobSpec", "job_spec"} & set(root):
        return []
    if {_camel(str(key)) for key in root} - {"displayName", "jobSpec", "labels", "encryptionSpec"}:
        return []
    return [
        _wrong(
            "gcloud-wrapper",
            ("jobSpec",),
            "this is a REST body, which vxtui reads; `gcloud ai custom-jobs create --config` expects the "
            "fields below jobSpec at the top level, and name and labels as flags.",
            "Export the profile to use it with gcloud.",
            severity=ProblemSeverity.NOTE,
        )
    ]


def _wrong(
    rule: str,
    path: Path,
    sentence: str,
    fix: str,
    *edits: Edit,
    source: str = _SOURCE,
    severity: ProblemSeverity = ProblemSeverity.ERROR,
) -> Finding:
    return Finding(path, sentence, fix, edits, f"misnomer.{rule}", severity, f"{JSON_MAPPING}, {source}")


def _camel(name: str) -> str:
    """Convert `machine-type` and `machine_type` to `machineType`."""
    first, *rest = re.split(r"[-_]", name)
    return first + "".join(part[:1].upper() + part[1:] for part in rest) if first else name


def _get(root: Any, *path: str | int) -> Any:
    """Return the value at `path` of the document; keys may have any spelling."""
    for part in path:
        if isinstance(root, Mapping):
            root = next((v for k, v in root.items() if _camel(str(k)) == part), None)
        elif isinstance(root, list) and isinstance(part, int) and part < len(root):
            root = root[part]
        else:
            return None
    return root


def _pool_at(path: Path) -> Path:
    """Return the path of the worker pool that has `path` as a direct field, else ()."""
    return path[:-1] if len(path) > 2 and path[-3] == _POOLS and isinstance(path[-2], int) else ()


def _reduction_server(path: Path, name: str, value: Any, root: Any) -> Finding | None:
    if name not in _REDUCERS:
        return None
    return _wrong(
        "reduction-server",
        path,
        f"{path[-1]} is not a field in any version of the API; Reduction Server is the third worker pool.",
        "Put a pool with Google's image at index 2; size it by the workers' bandwidth.",
        *_as_third_pool(path, value, root),
        source=DISTRIBUTED,
    )


def _as_third_pool(path: Path, value: Any, root: Any) -> tuple[Edit, ...]:
    """Remove the field and add a pool of reducers at index 2, if that index is free."""
    removed = Edit(path, REMOVED)
    pools_path = path[: path.index(_POOLS) + 1] if _POOLS in path else (*path[:-1], _POOLS)
    pools = _get(root, *pools_path)
    if not isinstance(pools, list) or not pools or any(pools[reducers.POSITION :]):
        return (removed,)
    count = _replicas(value)
    pool = {
        "machineSpec": {"machineType": reducers.MACHINE},
        "replicaCount": count,
        "containerSpec": {"imageUri": reducers.IMAGE},
    }
    padding = tuple(Edit((*pools_path, i), {}) for i in range(len(pools), reducers.POSITION))
    return (removed, *padding, Edit((*pools_path, reducers.POSITION), pool)) if count else (removed,)


def _replicas(value: Any) -> int:
    """Return the number of reducers in a misnamed field: 1 without a number, 0 if it is empty."""
    if isinstance(value, Mapping):
        return whole(_get(value, "replicaCount")) or 1
    return whole(value) if isinstance(value, int | str) and not isinstance(value, bool) else int(bool(value))


def _spot(path: Path, name: str, value: Any, root: Any) -> Finding | None:
    if name not in _SPOT:
        return None
    spec = _spec_path(path, root)
    meant = str(value).lower() in {"true", "yes", "1"}
    edits = (Edit((*spec, "scheduling", "strategy"), "SPOT"),) if meant else ()
    return _wrong(
        "spot-flag",
        path,
        f"{path[-1]} is not a field; the scheduling strategy selects Spot machines.",
        "Set scheduling.strategy: SPOT." if meant else "Remove it.",
        Edit(path, REMOVED),
        *edits,
        source=SPEC,
    )


def _spec_path(path: Path, root: Any) -> Path:
    """Return the path of the CustomJobSpec: in the body that contains `path`, or else in the file's body."""
    body = next((b for b in bodies() if b == path[0]), None)
    body = body or next((b for b in bodies() if _get(root, b) is not None), None)
    return format_of(body).spec_path if body else ()


def _tuning(path: Path, name: str, value: Any, root: Any) -> Finding | None:
    if name not in _TUNING or len(path) > 2:
        return None
    inside = [n for n in _TRIALS if name == "studySpec" and _get(value, n) is not None]
    if inside:
        return _wrong(
            "trial-counts",
            (*path, inside[0]),
            f"{' and '.join(inside)} are fields of the tuning job, not of its studySpec.",
            "Write these fields next to studySpec.",
        )
    return _wrong(
        "tuning-job",
        path,
        f"{path[-1]} belongs to a hyperparameter tuning job; this file is for a custom job.",
        "Use the trialJobSpec's content as jobSpec to run one trial.",
        source=TUNING_JOB,
    )


def _pipeline(path: Path, name: str, value: Any, root: Any) -> Finding | None:
    if name != "trainingTaskInputs" or len(path) > 1:
        return None
    there = _get(root, "jobSpec") is not None
    return _wrong(
        "pipeline-field",
        path,
        "trainingTaskInputs belongs to a training pipeline; a custom job has a jobSpec.",
        "Write jobSpec.",
        *(() if there else (Edit(("jobSpec",), value), Edit(path, REMOVED))),
        source="docs/facts/vertex.md 12.4 and 14.5",
    )


@dataclass(frozen=True, slots=True)
class _Nonexistent:
    """Names of nonexistent fields with one common reason; `{}` in the sentence is the name."""

    names: tuple[str, ...]
    rule: str
    sentence: str
    fix: str
    source: str
    remove: bool = False
    in_pool: bool = False
    """Whether the names are wrong only in a worker pool."""


_NONEXISTENT = (
    _Nonexistent(
        _DISKS,
        "disk",
        "{} is not a field: a replica has only a boot disk, which is deleted when the replica ends.",
        "Store data in /gcs/BUCKET, or add nfsMounts or lustreMounts; diskSpec enlarges the boot disk.",
        COMPUTE,
    ),
    _Nonexistent(
        _BETA, "beta-field", "{} exists only in v1beta1, not in v1.", "Remove it.", SPEC, remove=True
    ),
    _Nonexistent(
        _AUTOPACKAGING,
        "autopackaging",
        "{} is an option of gcloud, which builds an image before the job; a job has no such field.",
        "Add the folder under `package` at the top of the profile; a launch packs it.",
        "docs/facts/vertex.md 12.5",
        in_pool=True,
    ),
)


def _nonexistent(path: Path, name: str, value: Any, root: Any) -> Finding | None:
    entry = next((e for e in _NONEXISTENT if name in e.names and (_pool_at(path) or not e.in_pool)), None)
    if entry is None:
        return None
    edits = (Edit(path, REMOVED),) if entry.remove else ()
    return _wrong(entry.rule, path, entry.sentence.format(path[-1]), entry.fix, *edits, source=entry.source)


def _misplaced_in_pool(path: Path, name: str, value: Any, root: Any) -> Finding | None:
    pool, place = _pool_at(path), _POOL_PLACES.get(name)
    if not pool or place is None:
        return None
    occupied = _get(root, *pool, *place) is not None
    return _wrong(
        "gcloud-key" if "-" in str(path[-1]) else "misplaced",
        path,
        f"{path[-1]} is not a field of a worker pool; the field is {'.'.join(map(str, place))}.",
        "Remove the field, which is already set there."
        if occupied
        else f"Write {'.'.join(map(str, place))}.",
        *((Edit(path, REMOVED),) if occupied else (Edit((*pool, *place), value), Edit(path, REMOVED))),
        source=DISTRIBUTED,
    )


def _misplaced_in_spec(path: Path, name: str, value: Any, root: Any) -> Finding | None:
    """Find header fields inside a body, scheduling fields outside of it, and other misplaced fields."""
    parent, spec = path[:-1], _spec_path(path, root)
    if parent not in {(), spec[:1], spec}:
        return None
    if parent and name in _HEADER:
        right: Path = (name,)
    elif name in _SCHEDULING:
        right = (*spec, "scheduling", name)
    elif name in {"workerPoolSpec", "workerPools"}:
        right = (*spec, _POOLS)
    else:
        return None
    if right[-1] == _POOLS and not isinstance(value, list):
        value = [value]
    free = _get(root, *right) is None
    return _wrong(
        "misplaced",
        path,
        f"{path[-1]} must be in {'.'.join(map(str, right))}.",
        "Move the field there." if free else "Remove the field, which is already set there.",
        *((Edit(right, value), Edit(path, REMOVED)) if free else (Edit(path, REMOVED),)),
        source=SPEC,
    )


def _kebab(path: Path, name: str, value: Any, root: Any) -> Finding | None:
    if "-" not in str(path[-1]) or name not in NAMES or path[0] in {"labels", "parameters"}:
        return None
    return _wrong(
        "gcloud-key",
        path,
        f"{path[-1]} is the spelling of a gcloud flag; the field is {name}.",
        f"Write {name}.",
        Edit((*path[:-1], name), value),
        Edit(path, REMOVED),
        source="docs/facts/vertex.md 12.5",
    )


def _output_text(path: Path, name: str, value: Any, root: Any) -> Finding | None:
    if name not in {"baseOutputDirectory", "baseOutputDir"} or not isinstance(value, str):
        return None
    return _wrong(
        "output-text",
        path,
        "the output directory must be a message with outputUriPrefix.",
        "Write baseOutputDirectory.outputUriPrefix.",
        *(() if name == "baseOutputDirectory" else (Edit(path, REMOVED),)),
        Edit((*path[:-1], "baseOutputDirectory"), {"outputUriPrefix": value}),
        source=SPEC,
    )


def _accelerator(path: Path, name: str, value: Any, root: Any) -> Finding | None:
    if name != "acceleratorType" or not isinstance(value, str) or value in catalog.ACCELERATOR_TYPES:
        return None
    short = re.sub(r"[\s-]+", "_", value.strip().upper())
    # Names of quotas and of Compute Engine's resources are common here: NVIDIA_T4_GPUS, nvidia-tesla-t4.
    bare = re.sub(r"^(?:NVIDIA_)?(?:TESLA_)?", "", short).removesuffix("_GPUS").removesuffix("_GPU")
    machine = str(_get(root, *path[:-1], "machineType") or "")
    if short.startswith("TPU") and bare not in _ACCELERATORS:
        return _tpu(path, value, short, machine)
    right = f"NVIDIA_{bare}" if f"NVIDIA_{bare}" in catalog.ACCELERATOR_TYPES else _ACCELERATORS.get(bare, "")
    if not right:
        return None
    here = catalog.machines().get(machine)
    built_in = here.accelerators[0][0] if here and here.accelerators and not machine.startswith("n1-") else ""
    choices = _AMBIGUOUS.get(bare, ())
    if choices and bare in built_in:
        right, choices = built_in, ()
    fix = f"Did you mean {' or '.join(choices)}?" if choices else f"Write {right}."
    edits = () if choices else (Edit(path, right),)
    sentence = f"{value} must be the name of an accelerator type."
    return _wrong("accelerator-name", path, sentence, fix, *edits, source=SPEC)


def _tpu(path: Path, value: str, short: str, machine: str) -> Finding | None:
    if short.startswith("TPU_V4") or short == "TPUV4":
        return _wrong(
            "accelerator-name",
            path,
            f"{value} must be an accelerator type, and TPU v4 is not offered for training.",
            "Use v5e (a ct5lp machine) or v6e (ct6e) with a tpuTopology, or TPU_V3.",
            source=COMPUTE,
        )
    return _wrong(
        "accelerator-name",
        path,
        f"{value} must be an accelerator type; the machine type and tpuTopology select TPUs from v5e on.",
        "Remove the type, use a ct5lp (v5e), ct6e (v6e) or tpu7x machine, and set tpuTopology.",
        *(
            (Edit(path, REMOVED), Edit((*path[:-1], "acceleratorCount"), REMOVED))
            if catalog.is_tpu(machine)
            else ()
        ),
        source=COMPUTE,
    )


def _strategy(path: Path, name: str, value: Any, root: Any) -> Finding | None:
    if name != "strategy" or not isinstance(value, str):
        return None
    right = _STRATEGIES.get(re.sub(r"[\s-]+", "_", value.strip().upper()))
    if right is None:
        return None
    sentence = f"{value} must be a scheduling strategy."
    return _wrong("strategy", path, sentence, f"Write {right}.", Edit(path, right), source=SPEC)


_MATCHERS: tuple[Callable[[Path, str, Any, Any], Finding | None], ...] = (
    _accelerator,
    _strategy,
    _reduction_server,
    _spot,
    _nonexistent,
    _tuning,
    _pipeline,
    _misplaced_in_pool,
    _misplaced_in_spec,
    _output_text,
    _kebab,
)
