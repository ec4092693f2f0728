"""A launch of a manifest as YAML for `kubectl apply -f`, and a manifest's file as a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.kubernetes.objects import named, objects_of, server_fields
from tui.domain.kubernetes.workloads import at, fields, job_index
from tui.domain.spec import write


def kubectl_yaml(custom_job: Mapping[str, Any], namespace: str, remarks: Sequence[str]) -> str:
    """The objects of a launch, a document each, with these comments at the head."""
    objects = fields(custom_job, "manifest").get("objects") or []
    labels = {name: str(value) for name, value in fields(custom_job, "labels").items()}
    made = named(objects, str(custom_job.get("displayName") or ""), labels, namespace)
    parts = ["\n".join(write.block(each)) + "\n" for each in made]
    return "".join(f"# {line}\n" for line in remarks) + "---\n".join(parts)


def has_job(value: Any) -> bool:
    """Whether a training job is among the objects of a file's value."""
    return job_index(objects_of(value) or []) is not None


def job_title(value: Any) -> str:
    """The name of the job in a file's value; "" where it has none."""
    objects = objects_of(value) or []
    index = job_index(objects)
    metadata = fields(list(objects), index, "metadata") if index is not None else {}
    return str(metadata.get("name") or str(metadata.get("generateName") or "").rstrip("-"))


def cleaning(value: Any) -> list[Edit]:
    """Edits of a file that remove what only a cluster fills, as `kubectl get -o yaml` prints it."""
    listed = isinstance(value, Mapping) and isinstance(value.get("items"), list)
    single = isinstance(value, Mapping) and not listed
    found = []
    for i, each in enumerate(objects_of(value) or []):
        if isinstance(each, Mapping):
            head: tuple[str | int, ...] = () if single else ("items", i) if listed else (i,)
            found += [Edit((*head, *path), REMOVED) for path in server_fields(each)]
    if listed and at(value, "metadata") is not None:
        found.append(Edit(("metadata",), REMOVED))
    return found
