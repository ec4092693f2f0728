"""Rules about the container's environment at run time."""

from __future__ import annotations

from collections.abc import Iterator

from tui.domain.document.document_edit import Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.kubernetes.rules.base import API, SHM, ManifestCase, ManifestRule
from tui.domain.kubernetes.shared_memory import DEV_SHM, SHARED_MEMORY, loader_workers
from tui.domain.kubernetes.workloads import elements, fields, gpus
from tui.domain.spec.findings import Finding


def shared_memory(case: ManifestCase) -> Iterator[Finding]:
    for group in case.groups:
        count = loader_workers(group.container)
        mounts = elements(group.container, "volumeMounts")
        if not group.template or not count or any(fields(m).get("mountPath") == DEV_SHM for m in mounts):
            continue
        volumes = elements(group.pod, "volumes")
        at_mounts, at_volumes = (*group.container_path, "volumeMounts"), (*group.pod_path, "volumes")
        edits = (
            *(() if volumes else (Edit(at_volumes, []),)),
            Edit((*at_volumes, len(volumes)), dict(SHARED_MEMORY)),
            *(() if mounts else (Edit(at_mounts, []),)),
            Edit((*at_mounts, len(mounts)), {"name": "dshm", "mountPath": DEV_SHM}),
        )
        sentence = (
            f"{count} loader processes share batches through {DEV_SHM}, which has 64 MB in a pod: they "
            "crash with a bus error."
        )
        fix = f"Mount an emptyDir with medium Memory at {DEV_SHM}; it counts against the pod's memory."
        yield Finding(at_mounts, sentence, fix, edits)


def memory(case: ManifestCase) -> Iterator[Finding]:
    """Warn about GPU pods without a memory request, because a full node may accept and then evict them
    first."""
    for group in case.groups:
        resources = fields(group.container, "resources")
        amounts = {**fields(resources, "limits"), **fields(resources, "requests")}
        if group.template and gpus(group) and "memory" not in amounts:
            path = (*group.container_path, "resources", "requests")
            sentence = f"the pods of {group.role} request no memory: a full node evicts them first."
            yield Finding(path, sentence, "Request 90 % of the node's memory.")


def variables(case: ManifestCase) -> Iterator[Finding]:
    """Find duplicate variables. The last value counts; the operator's variables follow the file's
    variables."""
    for group in case.groups:
        seen: dict[str, int] = {}
        for i, variable in enumerate(elements(group.container, "env")):
            name = fields(variable).get("name")
            if not isinstance(name, str):
                continue
            if name in seen:
                yield Finding(
                    (*group.container_path, "env", i, "name"),
                    f"{name} is set twice; the last value counts.",
                    "Keep one.",
                )
            seen[name] = i


_SET_BY_OPERATOR = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "TF_CONFIG", "PET_NNODES", "PET_NODE_RANK"}
)


def operators_variables(case: ManifestCase) -> Iterator[Finding]:
    if case.kind not in {"pytorch_job", "tf_job", "train_job"}:
        return
    for group in case.groups:
        for i, variable in enumerate(elements(group.container, "env")):
            if fields(variable).get("name") in _SET_BY_OPERATOR:
                sentence = (
                    f"the operator sets {fields(variable)['name']} itself, so a pod would have it twice."
                )
                yield Finding((*group.container_path, "env", i, "name"), sentence, "Remove it.")


RULES = (
    ManifestRule("runtime.shm", SHM, shared_memory, ProblemSeverity.WARNING),
    ManifestRule("runtime.memory", API, memory, ProblemSeverity.NOTE),
    ManifestRule("runtime.variable-twice", API, variables, ProblemSeverity.WARNING),
    ManifestRule("runtime.operators-variable", API, operators_variables, ProblemSeverity.WARNING),
)
