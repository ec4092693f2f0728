"""The operators' admission webhooks: defaults and validation before the API stores a job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from tui.domain.kubernetes.schema.check import type_problems
from tui.domain.kubernetes.schema.registry import schema_of
from tui.domain.kubernetes.webhook_defaults import with_webhook_defaults
from tui.emulator.kubernetes.admission.names import rfc1035_problems
from tui.emulator.kubernetes.errors import ApiNotFound, Forbidden, Invalid
from tui.emulator.kubernetes.objects import Admission, Objects
from tui.emulator.kubernetes.operators.jobset.validation import jobset_causes
from tui.emulator.kubernetes.operators.kueue.job_kinds import QUEUE_LABEL, QueuedKind, queued_kinds
from tui.emulator.kubernetes.operators.kueue.validation import cluster_queue_errors
from tui.emulator.kubernetes.operators.metadata import labels_of, name_of
from tui.emulator.kubernetes.operators.training.kinds import OPERATOR, PYTORCH, TENSORFLOW, JobKind
from tui.emulator.kubernetes.operators.trainjob.runtime import find_runtime, runtime_reference
from tui.emulator.kubernetes.resources import ApiResource, Obj, without_nulls

MULTI_KUEUE = "kueue.x-k8s.io/multikueue"
RESERVED = {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"}
RESERVED_MPI = {
    "OMPI_MCA_orte_default_hostfile",
    "OMPI_MCA_plm_rsh_args",
    "OMPI_MCA_orte_keep_fqdn_hostnames",
    "OMPI_MCA_orte_set_default_slots",
}
# API groups of the operators' types.
GROUPS = {"kubeflow.org", "jobset.x-k8s.io", "trainer.kubeflow.org", "kueue.x-k8s.io"}

Check = Callable[[Obj, Obj | None], Iterator[str]]


class Webhooks:
    """Defaults an object, runs the API's admission, then validates it."""

    def __init__(self, objects: Objects, api: Admission) -> None:
        self._objects, self._api = objects, api
        self._queued: dict[tuple[str, str], QueuedKind] = {
            (kind.group, kind.plural): kind for kind in queued_kinds(objects)
        }
        self._checks: dict[tuple[str, str], tuple[str, Check]] = {
            ("kubeflow.org", "pytorchjobs"): (
                "validator.pytorchjob.training-operator.kubeflow.org",
                lambda job, old: _training_job(PYTORCH, job, old),
            ),
            ("kubeflow.org", "tfjobs"): (
                "validator.tfjob.training-operator.kubeflow.org",
                lambda job, old: _training_job(TENSORFLOW, job, old),
            ),
            ("kueue.x-k8s.io", "clusterqueues"): ("vclusterqueue.kb.io", cluster_queue_errors),
            ("trainer.kubeflow.org", "trainjobs"): (
                "validator.trainjob.trainer.kubeflow.org",
                self._trainjob,
            ),
        }

    def __call__(self, resource: ApiResource, obj: Obj, old: Obj | None) -> None:
        """Admit an object. Raises the API's errors, and Forbidden."""
        key = (resource.group, resource.plural)
        queued = self._queued.get(key)
        if resource.group in GROUPS and isinstance(obj.get("spec"), dict):
            obj["spec"] = without_nulls(obj["spec"])
        schema = schema_of(resource.api_version, resource.kind) or {}
        if old is None and queued is not None and _waits_in_a_queue(obj) and not type_problems(obj, schema):
            queued.suspend(obj, True)
        obj.update(with_webhook_defaults(obj))
        self._api(resource, obj, old)
        if old is not None and obj.get("spec") == old.get("spec") and labels_of(obj) == labels_of(old):
            return
        if key == ("jobset.x-k8s.io", "jobsets"):
            causes = list(jobset_causes(self._objects, obj, old))
            if causes:
                raise Invalid.of(resource, name_of(obj), causes).by("vjobset.kb.io")
        webhook, check = self._checks.get(key, ("", None))
        if check is not None:
            _refuse(webhook, list(check(obj, old)))
        if queued is not None and old is not None:
            _refuse(f"v{resource.singular}.kb.io", list(_queue(queued, obj, old)))

    def _trainjob(self, job: Obj, old: Obj | None) -> Iterator[str]:
        reference = job["spec"]["runtimeRef"]
        runtime = find_runtime(self._objects, job)
        if runtime is None:
            if old is None:
                kind, name = runtime_reference(job)
                word = kind[0].lower() + kind[1:]
                missing = str(ApiNotFound.of(self._objects.resource(kind, "trainer.kubeflow.org"), name))
                yield (
                    f"spec.runtimeRef: Invalid value: {json.dumps(reference)}: {missing}: specified {word} "
                    "must be created before the TrainJob is created"
                )
            return
        policy = runtime["spec"].get("mlPolicy") or {}
        reserved = RESERVED_MPI if "mpi" in policy else RESERVED if "torch" in policy else set()
        names = {variable.get("name") for variable in (job["spec"].get("trainer") or {}).get("env") or ()}
        if names & reserved:
            named = " ".join(sorted(reserved & names))
            rule = "must not have reserved envs, invalid envs configured"
            yield f"spec.trainer.env: Invalid value: {rule}: [{named}]"
        template = (runtime["spec"].get("template") or {}).get("spec") or {}
        known = {replicated["name"] for replicated in template.get("replicatedJobs") or ()}
        for patch in job["spec"].get("runtimePatches") or ():
            spec = ((patch.get("trainingRuntimeSpec") or {}).get("template") or {}).get("spec") or {}
            if any(replicated.get("name") not in known for replicated in spec.get("replicatedJobs") or ()):
                rule = "must not have replicated job that doesn't exist in the runtime job template"
                yield f"spec.runtimePatches: Invalid value: {rule}"


def _waits_in_a_queue(obj: Obj) -> bool:
    """Return whether a new job has a queue and no owner."""
    named = bool(labels_of(obj).get(QUEUE_LABEL)) and not obj["metadata"].get("ownerReferences")
    return named and isinstance(obj.get("spec"), dict)


def _refuse(webhook: str, reasons: list[str]) -> None:
    if reasons:
        raise Forbidden(reasons[0] if len(reasons) == 1 else f"[{', '.join(reasons)}]").by(webhook)


def _queue(kind: QueuedKind, job: Obj, old: Obj) -> Iterator[str]:
    """Check that a running job does not change its queue."""
    before, after = labels_of(old).get(QUEUE_LABEL), labels_of(job).get(QUEUE_LABEL)
    if before and before != after and not kind.is_suspended(old):
        yield f'metadata.labels[{QUEUE_LABEL}]: Invalid value: "{after or ""}": field is immutable'


def _training_job(kind: JobKind, job: Obj, old: Obj | None) -> Iterator[str]:
    for rule in rfc1035_problems(name_of(job))[:1]:
        yield f'metadata.name: Invalid value: "{name_of(job)}": should match: {rule}'
    yield from _run_policy(job, old)
    spec = job["spec"]
    if spec.get("elasticPolicy") is not None:
        yield from _elastic(spec)
    replicas = spec.get(kind.replica_specs)
    if replicas is None:
        yield f"spec.{kind.replica_specs}: Required value: must be required"
    for replica_type, replica in (replicas or {}).items():
        yield from _replica(kind, replica_type, replica or {})


def _run_policy(job: Obj, old: Obj | None) -> Iterator[str]:
    manager = (job["spec"].get("runPolicy") or {}).get("managedBy")
    if manager not in (None, OPERATOR, MULTI_KUEUE):
        yield (
            f'spec.runPolicy.managedBy: Unsupported value: "{manager}": supported values: "{OPERATOR}", '
            f'"{MULTI_KUEUE}"'
        )
    if old is not None and manager != (old["spec"].get("runPolicy") or {}).get("managedBy"):
        yield f'spec.runPolicy.managedBy: Invalid value: "{manager or ""}": field is immutable'


def _elastic(spec: Obj) -> Iterator[str]:
    if "Worker" not in (spec.get(PYTORCH.replica_specs) or {}):
        rule = "must be configured if elastic policy is used"
        yield f"spec.{PYTORCH.replica_specs}[Worker]: Required value: {rule}"
    if spec["elasticPolicy"].get("nProcPerNode") is not None and spec.get("nprocPerNode") is not None:
        yield "spec.elasticPolicy.nProcPerNode: Forbidden: must not be used with spec.nprocPerNode"


def _replica(kind: JobKind, replica_type: str, replica: Obj) -> Iterator[str]:
    at = f"spec.{kind.replica_specs}[{replica_type}]"
    if replica_type not in kind.replica_types:
        supported = ", ".join(f'"{known}"' for known in kind.replica_types)
        yield f'{at}: Unsupported value: "{replica_type}": supported values: {supported}'
        return
    containers = ((replica.get("template") or {}).get("spec") or {}).get("containers") or []
    if not containers:
        yield f"{at}.template.spec.containers: Required value: must be specified"
    for index, container in enumerate(containers):
        if not container.get("image"):
            yield f"{at}.template.spec.containers[{index}].image: Required value: must be required"
    if all(container.get("name") != kind.container for container in containers):
        rule = f"must have at least one container with name {kind.container}"
        yield f"{at}.template.spec.containers: Required value: {rule}"
    count = replica.get("replicas")
    if kind is PYTORCH and replica_type == "Master" and count != 1:
        yield f"{at}.replicas: Forbidden: must be 1"
    elif kind is PYTORCH and count is not None and int(count) < 1:
        yield f"{at}.replicas: Forbidden: must be at least 1"
