"""The search of a tuning job: its grid, its bounds, and that the default beats chance."""

from __future__ import annotations

import itertools
import math
from typing import Any

from google.cloud.aiplatform_v1.types import study as study_types
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.emulator.tuning.search import PastTrial, suggest
from tui.emulator.tuning.space import SearchParameter, choose

SCALES = ("SCALE_TYPE_UNSPECIFIED", "UNIT_LINEAR_SCALE", "UNIT_LOG_SCALE", "UNIT_REVERSE_LOG_SCALE")
POSITIVE = st.floats(1e-6, 1e6)


def study(
    *parameters: dict[str, Any], algorithm: str = "ALGORITHM_UNSPECIFIED", goal: str = "MAXIMIZE"
) -> Any:
    metrics = [{"metric_id": "m", "goal": goal}]
    return study_types.StudySpec.pb(
        study_types.StudySpec(metrics=metrics, parameters=list(parameters), algorithm=algorithm)
    )


@st.composite
def parameters(draw: st.DrawFn, name: str = "p") -> dict[str, Any]:
    kind = draw(st.sampled_from(["double", "integer", "discrete", "categorical"]))
    if kind == "categorical":
        values: list[Any] = draw(st.lists(st.text("abc", min_size=1), min_size=1, max_size=5, unique=True))
        return {"parameter_id": name, "categorical_value_spec": {"values": values}}
    if kind == "discrete":
        values = sorted(draw(st.sets(st.integers(1, 1000), min_size=1, max_size=6)))
        return {"parameter_id": name, "discrete_value_spec": {"values": values}}
    scale = draw(st.sampled_from(SCALES))
    low, high = sorted(draw(st.tuples(POSITIVE, POSITIVE)))
    bounds = {"min_value": low, "max_value": high}
    if kind == "integer":
        bounds = {"min_value": math.ceil(low), "max_value": math.ceil(high)}
    return {"parameter_id": name, f"{kind}_value_spec": bounds, "scale_type": scale}


@given(
    st.lists(parameters(), min_size=1, max_size=3), st.sampled_from(["RANDOM_SEARCH", ""]), st.integers(0, 9)
)
@settings(max_examples=60, deadline=None)
def test_every_value_is_in_its_parameter_s_space(
    given_parameters: list[dict[str, Any]], algorithm: str, seed: int
) -> None:
    named = [each | {"parameter_id": f"p{at}"} for at, each in enumerate(given_parameters)]
    space = study(*named, algorithm=algorithm or "ALGORITHM_UNSPECIFIED")
    past: list[PastTrial] = []
    for number in range(6):
        found = suggest(space, past, seed, 6)
        assert found is not None and found == suggest(space, past, seed, 6)
        for spec in space.parameters:
            value = found[spec.parameter_id]
            whole = getattr(spec, spec.WhichOneof("parameter_value_spec"))
            if hasattr(whole, "values"):
                assert value in whole.values
            else:
                assert whole.min_value <= float(value) <= whole.max_value
        past.append(PastTrial(found, float(number) if number % 3 else None, number == 4))


@given(parameters(), st.floats(0, 1))
def test_a_parameter_takes_its_value_back_to_where_it_was(spec: dict[str, Any], share: float) -> None:
    one = SearchParameter.of(study(spec).parameters[0])
    at = one.low + share * (one.high - one.low)
    at = round(at) if one.integer else at
    value = one.value(at)
    # The mirrored scale subtracts twice from the sum of its bounds.
    assert math.isclose(one.coordinate(value), at, rel_tol=1e-9, abs_tol=1e-9 * (one.low + one.high))
    assert one.value(one.coordinate(value)) == value or math.isclose(
        float(one.value(one.coordinate(value))), float(value), rel_tol=1e-9
    )


def test_a_grid_has_each_point_once_with_the_children_of_each_value() -> None:
    depth = {"parameter_id": "depth", "integer_value_spec": {"min_value": 1, "max_value": 3}}
    momentum = {"parameter_id": "momentum", "discrete_value_spec": {"values": [0.5, 0.9]}}
    optimizer = {
        "parameter_id": "opt",
        "categorical_value_spec": {"values": ["adam", "sgd"]},
        "conditional_parameter_specs": [
            {"parent_categorical_values": {"values": ["sgd"]}, "parameter_spec": momentum}
        ],
    }
    space = study(optimizer, depth, algorithm="GRID_SEARCH")
    found: list[dict[str, Any]] = []
    while (point := suggest(space, [PastTrial({}, None, False)] * len(found), 0, 100)) is not None:
        found.append(point)
    wanted = [{"opt": "adam", "depth": number} for number in (1, 2, 3)]
    wanted += [{"opt": "sgd", "momentum": m, "depth": n} for m, n in itertools.product((0.5, 0.9), (1, 2, 3))]
    assert found == wanted


def test_a_reverse_log_scale_searches_near_its_upper_bound() -> None:
    bounds = {"min_value": 0.1, "max_value": 1000}
    spec = {"parameter_id": "x", "double_value_spec": bounds, "scale_type": "UNIT_REVERSE_LOG_SCALE"}
    space = study(spec, algorithm="RANDOM_SEARCH")
    drawn = [suggest(space, [PastTrial({}, None, False)] * number, 3, 200) for number in range(200)]
    above = sum(float(each["x"]) > 900 for each in drawn if each)
    # Half of a log scale from 0.1 to 1000 lies below 10, three quarters below 100.
    assert above > 120


def test_the_default_search_beats_random_search_in_8_of_10_seeds() -> None:
    log = {"double_value_spec": {"min_value": 1e-3, "max_value": 10}, "scale_type": "UNIT_LOG_SCALE"}
    line = {"parameter_id": "y", "double_value_spec": {"min_value": -5, "max_value": 5}}
    whole = {"parameter_id": "k", "integer_value_spec": {"min_value": 1, "max_value": 9}}
    specs = ({"parameter_id": "x", **log}, line, whole)

    def best(algorithm: str, seed: int) -> float:
        past: list[PastTrial] = []
        for _ in range(20):
            at: Any = suggest(study(*specs, algorithm=algorithm), past, seed, 20)
            value = -(math.log10(at["x"]) ** 2) - (at["y"] - 1) ** 2 / 4 - (at["k"] - 5) ** 2 / 9
            past.append(PastTrial(at, value, False))
        return max(trial.objective for trial in past if trial.objective is not None)

    wins = [best("ALGORITHM_UNSPECIFIED", seed) > best("RANDOM_SEARCH", seed) for seed in range(10)]
    assert sum(wins) >= 8


def test_a_minimum_is_searched_where_the_goal_says_so() -> None:
    spec = {"parameter_id": "x", "double_value_spec": {"min_value": 0, "max_value": 1}}
    space = study(spec, goal="MINIMIZE")
    past = [PastTrial({"x": at / 20}, at / 20, False) for at in range(21)]
    drawn = [suggest(space, past, seed, 40) for seed in range(20)]
    assert sum(float(each["x"]) < 0.3 for each in drawn if each) >= 15


def test_values_of_dependent_parameters_are_chosen_where_they_apply() -> None:
    child = {"parameter_id": "c", "double_value_spec": {"min_value": 1, "max_value": 2}}
    parent = {
        "parameter_id": "n", "integer_value_spec": {"min_value": 1, "max_value": 2},
        "conditional_parameter_specs": [{"parent_int_values": {"values": [2]}, "parameter_spec": child}],
    }  # fmt: skip
    space = study(parent)
    past: list[PastTrial] = []
    for number in range(15):
        found = suggest(space, past, 0, 15)
        assert found is not None and ("c" in found) == (found["n"] == 2)
        past.append(PastTrial(found, float(number), False))
    assert {trial.parameters["n"] for trial in past} == {1, 2}
    assert choose(space.parameters, lambda parameter: parameter.low) == {"n": 1}
