"""Label and field selectors, and the columns of tables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.emulator.kubernetes.api.label_selector import parse_labels
from tui.emulator.kubernetes.api.selectors import parse_fields
from tui.emulator.kubernetes.api.tables import pod_cells
from tui.emulator.kubernetes.api.tables.columns import age, cells, columns_of, human_duration
from tui.emulator.kubernetes.errors import BadRequest
from tui.emulator.kubernetes.resources import EVENTS, JOBS, PODS, RESOURCES

WORDS = st.sampled_from(["a", "b", "x.y/z", "c-1"])
VALUES = st.sampled_from(["1", "two", "3_3"])


def labelled(labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"labels": labels}}


@given(st.dictionaries(WORDS, VALUES), WORDS, st.lists(VALUES, min_size=1, max_size=3))
def test_each_requirement_means_what_kubernetes_says(
    labels: dict[str, str], key: str, values: list[str]
) -> None:
    first, several, value = values[0], ", ".join(values), labels.get(key)
    expected = {
        f"{key}={first}": value == first,
        f"{key} == {first}": value == first,
        f"{key}!={first}": value != first,
        f"{key} in ({several})": value in values,
        f"{key} notin ({several})": value not in values,
        key: value is not None,
        f"!{key}": value is None,
    }
    for text, result in expected.items():
        matches = parse_labels(text)
        assert matches is not None and matches(labelled(labels)) is result, text
    every = parse_labels(",".join(expected))
    assert every is not None and every(labelled(labels)) is all(expected.values())


def test_a_selector_of_nothing_selects_all_and_others_are_refused() -> None:
    assert parse_labels("") is None and parse_fields("", PODS) is None
    for text in ("a in", "a in (b", "=b", "a=b=c", "a b"):
        with pytest.raises(BadRequest):
            parse_labels(text)


def test_field_selectors_know_the_fields_of_their_type() -> None:
    pod = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "x"}, "status": {}}
    for text, result in (
        ("metadata.name=p", True), ("spec.nodeName==x,metadata.namespace=n", True),
        ("status.phase!=Running", True), ("spec.nodeName=", False),
    ):  # fmt: skip
        matches = parse_fields(text, PODS)
        assert matches is not None and matches(pod) is result, text
    with pytest.raises(BadRequest, match=r"not supported: spec\.nodeName"):
        parse_fields("spec.nodeName=x", JOBS)
    matches = parse_fields("involvedObject.uid=7", EVENTS)
    assert matches is not None and matches({"metadata": {}, "involvedObject": {"uid": "7"}})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (119, "119s"), (121, "2m1s"), (600, "10m"), (7200, "120m"), (3 * 3600 + 60, "3h1m"),
        (9 * 3600, "9h"), (49 * 3600, "2d1h"), (10 * 86400, "10d"), (3 * 365 * 86400, "3y"),
        (-5, "<invalid>"),
    ],
)  # fmt: skip
def test_durations_are_as_kubectl_writes_them(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


def test_every_type_has_a_row_of_its_columns_even_when_empty() -> None:
    for resource in RESOURCES:
        columns = columns_of(resource)
        assert len(cells(columns, {"metadata": {"name": "x"}})) == len(columns)
    assert age(None) == "<unknown>"


def container(**state: Any) -> dict[str, Any]:
    return {"name": "c", "ready": "running" in state, "restartCount": 0, "state": state}


def running(**state: Any) -> dict[str, Any]:
    return {"phase": "Running", "containerStatuses": [container(**state)]}


def starting(**state: Any) -> dict[str, Any]:
    return {"phase": "Pending", "initContainerStatuses": [container(**state)]}


GATED = {"type": "PodScheduled", "reason": "SchedulingGated"}
COMPLETED = {"exitCode": 0, "reason": "Completed"}


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"phase": "Pending"}, "Pending"),
        (running(running={}), "Running"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (running(terminated={"exitCode": 137, "reason": "OOMKilled"}), "OOMKilled"),
        (running(terminated={"exitCode": 3}), "ExitCode:3"),
        (running(terminated={"signal": 9}), "Signal:9"),
        (running(waiting={"reason": "ImagePullBackOff"}), "ImagePullBackOff"),
        (starting(running={}), "Init:0/1"),
        (starting(terminated={"exitCode": 1, "reason": "Error"}), "Init:Error"),
        ({"phase": "Pending", "conditions": [GATED]}, "SchedulingGated"),
        ({"containerStatuses": [container(terminated=COMPLETED), container(running={})]}, "Running"),
    ],
)
def test_the_status_of_a_pod_is_the_most_telling_reason(status: Any, shown: str) -> None:
    pod = {"metadata": {}, "spec": {"containers": [{}], "initContainers": [{}]}, "status": status}
    assert pod_cells.status(pod) == shown
    pod["metadata"] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert pod_cells.status(pod) == "Terminating"


def test_restarts_say_when_the_last_was() -> None:
    one = {**container(running={}), "restartCount": 2}
    assert pod_cells.restarts({"status": {"containerStatuses": [one]}}, lambda _: "5m") == "2"
    one["lastState"] = {"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}}
    assert pod_cells.restarts({"status": {"containerStatuses": [one]}}, lambda _: "5m") == "2 (5m ago)"
