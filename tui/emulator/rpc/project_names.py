"""Projects in resource names on the wire: replies have the number (docs/facts/vertex.md 16).

Requests may have the id or the number. The handlers of stored resources and of operations know only the id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from google.longrunning import operations_pb2
from google.protobuf import any_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from tui.emulator.interfaces import project_id, project_number
from tui.emulator.messages import Pb, copied
from tui.emulator.rpc.methods import Method, Unary

_SERVICES = frozenset((
    "google.cloud.aiplatform.v1.EndpointService", "google.cloud.aiplatform.v1.MetadataService",
    "google.cloud.aiplatform.v1.ModelService", "google.cloud.aiplatform.v1.PersistentResourceService",
    "google.cloud.aiplatform.v1.PipelineService", "google.cloud.aiplatform.v1.PredictionService",
    "google.cloud.aiplatform.v1.ScheduleService", "google.cloud.aiplatform.v1.TensorboardService",
    "google.longrunning.Operations",
))  # fmt: skip
"""Services whose messages name stored resources or operations."""
_FIELDS = frozenset((
    "artifact", "artifacts", "child_contexts", "context", "endpoint", "execution", "executions", "filter",
    "metadata_artifact", "model", "name", "names", "parent", "parent_contexts", "parent_model",
    "purge_sample", "schedule_name", "source_model", "tensorboard", "tensorboard_experiment",
    "tensorboard_run", "tensorboard_time_series", "time_series",
))  # fmt: skip
"""Text fields with resource names, and the filters, which may quote names."""
_PROJECT = re.compile(r"(?<=\bprojects/)[^/\s]+(?=/locations/)")
_ANY = any_pb2.Any.DESCRIPTOR
_named: dict[str, tuple[FieldDescriptor, ...]] = {}
"""Fields of each message, by its full name, that are or contain resource names."""


def with_project_number(text: str) -> str:
    """Replace the ids of projects in the resource names in a text with their numbers."""
    return _PROJECT.sub(lambda match: project_number(match[0]), text)


def with_project_id(text: str) -> str:
    """Replace the known numbers of projects in the resource names in a text with their ids."""
    return _PROJECT.sub(lambda match: project_id(match[0]), text)


def translated(methods: Iterable[Method]) -> list[Method]:
    """Return the methods; those of stored resources and of operations take both forms and reply numbers."""
    return [
        replace(method, unary=_both_forms(method.unary))
        if method.unary and (method.service in _SERVICES or method.response is operations_pb2.Operation)
        else method
        for method in methods
    ]


def _both_forms(serve: Unary) -> Unary:
    async def call(request: Any) -> Any:
        _rewrite(request, with_project_id)
        reply: Any = await serve(request)
        if not isinstance(reply, Message) or not _fields(reply.DESCRIPTOR):
            return reply
        # A stored message is never altered in place.
        reply = copied(reply)
        _rewrite(reply, with_project_number)
        return reply

    return call


def _fields(descriptor: Descriptor) -> tuple[FieldDescriptor, ...]:
    """The fields that are or contain resource names."""
    if descriptor.full_name not in _named:
        # A recursive message contains no name but those that its other fields contain.
        _named[descriptor.full_name] = ()
        _named[descriptor.full_name] = tuple(field for field in descriptor.fields if _is_named(field))
    return _named[descriptor.full_name]


def _is_named(field: FieldDescriptor) -> bool:
    part = _value_type(field)
    if part is None:
        return field.name in _FIELDS and field.type == FieldDescriptor.TYPE_STRING
    return part == _ANY or bool(_fields(part))


def _value_type(field: FieldDescriptor) -> Descriptor | None:
    """The message in a field, of a map's values if the field is a map; `None` for other types."""
    part = field.message_type
    return part.fields_by_name["value"].message_type if _is_map(field) else part


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _rewrite(pb: Pb, convert: Callable[[str], str]) -> None:
    """Convert the project of every resource name in a message, in place."""
    named = _fields(pb.DESCRIPTOR)
    for field, value in pb.ListFields() if named else ():
        if field not in named:
            continue
        if isinstance(value, str):
            setattr(pb, field.name, convert(value))
        elif field.type == FieldDescriptor.TYPE_STRING:
            value[:] = [convert(text) for text in value]
        else:
            parts = [value] if isinstance(value, Message) else value.values() if _is_map(field) else value
            for part in parts:
                if isinstance(part, any_pb2.Any):
                    _rewrite_packed(part, convert)
                else:
                    _rewrite(part, convert)


def _rewrite_packed(box: any_pb2.Any, convert: Callable[[str], str]) -> None:
    """Convert the names in a packed message; a message of an unknown type remains unchanged."""
    try:
        descriptor = descriptor_pool.Default().FindMessageTypeByName(box.TypeName())  # type: ignore[no-untyped-call]
    except KeyError:
        return
    message = message_factory.GetMessageClass(descriptor)()
    box.Unpack(message)
    _rewrite(message, convert)
    box.Pack(message)
