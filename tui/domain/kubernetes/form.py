"""Sections of a manifest's form: common fields of the job and of each replica group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tui.domain.core.replica import INSTANCE_TYPE
from tui.domain.kubernetes.accelerators import ACCELERATORS
from tui.domain.kubernetes.objects import is_object, objects_of
from tui.domain.kubernetes.workloads import (
    ACCELERATOR,
    GPU,
    QUEUE,
    REQUIRED_TOPOLOGY,
    SPOT,
    ManifestGroup,
    Path,
    WorkloadKind,
    fields,
    groups,
    job_index,
    workload_of,
)
from tui.domain.spec.field_table import BOOLEAN, ENV, INTEGER, LABELS, STRING, STRINGS, FieldType
from tui.domain.spec.form_field import FormField, Section

BODY = "manifest"


def _one_of(*names: str) -> FieldType:
    return FieldType("enum", choices=names)


_Row = tuple[str, str, FieldType, str, str]
"""Path below a head, label, type, help, and text if unset. A label that begins with - is a rare field."""


def _form_fields(head: Path, rows: Iterable[_Row]) -> list[FormField]:
    """Return the fields of a table. Spaces separate a path's names, because labels contain dots and
    slashes."""
    return [
        # Paths contain list indices as well as names.
        FormField((*head, *names.split()), label.removeprefix("-"), words, kind, label[0] != "-", unset)  # type: ignore[arg-type]
        for names, label, kind, words, unset in rows
    ]


_SUSPEND: _Row = (
    "suspend",
    "-suspended",
    BOOLEAN,
    "Create the job suspended: no pods start until it is resumed.",
    "no",
)
_OBJECT: list[_Row] = [
    ("namespace", "namespace", STRING, "Namespace, unless the launch names one.", "the context's first"),
    (
        f"labels {QUEUE}",
        "queue",
        STRING,
        "LocalQueue of Kueue that admits the job.",
        "no queue: the job starts at once",
    ),
    ("labels", "-labels", LABELS, "Labels of the job object.", ""),
    ("annotations", "-annotations", LABELS, "Annotations of the job object.", ""),
]
_DEADLINE: _Row = (
    "activeDeadlineSeconds",
    "deadline",
    INTEGER,
    "Seconds after which the job ends.",
    "no deadline",
)
_RUN_POLICY: list[_Row] = [
    (
        "cleanPodPolicy", "clean pods", _one_of("None", "Running", "All"),
        "Pods that are deleted when the job ends: None keeps all of them with their logs.",
        "the operator decides",
    ),
    (
        "backoffLimit", "backoff limit", INTEGER,
        "Failures after which the job fails; its pods are then deleted, even if the field above keeps them.",
        "no limit",
    ),
    (
        "schedulingPolicy minAvailable", "-gang", INTEGER,
        "Pods that must be placed before any pod starts, with a gang scheduler.", "all of them",
    ),
    _SUSPEND,
    ("ttlSecondsAfterFinished", "-deleted after", INTEGER, "Seconds after the job's end.", "never"),
]  # fmt: skip
_OF_KIND: Mapping[str, list[_Row]] = {
    "pytorch_job": [
        (
            "nprocPerNode", "processes", STRING,
            "Processes per pod: a number, auto, cpu or gpu. vxtui's trainer starts one per GPU itself.",
            "auto",
        ),
        (
            "elasticPolicy minReplicas", "elastic from", INTEGER, "Smallest number of training workers.",
            "not elastic",
        ),
        ("elasticPolicy maxReplicas", "elastic to", INTEGER, "Most workers.", "not elastic"),
        (
            "elasticPolicy rdzvBackend", "-rendezvous", _one_of("c10d", "etcd-v2"),
            "How elastic workers find each other.", "c10d",
        ),
        ("elasticPolicy maxRestarts", "-restarts", INTEGER, "Restarts of an elastic job's processes.", ""),
    ],
    "tf_job": [
        (
            "successPolicy", "success", _one_of("AllWorkers"),
            "AllWorkers: the job ends with its last worker.",
            "the job ends with its chief",
        ),
    ],
    "mpi_job": [("slotsPerWorker", "slots", INTEGER, "Processes that mpirun starts on a worker.", "1")],
    "train_job": [
        ("runtimeRef name", "runtime", STRING, "The runtime that defines the pods.", ""),
        (
            "runtimeRef kind", "-runtime kind", _one_of("ClusterTrainingRuntime", "TrainingRuntime"),
            "Scope of the runtime: the cluster or the namespace.", "ClusterTrainingRuntime",
        ),
    ],
    "job_set": [("failurePolicy maxRestarts", "restarts", INTEGER, "Limit of the set's restarts.", "0")],
    "batch_job": [
        ("backoffLimit", "backoff limit", INTEGER, "Failures of pods after which the job fails.", "6"),
        ("completions", "completions", INTEGER, "Pods that must succeed.", "the number of pods"),
        (
            "completionMode", "completion", _one_of("Indexed", "NonIndexed"),
            "Indexed gives each pod an index.", "NonIndexed",
        ),
    ],
}  # fmt: skip
_CONTAINER: list[_Row] = [
    ("image", "image", STRING, "Container image, with a tag or a digest.", ""),
    ("command", "-command", STRINGS, "Replaces the image's entry point.", "the image's own"),
    ("args", "arguments", STRINGS, "Arguments of the entry point.", ""),
    ("env", "environment", ENV, "Variables of the container. Secrets belong in a Secret.", ""),
]
_MEMORY_LIMIT = "A container that uses more is killed (OOMKilled)."
_RESOURCES: list[_Row] = [
    ("requests cpu", "CPUs", STRING, "CPUs that one pod requests: 4, or 500m for a half.", ""),
    ("requests memory", "memory", STRING, "Memory that one pod requests: 64Gi.", ""),
    ("limits memory", "memory limit", STRING, _MEMORY_LIMIT, "the node's memory"),
]
_SELECTOR: list[_Row] = [
    (ACCELERATOR, "GPU type", _one_of(*ACCELERATORS), "Label of GKE's nodes.", "any"),
    (
        SPOT, "Spot", _one_of("true"),
        "true: only Spot nodes of GKE. They also have a taint: F on the warning adds the toleration.",
        "any node without a taint",
    ),
    (INSTANCE_TYPE, "-machine", STRING, "Machine type of the nodes.", "any"),
]  # fmt: skip
_OPERATOR_RESTART: _Row = (
    "restartPolicy", "restart", _one_of("OnFailure", "Never", "ExitCode", "Always"),
    "Reaction to a failed pod. ExitCode: codes 1 to 127 end the job, and 128 to 255 restart the pod.",
    "OnFailure",
)  # fmt: skip
_RESTART: _Row = (
    "restartPolicy", "restart", _one_of("Never", "OnFailure"), "Reaction to a failed container.", "",
)  # fmt: skip
_POD: list[_Row] = [
    ("serviceAccountName", "-service account", STRING, "Service account of the pods.", "default"),
    ("priorityClassName", "-priority", STRING, "Priority class of the pods.", ""),
]
_TOPOLOGY: _Row = (
    REQUIRED_TOPOLOGY, "-topology",
    _one_of(
        "cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock",
        "kubernetes.io/hostname",
    ),
    "Kueue places all pods within one domain of this level.", "anywhere",
)  # fmt: skip


def sections(value: Any) -> list[tuple[Section, Path]] | None:
    """Return the sections of a manifest's form, each with the path of its object; None for another file."""
    manifest = _written(value)
    if manifest is None:
        return None
    written, head = manifest
    objects = objects_of(written) or []
    index = job_index(objects)
    if index is None:
        return []
    job = fields(list(objects), index)
    kind = workload_of(job)
    assert kind is not None
    single = isinstance(written, Mapping)
    listed = single and written.get("kind") == "List"
    base: Path = (*head, *(("items", index) if listed else () if single else (index,)))
    form_sections = [(Section("job", f"{kind.noun}", "manifest", _job_fields(kind)), base)]
    for group in groups(job):
        title = f"{group.role}" if kind.replicas or kind.key == "job_set" else "Nodes"
        form_sections.append(
            (Section(f"group:{group.role}", title, "manifest", _group_fields(kind, group)), base)
        )
    return form_sections


def _written(value: Any) -> tuple[Any, Path] | None:
    """Return a file's manifest and its path."""
    if isinstance(value, Mapping) and value.get(BODY) is not None:
        return value[BODY], (BODY,)
    if is_object(value) or (isinstance(value, list) and value and all(map(is_object, value))):
        return value, ()
    return None


def _job_fields(kind: WorkloadKind) -> tuple[FormField, ...]:
    run: Path = ("spec", "runPolicy") if kind.operator_v1 else ("spec",)
    timed: Path = ("spec", "replicatedJobs", 0, "template", "spec") if kind.key == "job_set" else run
    return (
        *_form_fields(("metadata",), _OBJECT),
        *_form_fields(timed, [_DEADLINE]),
        *_form_fields(run, _RUN_POLICY if kind.operator_v1 else [_SUSPEND]),
        *_form_fields(("spec",), _OF_KIND.get(kind.key, [])),
    )


def _group_fields(kind: WorkloadKind, group: ManifestGroup) -> tuple[FormField, ...]:
    container, resources = group.container_path, "resources" if group.template else "resourcesPerNode"
    *above, count = group.count_path
    group_fields = [
        *_form_fields(tuple(above), [(str(count), "replicas", INTEGER, "Pods of this group.", "1")]),
        *_form_fields(container, _CONTAINER),
        *_form_fields((*container, resources, "limits"), [(GPU, "GPUs", INTEGER, "GPUs per pod.", "none")]),
    ]
    if group.template:
        group_fields += _form_fields((*group.pod_path, "nodeSelector"), _SELECTOR)
    group_fields += _form_fields((*container, resources), _RESOURCES)
    if kind.operator_v1:
        group_fields += _form_fields(group.path, [_OPERATOR_RESTART])
    elif group.template:
        group_fields += _form_fields(group.pod_path, [_RESTART])
    if group.template:
        group_fields += _form_fields(group.pod_path, _POD)
        group_fields += _form_fields((*group.template, "metadata", "annotations"), [_TOPOLOGY])
    return tuple(group_fields)
