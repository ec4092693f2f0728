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
    """The input of a rule: a CustomJob in REST format and its location.

    `region` is "" if unknown; `local` means the emulator on this machine, which does not check resources that
    only the cloud has (regions, images, and a project's number).
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
        """Worker pools without the skipped pools."""
        return [(path, pool) for path, pool in self.pools if pool]

    @property
    def strategy(self) -> str:
        """The scheduling strategy; STANDARD by default."""
        named = str(within(self.spec, "scheduling", "strategy") or "")
        return "STANDARD" if named in {"", "STRATEGY_UNSPECIFIED"} else named


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation of a rule, at a path of a CustomJob in REST format. `fix` is a sentence. `edits` (in REST
    format) apply the fix if there is only one fix; they may also change other fields than `path`."""

    path: Path
    sentence: str
    fix: str = ""
    edits: tuple[Edit, ...] = ()
    rule: str = ""
    severity: ProblemSeverity = ProblemSeverity.ERROR
    source: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: `check` yields a finding for each violation; `check_job` adds id, severity and source.

    The `source` of an error is the refusal: a page of the documentation, or the file of gcloud with the
    check. The emulator refuses violations of an `emulated` rule, so they are errors there.
    """

    id: str
    source: str
    check: Callable[[Case], Iterator[Finding]]
    severity: ProblemSeverity = ProblemSeverity.ERROR
    emulated: bool = False
