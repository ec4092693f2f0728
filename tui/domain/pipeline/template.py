"""A compiled pipeline in a file of its own: the text as a document, with every problem of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tui.domain.document.source import Document, Path, Problem, ProfileInvalid, decode, read
from tui.domain.pipeline.ir import bare

_PLATFORMS = re.compile(r"^---[ \t]*\r?\n(?=platforms:)", re.MULTILINE)
"""Begins a second document, with settings of Kubernetes: Vertex AI does not read it."""
UNREADABLE = "pipeline.file"
"""Id of what is wrong with a template's file."""
LARGEST = 10_000_000
"""Bytes of a template that is read."""


@dataclass(frozen=True, slots=True)
class Template:
    """A file that was read, or why it could not be. `at` is where the spec stands in it."""

    document: Document | None = None
    at: Path = ()
    problems: tuple[Problem, ...] = ()

    @property
    def value(self) -> Mapping[str, Any]:
        """The whole file; empty where it could not be read."""
        return self.document.value if self.document is not None else {}

    @property
    def spec(self) -> Mapping[str, Any]:
        """The compiled pipeline."""
        return bare(self.value)


def first_document(text: str) -> str:
    """The text without the settings of a platform that follow a pipeline."""
    found = _PLATFORMS.search(text)
    return text[: found.start()] if found is not None else text


def read_template(data: bytes, file: str) -> Template:
    """The template of a file's content."""
    try:
        if len(data) > LARGEST:
            return refused(
                file, f"it has more than {LARGEST:,} bytes.", "Check that it is a compiled pipeline."
            )
        document = read(first_document(decode(data, file)), file)
    except ProfileInvalid as error:
        return Template(problems=tuple(replace(each, id=UNREADABLE) for each in error.problems))
    if not isinstance(document.value, Mapping):
        return refused(file, "it is no compiled pipeline: it has no fields.", COMPILE)
    if other := foreign(document.value):
        return refused(file, other, COMPILE)
    inner = document.value.get("pipelineSpec")
    return Template(document, ("pipelineSpec",) if isinstance(inner, Mapping) else ())


COMPILE = "Compile the pipeline with kfp 2, `kfp dsl compile`, and name the file that it writes."
_OTHERS = {"argoproj.io": "an Argo workflow, as kfp 1 writes it", "tekton.dev": "a Tekton pipeline"}


def foreign(value: Mapping[str, Any]) -> str:
    """What is wrong with a pipeline of another service, as a sentence; "" for all other files."""
    what = _OTHERS.get(str(value.get("apiVersion", "")).partition("/")[0])
    return f"it is {what}, which Vertex AI does not run." if what else ""


def refused(file: str, message: str, fix: str = "") -> Template:
    """A file that can't be read, with the reason."""
    return Template(problems=(Problem(file, 0, "", message, fix, UNREADABLE),))
