"""The parts of a rule: id, severity, check and source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tui.domain.document.document_edit import Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.spec.custom_job_spec import within

Path = tuple[str | int, ...]
Pool = Mapping[str, Any]
Job = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """What a rule looks at: a CustomJob in REST form and where it would run.

    `region` is "" where it is not known; `local` means the emulator on this machine, where
    what only the cloud has (regions, images, a project's number) can't be wrong.
    """

    job: Job
    region: str = ""
    local: bool = False

    @property
    def spec(self) -> Mapping[str, Any]:
        """The CustomJobSpec."""
        return self.job.get("jobSpec") or {}

    @property
    def pools(self) -> list[tuple[Path, Mapping[str, Any]]]:
        """Worker pools with their paths; a skipped pool is an empty mapping."""
        pools = self.spec.get("workerPoolSpecs") or []
        return [(("jobSpec", "workerPoolSpecs", i), pool or {}) for i, pool in enumerate(pools)]

    @property
    def used(self) -> list[tuple[Path, Mapping[str, Any]]]:
        """Worker pools without skipped ones."""
        return [(path, pool) for path, pool in self.pools if pool]

    @property
    def strategy(self) -> str:
        """The scheduling strategy; STANDARD by default."""
        named = str(within(self.spec, "scheduling", "strategy") or "")
        return "STANDARD" if named in {"", "STRATEGY_UNSPECIFIED"} else named


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule at one place of a CustomJob in REST form.

    `fix` is a sentence. `edits` (in REST form) apply the fix where no decision is needed; they may change
    other fields than `path` too.
    """

    path: Path
    sentence: str
    fix: str = ""
    edits: tuple[Edit, ...] = ()
    rule: str = ""
    severity: ProblemSeverity = ProblemSeverity.ERROR
    source: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """`check` yields a finding for each violation; `check_job` adds id, severity and source.

    The `source` of an error is a refusal: a page of the documentation that says what is not taken, or the
    file of gcloud that does not take it. What is `emulated` the emulator refuses: there it is an error.
    """

    id: str
    source: str
    check: Callable[[Case], Iterator[Finding]]
    severity: ProblemSeverity = ProblemSeverity.ERROR
    emulated: bool = False
