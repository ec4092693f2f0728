"""CEL rules of Kubeflow's definitions, apart from those for immutable fields."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tui.domain.kubernetes.schema.language import UNCHANGED
from tui.emulator.kubernetes.errors import FieldCause
from tui.emulator.kubernetes.resources import ApiResource, Obj

TRAINER = "trainer.kubeflow.org"
_MANAGERS = ("trainer.kubeflow.org/trainjob-controller", "kueue.x-k8s.io/multikueue")
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+", re.DOTALL)


def has_rules(schema: Obj) -> bool:
    """Return whether a definition has CEL rules, which the API server evaluates for otherwise valid
    objects."""
    if UNCHANGED in str(schema):
        return True
    return any(has_rules(field) for field in (schema.get("properties") or {}).values())


def rule_causes(resource: ApiResource, obj: Obj) -> Iterator[FieldCause]:
    """Yield the violations of a type's rules in an object that fits the schema."""
    if resource.kind == "TrainJob" and resource.group == TRAINER:
        yield from _train_job(obj)
    elif resource.kind == "JobSet":
        spec = obj.get("spec") or {}
        ordered = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
        if ordered and any("dependsOn" in job for job in spec.get("replicatedJobs") or ()):
            why = "StartupPolicy and DependsOn APIs are mutually exclusive"
            yield _broken("spec", "object", why)


def _train_job(job: Obj) -> Iterator[FieldCause]:
    name, spec = str(job["metadata"].get("name") or ""), job.get("spec") or {}
    if not _NAME.fullmatch(name):
        yield _broken("<nil>", "object", "metadata.name must match RFC 1035 DNS label format")
    if len(name) > 63:
        yield _broken("<nil>", "object", "metadata.name must be no more than 63 characters")
    for part in ("dataset", "model"):
        address = ((spec.get("initializer") or {}).get(part) or {}).get("storageUri")
        if address and not _ADDRESS.fullmatch(address):
            why = "storageUri may be empty, or it must be a valid URI (scheme://...)"
            yield _broken(f"spec.initializer.{part}.storageUri", "string", why)
    if spec.get("managedBy") not in (None, *_MANAGERS):
        yield _broken("spec.managedBy", "string", f"ManagedBy must be {' or '.join(_MANAGERS)} if set")


def _broken(field: str, kind: str, why: str) -> FieldCause:
    return FieldCause(field, f'Invalid value: "{kind}": {why}')
