"""Sections of a manifest's form: common fields of the job and of each replica group."""

from __future__ import annotations

from collections.abc import Mapping
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
    Group,
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


_RESTARTS = _one_of("OnFailure", "Never", "ExitCode", "Always")
_CLEAN = _one_of("None", "Running", "All")
_TYPES = FieldType("enum", choices=ACCELERATORS)
_YES = _one_of("true")


def _field(
    path: Path, label: str, words: str, kind: FieldType, unset: str = "", *, common: bool = True
) -> FormField:
    # Paths contain list indices as well as names.
    return FormField(path, label, words, kind, common, unset)  # type: ignore[arg-type]


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
    job_fields = [
        _field(
            ("metadata", "namespace"),
            "namespace",
            "Where it is launched, unless a launch says it.",
            STRING,
            "the context's first",
        ),
        _field(
            ("metadata", "labels", QUEUE),
            "queue",
            "LocalQueue of Kueue that admits the job.",
            STRING,
            "no queue: it starts at once",
        ),
        _field(("metadata", "labels"), "labels", "Labels of the job object.", LABELS, common=False),
        _field(
            ("metadata", "annotations"), "annotations", "Annotations of the job object.", LABELS, common=False
        ),
    ]
    run: Path = ("spec", "runPolicy") if kind.operator_v1 else ("spec",)
    deadline: Path = (*run, "activeDeadlineSeconds")
    if kind.key == "job_set":
        deadline = ("spec", "replicatedJobs", 0, "template", "spec", "activeDeadlineSeconds")
    job_fields.append(
        _field(deadline, "deadline", "Seconds after which the job ends.", INTEGER, "it has none")
    )
    if kind.operator_v1:
        job_fields += [
            _field(
                (*run, "cleanPodPolicy"),
                "clean pods",
                "Which pods are deleted when the job ends: None keeps all with their logs.",
                _CLEAN,
                "the operator decides",
            ),
            _field(
                (*run, "backoffLimit"),
                "backoff limit",
                "Failures after which the job fails; its pods are "
                "deleted then, whatever the line above says.",
                INTEGER,
                "no limit",
            ),
            _field(
                (*run, "schedulingPolicy", "minAvailable"),
                "gang",
                "Pods that must be placed before any starts, with a gang scheduler.",
                INTEGER,
                "all of them",
                common=False,
            ),
            _field(
                (*run, "suspend"),
                "suspended",
                "Created suspended: no pods until it is resumed.",
                BOOLEAN,
                "no",
                common=False,
            ),
            _field(
                (*run, "ttlSecondsAfterFinished"),
                "deleted after",
                "Seconds after its end.",
                INTEGER,
                "never",
                common=False,
            ),
        ]
    else:
        job_fields.append(
            _field(
                ("spec", "suspend"),
                "suspended",
                "Created suspended: no pods until it is resumed.",
                BOOLEAN,
                "no",
                common=False,
            )
        )
    job_fields += _OF_KIND.get(kind.key, [])
    return tuple(job_fields)


_ELASTIC: Path = ("spec", "elasticPolicy")
_OF_KIND: Mapping[str, list[FormField]] = {
    "pytorch_job": [
        _field(
            ("spec", "nprocPerNode"),
            "processes",
            "Processes of a pod: a number, auto, cpu or gpu. vxtui's trainer starts one for each GPU itself.",
            STRING,
            "auto",
        ),
        _field(
            (*_ELASTIC, "minReplicas"),
            "elastic from",
            "Fewest workers with which it trains.",
            INTEGER,
            "not elastic",
        ),
        _field((*_ELASTIC, "maxReplicas"), "elastic to", "Most workers.", INTEGER, "not elastic"),
        _field(
            (*_ELASTIC, "rdzvBackend"),
            "rendezvous",
            "How elastic workers find each other.",
            _one_of("c10d", "etcd-v2"),
            "c10d",
            common=False,
        ),
        _field(
            (*_ELASTIC, "maxRestarts"),
            "restarts",
            "Restarts of an elastic job's processes.",
            INTEGER,
            common=False,
        ),
    ],
    "tf_job": [
        _field(
            ("spec", "successPolicy"),
            "success",
            "AllWorkers: the job ends with its last worker.",
            _one_of("AllWorkers"),
            "it ends with the chief",
        ),
    ],
    "mpi_job": [
        _field(
            ("spec", "slotsPerWorker"), "slots", "Processes that mpirun starts on a worker.", INTEGER, "1"
        ),
    ],
    "train_job": [
        _field(("spec", "runtimeRef", "name"), "runtime", "The runtime that says how it runs.", STRING),
        _field(
            ("spec", "runtimeRef", "kind"),
            "runtime kind",
            "Of the cluster, or of the namespace.",
            _one_of("ClusterTrainingRuntime", "TrainingRuntime"),
            "ClusterTrainingRuntime",
            common=False,
        ),
    ],
    "job_set": [
        _field(
            ("spec", "failurePolicy", "maxRestarts"),
            "restarts",
            "How often the whole set is run again.",
            INTEGER,
            "0",
        ),
    ],
    "batch_job": [
        _field(
            ("spec", "backoffLimit"),
            "backoff limit",
            "Failures of pods after which the job fails.",
            INTEGER,
            "6",
        ),
        _field(("spec", "completions"), "completions", "Pods that must succeed.", INTEGER, "as many as pods"),
        _field(
            ("spec", "completionMode"),
            "completion",
            "Indexed gives each pod its number.",
            _one_of("Indexed", "NonIndexed"),
            "NonIndexed",
        ),
    ],
}


def _group_fields(kind: WorkloadKind, group: Group) -> tuple[FormField, ...]:
    container, resources = group.container_path, "resources" if group.template else "resourcesPerNode"
    group_fields = [
        _field(group.count_path, "replicas", "Pods of this group.", INTEGER, "1"),
        _field((*container, "image"), "image", "Container image, with a tag or a digest.", STRING),
        _field(
            (*container, "command"),
            "command",
            "Replaces the image's entry point.",
            STRINGS,
            "the image's own",
            common=False,
        ),
        _field((*container, "args"), "arguments", "Given to the entry point.", STRINGS),
        _field(
            (*container, "env"),
            "environment",
            "Variables of the container. Secrets belong into a Secret.",
            ENV,
        ),
        _field((*container, resources, "limits", GPU), "GPUs", "GPUs of one pod.", INTEGER, "none"),
    ]
    if group.template:
        selector: Path = (*group.pod_path, "nodeSelector")
        group_fields += [
            _field((*selector, ACCELERATOR), "GPU type", "Label of GKE's nodes.", _TYPES, "any"),
            _field(
                (*selector, SPOT),
                "Spot",
                "true: only Spot nodes of GKE. They have a taint too: F on the "
                "warning adds what tolerates it.",
                _YES,
                "any node that has no taint",
            ),
            _field(
                (*selector, INSTANCE_TYPE),
                "machine",
                "Machine type of the nodes.",
                STRING,
                "any",
                common=False,
            ),
        ]
    requests: Path = (*container, resources, "requests")
    group_fields += [
        _field((*requests, "cpu"), "CPUs", "CPUs that one pod asks for: 4, or 500m for a half.", STRING),
        _field((*requests, "memory"), "memory", "Memory that one pod asks for: 64Gi.", STRING),
        _field(
            (*container, resources, "limits", "memory"),
            "memory limit",
            "A container that uses more is killed (OOMKilled).",
            STRING,
            "that of the node",
        ),
    ]
    if kind.operator_v1:
        group_fields.append(
            _field(
                (*group.path, "restartPolicy"),
                "restart",
                "What happens to a pod that fails. ExitCode: 1 to "
                "127 end the job, 128 to 255 are tried again.",
                _RESTARTS,
                "OnFailure",
            )
        )
    elif group.template:
        group_fields.append(
            _field(
                (*group.pod_path, "restartPolicy"),
                "restart",
                "What happens to a container that fails.",
                _one_of("Never", "OnFailure"),
            )
        )
    if group.template:
        notes: Path = (*group.template, "metadata", "annotations")
        group_fields += [
            _field(
                (*group.pod_path, "serviceAccountName"),
                "service account",
                "The pods act as it.",
                STRING,
                "default",
                common=False,
            ),
            _field(
                (*group.pod_path, "priorityClassName"), "priority", "Class of the pods.", STRING, common=False
            ),
            _field(
                (*notes, REQUIRED_TOPOLOGY),
                "topology",
                "Kueue places all pods within one of these.",
                _one_of(
                    "cloud.google.com/gce-topology-block",
                    "cloud.google.com/gce-topology-subblock",
                    "kubernetes.io/hostname",
                ),
                "anywhere",
                common=False,
            ),
        ]
    return tuple(group_fields)
