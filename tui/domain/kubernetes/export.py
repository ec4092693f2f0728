"""Write a manifest's launch as YAML for `kubectl apply -f`, and read a manifest's file as a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.kubernetes.objects import named, objects_of, server_fields
from tui.domain.kubernetes.workloads import at, fields, job_index
from tui.domain.spec import write


def kubectl_yaml(custom_job: Mapping[str, Any], namespace: str, remarks: Sequence[str]) -> str:
    """Return the objects of a launch, one YAML document each, below the remarks as comments."""
    objects = fields(custom_job, "manifest").get("objects") or []
    labels = {name: str(value) for name, value in fields(custom_job, "labels").items()}
    objects_to_apply = named(objects, str(custom_job.get("displayName") or ""), labels, namespace)
    parts = ["\n".join(write.block(obj)) + "\n" for obj in objects_to_apply]
    return "".join(f"# {line}\n" for line in remarks) + "---\n".join(parts)


def has_job(value: Any) -> bool:
    """Return whether the objects of a file include a training job."""
    return job_index(objects_of(value) or []) is not None


def job_title(value: Any) -> str:
    """Return the name of the file's job, or "" without a name."""
    objects = objects_of(value) or []
    index = job_index(objects)
    metadata = fields(list(objects), index, "metadata") if index is not None else {}
    return str(metadata.get("name") or str(metadata.get("generateName") or "").rstrip("-"))


def cleaning(value: Any) -> list[Edit]:
    """Return edits that remove the server's fields from the output of `kubectl get -o yaml`."""
    listed = isinstance(value, Mapping) and isinstance(value.get("items"), list)
    single = isinstance(value, Mapping) and not listed
    edits = []
    for i, obj in enumerate(objects_of(value) or []):
        if isinstance(obj, Mapping):
            head: tuple[str | int, ...] = () if single else ("items", i) if listed else (i,)
            edits += [Edit((*head, *path), REMOVED) for path in server_fields(obj)]
    if listed and at(value, "metadata") is not None:
        edits.append(Edit(("metadata",), REMOVED))
    return edits
