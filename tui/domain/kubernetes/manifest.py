"""The body `manifest`: Kubernetes objects, one of which is a training job."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tui.domain.document.source import Document, Path, Problem, ProfileInvalid
from tui.domain.kubernetes.accelerators import shown
from tui.domain.kubernetes.objects import (
    LIST_KIND,
    as_list,
    cleaned,
    dns_name,
    is_object,
    job_in,
    named,
    objects_of,
    with_variable,
)
from tui.domain.kubernetes.rules import ManifestCase, check_manifest
from tui.domain.kubernetes.rules.names import final_name_problem
from tui.domain.kubernetes.workloads import (
    accelerator,
    at,
    fields,
    gpus,
    groups,
    job_index,
    tpus,
    workload_of,
)
from tui.domain.spec.field_table import LABELS, STRING, VALUE, FieldType, message
from tui.domain.spec.findings import Case, Finding
from tui.domain.spec.spec_format import GroupSummary, SpecFormat

BODY = "manifest"
OBJECTS = "objects"


class ManifestFormat(SpecFormat):
    """The body `manifest`: one object, or a list of objects with the job last. Its fields are always
    `{objects: […]}`, even if the file has another layout; the paths of findings follow these fields."""

    body = BODY
    family = "kubernetes"
    fields: FieldType = message("Manifest", objects=VALUE)
    written = VALUE
    spec_path: Path = (BODY,)
    collection = "objects"
    resource_key = BODY
    resource_fields: Mapping[str, FieldType] = {"metadata": LABELS, "apiVersion": STRING, "kind": STRING}
    python_client = ""
    sign = "apiVersion"
    fix = "Write a Kubernetes object with apiVersion, kind, metadata and spec, or a list of them."
    unpriced = "the nodes of a cluster are billed, whether a job uses them or not"

    def as_fields(self, value: Any) -> dict[str, Any] | None:
        objects = objects_of(value)
        return None if objects is None else {OBJECTS: objects}

    def as_written(self, body: Mapping[str, Any]) -> Any:
        objects = list(body.get(OBJECTS) or [])
        return objects[0] if len(objects) == 1 else objects

    def in_file(self, path: Path, value: Any) -> Path:
        if path[:2] != (BODY, OBJECTS):
            return path
        wrapped = isinstance(value, Mapping) and BODY in value
        written = value[BODY] if wrapped else value
        rest = path[2:]
        if isinstance(written, Mapping):
            # A single object, or a List.
            listed = written.get("kind") == LIST_KIND and isinstance(written.get("items"), list)
            rest = ("items", *rest) if listed else rest[1:]
        return (BODY, *rest) if wrapped else rest

    def stands_alone(self, names: Collection[str]) -> bool:
        return {"apiVersion", "kind"} <= set(names)

    def bare(self, document: Document) -> tuple[dict[str, Any], list[Problem], list[Problem]]:
        if document.repeated:
            raise ProfileInvalid(list(document.repeated))
        return self.as_fields(document.value) or {}, [], []

    def title(self, body: Mapping[str, Any]) -> str:
        metadata = fields(_job(body), "metadata")
        if not metadata.get("name") and metadata.get("generateName"):
            return f"{metadata['generateName']}{{n}}"
        return str(metadata.get("name") or "")

    def place(self, body: Mapping[str, Any]) -> str:
        return str(fields(_job(body), "metadata").get("namespace") or "")

    def spec(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        return None

    def beside(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return dict(body)

    def groups(self, job: Mapping[str, Any]) -> tuple[GroupSummary, ...]:
        summaries = []
        for group in groups(_job(fields(job, BODY))):
            count = gpus(group) if gpus(group) != 0 else tpus(group)
            summaries.append(
                GroupSummary(
                    group.name,
                    group.replicas,
                    shown(accelerator(group)) or ("TPU" if tpus(group) else "GPU" if count != 0 else ""),
                    count,
                    str(group.container.get("image") or ""),
                )
            )
        return tuple(summaries)

    def with_variable(self, job: Mapping[str, Any], name: str, value: str) -> dict[str, Any] | None:
        objects = list(fields(job, BODY).get(OBJECTS) or [])
        index = job_index(objects)
        if index is None:
            return None
        objects[index] = with_variable(objects[index], name, value)
        return {**job, BODY: {**fields(job, BODY), OBJECTS: objects}}

    def rules(self, case: Case) -> list[Finding]:
        return check_manifest(case)

    def name_problem(self, job: Mapping[str, Any]) -> tuple[str, str] | None:
        return super().name_problem(job) or final_name_problem(ManifestCase.of(Case(job)))

    def resource(self, job: Mapping[str, Any]) -> dict[str, Any]:
        objects = fields(job, BODY).get(OBJECTS) or []
        name, labels = str(job.get("displayName") or ""), fields(job, "labels")
        return as_list(named(objects, name, {k: str(v) for k, v in labels.items()}))

    def resource_title(self, resource: Mapping[str, Any]) -> str:
        return str(at(job_in(resource), "metadata", "name") or "")

    def job_of(self, resource: Mapping[str, Any]) -> Mapping[str, Any]:
        return job_in(resource)

    def create_path(self, project: str, region: str, job: Mapping[str, Any]) -> str:
        target = _job(fields(job, BODY))
        kind = workload_of(target)
        if kind is None:
            return "no job"
        version = str(target.get("apiVersion") or "")
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        return f"{root}/namespaces/{region or 'default'}/{kind.plural}"

    def header(self, resource: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        objects = objects_of(resource) or []
        if not all(map(is_object, objects)) or job_index(objects) is None:
            kinds = ", ".join(dict.fromkeys(str(fields(obj).get("kind")) for obj in objects))
            message = f"the manifest must contain a training job, not only {kinds or 'nothing'}."
            raise ProfileInvalid([Problem(str(at(resource, "metadata", "name") or ""), 0, "", message)])
        clean_objects = [cleaned(obj) for obj in objects]
        index = job_index(clean_objects)
        job = clean_objects[-1 if index is None else index]
        name = str(job["metadata"].pop("name", "") or "job")
        notes = []
        if at(resource, "spec", "suspend") is True or at(resource, "spec", "runPolicy", "suspend") is True:
            notes.append("the job is suspended, and so is its launch")
        header = {"displayName": dns_name(name, 63)}
        return {**header, BODY: clean_objects[0] if len(clean_objects) == 1 else clean_objects}, tuple(notes)


def _job(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the job among the objects of a body, or an empty mapping without a job."""
    objects = body.get(OBJECTS)
    objects = objects if isinstance(objects, list) else []
    index = job_index(objects)
    return {} if index is None else fields(objects, index)


MANIFEST = ManifestFormat()
