"""Figures of a deployed model in words, and the distributions that latencies are kept in."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from google.api import distribution_pb2
from hypothesis import given
from hypothesis import strategies as st

from tui.domain.serving.load import Load, latency_text, rate_text
from tui.emulator.monitoring.descriptors import ERRORS, LATENCIES, RESPONSES
from tui.emulator.monitoring.distribution import FINITE, GROWTH, SCALE, Distribution, merged
from tui.emulator.serving.load import Loads

MOST = SCALE * GROWTH**FINITE


@given(st.lists(st.floats(0.2, 90_000), min_size=1, max_size=200), st.sampled_from([5, 50, 95, 99]))
def test_a_percentile_is_within_its_bucket(values: list[float], percent: int) -> None:
    found = Distribution.of(values)
    exact = sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]
    assert exact / (GROWTH * 1.001) <= found.percentile(percent) <= exact * GROWTH * 1.001


@given(st.lists(st.lists(st.floats(0, MOST * 2), max_size=20), max_size=5))
def test_parts_together_are_the_whole(parts: list[list[float]]) -> None:
    whole = Distribution.of(value for part in parts for value in part)
    found = merged(Distribution.of(part) for part in parts)
    assert found.buckets == whole.buckets and found.count == whole.count
    assert found.total == pytest.approx(whole.total)


def test_the_api_s_distribution_has_mean_and_deviation() -> None:
    target = distribution_pb2.Distribution()
    Distribution.of([1.0, 3.0]).fill(target)
    assert (target.count, target.mean) == (2, 2.0)
    assert target.sum_of_squared_deviation == pytest.approx(2.0) and sum(target.bucket_counts) == 2
    empty = distribution_pb2.Distribution()
    Distribution.of([]).fill(empty)
    assert (empty.count, list(empty.bucket_counts)) == (0, [])


def test_counts_are_of_one_project_and_of_the_time_asked_for() -> None:
    loads = Loads(60.0)
    endpoint = SimpleNamespace(name="projects/p/locations/r/endpoints/e", display_name="front")
    deployed = SimpleNamespace(id="7", display_name="m")
    for status in (200, 200, 404, 503):
        loads.count(endpoint, deployed, predictions=2, status=status, latencies={"total": 0.05})
    assert list(loads.series("other", RESPONSES, 0)) == []
    codes = {s.metric_labels["response_code"]: s.points[-1].value for s in loads.series("p", RESPONSES, 0)}
    assert sum(codes.values()) <= 4 and set(codes) == {"2xx", "4xx", "5xx"}
    assert {s.resource_labels["endpoint_id"] for s in loads.series("p", ERRORS, 0)} == {"e"}
    (times,) = loads.series("p", LATENCIES, 0)
    assert all(point.distribution is not None for point in times.points)
    assert list(loads.series("p", LATENCIES, 2**63 - 1)) == []


def test_figures_in_words() -> None:
    assert Load(0, 60).error_text == "" and Load(0, 0).rate == 0 and rate_text(Load(0, 60)) == "0"
    assert Load(10, 60).error_text == "0"
    assert Load(1000, 60, {"4xx": 2, "5xx": 3}).error_text == "0.5 % 5xx"
    assert Load(8, 60, {"4xx": 1}).error_text == "12 % 4xx"
    assert [rate_text(Load(count, 10)) for count in (1, 125, 15_000)] == ["0.10", "12.5", "1500"]
    assert [latency_text(ms) for ms in (None, 0.84, 9.96, 48.2, 1310)] == [
        "", "0.8 ms", "10.0 ms", "48 ms", "1.3 s",
    ]  # fmt: skip
