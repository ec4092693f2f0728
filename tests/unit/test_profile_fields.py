"""The field tables are those of the official messages: every field, type and enum."""

from __future__ import annotations

from typing import Any

from google.cloud.aiplatform_v1.types import CustomJob, CustomJobSpec
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tui.domain.spec.field_table import HEADER, JOB_SPEC, OUTPUT_ONLY, FieldType

OURS = {"description", "region", "parameters", "package", "progress"}
"""Fields of the header that are not sent."""

WORDS = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BOOL: "boolean",
    FieldDescriptor.TYPE_INT32: "integer",
    FieldDescriptor.TYPE_INT64: "integer",
    FieldDescriptor.TYPE_ENUM: "enum",
}


def described(field: Any) -> str:
    """Our word for the type of a field of the wire."""
    if field.message_type is None:
        return WORDS[field.type]
    if field.message_type.GetOptions().map_entry:
        return "map"
    return "duration" if field.message_type.full_name == "google.protobuf.Duration" else "message"


def compare(descriptor: Descriptor, fields: dict[str, FieldType], path: str = "") -> None:
    known = {field.json_name: field for field in descriptor.fields}
    assert set(known) == set(fields), path
    for name, field in known.items():
        kind, here = fields[name], f"{path}.{name}"
        assert kind.name == described(field), here
        assert kind.repeated == (field.is_repeated and kind.name != "map"), here
        if kind.name == "integer":
            assert kind.bits == (64 if field.type == FieldDescriptor.TYPE_INT64 else 32), here
        if kind.name == "enum":
            assert dict(kind.numbers) == {v.name: v.number for v in field.enum_type.values}, here
            assert set(kind.choices) == {n for n in kind.numbers if not n.endswith("_UNSPECIFIED")}, here
        if kind.name == "message":
            assert kind.type == field.message_type.name, here
            compare(field.message_type, dict(kind.fields), here)


def test_a_job_spec_has_every_field_of_the_official_message() -> None:
    compare(CustomJobSpec.pb(CustomJobSpec()).DESCRIPTOR, dict(JOB_SPEC.fields))


def test_a_profile_has_every_field_of_a_custom_job_that_may_be_given() -> None:
    descriptor = CustomJob.pb(CustomJob()).DESCRIPTOR
    known = {field.json_name: field for field in descriptor.fields}
    assert set(known) - set(OUTPUT_ONLY) == set(HEADER) - OURS
    assert set(OUTPUT_ONLY) <= set(known)
    for name in set(HEADER) - OURS:
        assert HEADER[name].name == described(known[name])
    compare(known["encryptionSpec"].message_type, dict(HEADER["encryptionSpec"].fields))
