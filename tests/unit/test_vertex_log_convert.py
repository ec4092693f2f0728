"""Messages of Cloud Logging into log entries."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from google.cloud.logging_v2.types import LogEntry
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.backends.vertex.logs import convert
from tui.domain.core.log_entry import Severity


def entry(**fields: object) -> LogEntry:
    base = {
        "insertId": "a",
        "timestamp": "2026-11-21T10:00:00.123456789Z",
        "resource": {"type": "ml_job", "labels": {"job_id": "42", "task_name": "workerpool0-0"}},
    }
    return json_format.ParseDict({**base, **fields}, LogEntry.pb()())  # type: ignore[no-any-return]


def test_a_text_line() -> None:
    found = convert.entries([entry(textPayload="\x1b[31mred", severity="ERROR")])[0]
    assert (found.message, found.severity, found.json) == ("\x1b[31mred", Severity.INFO, None)
    assert found.label is Severity.ERROR
    assert (found.replica, found.job_id, found.insert_id) == ("workerpool0-0", "42", "a")
    assert found.timestamp == datetime(2026, 11, 21, 10, 0, 0, 123456, tzinfo=UTC)


def test_a_structured_line_shows_its_message_and_keeps_the_rest() -> None:
    found = convert.entries([entry(jsonPayload={"message": "hi", "vxtui": {"step": 3, "loss": 2.5}})])[0]
    assert found.message == "hi"
    assert found.json == {"message": "hi", "vxtui": {"step": 3, "loss": 2.5}}
    assert isinstance(found.json["vxtui"]["step"], int)


def test_a_structured_line_without_a_message_is_shown_whole() -> None:
    assert convert.entries([entry(jsonPayload={"step": 3})])[0].message == '{"step": 3}'


def test_an_entry_without_time_or_labels_is_still_an_entry() -> None:
    found = convert.entries([LogEntry.pb()(text_payload="x", severity=350)])[0]
    assert (found.message, found.replica, found.severity) == ("x", "", Severity.DEFAULT)
    assert found.timestamp.tzinfo is UTC


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**52), 2**52) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150)
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), JSON, max_size=5))
def test_json_survives_the_wire(payload: dict[str, object]) -> None:
    pb = LogEntry.pb()()
    pb.json_payload.SetInParent()
    pb.json_payload.update(payload)
    assert convert.entries([pb])[0].json == payload


def test_numbers_that_json_does_not_know_are_no_error() -> None:
    pb = LogEntry.pb()()
    pb.json_payload.update({"loss": math.nan, "norm": math.inf})
    found = convert.entries([pb])[0]
    assert found.json is not None
    assert math.isnan(found.json["loss"])
    assert found.message
