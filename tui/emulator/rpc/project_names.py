"""Projects in resource names on the wire: replies have the number (docs/facts/vertex.md 16).

Requests may have the id or the number. The handlers of stored resources and of operations know only the id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from google.longrunning.operations_pb2 import Operation
from google.protobuf.message import Message

from tui.emulator.interfaces import project_id, project_number
from tui.emulator.messages import Pb, copied
from tui.emulator.rpc.methods import Method, Unary

_FIELDS = frozenset((
    "artifact", "artifacts", "child_contexts", "context", "endpoint", "execution", "executions", "filter",
    "metadata_artifact", "model", "name", "names", "parent", "parent_contexts", "parent_model",
    "purge_sample", "schedule_name", "source_model", "tensorboard", "tensorboard_experiment",
    "tensorboard_run", "tensorboard_time_series", "time_series",
))  # fmt: skip
"""Text fields with resource names, and the filters, which may quote names."""
_VERTEX = "google.cloud.aiplatform.v1."
_JOBS = f"{_VERTEX}JobService"
"""The service whose replies have the number already, beside the texts of users."""
_DATA = "google.protobuf.", f"{_VERTEX}TimeSeriesData", f"{_VERTEX}PipelineJobDetail"
"""Beginnings of the full names of messages without a name to convert, which may be long."""
_PROJECT = re.compile(r"(?<=\bprojects/)[^/\s]+(?=/locations/)")


def with_project_number(text: str) -> str:
    """Replace the ids of projects in the resource names in a text with their numbers."""
    return _PROJECT.sub(lambda match: project_number(match[0]), text)


def with_project_id(text: str) -> str:
    """Replace the known numbers of projects in the resource names in a text with their ids."""
    return _PROJECT.sub(lambda match: project_id(match[0]), text)


def numbered(reply: Pb) -> Pb:
    """Return a copy of a reply with the project's number in its resource names."""
    copy = copied(reply)
    _rewrite(copy, with_project_number)
    return copy


def translated(methods: Iterable[Method]) -> list[Method]:
    """Return the methods. Methods of stored resources and of operations accept the project's id or number,
    and reply with the number."""
    return [
        replace(method, unary=_both_forms(method.unary))
        if method.unary
        and (method.response is Operation or method.service != _JOBS)
        and method.service.startswith((_VERTEX, "google.longrunning."))
        else method
        for method in methods
    ]


def _both_forms(serve: Unary) -> Unary:
    async def call(request: Any) -> Any:
        _rewrite(request, with_project_id)
        reply: Any = await serve(request)
        return numbered(reply) if isinstance(reply, Message) else reply

    return call


def _rewrite(pb: Pb, convert: Callable[[str], str]) -> None:
    """Convert the project of every resource name in a message, in place."""
    for field, value in pb.ListFields():
        if field.message_type is not None:
            parts = [value] if isinstance(value, Message) else value
            for part in parts.values() if isinstance(parts, Mapping) else parts:
                if isinstance(part, Message) and not part.DESCRIPTOR.full_name.startswith(_DATA):
                    _rewrite(part, convert)
        elif field.name in _FIELDS and isinstance(value, str):
            setattr(pb, field.name, convert(value))
        elif field.name in _FIELDS:
            value[:] = [convert(text) for text in value]
