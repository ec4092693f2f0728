"""Text from outside inside the services' filters: judged by parsers that the console does not share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.backends.interface import InvalidRequest, LogQuery
from tui.backends.vertex.logs.filters import any_of, job_entries, log_filter, quote, stamp
from tui.domain.core.resource_name import log_project, note_project
from tui.emulator.filters.parser import parse
from tui.emulator.filters.syntax import And, Comparison, Or, Value

NAME = "projects/p/locations/us-central1/customJobs/42"
# Lone surrogates can't travel and become U+FFFD; every other text has to arrive as it is.
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def comparisons(text: str) -> dict[str, list[str]]:
    """Every comparison of a log filter, "field operator" → values."""
    found: dict[str, list[str]] = {}

    def walk(node: object) -> None:
        if isinstance(node, And | Or):
            for part in node.parts:
                walk(part)
        else:
            assert isinstance(node, Comparison), node
            assert isinstance(node.value, Value), node
            found.setdefault(f"{'.'.join(node.path)} {node.operator}", []).append(node.value.text)

    walk(parse(text))
    return found


@settings(max_examples=300)
@given(ANY_TEXT)
def test_a_quoted_text_is_one_literal_of_the_logging_language(text: str) -> None:
    assert parse(f"textPayload:{quote(text)}") == Comparison(("textPayload",), ":", Value(text, True))


@settings(max_examples=200)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_a_quoted_text_is_one_literal_of_the_job_filter(text: str) -> None:
    assert parse(f"display_name={quote(text)}") == Comparison(("display_name",), "=", Value(text))


@settings(max_examples=100)
@given(ANY_TEXT, st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), max_size=4))
def test_no_text_of_a_query_changes_the_shape_of_its_filter(text: str, replicas: list[str]) -> None:
    found = comparisons(log_filter(LogQuery(NAME, tuple(replicas), text=text)))
    assert found["resource.labels.job_id ="] == ["42"]
    assert found.get("resource.labels.task_name =", []) == replicas
    assert found.get("textPayload :", []) == ([text] if text else [])
    assert set(found) <= {
        "resource.type =", "resource.labels.job_id =", "resource.labels.task_name =", "textPayload :",
        "jsonPayload.message :",
    }  # fmt: skip


def test_a_lone_surrogate_becomes_a_mark_that_can_travel() -> None:
    assert quote("a\udcffb").encode() == '"a\ufffdb"'.encode()


def test_the_filter_of_a_full_query() -> None:
    since, until = datetime(2026, 11, 21, tzinfo=UTC), datetime(2026, 11, 22, tzinfo=UTC)
    query = LogQuery(NAME, ("workerpool0-0",), since, until, "nccl", include_service=False)
    found = comparisons(log_filter(query))
    assert found["timestamp >="] == ["2026-11-21T00:00:00.000000Z"]
    assert found["timestamp <"] == ["2026-11-22T00:00:00.000001Z"]
    assert found["jsonPayload.message :"] == ["nccl"]


def test_since_is_met_by_the_time_of_receipt_as_well() -> None:
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    found = comparisons(log_filter(LogQuery(NAME, since=late), since=early))
    assert found["timestamp >="] == [stamp(early), stamp(late)]
    assert found["receiveTimestamp >="] == [stamp(late)]


def test_the_later_of_two_times_of_receipt_counts() -> None:
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    for of_query, received in ((early, late), (late, early), (None, late), (late, None)):
        found = comparisons(log_filter(LogQuery(NAME, received=of_query), received=received))
        assert found["receiveTimestamp >="] == [stamp(late)]


def test_the_service_is_left_out_only_where_no_replica_is_named() -> None:
    assert comparisons(log_filter(LogQuery(NAME, include_service=False)))["resource.labels.task_name !="] == [
        "service"
    ]
    named = comparisons(log_filter(LogQuery(NAME, ("workerpool0-0",), include_service=False)))
    assert "resource.labels.task_name !=" not in named


def test_a_filter_that_is_too_long_is_refused_with_a_way_out() -> None:
    with pytest.raises(InvalidRequest, match=r"20000") as refused:
        log_filter(LogQuery(NAME, text="x" * 10_000))
    assert refused.value.fix


def test_times_are_given_in_utc() -> None:
    paris = timezone(timedelta(hours=2))
    assert stamp(datetime(2026, 7, 1, 2, 0, 0, 5, tzinfo=paris)) == "2026-07-01T00:00:00.000005Z"


def test_one_value_needs_no_list() -> None:
    assert any_of("a", ["x"]) == 'a="x"'
    assert comparisons(job_entries(["1", "2"]))["resource.labels.job_id ="] == ["1", "2"]


def test_a_jobs_log_is_in_the_jobs_project() -> None:
    name = "projects/{}/locations/us-central1/customJobs/1"
    assert log_project(name.format("theirs"), "mine") == "theirs"
    assert log_project(name.format("123456"), "mine") == "mine", "the number of the context's own"
    note_project(name.format("theirs"), name.format("777"))
    note_project(name.format("-"), name.format("888"))
    assert log_project(name.format("777"), "mine") == "theirs"
    assert log_project(name.format("888"), "mine") == "888", "found in any project"
    assert log_project("1", "mine") == "mine"
