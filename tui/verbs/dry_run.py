"""What is known of a launch before it is sent: rules, checks and the price; and a dry run of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tui.backends.interface import Backend, BackendError, LaunchRequest, Unauthenticated
from tui.config.paths import state_dir
from tui.domain.preflight import Check, Verdict, in_order, unknown
from tui.domain.profile import Problem
from tui.domain.vertex.cost import Estimate, estimate
from tui.domain.vertex.dry_run import document, price_words
from tui.domain.vertex.rules.base import Severity
from tui.store.jobs.checks import preflight
from tui.store.jobs.costs import read_prices
from tui.store.profiles.entries import pool_lines
from tui.verbs.output import note, out, print_json
from tui.verbs.run import USAGE, Failure

QUICK = 5.0
"""Seconds that the checks may hold up a launch, once the service is connected."""
_GLYPHS = {Verdict.OK: "✓", Verdict.PROBLEM: "✗", Verdict.UNKNOWN: "?"}
_MARKS = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.NOTE: "·"}


@dataclass(slots=True)
class Ahead:
    """One launch: the request, what the rules say of it, and what was looked up."""

    project: str
    request: LaunchRequest
    problems: Sequence[Problem] = ()
    checks: list[Check] = field(default_factory=list)

    @property
    def errors(self) -> list[Problem]:
        """What must not be sent."""
        return [p for p in self.problems if p.severity is Severity.ERROR]

    @property
    def fatal(self) -> list[Check]:
        """What would make it fail, as far as can be known."""
        return [check for check in self.checks if check.fatal]

    @property
    def price(self) -> Estimate:
        """What it would cost."""
        return estimate(self.request.custom_job, self.request.region, read_prices(state_dir())[0])

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.request.region}"


async def look(backend: Backend, request: LaunchRequest, seconds: float | None = None) -> list[Check]:
    """Every check, in the order of their showing; what is not known after `seconds` is left out."""
    found: list[Check] = []
    try:
        async with asyncio.timeout(seconds):
            async for check in preflight(backend, request.region, request.custom_job):
                found.append(check)
    except TimeoutError:
        found.append(unknown("service", f"some checks took more than {seconds:.0f} s and are left out"))
    return in_order(found)


async def look_from_outside(backend: Backend, request: LaunchRequest) -> list[Check]:
    """The same with a backend that is not connected yet: where it can't be, that is what is found."""
    try:
        await backend.connect()
    except Unauthenticated as error:
        return [Check("credentials", Verdict.PROBLEM, error.message, error.fix)]
    except BackendError as error:
        return [unknown("service", error.message, error.fix)]
    return await look(backend, request)


def show_dry_run(ahead: Ahead, *, as_json: bool) -> int:
    """Print it; 2 where the rules find an error or a check a reason to fail."""
    if as_json:
        print_json(
            document(ahead.parent, ahead.request.custom_job, ahead.price, ahead.problems, ahead.checks)
        )
    else:
        _say(ahead)
    return USAGE if ahead.errors or ahead.fatal else 0


def tell(ahead: Ahead) -> None:
    """Before a launch, on stderr: what is wrong and what could not be told; nothing where all is well."""
    for problem in ahead.problems:
        if problem.severity is not Severity.NOTE:
            note(f"{_MARKS[problem.severity]} {problem}")
    for check in ahead.checks:
        if check.verdict is Verdict.PROBLEM:
            note(check_line(check))
            note_fix(check.fix)
    unsure = [check.id.partition(":")[0] for check in ahead.checks if check.verdict is Verdict.UNKNOWN]
    if unsure:
        note(f"? not known: {', '.join(dict.fromkeys(unsure))}; --dry-run says why")


def must_be_launchable(ahead: Ahead, *, asked: bool, force: bool) -> None:
    """Raises Failure where nobody is asked and a check found that the launch would fail, unless forced."""
    if ahead.fatal and not asked and not force:
        raise Failure(
            "\n".join(check.words for check in ahead.fatal),
            fix="Nothing was sent. Mend that, or add --force to launch all the same.",
            code="WOULD_FAIL",
        )


def check_line(check: Check) -> str:
    """Verdict, what was looked up, and the sentence."""
    return f"{_GLYPHS[check.verdict]} {check.id.partition(':')[0]:<12} {check.sentence}"


def note_fix(fix: str) -> None:
    """What to do, below what is wrong."""
    if fix:
        note(f"  {'':<12} → {fix}")


def _say(ahead: Ahead) -> None:
    """The request on stdout, everything about it on stderr."""
    job: Mapping[str, Any] = ahead.request.custom_job
    note(f"{job.get('displayName', '')} in {ahead.request.region}")
    for line in pool_lines(job):
        note(f"  {line}")
    price = ahead.price
    note(f"  price  {price_words(price)}")
    for words in price.notes:
        note(f"         {words}")
    for problem in ahead.problems:
        note(f"{_MARKS[problem.severity]} {problem}")
    for check in ahead.checks:
        note(check_line(check))
        note_fix(check.fix)
    out(f"POST /v1/{ahead.parent}/customJobs")
    out(json.dumps(dict(job), indent=2))
