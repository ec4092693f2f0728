"""What a rule is: an id, a severity, a sentence, a fix and a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]
Job = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule at one place of a CustomJob in REST form."""

    path: Path
    sentence: str
    fix: str = ""
    rule: str = ""
    error: bool = True


@dataclass(frozen=True, slots=True)
class Rule:
    """`check` yields a finding for each place that breaks it. An error stops a launch, a warning does not."""

    id: str
    source: str
    check: Callable[[Job], Iterator[Finding]]
    error: bool = True


def pools(job: Job) -> list[tuple[Path, Mapping[str, Any]]]:
    """Worker pools with their paths; a skipped one is an empty mapping."""
    found = job.get("jobSpec", {}).get("workerPoolSpecs", [])
    return [(("jobSpec", "workerPoolSpecs", i), pool or {}) for i, pool in enumerate(found)]
