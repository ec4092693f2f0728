"""Rules about hyperparameter tuning jobs: numbers of trials, metrics and the search parameters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.spec.custom_job_spec import whole, within
from tui.domain.spec.findings import Case, Finding, Path, Rule
from tui.domain.vertex.sources import STUDY, TUNING, TUNING_JOB, UNDOCUMENTED

BODY = "tuningJob"
VALUE_SPECS = ("doubleValueSpec", "integerValueSpec", "categoricalValueSpec", "discreteValueSpec")
_PARENTS = {
    "parentDiscreteValues": "discreteValueSpec",
    "parentIntValues": "integerValueSpec",
    "parentCategoricalValues": "categoricalValueSpec",
}
_LOG = frozenset({"UNIT_LOG_SCALE", "UNIT_REVERSE_LOG_SCALE"})
MOST_DISCRETE, SMALLEST_GAP = 1000, 1e-10
_STUDY: Path = (BODY, "studySpec")
_NUMBERS = frozenset({"doubleValueSpec", "integerValueSpec"})


def tuning_of(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a job's (REST format) tuning fields other than the trial's spec; empty without tuning."""
    return job.get(BODY) or {}


def _study(case: Case) -> Mapping[str, Any]:
    return tuning_of(case.job).get("studySpec") or {}


def required(case: Case) -> Iterator[Finding]:
    if BODY not in case.job:
        return
    tuning, study = tuning_of(case.job), _study(case)
    for name in ("maxTrialCount", "parallelTrialCount"):
        if whole(tuning.get(name)) < 1:
            sentence = "the field is required and must be at least 1."
            yield Finding((BODY, name), sentence, "Write the number of trials, in total and in parallel.")
    if not study.get("metrics"):
        yield Finding(
            (*_STUDY, "metrics"),
            "the field is required.",
            "Add the metric that the trials report, and its goal.",
        )
    if not study.get("parameters"):
        yield Finding(
            (*_STUDY, "parameters"),
            "the field is required.",
            "Add a parameter; it becomes a flag of the trials.",
        )


def metric(case: Case) -> Iterator[Finding]:
    for at, metric in enumerate(_study(case).get("metrics") or []):
        here: Path = (*_STUDY, "metrics", at)
        if not metric.get("metricId"):
            yield Finding(
                (*here, "metricId"),
                "the field is required.",
                "Write the tag that the trainer reports, e.g. loss.",
            )
        if metric.get("goal") in {None, "GOAL_TYPE_UNSPECIFIED"}:
            yield Finding((*here, "goal"), "the field is required.", "Write MAXIMIZE or MINIMIZE.")


def several_metrics(case: Case) -> Iterator[Finding]:
    metrics = _study(case).get("metrics") or []
    if len(metrics) > 1:
        sentence = f"a tuning job must have one metric, but {len(metrics)} are set. {UNDOCUMENTED}"
        yield Finding((*_STUDY, "metrics"), sentence, "Remove all but the decisive metric.")


def at_once(case: Case) -> Iterator[Finding]:
    tuning = tuning_of(case.job)
    trials, parallel = whole(tuning.get("maxTrialCount")), whole(tuning.get("parallelTrialCount"))
    if parallel > trials > 0:
        edit = Edit((BODY, "parallelTrialCount"), trials)
        sentence = f"{parallel} parallel trials exceed the total of {trials}."
        yield Finding((BODY, "parallelTrialCount"), sentence, f"Write {trials}.", (edit,))
    elif (
        parallel > 1
        and parallel == trials
        and _study(case).get("algorithm") in {None, "ALGORITHM_UNSPECIFIED"}
    ):
        sentence = "all trials run in parallel, so the search can't learn from any of them."
        yield Finding(
            (BODY, "parallelTrialCount"), sentence, "Run fewer trials in parallel, or use RANDOM_SEARCH."
        )


def _all(case: Case) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield every parameter with its path, parents before their children."""
    for at, spec in enumerate(_study(case).get("parameters") or []):
        yield from _with_children((*_STUDY, "parameters", at), spec)


def _with_children(path: Path, spec: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    yield path, spec
    for at, child in enumerate(spec.get("conditionalParameterSpecs") or []):
        below = (*path, "conditionalParameterSpecs", at, "parameterSpec")
        yield from _with_children(below, child.get("parameterSpec") or {})


def identity(case: Case) -> Iterator[Finding]:
    seen: set[str] = set()
    for path, spec in _all(case):
        name, here = str(spec.get("parameterId") or ""), (*path, "parameterId")
        if not name or any(character.isspace() for character in name):
            yield Finding(
                here, f"{name!r} must be a name without spaces.", "The name becomes a flag, as in --lr=0.1."
            )
        elif name in seen:
            yield Finding(here, f"{name} must not be the id of another parameter too.", "Use another id.")
        seen.add(name)


def values(case: Case) -> Iterator[Finding]:
    for path, spec in _all(case):
        specs = [name for name in VALUE_SPECS if spec.get(name) is not None]
        if len(specs) != 1:
            sentence = f"a parameter must have one kind of values, not {' and '.join(specs) or 'none'}."
            yield Finding(path, sentence, f"Write one of {', '.join(VALUE_SPECS)}.")
        elif specs[0] in _NUMBERS:
            yield from _range((*path, specs[0]), spec[specs[0]])
        else:
            yield from _choices((*path, specs[0]), specs[0], spec[specs[0]])


def _range(path: Path, spec: Mapping[str, Any]) -> Iterator[Finding]:
    low, high = spec.get("minValue"), spec.get("maxValue")
    missing = [name for name, value in (("minValue", low), ("maxValue", high)) if value is None]
    if missing:
        yield Finding(path, f"{' and '.join(missing)} is required.", "Write both bounds.")
    elif float(low or 0) > float(high or 0):
        edits = (Edit((*path, "minValue"), high), Edit((*path, "maxValue"), low))
        yield Finding(path, f"minValue {low} is greater than maxValue {high}.", "Swap them.", edits)


def _choices(path: Path, kind: str, spec: Mapping[str, Any]) -> Iterator[Finding]:
    values, here = list(spec.get("values") or []), (*path, "values")
    if not values:
        yield Finding(here, "the field is required.", "Write the values that trials may use.")
    elif kind == "discreteValueSpec":
        numbers = [float(value) for value in values]
        if len(numbers) > MOST_DISCRETE:
            yield Finding(
                here,
                f"the parameter has {len(numbers)} values; the maximum is {MOST_DISCRETE}.",
                "Use integerValueSpec.",
            )
        if any(b - a < SMALLEST_GAP for a, b in itertools.pairwise(numbers)):
            sentence = f"the values must increase by at least {SMALLEST_GAP:g}."
            yield Finding(here, sentence, "Sort them.", (Edit(here, sorted(set(values), key=float)),))


def scale(case: Case) -> Iterator[Finding]:
    for path, spec in _all(case):
        named, here = spec.get("scaleType"), (*path, "scaleType")
        if named in {None, "SCALE_TYPE_UNSPECIFIED"}:
            continue
        if spec.get("categoricalValueSpec") is not None:
            sentence = "a categorical parameter must not have a scale."
            yield Finding(here, sentence, "Remove it.", (Edit(here, REMOVED),))
        elif named in _LOG and (low := _smallest(spec)) is not None and low <= 0:
            yield Finding(
                here,
                f"{named} needs positive values; the smallest is {low:g}.",
                "Raise the smallest value, or use UNIT_LINEAR_SCALE.",
            )


def _smallest(spec: Mapping[str, Any]) -> float | None:
    for name in _NUMBERS:
        low = within(spec, name, "minValue")
        if low is not None:
            return float(low)
    return min((float(value) for value in within(spec, "discreteValueSpec", "values") or []), default=None)


def grid(case: Case) -> Iterator[Finding]:
    if _study(case).get("algorithm") != "GRID_SEARCH":
        return
    for path, spec in _all(case):
        if spec.get("doubleValueSpec") is not None:
            yield Finding(
                (*path, "doubleValueSpec"),
                "a grid search does not support doubles.",
                "Use discreteValueSpec.",
            )


def default_value(case: Case) -> Iterator[Finding]:
    for path, spec in _all(case):
        for name in VALUE_SPECS:
            if within(spec, name, "defaultValue") is not None:
                here = (*path, name, "defaultValue")
                yield Finding(
                    here, "tuning jobs do not support default values.", "Remove it.", (Edit(here, REMOVED),)
                )


def condition(case: Case) -> Iterator[Finding]:
    for path, spec in _all(case):
        for number, child in enumerate(spec.get("conditionalParameterSpecs") or []):
            here = (*path, "conditionalParameterSpecs", number)
            parents = [name for name in _PARENTS if child.get(name) is not None]
            if len(parents) != 1:
                yield Finding(
                    here,
                    "the child must have exactly one condition on its parent.",
                    f"Write one of {', '.join(_PARENTS)}.",
                )
            elif spec.get(_PARENTS[parents[0]]) is None:
                kind = next((name for name in VALUE_SPECS if spec.get(name) is not None), "no values")
                yield Finding(
                    (*here, parents[0]),
                    f"the condition must match the parent, which has {kind}.",
                    "Use the condition for that kind.",
                )


RULES = (
    Rule("tuning.required", TUNING_JOB, required),
    Rule("tuning.metric", STUDY, metric),
    Rule("tuning.one-metric", TUNING, several_metrics, ProblemSeverity.WARNING),
    Rule("tuning.at-once", TUNING, at_once, ProblemSeverity.WARNING),
    Rule("tuning.parameter-id", STUDY, identity),
    Rule("tuning.values", STUDY, values),
    Rule("tuning.scale", STUDY, scale),
    Rule("tuning.grid", STUDY, grid),
    Rule("tuning.default", STUDY, default_value),
    Rule("tuning.condition", STUDY, condition),
)
