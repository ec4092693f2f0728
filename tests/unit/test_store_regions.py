"""What the store says of a region whose jobs can be read in part."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.ui.double import NOON, job
from tests.unit.store_jobs_support import read
from tui.backends.interface import JobPage, Unavailable
from tui.domain.core.states import JobState
from tui.store.jobs.table import JobStore


def test_the_age_is_that_of_the_kind_that_can_not_be_read() -> None:
    """Another kind of the same region goes on."""
    store, bert, resnet = JobStore(), job(1, "a"), replace(job(2, "b"), kind="pipeline")
    pages = JobPage("r", (bert,), kind=bert.kind), JobPage("r", (resnet,), kind="pipeline")
    read(store, *pages)
    for minute in (1, 2):
        store.begin()
        later = NOON + timedelta(minutes=minute)
        store.apply(JobPage("r", error=Unavailable("no"), kind=bert.kind), later)
        store.apply(replace(pages[1], read_at=later), later)
        store.finish(later)
    status = store.regions["r"]
    assert (status.read_at, status.failing_since) == (NOON, NOON + timedelta(minutes=1))
    here = [replace(each, region="r") for each in (bert, resnet)]
    assert [store.read_at_of(each) for each in here] == [NOON, None]
    read(store, *pages)
    assert store.regions["r"].error is None and store.regions["r"].read_at == NOON


def test_a_page_with_an_error_may_have_changes() -> None:
    store, first = JobStore(), job(1, "a")
    read(store, JobPage(first.region, (first,)))
    done = replace(first, state=JobState.SUCCEEDED)
    page, end = read(store, JobPage(first.region, (done,), Unavailable("no"), whole=True))
    assert page.ended == (done,) and not end and not store.reached
    assert read(store, JobPage(first.region, error=Unavailable("no"), gone=(first.name,)))[0].removed
