"""The jobs filter: what it finds, what it says about a mistake, and that no text breaks it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import Progress
from tui.domain.jobs.query import FIELDS, QueryError, parse
from tui.domain.vertex.worker_pools import worker_pool

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def make(name: str = "llm-7b", state: JobState = JobState.RUNNING, **more: object) -> Job:
    fields: dict[str, object] = {
        "create_time": NOW - timedelta(hours=30),
        "start_time": NOW - timedelta(hours=29),
        "labels": {"team": "nlp", "stage": "pre train"},
        "groups": (worker_pool(0, 2, "a2-highgpu-8g", "NVIDIA_TESLA_A100", 8),),
        "strategy": "SPOT",
        "progress": Progress(step=50, total_steps=100, last_loss=2.5),
    }
    return Job(
        f"projects/p/locations/us-central1/customJobs/{name}", "77", name, state, "", "c", "us-central1",
        "custom_job",
        **(fields | more),  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "", "  ", "llm", "LLM-7B", "77", "nlp", "state:running", "state:run", "state:failed,running",
        "state:active", "team:nlp", "team:n*", 'stage:"pre train"', "label.team:nlp", "gpu:a100",
        "gpu:nvidia_tesla_a100", "machine:a2", "region:us", "age<2d", "age>1d", "age>1d5h", "duration>28h",
        "replicas:2", "replicas>=2", "gpus=16", "step>10", "loss<3", "strategy:spot", "-state:failed",
        "!gpu:h100", "state:running team:nlp gpu:a100 age<2d llm", '"llm-7b"',
    ],
)  # fmt: skip
def test_found(text: str) -> None:
    assert parse(text).matches(make(), NOW)


@pytest.mark.parametrize(
    "text",
    [
        "gpt", "state:failed", "state:ended", "team:vision", "team:nl", "nolabel:x", "gpu:h100", "age<1d",
        "age>2d", "replicas>2", "loss>3", "-llm", "state:running team:vision", "region:europe", "team:[a-z]*",
    ],
)  # fmt: skip
def test_not_found(text: str) -> None:
    assert not parse(text).matches(make(), NOW)


def test_suspended_has_not_ended() -> None:
    suspended = make(state=JobState.SUSPENDED)
    assert not parse("state:ended").matches(suspended, NOW)
    assert parse("state:active").matches(suspended, NOW)


def test_a_figure_that_is_not_known_meets_no_comparison() -> None:
    fresh = make(progress=Progress(), start_time=None, create_time=None)
    for text in ("loss<9", "loss>0", "step>0", "age<9d", "age>0s", "duration<9d"):
        assert not parse(text).matches(fresh, NOW)


@pytest.mark.parametrize(
    ("text", "words", "position"),
    [
        ('a "b', "quote", 2),
        ("x state:", "needs a value", 8),
        ("age<soon", "age<2d", 0),
        ("age<1d,2d", "a duration", 0),
        ("replicas>many", "a number", 0),
        ("state:sleeping", "unknown state 'sleeping'", 0),
        ("name<b", "no order", 0),
        ("x stat:running", "did you mean state:", 2),
        ("-regoin:us", "did you mean region:", 0),
    ],
)
def test_a_mistake_is_named(text: str, words: str, position: int) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert words in caught.value.message and caught.value.position == position


@settings(max_examples=300)
@given(st.text(max_size=60) | st.text(alphabet='abst:,<>="-!.* 12dhm', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        query = parse(text)
    except QueryError as error:
        assert 0 <= error.position <= len(text) and error.message
        return
    assert query.matches(make(), NOW) in (True, False)
    assert parse(query.text) == query


words = st.text(alphabet="abcdefgh-7", min_size=1, max_size=6).filter(lambda w: not w.startswith("-"))
terms = (
    st.builds("state:{}".format, st.sampled_from(["running", "failed", "active", "queued,running"]))
    | st.builds("age{}{}h".format, st.sampled_from("<>"), st.integers(0, 50))
    | st.builds("gpu:{}".format, st.sampled_from(["a100", "h100"]))
    | words
)


@settings(max_examples=200)
@given(st.lists(terms, max_size=4), terms, words)
def test_terms_are_joined_by_and(several: list[str], one: str, name: str) -> None:
    job = make(name)
    both = parse(" ".join([*several, one])).matches(job, NOW)
    assert both == (parse(" ".join(several)).matches(job, NOW) and parse(one).matches(job, NOW))
    assert parse(f"-{one}").matches(job, NOW) != parse(one).matches(job, NOW)


def test_every_field_can_be_asked() -> None:
    for field in FIELDS:
        value = "1d" if field in {"age", "duration"} else "running" if field == "state" else "1"
        parse(f"{field}:{value}")
