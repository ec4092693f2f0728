"""Whatever a job says is in its snapshot again, but for what a listing derives from the rest."""

from __future__ import annotations

import tempfile
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.ui.double import NOON
from tui.domain.core.job import Job, JobError
from tui.domain.core.replica import NodeShare, ReplicaGroup
from tui.domain.core.task import Task
from tui.domain.core.training_progress import Progress
from tui.store.jobs.snapshot import SnapshotFile

LEFT_OUT = {
    Job: {"replicas", "unread", "progress_pattern", "details"},
    Task: {"input_artifacts", "output_artifacts"},
}
times = st.datetimes(timezones=st.just(UTC))
finite = st.floats(allow_nan=False, allow_infinity=False)


def whole(kind: type, **chosen: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values with every saved field drawn: a field that is new is drawn here too."""
    hints = get_type_hints(kind)
    assert is_dataclass(kind)
    drawn = {
        field.name: chosen.get(field.name, st.from_type(hints[field.name]))
        for field in fields(kind)
        if field.name not in LEFT_OUT.get(kind, set())
    }
    return st.builds(kind, **drawn)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def choices(kind: type) -> dict[str, st.SearchStrategy[Any]]:
    """Times that have a zone, and numbers that are equal to themselves."""
    own: dict[Any, st.SearchStrategy[Any]] = {datetime | None: maybe(times), float | None: maybe(finite)}
    return {name: own[hint] for name, hint in get_type_hints(kind).items() if hint in own}


@st.deferred
def jobs() -> st.SearchStrategy[Job]:
    """Made when they are first drawn, not in every process that collects tests."""
    labels = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2)
    values = st.dictionaries(st.text(max_size=5), st.text(max_size=5) | finite, max_size=2)
    figures = st.dictionaries(st.text(max_size=5), finite, max_size=2)
    tasks = whole(Task, **choices(Task), parameters=values, outputs=values, metrics=figures)
    return whole(
        Job,
        **choices(Job),
        labels=labels,
        web_access_uris=labels,
        error=maybe(whole(JobError)),
        groups=st.lists(whole(ReplicaGroup), max_size=3).map(tuple),
        nodes=st.lists(whole(NodeShare, **choices(NodeShare), share=finite), max_size=2).map(tuple),
        timeout=maybe(st.timedeltas(timedelta(0), timedelta(days=90))),
        longest_wait=maybe(st.timedeltas(timedelta(0), timedelta(days=90))),
        progress=whole(Progress, **choices(Progress)),
        tasks=st.lists(tasks, max_size=2).map(tuple),
    )


@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(jobs)
def test_a_job_comes_back_as_it_was(job: Job) -> None:
    with tempfile.TemporaryDirectory(prefix="vxs-") as place:
        file = SnapshotFile(Path(place), "c")
        file.save([job], NOON)
        found = file.load()
    assert found is not None and found.jobs == (job,)
