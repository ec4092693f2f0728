"""A CustomJobSpec in a file, as `gcloud ai custom-jobs create --config` reads it (578.0.0).

gcloud reads YAML 1.1 and builds a message in which a text field can't be a number or a boolean. gcloud sends
unknown fields unchanged, and the service refuses them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import yaml

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import Document, Path, Problem, ProblemSeverity, camel
from tui.domain.spec.field_table import HEADER, FieldType
from tui.domain.spec.values import describe, text
from tui.domain.vertex.field_check import LEFT_OUT, Checker
from tui.domain.vertex.sources import GCLOUD_READER

UNQUOTED = "gcloud.unquoted"
"""Id of the problem of an unquoted number, boolean or date in a text field of gcloud."""

_SPELLING = "gcloud.underscore"
_WHOLE = re.compile(r"\s*[-+]?\d+(_\d+)*\s*")
_TASK_KEYS = ("container_spec", "python_package_spec", "image_uri")
"""Keys with which gcloud itself finds a pool's task, only in camelCase."""


class GcloudChecker(Checker):
    """Checks a document without a header in the same way as gcloud."""

    def spec(self, fields: Mapping[str, FieldType]) -> dict[str, Any]:
        """Return the complete document in REST format."""
        spec = self.message(self._document.value, fields, ())
        self._skipped()
        return spec

    def message(self, value: Any, fields: Mapping[str, FieldType], path: Path) -> dict[str, Any]:
        if isinstance(value, Mapping):
            for name, inner in value.items():
                if name != camel(name) and camel(name) in fields:
                    self._underscore((*path, name), inner, value)
        return super().message(value, fields, path)

    def field(self, value: Any, kind: FieldType, path: Path) -> Any:
        # gcloud drops a field whose single value is an empty list.
        return LEFT_OUT if value == [] and not kind.repeated else super().field(value, kind, path)

    def element(self, value: Any, path: Path) -> Any:
        if value is None:
            self.refuse(path, "the file must have fields; gcloud refuses an empty file.", "Write the fields.")
        return super().element(value, path)

    def _unknown(self, path: Path, value: Any, fields: Mapping[str, FieldType]) -> None:
        if len(path) > 1 or camel(str(path[0])) not in HEADER:
            return super()._unknown(path, value, fields)
        message = "the field must be a field of a CustomJobSpec; gcloud has flags for all other settings."
        fix = "Write the fields of the spec under jobSpec, which makes the file a profile."
        return self.refuse(path, message, fix, "profile.unknown-field")

    def refuse(
        self, path: Path, message: str, fix: str = "", rule: str = "profile.type", *edits: Edit
    ) -> None:
        super().refuse(path, message, fix, rule, *edits)
        if rule.startswith("gcloud."):
            self.problems[-1] = replace(self.problems[-1], source=GCLOUD_READER)

    def _underscore(self, path: Path, value: Any, beside: Mapping[str, Any]) -> None:
        name = str(path[-1])
        right = camel(name)
        fix = f"Write {right}."
        edits = () if right in beside else (Edit(path, REMOVED), Edit((*path[:-1], right), value))
        if name in _TASK_KEYS and path[0] == "workerPoolSpecs":
            message = f"gcloud requires {right} and refuses a pool without it."
            self.refuse(path, message, fix, _SPELLING, *edits)
        else:
            message = "gcloud's help calls keys with underscores invalid; it sends them unchanged."
            self.warn(path, message, fix, _SPELLING, *edits)

    def _skipped(self) -> None:
        """Warn about an empty pool, which the service accepts, but gcloud accepts only on its command
        line."""
        pools = self._document.value.get("workerPoolSpecs")
        for i, pool in enumerate(pools if isinstance(pools, list) else []):
            if pool == {}:
                message = "gcloud accepts a skipped pool on its command line, but not in a --config file."
                fix = "Ignore this message if gcloud does not read the file."
                self.warn(("workerPoolSpecs", i), message, fix, "gcloud.skipped-pool")

    def _unquoted(self, value: Any, path: Path, expected: str, right: Any = None) -> Any:
        """Report an unquoted value, and continue with its probable meaning."""
        written = self._document.texts.get(path, text(value))
        right = written if right is None else right
        kind = self._document.other_types.get(path) or _kind(value)
        message = f"the value must be {expected}, not {kind}: {written} has no quotes, and gcloud refuses it."
        fix = f'Write "{right}".' if right == written else f"Write {right}."
        self.refuse(path, message, fix, UNQUOTED, Edit(path, right))
        return right

    def _string(self, value: Any, kind: FieldType, path: Path) -> Any:
        bare = isinstance(value, bool | int | float) or path in self._document.other_types
        return self._unquoted(value, path, "text") if bare else super()._string(value, kind, path)

    def _duration(self, value: Any, kind: FieldType, path: Path) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            right = super()._duration(value, kind, path)
            return right if right is LEFT_OUT else self._unquoted(value, path, "seconds", right)
        return super()._duration(value, kind, path)

    def _integer(self, value: Any, kind: FieldType, path: Path) -> Any:
        if isinstance(value, float):
            edits = (Edit(path, int(value)),) if value.is_integer() else ()
            fix = f"Write {int(value)}." if edits else ""
            message = f"the value must be an integer, not {describe(value)}; gcloud refuses it."
            self.refuse(path, message, fix, "profile.type", *edits)
            return int(value) if edits else LEFT_OUT
        digits = isinstance(value, str) and _WHOLE.fullmatch(value)
        return super()._integer(int(value) if digits else value, kind, path)

    def _enum(self, value: Any, kind: FieldType, path: Path) -> Any:
        # gcloud finds a boolean by its value as a Python number.
        return super()._enum(int(value) if isinstance(value, bool) else value, kind, path)

    def _boolean(self, value: Any, kind: FieldType, path: Path) -> Any:
        if isinstance(value, str) and self._document.other_types.get(path) == "true or false":
            return value in "yY"
        return super()._boolean(value, kind, path)


def refused_tab(source: str, file: str) -> Problem | None:
    """Return the problem with a tab between two values: gcloud's YAML parser refuses the tab, vxtui's parser
    accepts it."""
    if "\t" not in source:
        return None
    try:
        for _ in yaml.scan(source.removeprefix("\ufeff"), Loader=yaml.SafeLoader):
            pass
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        message = "gcloud refuses the tab between two values."
        return Problem(file, line, "", message, "Write spaces.", "gcloud.tab", column=column)
    return None


def has_one_task(pool: Mapping[str, Any]) -> bool:
    """Return whether a pool (REST format) has exactly one image or package, as gcloud requires in a file."""
    package, container = pool.get("pythonPackageSpec") or {}, pool.get("containerSpec") or {}
    packaged = bool(package.get("executorImageUri") or package.get("pythonModule"))
    return packaged != bool(container.get("imageUri"))


def repeated_keys(document: Document) -> list[Problem]:
    """Return a warning for each key that appears twice, as gcloud does."""
    return [
        replace(
            problem,
            message="this key appears twice; gcloud uses the first.",
            fix="Remove one; --fix changes no file with repeated keys.",
            id="gcloud.repeated-key",
            severity=ProblemSeverity.WARNING,
        )
        for problem in document.repeated
    ]


def task_problems(value: Mapping[str, Any], document: Document) -> list[Problem]:
    """Return a problem for each pool of a CustomJobSpec (REST format) that gcloud refuses for its task."""
    problems = []
    for i, pool in enumerate(value.get("workerPoolSpecs") or []):
        if not has_one_task(pool):
            message = "each pool must have exactly one image or Python package; gcloud refuses the file."
            fix = "Add a containerSpec with an imageUri, or a complete pythonPackageSpec."
            problems.append(document.problem(("workerPoolSpecs", i), message, fix, "gcloud.task"))
    return problems


def _kind(value: Any) -> str:
    return "true or false" if isinstance(value, bool) else "a number"
