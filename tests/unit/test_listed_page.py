"""A page of a list read by columns says what its messages say one by one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from google.cloud.aiplatform_v1.types import job_service
from hypothesis import given
from hypothesis import strategies as st

from tui.backends.vertex.jobs import convert
from tui.backends.vertex.jobs.convert import CustomJobPb
from tui.backends.vertex.jobs.lean import Page

ReplyPb = job_service.ListCustomJobsResponse.pb()
SECONDS = st.one_of(st.none(), st.just(0), st.integers(1, 2**31), st.integers(-(2**62), 2**62))
NANOS = st.one_of(st.just(0), st.integers(0, 999_999_999))
JOBS = st.lists(st.tuples(st.integers(0, 12), SECONDS, NANOS, SECONDS, st.booleans()), max_size=8)


def reply(said: list[tuple[int, int | None, int, int | None, bool]]) -> Any:
    found = ReplyPb(next_page_token="more")
    for number, (state, created, nanos, updated, failed) in enumerate(said):
        pb = found.custom_jobs.add(name=f"projects/p/locations/r/customJobs/{number}", display_name="d")
        pb.state = state
        pb.labels["team"] = str(number)
        pb.job_spec.worker_pool_specs.add(replica_count=number).machine_spec.machine_type = "n1-standard-4"
        if created is not None:
            pb.create_time.seconds, pb.create_time.nanos = created, nanos
        if updated is not None:
            pb.update_time.seconds = updated
        if failed:
            pb.error.message = "exited with a non-zero status of 1."
    return found


@given(JOBS)
def test_columns_say_what_the_messages_say(said: list[tuple[int, int | None, int, int | None, bool]]) -> None:
    whole = reply(said)
    page = Page("local", whole.SerializeToString())
    jobs = page.jobs()
    plain = [convert.listed_job(pb, "local") for pb in whole.custom_jobs]
    assert page.next_page_token == "more" and page.names == [job.name for job in plain]
    assert page.stamps == [(pb.state, pb.update_time.SerializeToString()) for pb in whole.custom_jobs]
    # Those of a list first: what they order by is there before they are read.
    for job, other in zip(jobs, plain, strict=True):
        assert job.state is other.state
        assert (job.created, job.create_time) == (other.created, other.create_time)
    assert jobs == plain


def test_a_job_of_a_page_is_read_when_it_is_asked_for() -> None:
    pb = CustomJobPb(name="projects/p/locations/r/customJobs/7", display_name="seven", state=3)
    pb.create_time.seconds, pb.create_time.nanos = 1_700_000_000, 5_000
    page = Page("c", ReplyPb(custom_jobs=[pb]).SerializeToString())
    (job,) = page.jobs()
    assert job.create_time == datetime.fromtimestamp(1_700_000_000, UTC).replace(microsecond=5)
    assert (job.display_name, job.id, job.region, job.context) == ("seven", "7", "r", "c")
    assert job.created == 1_700_000_000_000_005 and job == convert.listed_job(pb, "c")
