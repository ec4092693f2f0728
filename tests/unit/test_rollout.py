"""The share of a version while it takes over, the splits that come back, and the job that made a model."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ui.double import NOON, job
from tui.domain.serving.origin import candidates, made_by, output_folder
from tui.domain.serving.rollout import (
    called,
    moves,
    next_step,
    split_before,
    split_with,
    split_with_new,
)
from tui.domain.serving.traffic import Deployed, Model, ServingEndpoint, SplitError
from tui.store.split_history import KEPT, SplitHistory


def deployed(*percents: int) -> list[Deployed]:
    return [Deployed(f"d{at}", "m", str(at + 1), "answers", percent) for at, percent in enumerate(percents)]


def endpoint(*percents: int) -> ServingEndpoint:
    return ServingEndpoint("e", "front", "us-central1", deployed=tuple(deployed(*percents)))


def test_a_version_takes_over_in_steps() -> None:
    assert [next_step(percent) for percent in (0, 9, 10, 30, 50, 99, 100)] == [10, 10, 25, 50, 100, 100, None]


@given(st.lists(st.integers(1, 97), min_size=2, max_size=6), st.integers(0, 100))
def test_the_others_share_the_rest_as_before(weights: list[int], percent: int) -> None:
    models = deployed(*weights)
    found = split_with(models, "d0", percent)
    assert found["d0"] == percent and sum(found.values()) == 100
    whole = sum(weights[1:])
    for each in models[1:]:
        assert abs(found[each.id] - (100 - percent) * each.percent / whole) < 1


def test_who_gets_the_rest_may_be_open() -> None:
    assert split_with(deployed(100, 0), "d0", 40) == {"d0": 40, "d1": 60}
    assert split_with_new([], 100) == {"0": 100}
    with pytest.raises(SplitError, match="No other deployed model gets requests"):
        split_with(deployed(100, 0, 0), "d0", 40)
    with pytest.raises(SplitError, match="No other model is deployed"):
        split_with_new([], 10)
    with pytest.raises(SplitError, match="from 0 to 100"):
        split_with(deployed(100), "d0", 101)


def test_an_earlier_split_comes_back_unless_a_part_of_it_is_gone() -> None:
    now = endpoint(50, 50)
    assert split_before(now, {"d0": 100}) == {"d0": 100, "d1": 0}
    assert moves(now, {"d0": 100}) == "version 1 50 → 100 %, version 2 50 → 0 %"
    with pytest.raises(SplitError, match="gone received requests in that split"):
        split_before(now, {"gone": 100})


def test_versions_of_one_number_are_told_apart() -> None:
    other = Deployed("d9", "n", "1", "vit", 0)
    one, two = deployed(60, 40)
    assert called(one, [one, two]) == "version 1"
    assert called(other, [one, two, other]) == "vit version 1"
    again = Deployed("d7", "m", "1", "answers", 0)
    assert called(again, [one, again]) == "answers version 1 (d7)"


def test_changes_of_a_split_are_kept_and_dropped(tmp_path: Path) -> None:
    history = SplitHistory(tmp_path / "new")
    assert history.changes("e") == []
    for percent in range(KEPT + 5):
        history.add("e", {"a": percent}, {"a": percent + 1})
    history.add("f", {"a": 1}, {"b": 1})
    assert len(history.changes("e")) == KEPT and history.changes("e")[-1] == ({"a": 24}, {"a": 25})
    history.drop_last("f")
    history.drop_last("e")
    again = SplitHistory(tmp_path / "new")
    assert again.changes("f") == [] and again.changes("e")[-1] == ({"a": 23}, {"a": 24})
    next((tmp_path / "new").iterdir()).write_text('{"endpoints": {"e": [[')
    assert again.changes("e") == []


def test_the_job_of_a_model_is_found_by_what_the_model_says() -> None:
    jobs = {one.name: one for one in (job(1, "first"), job(2, "second"))}
    first, second = jobs

    def model(**more: object) -> Model:
        return Model("projects/p/locations/us-central1/models/m", "m", "us-central1", "1", **more)  # type: ignore[arg-type]

    outputs = {first: "gs://b/runs", second: "gs://b/runs/2/"}
    assert made_by(model(), jobs, outputs) == ""
    assert made_by(model(made_by="a pipeline", labels={"job": "1"}), jobs, outputs) == "a pipeline"
    assert made_by(model(labels={"job": "1"}, artifacts="gs://b/runs/2/model"), jobs, outputs) == first
    assert made_by(model(artifacts="gs://b/runs/2/model"), jobs, outputs) == second
    assert made_by(model(artifacts="gs://b/runs/22/model"), jobs, outputs) == first
    assert made_by(model(artifacts="gs://b/elsewhere"), jobs, outputs) == ""


def test_the_last_jobs_before_a_model_are_asked_for_their_output() -> None:
    jobs = {one.name: one for one in (job(1, "old", age=60), job(2, "new", age=10), job(3, "later", age=1))}
    made = Model("n", "m", "us-central1", "1", create_time=NOON - timedelta(minutes=5), artifacts="gs://b/x")
    assert [each.display_name for each in candidates(made, jobs, 5)] == ["new", "old"]
    assert [each.display_name for each in candidates(made, jobs, 1)] == ["new"]
    assert candidates(replace(made, region="europe-west4"), jobs, 5) == []
    assert candidates(replace(made, artifacts=""), jobs, 5) == []
    spec = {"jobSpec": {"baseOutputDirectory": {"outputUriPrefix": "gs://b/out"}}}
    assert output_folder(spec) == output_folder({"inputs": [1, spec]}) == "gs://b/out"
    assert output_folder({"jobSpec": {"baseOutputDirectory": None}}) == ""
