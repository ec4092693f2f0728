"""Server-side checks of a new hyperparameter tuning job; see `tui.emulator.vertex.validate`.

The rules come from the documentation of HyperparameterTuningJob and StudySpec (docs/facts/vertex.md 10).
Unsupported features are refused with a message that names the feature.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from google.cloud.aiplatform_v1.types import study as study_types

from tui.emulator.messages import Pb
from tui.emulator.tuning.search import GRID
from tui.emulator.tuning.space import KINDS, LOG, REVERSE_LOG
from tui.emulator.vertex.validate import below, resource_problems, spec_problems
from tui.emulator.vertex.validate_pools import Problem

MAX_DISCRETE = 1000
MIN_GAP = 1e-10
_PARENTS = {
    "parent_discrete_values": "discrete_value_spec",
    "parent_int_values": "integer_value_spec",
    "parent_categorical_values": "categorical_value_spec",
}
_UNSERVED = ("convex_automated_stopping_spec", "study_stopping_config")
_SCALES = study_types.StudySpec.ParameterSpec.ScaleType


def tuning_problems(job: Pb, location: str) -> list[Problem]:
    """Return every reason to refuse a hyperparameter tuning job in `location`; the result is empty if it is
    valid."""
    problems = [*resource_problems(job, location), *_counts(job)]
    problems += below("study_spec", study_problems(job.study_spec))
    problems += below("trial_job_spec", spec_problems(job.trial_job_spec))
    return list(below("hyperparameter_tuning_job", problems))


def _counts(job: Pb) -> Iterator[Problem]:
    for field in ("max_trial_count", "parallel_trial_count"):
        if getattr(job, field) < 1:
            yield field, f"must be at least 1, not {getattr(job, field)}"
    if job.max_failed_trial_count < 0:
        yield "max_failed_trial_count", f"must be at least 0, not {job.max_failed_trial_count}"


def study_problems(study: Pb) -> Iterator[Problem]:
    """Yield the problems with a StudySpec. Paths are relative to the spec."""
    if not study.metrics:
        yield "metrics", "is required; its first element is what the study optimizes"
    for index, metric in enumerate(study.metrics):
        if not metric.metric_id:
            yield f"metrics[{index}].metric_id", "is required"
        if not metric.goal:
            yield f"metrics[{index}].goal", "is required: MAXIMIZE or MINIMIZE"
    if not study.parameters:
        yield "parameters", "is required: each parameter is a flag of the trials' command"
    for field in _UNSERVED:
        if study.HasField(field):
            yield (
                field,
                (
                    "is not served by the emulator; it has median_automated_stopping_spec and "
                    "decay_curve_stopping_spec"
                ),
            )
    ids: set[str] = set()
    for index, spec in enumerate(study.parameters):
        yield from below(f"parameters[{index}]", _parameter(spec, ids, study.algorithm == GRID))


def _parameter(spec: Pb, ids: set[str], grid: bool) -> Iterator[Problem]:
    """Yield the problems with a parameter and its conditional parameters. `ids` holds earlier ids."""
    yield from _own(spec, ids, grid)
    for number, child in enumerate(spec.conditional_parameter_specs):
        here = f"conditional_parameter_specs[{number}]"
        yield from below(here, _condition(child, spec))
        yield from below(f"{here}.parameter_spec", _parameter(child.parameter_spec, ids, grid))


def _own(spec: Pb, ids: set[str], grid: bool) -> Iterator[Problem]:
    name = spec.parameter_id
    if not name or any(character.isspace() for character in name):
        yield "parameter_id", f"{name!r} must not be empty or contain whitespace"
    elif name in ids:
        yield "parameter_id", f"{name!r} must be unique among the parameters"
    ids.add(name)
    kind = spec.WhichOneof("parameter_value_spec")
    if kind is None:
        yield "parameter_value_spec", f"is required: one of {', '.join(KINDS)}"
        return
    domain = getattr(spec, kind)
    if domain.HasField("default_value"):
        yield f"{kind}.default_value", "is not supported in hyperparameter tuning jobs"
    if kind == "double_value_spec" and grid:
        yield kind, "must not be DOUBLE in a grid search; use discrete_value_spec"
    yield from (_values if kind.startswith(("categorical", "discrete")) else _range)(spec, kind, domain)


def _range(spec: Pb, kind: str, domain: Pb) -> Iterator[Problem]:
    low, high = domain.min_value, domain.max_value
    if not low <= high or high - low == float("inf"):
        yield kind, f"min_value {low} must be at most max_value {high}, both finite"
    if spec.scale_type in {LOG, REVERSE_LOG} and low <= 0:
        name = _SCALES(spec.scale_type).name
        yield "scale_type", f"{name} requires positive values; the smallest is {low}"


def _values(spec: Pb, kind: str, domain: Pb) -> Iterator[Problem]:
    values = list(domain.values)
    if not values:
        yield f"{kind}.values", "is required"
    if len(set(values)) < len(values):
        yield f"{kind}.values", "must not contain a value twice"
    if kind == "categorical_value_spec":
        if spec.scale_type:
            yield "scale_type", "must be unset for a categorical parameter"
        return
    if len(values) > MAX_DISCRETE:
        yield f"{kind}.values", f"has {len(values)} values; the limit is {MAX_DISCRETE}"
    if any(not b - a >= MIN_GAP for a, b in itertools.pairwise(values)):
        yield f"{kind}.values", f"must increase by at least {MIN_GAP}"
    if spec.scale_type in {LOG, REVERSE_LOG} and values and values[0] <= 0:
        name = _SCALES(spec.scale_type).name
        yield "scale_type", f"{name} requires positive values; the smallest is {values[0]}"


def _condition(child: Pb, parent: Pb) -> Iterator[Problem]:
    kind = child.WhichOneof("parent_value_condition")
    if kind is None:
        yield "parent_value_condition", f"is required: one of {', '.join(_PARENTS)}"
    elif not parent.HasField(_PARENTS[kind]):
        yield kind, f"does not fit the parent, which has {parent.WhichOneof('parameter_value_spec')}"
