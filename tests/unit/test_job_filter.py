"""The list filter: text and tree are two forms of one thing, and the tree means what it says."""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import PipelineState, TrainingPipeline, custom_job, job_state
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tui.emulator.filters.evaluate import compile_filter, compiled
from tui.emulator.filters.parser import parse
from tui.emulator.filters.syntax import And, Comparison, FilterError, Node, Not, Or, Value, render
from tui.emulator.training_pipelines.service import TRAINING_PIPELINE_FIELDS
from tui.emulator.vertex.filter_fields import CUSTOM_JOB_FIELDS

CustomJobPb = custom_job.CustomJob.pb()
EXAMPLES = settings(max_examples=150)

# Few values, so that random jobs and random filters meet.
TEXTS = st.sampled_from(["", "a", "ab", "b", "AND", "x y", 'q"uo\\te', "naïve", "a*b", "JOB"])
KEYS = st.sampled_from(["team", "a-b", "café", "1st", "x_y"])
EQUALITY = st.sampled_from(["=", "!="])
STATES = st.sampled_from(["JOB_STATE_RUNNING", "JOB_STATE_FAILED", "JOB_STATE_QUEUED"])
TIMES = st.datetimes(datetime(2026, 11, 1), datetime(2026, 11, 1, 0, 0, 3)).map(
    lambda t: t.replace(tzinfo=UTC, microsecond=t.microsecond // 500_000 * 500_000)
)
ORDER = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
         ">": operator.gt, ">=": operator.ge}  # fmt: skip


def comparisons() -> st.SearchStrategy[Comparison]:
    texts = TEXTS.map(Value)
    pattern = st.lists(TEXTS, min_size=1, max_size=3).map("*".join).map(Value)
    zones = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=8))])
    return st.one_of(
        st.builds(Comparison, st.just(("display_name",)), st.sampled_from(["=", "!="]), texts),
        st.builds(Comparison, st.just(("displayName",)), st.just(":"), pattern),
        st.builds(Comparison, st.just(("state",)), st.sampled_from(["=", "!="]), STATES.map(Value)),
        st.builds(
            lambda op, t, z: Comparison(("create_time",), op, Value(t.astimezone(z).isoformat())),
            st.sampled_from(sorted(ORDER)), TIMES, zones,
        ),
        st.builds(lambda k, op, v: Comparison(("labels", k), op, v), KEYS, EQUALITY, texts),
        st.builds(lambda k: Comparison(("labels", k), ":", Value("*", False)), KEYS),
    )  # fmt: skip


def nodes() -> st.SearchStrategy[Node]:
    def grow(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(st.builds(Not, inner), st.builds(And, several), st.builds(Or, several))

    return st.recursive(comparisons(), grow, max_leaves=8)


@st.composite
def jobs(draw: st.DrawFn) -> Any:
    job = CustomJobPb(
        display_name=draw(TEXTS),
        labels=draw(st.dictionaries(KEYS, TEXTS, max_size=2)),
        state=int(getattr(job_state.JobState, draw(STATES))),
    )
    job.create_time.FromDatetime(draw(TIMES))
    return job


def wildcard(pattern: str, text: str) -> bool:
    """The obvious, slow meaning of `*`."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(wildcard(pattern[1:], text[i:]) for i in range(len(text) + 1))
    return bool(text) and text[0] == pattern[0] and wildcard(pattern[1:], text[1:])


def expected(node: Node, job: Any) -> bool:
    """Reference meaning, written for reading and not for speed."""
    if isinstance(node, Not):
        return not expected(node.part, job)
    if isinstance(node, And):
        return all(expected(part, job) for part in node.parts)
    if isinstance(node, Or):
        return any(expected(part, job) for part in node.parts)
    assert isinstance(node, Comparison) and isinstance(node.value, Value)
    sign, text = node.operator, node.value.text
    if node.path[0] == "state":
        return ORDER[sign](job_state.JobState(job.state).name, text)
    if node.path[0] == "create_time":
        return ORDER[sign](job.create_time.ToDatetime(UTC), datetime.fromisoformat(text))
    if node.path[0] == "labels":
        found = dict(job.labels).get(node.path[1])
        if sign == ":":
            return found is not None
        return (found == text) is (sign == "=")
    if sign == ":":
        return wildcard(text, job.display_name)
    return ORDER[sign](job.display_name, text)


@EXAMPLES
@given(nodes())
def test_what_is_rendered_parses_to_the_same_tree(node: Node) -> None:
    assert parse(render(node)) == node


@EXAMPLES
@given(nodes(), st.lists(jobs(), min_size=1, max_size=4))
def test_a_filter_means_what_the_reference_says(node: Node, some: list[Any]) -> None:
    by_tree, by_text = compiled(node, CUSTOM_JOB_FIELDS), compile_filter(render(node), CUSTOM_JOB_FIELDS)
    for job in some:
        assert by_tree(job) is by_text(job) is expected(node, job)


@EXAMPLES
@given(st.text(alphabet='ab.=:<>!()"\\ -*ANDORT', max_size=30))
@example("- =b")
def test_any_text_is_parsed_or_refused_with_a_position(text: str) -> None:
    try:
        node = parse(text)
    except FilterError as error:
        assert 0 <= error.position <= len(text)
    else:
        assert parse(render(node)) == node


DOCUMENTED = [
    ('state="JOB_STATE_SUCCEEDED" AND display_name:"my_job_*"', True),
    ('state!="JOB_STATE_FAILED" OR display_name="my_job"', True),
    ('NOT display_name="my_job"', True),
    ('create_time>"2021-05-18T00:00:00Z"', True),
    ("labels.keyA=valueA", True),
    ("labels.keyB:*", False),
    ("-labels.keyB:*", True),
    ('displayName:"*_1" createTime<2027-01-01T00:00:00Z', True),
    ('display_name="x" OR state=JOB_STATE_SUCCEEDED labels.keyA!="valueA"', False),
    ('(display_name="x" AND state=JOB_STATE_SUCCEEDED) OR labels.keyA="valueA"', True),
    ("  ", True),
]


@pytest.mark.parametrize(("text", "wanted"), DOCUMENTED)
def test_documented_forms(text: str, wanted: bool) -> None:
    job = CustomJobPb(display_name="my_job_1", labels={"keyA": "valueA"}, state=4)
    job.create_time.FromJsonString("2026-11-21T00:00:00.25Z")
    assert compile_filter(text, CUSTOM_JOB_FIELDS)(job) is wanted


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("stat=JOB_STATE_FAILED", 1, "did you mean state"),
        ("state=RUNNING", 1, "did you mean JOB_STATE_RUNNING"),
        ("state>JOB_STATE_RUNNING", 1, "= !="),
        ('a="x" AND state', 16, "operator"),
        ('display_name="x', 14, "never closed"),
        ('(display_name="x"', 18, "character 1 is never closed"),
        ('display_name="x" OR', 20, "the end of the filter"),
        ('display_name="x")', 17, "unexpected"),
        ("create_time>yesterday", 1, "RFC 3339"),
        ("create_time>2026-13-01T00:00:00Z", 1, "RFC 3339"),
        ("labels=1", 1, "labels.KEY"),
        ("(" * 60 + "state=JOB_STATE_FAILED" + ")" * 60, 51, "nested"),
        ("error=1", 1, "display_name, state, create_time or labels.KEY"),
    ],
)
def test_a_bad_filter_says_where_and_what(text: str, position: int, words: str) -> None:
    with pytest.raises(FilterError, match=words.replace(".", r"\.")) as caught:
        compile_filter(text, CUSTOM_JOB_FIELDS)
    assert caught.value.position + 1 == position


def test_a_wildcard_of_many_stars_is_not_slow() -> None:
    job = CustomJobPb(display_name="a" * 128)
    assert not compile_filter(f'display_name:"{"a*" * 60}b"', CUSTOM_JOB_FIELDS)(job)


def test_training_pipelines_have_states_and_a_definition_of_their_own() -> None:
    job = TrainingPipeline.pb()(
        display_name="bert", state=PipelineState.PIPELINE_STATE_RUNNING,
        training_task_definition="gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml",
    )  # fmt: skip
    for text, wanted in (
        ('state="PIPELINE_STATE_RUNNING"', True),
        ('training_task_definition:"*custom_task*"', True),
        ('trainingTaskDefinition="custom_task" OR display_name!="bert"', False),
    ):
        assert compile_filter(text, TRAINING_PIPELINE_FIELDS)(job) is wanted, text
    with pytest.raises(FilterError, match="did you mean PIPELINE_STATE_FAILED"):
        compile_filter('state="JOB_STATE_FAILED"', TRAINING_PIPELINE_FIELDS)
    with pytest.raises(FilterError, match="unknown field"):
        compile_filter('training_task_definition="x"', CUSTOM_JOB_FIELDS)
