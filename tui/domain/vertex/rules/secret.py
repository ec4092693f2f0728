"""Rules about secrets in a job, which everyone who may view the job can read."""

from __future__ import annotations

from collections.abc import Iterator

from tui.domain.document.source import ProblemSeverity
from tui.domain.masking import mask_value, masked
from tui.domain.spec.custom_job_spec import task_of
from tui.domain.spec.findings import Case, Finding, Rule
from tui.domain.vertex.sources import SPEC

_FIX = "Put the secret into Secret Manager and let the code fetch it as the job's service account."


def environment(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name, task = task_of(pool)
        for i, variable in enumerate(task.get("env") or []):
            key, value = str(variable.get("name") or ""), str(variable.get("value") or "")
            if len(value) > 1 and mask_value(key, value) != value:
                sentence = f"{key} looks like a secret; everyone who may view the job can read it."
                yield Finding((*path, name, "env", i, "value"), sentence, _FIX)


def arguments(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name, task = task_of(pool)
        for field in ("command", "args"):
            texts = [str(text) for text in task.get(field) or []]
            for i, (text, seen) in enumerate(zip(texts, masked(texts)[0], strict=True)):
                if seen != text:
                    sentence = "this argument looks like a secret; everyone who may view the job can read it."
                    yield Finding((*path, name, field, i), sentence, _FIX)


RULES = (
    Rule("secrets.environment", SPEC, environment, ProblemSeverity.WARNING),
    Rule("secrets.arguments", SPEC, arguments, ProblemSeverity.WARNING),
)
