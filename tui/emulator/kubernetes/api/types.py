"""What the API knows of each type: its schema, defaults and checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.emulator.kubernetes.api.writing.fields import Schema, child
from tui.emulator.kubernetes.api.writing.patches import MergeKey
from tui.emulator.kubernetes.resources import NODES, Resource

Obj = dict[str, Any]


class Types:
    """The types of one API."""

    def schema(self, resource: Resource) -> Schema:
        """The type's schema, OpenAPI v3 without references."""
        return {}

    def merge_key(self, resource: Resource) -> MergeKey:
        """How a strategic merge patch treats the lists of a type."""

        def key(path: tuple[str, ...]) -> str | None:
            schema = self.schema(resource)
            for part in path:
                schema = child(schema.get("items") or schema, part)
            found = schema.get("x-kubernetes-patch-merge-key")
            if found is None and schema.get("x-kubernetes-list-type") == "set":
                return ""
            return found

        return key

    def check_fields(self, resource: Resource, obj: Obj, query: Mapping[str, str]) -> list[str]:
        """Warnings for fields that the type does not have."""
        return []

    def prepare_create(self, resource: Resource, obj: Obj) -> None:
        """Take away what a client can't set when it creates an object."""
        if "status" in resource.subresources and resource != NODES:
            obj.pop("status", None)
