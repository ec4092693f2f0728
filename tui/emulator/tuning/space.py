"""The search space of a study: parameters, scales and conditional parameters.

An algorithm chooses a coordinate of each parameter: a number, or a position among the parameter's values. The
parameter converts it to the trial's value and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from google.cloud.aiplatform_v1.types import study as study_types

from tui.emulator.messages import Pb

Value = float | str
"""Value of a parameter: a number, or a category."""

_Scale = study_types.StudySpec.ParameterSpec.ScaleType
LOG, REVERSE_LOG = int(_Scale.UNIT_LOG_SCALE), int(_Scale.UNIT_REVERSE_LOG_SCALE)
KINDS = ("double_value_spec", "integer_value_spec", "categorical_value_spec", "discrete_value_spec")


@dataclass(frozen=True, slots=True)
class SearchParameter:
    """One parameter of the study. `low` and `high` bound its coordinate, inclusively."""

    id: str
    low: float
    high: float
    integer: bool
    log: bool = False
    mirrored: bool = False
    """Whether the scale is a reverse log scale: a log scale seen from the upper bound."""
    values: tuple[Value, ...] = ()
    """Values of a categorical or discrete parameter, whose coordinate is the position."""
    ordered: bool = True
    """Whether values have a distance; False for categories."""

    @classmethod
    def of(cls, spec: Pb) -> SearchParameter:
        """Return the parameter of a ParameterSpec that `study_problems` accepts."""
        kind = spec.WhichOneof("parameter_value_spec")
        domain = getattr(spec, kind)
        if kind in {"categorical_value_spec", "discrete_value_spec"}:
            values = tuple(domain.values)
            ordered = kind == "discrete_value_spec"
            return cls(spec.parameter_id, 0, len(values) - 1, True, values=values, ordered=ordered)
        log, mirrored = spec.scale_type in {LOG, REVERSE_LOG}, spec.scale_type == REVERSE_LOG
        integer = kind == "integer_value_spec"
        return cls(spec.parameter_id, domain.min_value, domain.max_value, integer, log, mirrored)

    def value(self, coordinate: float) -> Value:
        """Return the value at a coordinate."""
        if self.values:
            return self.values[int(coordinate)]
        position = self.low + self.high - coordinate if self.mirrored else coordinate
        return round(position) if self.integer else min(max(position, self.low), self.high)

    def coordinate(self, value: Value) -> float:
        """Return the coordinate of a value."""
        if self.values:
            return self.values.index(value)
        number = float(value)
        return self.low + self.high - number if self.mirrored else number


def choose(specs: Sequence[Pb], pick: Callable[[SearchParameter], float]) -> dict[str, Value]:
    """Return values by parameter id. `pick` chooses the coordinate of each parameter, and of conditional
    parameters where they apply."""
    return dict(_choose(specs, pick))


def _choose(specs: Sequence[Pb], pick: Callable[[SearchParameter], float]) -> Iterator[tuple[str, Value]]:
    for spec in specs:
        parameter = SearchParameter.of(spec)
        value = parameter.value(pick(parameter))
        yield parameter.id, value
        children = [child for child in spec.conditional_parameter_specs if _applies(child, value)]
        yield from _choose([child.parameter_spec for child in children], pick)


def _applies(conditional: Pb, parent: Value) -> bool:
    kind = conditional.WhichOneof("parent_value_condition")
    return kind is not None and parent in getattr(conditional, kind).values


def text_of(value: Value) -> str:
    """Format a value for a trial's flag."""
    return value if isinstance(value, str) else f"{value:.15g}"
