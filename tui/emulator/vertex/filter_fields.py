"""Fields that list filters of Vertex's resources accept.

The fields follow the docstrings of ListCustomJobsRequest.filter and ListTrainingPipelinesRequest.filter:
`display_name` and `training_task_definition` with = != and : (wildcard), `state` with = and !=, `create_time`
with all comparisons against an RFC 3339 time, `labels.KEY` with = and `:*`. Names may be in camelCase, as
REST clients write them. The documentation leaves the following open: `!=` is true where `=` is false, so it
is also true for a resource without that label; `*` in the value of `:` matches any text and the rest must
match in full; `labels.KEY` accepts != and : too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.cloud.aiplatform_v1.types import job_state, pipeline_state, schedule

from tui.emulator.filters.fields import MISSING, FieldEntry, FieldTable, FilterField, UnknownField
from tui.emulator.filters.value_types import ORDER, AnyValue, EnumName, Ordered, WildcardText, rfc3339_value
from tui.emulator.messages import Pb

MAX_NESTING = 50
"""Maximum number of levels of parentheses and negations; parsing deeper filters could overflow the stack."""

_TEXT = WildcardText()
_TIME = Ordered(rfc3339_value, ORDER)
_TIME_OR_NONE = Ordered(rfc3339_value)


def _state(title: str, enum: Any, example: str) -> FilterField[Pb]:
    numbers = {name: int(value) for name, value in enum.__members__.items()}
    return FilterField(lambda resource: resource.state, EnumName(title, numbers, example))


def _nanoseconds(moment: Pb) -> int:
    return int(moment.seconds) * 10**9 + int(moment.nanos)


def label(rest: tuple[str, ...]) -> FilterField[Pb]:
    """Return the field `labels.KEY` for the remaining path. Raises UnknownField."""
    if len(rest) != 1:
        name = ".".join(("labels", *rest))
        raise UnknownField(f"{name!r} must be labels.KEY; quote a KEY that contains dots")
    (key,) = rest
    return FilterField(lambda resource: resource.labels.get(key, MISSING), _TEXT, missing_differs=True)


def _time(name: str, values: Ordered = _TIME) -> FilterField[Pb]:
    """Return a time field. A resource without the time does not match."""

    def get(resource: Pb) -> Any:
        return _nanoseconds(getattr(resource, name)) if resource.HasField(name) else MISSING

    return FilterField(get, values)


def text_field(name: str) -> FilterField[Pb]:
    """Return a text field of the resource."""
    return derived_text(lambda resource: getattr(resource, name))


def derived_text(read: Callable[[Pb], str]) -> FilterField[Pb]:
    """Return a text field that `read` derives from the resource."""
    return FilterField(read, _TEXT)


def time_field(name: str) -> FilterField[Pb]:
    """Return a time field. An unset time counts as the epoch."""
    return FilterField(lambda resource: _nanoseconds(getattr(resource, name)), _TIME)


def fields_of(state: FilterField[Pb], labels: bool = True, **more: FilterField[Pb]) -> FieldTable[Pb]:
    """Return the fields of a kind: display name, state, creation time and `more`."""
    fields: dict[str, FieldEntry[Pb]] = {
        "display_name": FilterField(lambda resource: resource.display_name, _TEXT),
        "state": state,
        "create_time": time_field("create_time"),
        **more,
    }
    names = list(fields)
    if labels:
        fields["labels"] = label
    return FieldTable(
        fields,
        hint=f"use {', '.join(names)}" + (" or labels.KEY" if labels else ""),
        aliases={_camel(name): name for name in names if "_" in name},
        max_nesting=MAX_NESTING,
    )


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


CUSTOM_JOB_FIELDS = fields_of(_state("job state", job_state.JobState, "JOB_STATE_RUNNING"))
PIPELINE_STATE = _state("pipeline state", pipeline_state.PipelineState, "PIPELINE_STATE_RUNNING")
SCHEDULE_FIELDS = fields_of(
    _state("state of a schedule", schedule.Schedule.State, "ACTIVE"),
    labels=False,
    start_time=_time("start_time"),
    end_time=_time("end_time", _TIME_OR_NONE),
    next_run_time=_time("next_run_time"),
    create_pipeline_job_request=FilterField(
        lambda pb: pb.WhichOneof("request") == "create_pipeline_job_request" or MISSING, AnyValue()
    ),
)
"""Fields of ListSchedulesRequest.filter."""
