"""The one list of kinds, used by screens, verbs, the store and the backends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.fields.field import Field
from tui.domain.fields.job_row import JobRow
from tui.domain.spec import spec_format
from tui.kinds.cluster_jobs import CLUSTER_JOBS
from tui.kinds.custom_job import CUSTOM_JOB
from tui.kinds.kind import Kind, resolve
from tui.kinds.pipeline_job import PIPELINE_JOB
from tui.kinds.training_pipeline import TRAINING_PIPELINE
from tui.kinds.tuning_job import TUNING_JOB

_KINDS: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    """Add a kind before a backend or a screen is opened. Raises ValueError if another kind has the key, or
    the body with another format or with the same objects."""
    if kind.key in _KINDS:
        raise ValueError(f"two kinds have the key {kind.key}")
    if kind.body:
        sharing = [other for other in _KINDS.values() if other.body == kind.body]
        shareable = kind.objects and all(
            other.objects and other.spec_format == kind.spec_format for other in sharing
        )
        if sharing and not shareable:
            raise ValueError(f"two formats have the body {kind.body}")
        if any(set(other.objects) & set(kind.objects) for other in sharing):
            raise ValueError(f"two kinds have the same objects in the body {kind.body}")
        if not sharing:
            spec_format.register(kind.body, lambda: resolve(kind.spec_format))
    _KINDS[kind.key] = kind


def unregister(key: str) -> None:
    """Remove a kind. Raises KeyError."""
    kind = _KINDS.pop(key)
    if kind.body and all(other.body != kind.body for other in _KINDS.values()):
        spec_format.unregister(kind.body)


def kinds() -> tuple[Kind, ...]:
    """Return every kind, in display order."""
    return tuple(_KINDS.values())


def kind_of(job: Job | None) -> Kind:
    """Return the job's kind; the first kind for an unknown job or kind."""
    return _KINDS.get(job.kind if job else "") or next(iter(_KINDS.values()))


def titled(job: Job) -> str:
    """Return a job's name with its kind: `training pipeline bert`."""
    return f"{kind_of(job).words.noun} {job.display_name or job.id}"


def region_word(listed: Iterable[str]) -> str:
    """Return the word for the location of jobs of these kinds; `region` if their services differ."""
    words = {_KINDS[key].words.region for key in listed if key in _KINDS}
    return words.pop() if len(words) == 1 else "region"


def own_fields(listed: Collection[str]) -> list[Field[JobRow]]:
    """Return the columns that kinds add to a list of their jobs."""
    return [field for kind in kinds() if kind.key in listed for field in kind.fields]


def may_cancel(job: Job) -> bool:
    """Return whether the job can be cancelled. A job that was suspended by cancelling it has no pods left."""
    return job.state.active and not (job.state is JobState.SUSPENDED and kind_of(job).cancel_suspends)


def may_delete(job: Job) -> bool:
    """Return whether the job can be deleted now. Most services refuse to delete a job that has not ended."""
    return job.state.terminal or kind_of(job).cancel_suspends


def lost_runner(job: Job) -> str:
    """Return the words for the deletion of the job that runs this job: `its custom job was deleted`."""
    nouns = [_KINDS[key].words.noun for key in kind_of(job).task_kinds]
    return f"its {' or '.join(nouns) or 'job'} was deleted"


def kind_named(key: str) -> Kind:
    """Return the kind of this key. Raises KeyError."""
    return _KINDS[key]


def kind_of_body(body: str, resource: Mapping[str, Any] | None = None) -> Kind:
    """Return the kind whose profiles have this body; if several do, the kind of the object that is sent.
    Raises KeyError if no kind has the body, or none has the object."""
    sent = resource or {}
    # A manifest may have objects beside the job.
    objects = [object_kind(item) for item in (sent.get("items") or [sent])]
    for kind in _KINDS.values():
        if kind.body == body and (not kind.objects or not set(kind.objects).isdisjoint(objects)):
            return kind
    raise KeyError(", ".join(objects) or body)


def object_kind(resource: Mapping[str, Any]) -> str:
    """Return the kind of an object as in `Kind.objects`: `PyTorchJob.kubeflow.org`, or "" if the object has
    no kind."""
    group, slash, _ = str(resource.get("apiVersion") or "").rpartition("/")
    kind = str(resource.get("kind") or "")
    return f"{kind}.{group}" if kind and slash else kind


for _kind in (CUSTOM_JOB, TRAINING_PIPELINE, TUNING_JOB, PIPELINE_JOB, *CLUSTER_JOBS):
    register(_kind)
