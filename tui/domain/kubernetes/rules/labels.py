"""Label syntax of the job, its pods, other objects and the profile's header."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from tui.domain.document.document_edit import Edit
from tui.domain.kubernetes.rules.base import HEAD, LABELS, ManifestCase, ManifestRule
from tui.domain.kubernetes.workloads import Path, fields
from tui.domain.spec.findings import Finding

LONGEST, LONGEST_PREFIX = 63, 253
_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_OTHERS = re.compile(r"[^-A-Za-z0-9_.]+")


def label_syntax(case: ManifestCase) -> Iterator[Finding]:
    """Find keys and values that the API server refuses."""
    for path, labels in _all_labels(case):
        for key, value in labels.items():
            here = (*path, str(key))
            problem = _key_problem(str(key))
            if problem:
                yield Finding(here, f"{key!r} can't be the key of a label: {problem}.", "Rename it.")
            problem = _part_problem(value) if isinstance(value, str) and value else ""
            if problem:
                right = _cleaned(value)
                sentence = f"{value!r} can't be the value of the label {key}: {problem}."
                fix = f"Write {right}." if right else "Write an empty text, or remove the label."
                yield Finding(here, sentence, fix, (Edit(here, right),))


def _all_labels(case: ManifestCase) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield labels of header, objects and pod templates, with their paths in the profile's job."""
    yield ("labels",), case.labels
    for i, obj in enumerate(case.objects):
        yield (*HEAD, i, "metadata", "labels"), fields(obj, "metadata", "labels")
    for group in case.groups:
        if group.template:
            yield case.path(*group.template, "metadata", "labels"), fields(group.metadata, "labels")


def _key_problem(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > LONGEST_PREFIX or _PREFIX.fullmatch(prefix) is None):
        return "the part before / must be a lower-case DNS name"
    return _part_problem(name) if name else "the key must not be empty"


def _part_problem(text: str) -> str:
    if len(text) > LONGEST:
        return f"the text has {len(text)} characters; the maximum is {LONGEST}"
    if _PART.fullmatch(text) is None:
        return "use A-Z, a-z, 0-9, -, _ and ., starting and ending with a letter or digit"
    return ""


def _cleaned(value: str) -> str:
    """Replace each character that is not allowed."""
    plain = unicodedata.normalize("NFKD", value).encode("ascii", "ignore").decode()
    return _OTHERS.sub("-", plain).strip("-_.")[:LONGEST].strip("-_.")


RULES = (ManifestRule("labels.syntax", LABELS, label_syntax, whole=True),)
