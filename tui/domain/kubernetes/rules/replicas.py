"""Rules about replica groups: roles, counts, processes per GPU, elastic bounds and gangs."""

from __future__ import annotations

from collections.abc import Iterator

from tui.domain.core.formatting import pieces
from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.kubernetes.rules.base import (
    BATCH_JOB,
    GANG,
    MPI_VALIDATION,
    PYTORCH_TYPES,
    PYTORCH_WEBHOOK,
    TF_WEBHOOK,
    TRAIN_JOB,
    V1_TYPES,
    ManifestCase,
    ManifestRule,
)
from tui.domain.kubernetes.workloads import ManifestGroup, at, elements, fields, gpus, whole
from tui.domain.spec.findings import Finding

_SINGLE = frozenset({"Master", "Chief", "Launcher"})
_NPROC_WORDS = frozenset({"auto", "cpu", "gpu"})


def roles(case: ManifestCase) -> Iterator[Finding]:
    kind = case.workload
    if kind is None or not kind.replicas:
        return
    names = [group.role for group in case.groups]
    for group in case.groups:
        if group.role not in kind.roles:
            right = next((r for r in kind.roles if r.lower() == group.role.lower()), "")
            fix = f"Write {right}." if right else f"A {kind.noun} has {', '.join(kind.roles)}."
            moved = Edit((*group.path[:-1], right), at(case.job, *group.path))
            edits = (moved, Edit(group.path, REMOVED)) if right else ()
            yield Finding(group.path, f"{group.role} must be a role of a {kind.noun}.", fix, edits)
    if not names:
        yield Finding(
            ("spec", kind.replicas), "the job must have replicas.", f"Add {kind.roles[0]} or Worker."
        )
    if {"Chief", "Master"} <= set(names):
        path = ("spec", kind.replicas, "Master")
        yield Finding(
            path, "a TFJob must have a Chief or a Master, not both.", "Remove one.", source=TF_WEBHOOK
        )
    if kind.key == "mpi_job" and names and "Launcher" not in names:
        sentence = "an MPIJob must have a Launcher, which starts the workers' processes."
        yield Finding(
            ("spec", kind.replicas), sentence, "Add a Launcher with 1 replica.", source=MPI_VALIDATION
        )


def numbers(case: ManifestCase) -> Iterator[Finding]:
    for group in case.groups:
        if group.replicas is None:
            continue
        if group.role in _SINGLE and group.replicas != 1:
            edits = (Edit(group.count_path, 1),)
            yield Finding(
                group.count_path,
                f"{group.role} has {group.replicas} replicas but must have 1.",
                "Write 1.",
                edits,
            )
        elif group.replicas < 1:
            sentence = f"{group.role} has {group.replicas} replicas."
            yield Finding(group.count_path, sentence, f"Write at least 1, or remove {group.role}.")


def processes(case: ManifestCase) -> Iterator[Finding]:
    """Compare `nprocPerNode` with the GPUs of the pods."""
    for path, group in _process_fields(case):
        processes_field, count = at(case.job, *path), gpus(group)
        number = whole(processes_field)
        if (
            processes_field is None
            or count is None
            or (isinstance(processes_field, str) and processes_field in _NPROC_WORDS)
        ):
            continue
        if number is None:
            if not (isinstance(processes_field, str) and "${" in processes_field):
                yield Finding(
                    path,
                    f"{processes_field!r} must be a number, auto, cpu or gpu.",
                    f"Write {count or 1}.",
                )
        elif count and number > count:
            edits = (Edit(path, type(processes_field)(count)),)
            sentence = f"{number} processes start on a pod with {count} GPUs; {number - count} get no GPU."
            yield Finding(path, sentence, f"Write {count}.", edits)


def idle_gpus(case: ManifestCase) -> Iterator[Finding]:
    for path, group in _process_fields(case):
        started, count = whole(at(case.job, *path)), gpus(group)
        if started is not None and count and started < count:
            processes = pieces(started, "process", "processes")
            sentence = f"{processes} on a pod with {count} GPUs: {count - started} may be idle."
            fix = f"Write {count}, unless the code starts its processes itself, as vxtui's trainer does."
            yield Finding(path, sentence, fix)


def _process_fields(case: ManifestCase) -> Iterator[tuple[tuple[str | int, ...], ManifestGroup]]:
    """Yield the path of the number of processes, with the group that has the smallest number of GPUs."""
    kind = case.kind
    path: tuple[str | int, ...]
    training = [group for group in case.groups if group.role not in {"Launcher", "PS", "Evaluator"}]
    fewest = sorted(training, key=lambda group: gpus(group) or 0)
    if not fewest:
        return
    if kind == "pytorch_job":
        path = ("spec", "nprocPerNode")
        if at(case.job, *path) is None and at(case.job, "spec", "elasticPolicy", "nProcPerNode") is not None:
            path = ("spec", "elasticPolicy", "nProcPerNode")
        yield path, fewest[0]
    elif kind == "train_job":
        yield ("spec", "trainer", "numProcPerNode"), fewest[0]
    elif kind == "mpi_job":
        yield ("spec", "slotsPerWorker"), fewest[0]


def elastic(case: ManifestCase) -> Iterator[Finding]:
    policy = fields(case.job, "spec", "elasticPolicy")
    if case.kind != "pytorch_job" or not policy:
        return
    path = ("spec", "elasticPolicy")
    least, most = whole(policy.get("minReplicas", 1)), whole(policy.get("maxReplicas"))
    workers = next((group for group in case.groups if group.role == "Worker"), None)
    if workers is None:
        yield Finding(
            path,
            "elastic training must have a Worker group, whose size changes.",
            "Add one.",
            source=PYTORCH_WEBHOOK,
        )
        return
    if least is not None and most is not None and least > most:
        yield Finding(
            (*path, "minReplicas"), f"minReplicas {least} must be at most maxReplicas {most}.", "Swap them."
        )
    elif workers.replicas is not None and least is not None and workers.replicas < least:
        sentence = (
            f"Worker has {workers.replicas} replicas, fewer than minReplicas {least}: training does not "
            "start."
        )
        yield Finding(workers.count_path, sentence, f"Write {least}.", (Edit(workers.count_path, least),))
    elif workers.replicas is not None and most is not None and workers.replicas > most:
        sentence = (
            f"Worker has {workers.replicas} replicas, more than maxReplicas {most}: the others stay unused."
        )
        yield Finding(workers.count_path, sentence, f"Write {most}.", (Edit(workers.count_path, most),))
    if policy.get("nProcPerNode") is not None and at(case.job, "spec", "nprocPerNode") is not None:
        inner = (*path, "nProcPerNode")
        yield Finding(
            inner,
            "spec.nprocPerNode is set too and replaces this field.",
            "Remove it.",
            (Edit(inner, REMOVED),),
            source=PYTORCH_WEBHOOK,
        )


def elastic_master(case: ManifestCase) -> Iterator[Finding]:
    """Warn about a Master, which an elastic job can't lose."""
    roles = {group.role for group in case.groups}
    if fields(case.job, "spec", "elasticPolicy") and "Master" in roles:
        sentence = "an elastic job ends with its Master: only workers may join and leave."
        path = ("spec", "pytorchReplicaSpecs", "Master")
        yield Finding(path, sentence, "Use only workers, with rdzvBackend c10d.")


def gang(case: ManifestCase) -> Iterator[Finding]:
    path = ("spec", "runPolicy", "schedulingPolicy", "minAvailable")
    least, total = whole(at(case.job, *path)), case.replicas
    if case.workload is None or not case.workload.operator_v1 or least is None or total is None:
        return
    most = whole(at(case.job, "spec", "elasticPolicy", "maxReplicas"))
    if least > max(total, most or 0):
        sentence = (
            f"minAvailable is {least}, but the job has {total} pods: the gang never completes and never "
            "starts."
        )
        yield Finding(path, sentence, f"Write {total}.", (Edit(path, total),))


def loose_gang(case: ManifestCase) -> Iterator[Finding]:
    path = ("spec", "runPolicy", "schedulingPolicy", "minAvailable")
    least, total = whole(at(case.job, *path)), case.replicas
    if least is None or total is None or fields(case.job, "spec", "elasticPolicy"):
        return
    if 0 < least < total:
        sentence = (
            f"{least} of {total} pods may start alone and hold their nodes while they wait for the others."
        )
        yield Finding(
            path,
            sentence,
            f"Write {total}, or remove minAvailable: the default is all pods.",
            (Edit(path, total),),
        )


def train_job(case: ManifestCase) -> Iterator[Finding]:
    if case.kind != "train_job":
        return
    name = at(case.job, "spec", "runtimeRef", "name")
    if not name:
        sentence = "a TrainJob must have a runtime, which defines its pods."
        fix = "Write runtimeRef: {name: torch-distributed}, or the runtime of your cluster."
        yield Finding(("spec", "runtimeRef", "name"), sentence, fix)
        return
    kind = at(case.job, "spec", "runtimeRef", "kind") or "ClusterTrainingRuntime"
    listed = [
        str(fields(obj, "metadata").get("name")) for obj in case.objects if fields(obj).get("kind") == kind
    ]
    if kind == "TrainingRuntime" and listed and name not in listed:
        sentence = f"the objects contain no runtime {name}, only {', '.join(listed)}."
        yield Finding(("spec", "runtimeRef", "name"), sentence, f"Write {listed[0]}.")
    elif kind == "ClusterTrainingRuntime" and any(
        fields(obj).get("kind") == "TrainingRuntime" and fields(obj, "metadata").get("name") == name
        for obj in case.objects
    ):
        path = ("spec", "runtimeRef", "kind")
        sentence = (
            f"{name} is a TrainingRuntime in this file, but the reference names a ClusterTrainingRuntime."
        )
        yield Finding(path, sentence, "Write kind: TrainingRuntime.", (Edit(path, "TrainingRuntime"),))


def elastic_train_job(case: ManifestCase) -> Iterator[Finding]:
    for i, obj in enumerate(case.objects):
        if fields(obj).get("kind") in ("TrainingRuntime", "ClusterTrainingRuntime"):
            path = ("spec", "mlPolicy", "torch", "elasticPolicy")
            if at(obj, *path) is not None:
                sentence = "Trainer has had no elastic training since 2.2: it ignores the field."
                yield Finding(
                    ("manifest", "objects", i, *path), sentence, "Use a PyTorchJob for elastic training."
                )


def batch(case: ManifestCase) -> Iterator[Finding]:
    """Check that the pods of a batch Job that train together have an index."""
    if case.kind != "batch_job":
        return
    spec = fields(case.job, "spec")
    pods, total = whole(spec.get("parallelism", 1)), whole(spec.get("completions"))
    if pods is not None and pods > 1 and spec.get("completionMode") != "Indexed":
        path = ("spec", "completionMode")
        sentence = f"without an index the {pods} pods can't determine their node ranks."
        yield Finding(
            path,
            sentence,
            "Write Indexed, with completions equal to parallelism.",
            (Edit(path, "Indexed"), Edit(("spec", "completions"), pods)),
        )
    elif spec.get("completionMode") == "Indexed" and pods is not None and total is not None and total != pods:
        path = ("spec", "completions")
        sentence = f"{total} completions with {pods} pods at a time: they never train together."
        yield Finding(path, sentence, f"Write {pods}.", (Edit(path, pods),))


def empty_pods(case: ManifestCase) -> Iterator[Finding]:
    for group in case.groups:
        if group.template and not elements(group.pod, "containers"):
            sentence = f"the pods of {group.role} must have a container."
            yield Finding(
                (*group.pod_path, "containers"), sentence, "Add a container with a name and an image."
            )


RULES = (
    ManifestRule("replicas.role", V1_TYPES, roles),
    ManifestRule("replicas.number", PYTORCH_WEBHOOK, numbers),
    ManifestRule("replicas.containers", BATCH_JOB, empty_pods),
    ManifestRule("replicas.processes", PYTORCH_TYPES, processes),
    ManifestRule("replicas.idle-gpus", PYTORCH_TYPES, idle_gpus, ProblemSeverity.WARNING),
    ManifestRule("replicas.elastic", PYTORCH_TYPES, elastic),
    ManifestRule("replicas.elastic-master", PYTORCH_TYPES, elastic_master, ProblemSeverity.WARNING),
    ManifestRule("replicas.gang", GANG, gang),
    ManifestRule("replicas.loose-gang", GANG, loose_gang, ProblemSeverity.WARNING),
    ManifestRule("replicas.runtime", TRAIN_JOB, train_job),
    ManifestRule(
        "replicas.elastic-runtime", TRAIN_JOB, elastic_train_job, ProblemSeverity.WARNING, whole=True
    ),
    ManifestRule("replicas.index", BATCH_JOB, batch, ProblemSeverity.WARNING),
)
