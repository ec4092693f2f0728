"""The one grammar of all filters, and the field tables of the services that have no test of their own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import pipeline_state, training_pipeline
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.emulator.filters.evaluate import compile_filter
from tui.emulator.filters.fields import FieldTable
from tui.emulator.filters.parser import parse
from tui.emulator.filters.syntax import FilterError, render
from tui.emulator.logging.query.fields import ENTRY_FIELDS, SOURCE_FIELDS
from tui.emulator.monitoring.query import RESOURCE_FIELDS, SERIES_FIELDS
from tui.emulator.training_pipelines.service import TRAINING_PIPELINE_FIELDS
from tui.emulator.vertex.filter_fields import CUSTOM_JOB_FIELDS

TABLES: list[FieldTable[Any]] = [
    ENTRY_FIELDS, SOURCE_FIELDS, SERIES_FIELDS, RESOURCE_FIELDS, CUSTOM_JOB_FIELDS, TRAINING_PIPELINE_FIELDS
]  # fmt: skip
PIECES = st.sampled_from([
    "state", "display_name", "labels", "labels.a", "create_time", "metric.type", "resource.labels.x",
    "jsonPayload.a", "severity", "timestamp", "log_id(", "one_of(", "(", ")", "=", "!=", ":", "<", ">=", "=~",
    "AND", "OR", "NOT", "-", ",", ".", "..", "*", '"a"', '"*b*"', "'c'", '"\\n"', "5", "-5", "1.5.2", "-x",
    "2026-11-21T00:00:00.5Z", "2026-13-01T00:00:00Z", "JOB_STATE_RUNNING", "ERROR", '"', "'", "\\", "!", "~",
    "--", " ",
])  # fmt: skip


@given(st.lists(PIECES, max_size=16).map("".join) | st.lists(PIECES, max_size=12).map(" ".join))
@settings(max_examples=300)
def test_every_service_answers_any_text_or_refuses_it_with_a_position(text: str) -> None:
    for table in TABLES:
        try:
            compile_filter(text, table)
        except FilterError as error:
            assert 0 <= error.position <= len(text)
    try:
        tree = parse(text)
    except FilterError:
        return
    assert parse(render(tree)) == tree


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("NOT " * 101 + "a", 400),
        ("(NOT " * 60, 5 * 50),
        ("- ( " * 51, 200),
        ("x=f(a) " * 200 + "(" * 101, 1500),
    ],
)
def test_what_is_nested_too_deep_is_refused_where_it_gets_too_deep(text: str, position: int) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert caught.value.position == position


def test_conditions_side_by_side_are_not_nested() -> None:
    assert len(parse("NOT (a) " * 500).parts) == 500  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("state=JOB_STATE_RUNNING", 0, "must be a pipeline state"),
        ("training_task_definition>x", 0, "use = != :"),
        ('display_name=starts_with("a")', 13, "must be compared with a value"),
        ('log_id("a")', 0, "can't stand alone"),
        ("labels.a.b=1", 0, "labels.KEY"),
        ("display_name.x=1", 0, "display_name"),
        ('labels.a."b"c', 12, "an operator"),
        ('display_name=a."b"', 13, "the entire value in quotes"),
        ("create_time:*", 0, "use = != < <= > >="),
    ],
)
def test_a_bad_filter_of_training_pipelines_says_where_and_what(text: str, position: int, says: str) -> None:
    with pytest.raises(FilterError, match=says.replace("*", r"\*")) as caught:
        compile_filter(text, TRAINING_PIPELINE_FIELDS)
    assert caught.value.position == position


# After ListTrainingPipelinesRequest.filter.
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('state="PIPELINE_STATE_SUCCEEDED" AND display_name:"my_pipeline_*"', True),
        ('state!="PIPELINE_STATE_FAILED" OR display_name="my_pipeline"', True),
        ('state="PIPELINE_STATE_RUNNING" OR state="PIPELINE_STATE_SUCCEEDED"', True),
        ('NOT display_name="my_pipeline"', True),
        ('create_time>"2021-05-18T00:00:00Z"', True),
        ('create_time<="2026-11-20T23:59:59.999Z"', False),
        ('training_task_definition:"*custom_task*"', True),
        ('trainingTaskDefinition!="gs://x"', True),
        ("labels.team=nlp", True),
        ("labels.owner:*", False),
    ],
)
def test_the_documented_filters_of_training_pipelines(text: str, wanted: bool) -> None:
    pipeline: Any = training_pipeline.TrainingPipeline.pb()(
        display_name="my_pipeline_1",
        training_task_definition="gs://schema/custom_task_1.0.0.yaml",
        labels={"team": "nlp"},
        state=int(pipeline_state.PipelineState.PIPELINE_STATE_SUCCEEDED),
    )
    pipeline.create_time.FromJsonString("2026-11-21T00:00:00Z")
    assert compile_filter(text, TRAINING_PIPELINE_FIELDS)(pipeline) is wanted


@pytest.mark.parametrize("table", TABLES)
def test_an_empty_filter_lets_everything_through(table: FieldTable[Any]) -> None:
    assert compile_filter("  -- nothing", table)(None) is True


def test_the_emulator_starts_without_the_grammar_s_library() -> None:
    code = "import sys, tui.emulator.server, tui.emulator.__main__; print('lark' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
