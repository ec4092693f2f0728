"""A compiled pipeline in a separate file: the text as a document, with all its problems."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tui.domain.document.source import Document, Path, Problem, ProfileInvalid, decode, read
from tui.domain.pipeline.ir import bare

_PLATFORMS = re.compile(r"^---[ \t]*\r?\n(?=platforms:)", re.MULTILINE)
"""Start of a second document with Kubernetes settings, which Vertex AI does not read."""
UNREADABLE = "pipeline.file"
"""Id of problems with a template's file."""
LARGEST = 10_000_000
"""Maximum size of a template in bytes."""


@dataclass(frozen=True, slots=True)
class Template:
    """A file that was read, or the problem of reading it. `at` is the path of the spec in the file."""

    document: Document | None = None
    at: Path = ()
    problems: tuple[Problem, ...] = ()

    @property
    def value(self) -> Mapping[str, Any]:
        """The content of the file; empty if it could not be read."""
        return self.document.value if self.document is not None else {}

    @property
    def spec(self) -> Mapping[str, Any]:
        """The compiled pipeline."""
        return bare(self.value)


def first_document(text: str) -> str:
    """Return the text without the platform settings that follow a pipeline."""
    platforms = _PLATFORMS.search(text)
    return text[: platforms.start()] if platforms is not None else text


def read_template(data: bytes, file: str) -> Template:
    """Parse the content of a template file."""
    try:
        if len(data) > LARGEST:
            return refused(
                file,
                f"the file must have at most {LARGEST:,} bytes.",
                "Check that the file is a compiled pipeline.",
            )
        document = read(first_document(decode(data, file)), file)
    except ProfileInvalid as error:
        return Template(problems=tuple(replace(problem, id=UNREADABLE) for problem in error.problems))
    if not isinstance(document.value, Mapping):
        return refused(file, "the file must be a compiled pipeline: it has no fields.", COMPILE)
    if other := foreign(document.value):
        return refused(file, other, COMPILE)
    inner = document.value.get("pipelineSpec")
    return Template(document, ("pipelineSpec",) if isinstance(inner, Mapping) else ())


COMPILE = "Compile the pipeline with kfp 2, `kfp dsl compile`, and name the file that it writes."
_OTHERS = {"argoproj.io": "an Argo workflow of kfp 1", "tekton.dev": "a Tekton pipeline"}


def foreign(value: Mapping[str, Any]) -> str:
    """Return why another service's pipeline can't run, as a sentence; "" for any other file."""
    kind = _OTHERS.get(str(value.get("apiVersion", "")).partition("/")[0])
    return f"the file is {kind}, which Vertex AI can't run." if kind else ""


def refused(file: str, message: str, fix: str = "") -> Template:
    """Return the result for an unreadable file, with the reason."""
    return Template(problems=(Problem(file, 0, "", message, fix, UNREADABLE),))
