"""The fields of a hyperparameter tuning job in REST format, as data (docs/facts/vertex.md 10.1, 10.2)."""

from __future__ import annotations

from tui.domain.spec.field_table import (
    BOOLEAN,
    DOUBLE,
    DOUBLES,
    INTEGER,
    JOB_SPEC,
    SMALL,
    STRING,
    STRINGS,
    FieldType,
    enum,
    message,
)

DEEPEST = 4
"""Maximum depth of conditional parameters in a form or check."""
_SPEC = "StudySpec.ParameterSpec"


def _parameter(levels: int, *, repeated: bool) -> FieldType:
    fields = {
        "parameterId": STRING,
        "doubleValueSpec": message(
            f"{_SPEC}.DoubleValueSpec", minValue=DOUBLE, maxValue=DOUBLE, defaultValue=DOUBLE
        ),
        "integerValueSpec": message(
            f"{_SPEC}.IntegerValueSpec", minValue=INTEGER, maxValue=INTEGER, defaultValue=INTEGER
        ),
        "categoricalValueSpec": message(f"{_SPEC}.CategoricalValueSpec", values=STRINGS, defaultValue=STRING),
        "discreteValueSpec": message(f"{_SPEC}.DiscreteValueSpec", values=DOUBLES, defaultValue=DOUBLE),
        "scaleType": enum(
            SCALE_TYPE_UNSPECIFIED=0, UNIT_LINEAR_SCALE=1, UNIT_LOG_SCALE=2, UNIT_REVERSE_LOG_SCALE=3
        ),
    }
    if levels > 1:
        condition = f"{_SPEC}.ConditionalParameterSpec"
        fields["conditionalParameterSpecs"] = message(
            condition,
            True,
            parentDiscreteValues=message(f"{condition}.DiscreteValueCondition", values=DOUBLES),
            parentIntValues=message(
                f"{condition}.IntValueCondition", values=FieldType("integer", repeated=True)
            ),
            parentCategoricalValues=message(f"{condition}.CategoricalValueCondition", values=STRINGS),
            parameterSpec=_parameter(levels - 1, repeated=False),
        )
    return message(_SPEC, repeated, **fields)


PARAMETER_SPEC = _parameter(DEEPEST, repeated=True)
METRIC_SPEC = message(
    "StudySpec.MetricSpec",
    True,
    metricId=STRING,
    goal=enum(GOAL_TYPE_UNSPECIFIED=0, MAXIMIZE=1, MINIMIZE=2),
)
STUDY_SPEC = message(
    "StudySpec",
    metrics=METRIC_SPEC,
    parameters=PARAMETER_SPEC,
    algorithm=enum(ALGORITHM_UNSPECIFIED=0, GRID_SEARCH=2, RANDOM_SEARCH=3),
    decayCurveStoppingSpec=message("StudySpec.DecayCurveAutomatedStoppingSpec", useElapsedDuration=BOOLEAN),
    medianAutomatedStoppingSpec=message("StudySpec.MedianAutomatedStoppingSpec", useElapsedDuration=BOOLEAN),
    measurementSelectionType=enum(
        MEASUREMENT_SELECTION_TYPE_UNSPECIFIED=0, LAST_MEASUREMENT=1, BEST_MEASUREMENT=2
    ),
)
TUNING_JOB_BODY = message(
    "HyperparameterTuningJob",
    studySpec=STUDY_SPEC,
    maxTrialCount=SMALL,
    parallelTrialCount=SMALL,
    maxFailedTrialCount=SMALL,
    trialJobSpec=JOB_SPEC,
)
"""A profile's fields of a tuning job: the study, the counts and the custom job of a trial."""
