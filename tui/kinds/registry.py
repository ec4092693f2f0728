"""The one list of kinds: screens, verbs, the store and the backends ask it."""

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
    """Add a kind, before a backend or a screen is opened.

    Raises:
        ValueError: for a key that another kind has, and for a body that one with another format, or with the
            same objects, has.
    """
    if kind.key in _KINDS:
        raise ValueError(f"two kinds have the key {kind.key}")
    if kind.body:
        sharing = [each for each in _KINDS.values() if each.body == kind.body]
        shareable = kind.objects and all(
            each.objects and each.spec_format == kind.spec_format for each in sharing
        )
        if sharing and not shareable:
            raise ValueError(f"two formats have the body {kind.body}")
        if any(set(each.objects) & set(kind.objects) for each in sharing):
            raise ValueError(f"two kinds have the same objects in the body {kind.body}")
        if not sharing:
            spec_format.register(kind.body, lambda: resolve(kind.spec_format))
    _KINDS[kind.key] = kind


def unregister(key: str) -> None:
    """Remove a kind. Raises KeyError."""
    kind = _KINDS.pop(key)
    if kind.body and all(each.body != kind.body for each in _KINDS.values()):
        spec_format.unregister(kind.body)


def kinds() -> tuple[Kind, ...]:
    """Every kind, in display order."""
    return tuple(_KINDS.values())


def kind_of(job: Job | None) -> Kind:
    """The job's kind; the first one for a job that is not known yet, or of a kind from elsewhere."""
    return _KINDS.get(job.kind if job else "") or next(iter(_KINDS.values()))


def titled(job: Job) -> str:
    """A job with its kind: `training pipeline bert`."""
    return f"{kind_of(job).words.noun} {job.display_name or job.id}"


def region_word(listed: Iterable[str]) -> str:
    """What the places of jobs of these kinds are called: a region, where their services differ."""
    words = {_KINDS[key].words.region for key in listed if key in _KINDS}
    return words.pop() if len(words) == 1 else "region"


def own_fields(listed: Collection[str]) -> list[Field[JobRow]]:
    """The columns that kinds add to a list of their jobs."""
    return [field for kind in kinds() if kind.key in listed for field in kind.fields]


def may_cancel(job: Job) -> bool:
    """Whether there is something to cancel: a job that was suspended instead has no pods any more."""
    return job.state.active and not (job.state is JobState.SUSPENDED and kind_of(job).cancel_suspends)


def may_delete(job: Job) -> bool:
    """Whether it may be deleted now: most services refuse that before the job has ended."""
    return job.state.terminal or kind_of(job).cancel_suspends


def lost_runner(job: Job) -> str:
    """That the job which runs this one was deleted: `its custom job was deleted`."""
    nouns = [_KINDS[key].words.noun for key in kind_of(job).task_kinds]
    return f"its {' or '.join(nouns) or 'job'} was deleted"


def kind_named(key: str) -> Kind:
    """The kind of this key. Raises KeyError."""
    return _KINDS[key]


def kind_of_body(body: str, resource: Mapping[str, Any] | None = None) -> Kind:
    """The kind whose profiles have this body; where several have, that of the object that is sent.

    Raises:
        KeyError: where no kind has it, or the object is of none of them.
    """
    sent = resource or {}
    # A manifest may have objects beside the job.
    made = [object_kind(each) for each in (sent.get("items") or [sent])]
    for kind in _KINDS.values():
        if kind.body == body and (not kind.objects or not set(kind.objects).isdisjoint(made)):
            return kind
    raise KeyError(", ".join(made) or body)


def object_kind(resource: Mapping[str, Any]) -> str:
    """The kind of an object as `Kind.objects` has it: `PyTorchJob.kubeflow.org`; "" where it says none."""
    group, slash, _ = str(resource.get("apiVersion") or "").rpartition("/")
    kind = str(resource.get("kind") or "")
    return f"{kind}.{group}" if kind and slash else kind


for _kind in (CUSTOM_JOB, TRAINING_PIPELINE, TUNING_JOB, PIPELINE_JOB, *CLUSTER_JOBS):
    register(_kind)
