"""Checks before a launch: rules, preflight checks and the price; also the dry run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tui.backends.interface import Backend, BackendError, Unauthenticated
from tui.config.paths import state_dir
from tui.domain.core.text import json_text
from tui.domain.document.source import ProblemSeverity
from tui.domain.profile import Problem, Request
from tui.domain.spec.spec_format import SpecFormat, format_of
from tui.domain.vertex.cost import Estimate, estimate
from tui.domain.vertex.dry_run import document, price_words, task_lines
from tui.domain.vertex.preflight import Check, CheckStatus, in_order, unknown
from tui.store.jobs.checks import preflight
from tui.store.jobs.costs import read_prices
from tui.store.profiles.entries import pool_lines
from tui.verbs.output import note, out, out_document, print_json
from tui.verbs.run import USAGE, VerbFailure

QUICK = 5.0
"""Seconds by which the checks may delay a launch once the service is connected."""
_GLYPHS = {CheckStatus.OK: "✓", CheckStatus.PROBLEM: "✗", CheckStatus.UNKNOWN: "?"}
_MARKS = {ProblemSeverity.ERROR: "✗", ProblemSeverity.WARNING: "!", ProblemSeverity.NOTE: "·"}


@dataclass(slots=True)
class DryRun:
    """A launch before it is sent: the request, the problems found by the rules, and the checks."""

    project: str
    request: Request
    problems: Sequence[Problem] = ()
    checks: list[Check] = field(default_factory=list)
    reveal: bool = False
    """Whether to show the secrets."""

    @property
    def errors(self) -> list[Problem]:
        """Problems that stop a launch."""
        return [p for p in self.problems if p.severity is ProblemSeverity.ERROR]

    @property
    def fatal(self) -> list[Check]:
        """Checks that predict a failure of the job."""
        return [check for check in self.checks if check.fatal]

    @property
    def price(self) -> Estimate:
        """The estimated cost."""
        return estimate(self.request.custom_job, self.request.region, read_prices(state_dir())[0])

    @property
    def format(self) -> SpecFormat:
        """The format of the profile's body."""
        return format_of(self.request.body)

    @property
    def resource(self) -> dict[str, Any]:
        """The resource to send in the shown format, under its name in the request."""
        return {self.format.resource_key: self.request.shown(reveal=self.reveal)}

    @property
    def parent(self) -> str:
        path = self.format.create_path(self.project, self.request.region, self.request.custom_job)
        return path.removeprefix("/v1/").lstrip("/").rpartition("/")[0]


async def run_checks(backend: Backend, request: Request, seconds: float | None = None) -> list[Check]:
    """Return every check in display order. A check that takes more than `seconds` is left out."""
    checks: list[Check] = []
    try:
        async with asyncio.timeout(seconds):
            async for check in preflight(backend, request.region, request.custom_job):
                checks.append(check)
    except TimeoutError:
        checks.append(unknown("service", f"some checks took more than {seconds:.0f} s and are left out"))
    return in_order(checks)


async def connect_and_check(backend: Backend, request: Request) -> list[Check]:
    """Connect the backend and run every check. A failed connection is reported as a check."""
    try:
        await backend.connect()
    except Unauthenticated as error:
        return [Check("credentials", CheckStatus.PROBLEM, error.message, error.fix)]
    except BackendError as error:
        return [unknown("service", error.message, error.fix)]
    return await run_checks(backend, request)


def show_dry_run(dry: DryRun, *, as_json: bool) -> int:
    """Print the dry run. Return the exit code: 2 if a problem is an error or a check predicts a failure."""
    if as_json:
        print_json(document(dry.parent, dry.resource, dry.price, dry.problems, dry.checks))
    else:
        _print_dry_run(dry)
    return USAGE if dry.errors or dry.fatal else 0


def print_findings(dry: DryRun) -> None:
    """Print problems and failed or unknown checks on stderr."""
    for problem in dry.problems:
        if problem.severity is not ProblemSeverity.NOTE:
            note(f"{_MARKS[problem.severity]} {problem}")
    for check in dry.checks:
        if check.status is CheckStatus.PROBLEM:
            note(check_line(check))
            note_fix(check.fix)
    unknown_ids = [check.id.partition(":")[0] for check in dry.checks if check.status is CheckStatus.UNKNOWN]
    if unknown_ids:
        note(f"? not known: {', '.join(dict.fromkeys(unknown_ids))}; --dry-run shows why")


def must_be_launchable(dry: DryRun, *, interactive: bool, force: bool) -> None:
    """Raise VerbFailure if a check predicts a failure, unless the user is asked or forces the launch."""
    if dry.fatal and not interactive and not force:
        raise VerbFailure(
            "\n".join(check.words for check in dry.fatal),
            fix="Nothing was sent. Fix the problem, or add --force to launch anyway.",
            code="WOULD_FAIL",
        )


def check_line(check: Check) -> str:
    """Return the check's status, its subject, and its sentence."""
    return f"{_GLYPHS[check.status]} {check.id.partition(':')[0]:<12} {check.sentence}"


def note_fix(fix: str) -> None:
    """Print the fix below its problem."""
    if fix:
        note(f"  {'':<12} → {fix}")


def _print_dry_run(dry: DryRun) -> None:
    """Print the request on stdout, everything else on stderr."""
    job: Mapping[str, Any] = dry.request.custom_job
    note(f"{job.get('displayName', '')} in {dry.request.region}")
    for line in pool_lines(job):
        note(f"  {line}")
    price = dry.price
    note(f"  price  {price_words(price)}")
    for words in (*task_lines(price), *price.notes):
        note(f"         {words}")
    for problem in dry.problems:
        note(f"{_MARKS[problem.severity]} {problem}")
    for check in dry.checks:
        note(check_line(check))
        note_fix(check.fix)
    out(f"POST {dry.format.create_path(dry.project, dry.request.region, job)}")
    out_document(json_text(dry.request.shown(reveal=dry.reveal), indent=2))
