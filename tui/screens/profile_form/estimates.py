"""Price, quota and reducers of the draft's request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from textual.content import Content

from tui.actions.registry import action as action_named
from tui.domain.core.quota import Quota
from tui.domain.core.text import plain, sentences
from tui.domain.form.analysis import Analysis
from tui.domain.vertex.cost import Estimate, estimate, money
from tui.domain.vertex.dry_run import hour_of_a_task, price_words
from tui.domain.vertex.prices import Prices
from tui.domain.vertex.quota_fit import Fit, fit, needs, with_running
from tui.domain.vertex.reducers import Proposal, propose
from tui.screens.frame import FrameScreen
from tui.screens.profile_form.draft_editor import DraftEditor, in_thread
from tui.screens.workers import background
from tui.session import BackendError, Session

QUOTA_SECONDS = 20
WIDE = 100
"""Minimum width at which the complete price fits in the summary."""
_FIT_TEXT = {"fits": ("✓ quota fits", "$text-success"), "unknown": ("? quota", "$text-muted")}


@dataclass(frozen=True, slots=True)
class RequestCost:
    """Cost of one request."""

    estimate: Estimate
    reducers: str
    """Price per hour of the request's reducers, or of the proposed reducers."""


def request_cost(job: Mapping[str, Any], region: str, prices: Prices | None) -> RequestCost:
    """Return the cost of a request at these prices; None selects the built-in prices."""
    cost, proposal = estimate(job, region, prices), propose(job, region)
    rate = cost.reducers
    if rate is None and proposal.pool is not None:
        spec = job.get("jobSpec") or {}
        alone = {"jobSpec": {"workerPoolSpecs": [proposal.pool], "scheduling": spec.get("scheduling") or {}}}
        rate = estimate(alone, region, prices).hour
    return RequestCost(cost, money(rate, "/h") if rate is not None else "")


class Estimates:
    """Computes the price with each analysis and reads the quotas in the background."""

    def __init__(
        self,
        screen: FrameScreen,
        editor: DraftEditor,
        on_prices: Callable[[], None],
        on_quotas: Callable[[], None],
    ) -> None:
        """Set the callbacks. `on_prices` and `on_quotas` show new prices and new quotas."""
        self._screen = screen
        self._editor = editor
        self._on_prices = on_prices
        self._on_quotas = on_quotas
        self._cost: RequestCost | None = None
        self._quotas: Sequence[Quota] | None = None
        self._quota_problem = ""

    def start(self) -> None:
        """Show new prices when they are loaded. The quotas are read whenever the screen becomes visible."""
        again = partial(background, self._screen, self._reprice, "form-prices")
        self._screen.console.prices_changed.subscribe(self._screen, lambda _: again())

    async def compute(self, analysis: Analysis) -> None:
        """Compute the cost of this request in a thread."""
        job, console = analysis.job, self._screen.console
        region = analysis.region or console.connection.home_region
        prices = console.costs.prices
        self._cost = await in_thread(request_cost, job, region, prices) if job is not None else None

    async def _reprice(self) -> None:
        before = self._editor.analysis
        await self.compute(before)
        if before is not self._editor.analysis:
            await self.compute(self._editor.analysis)
        self._on_prices()

    # Price

    def price_text(self) -> Content:
        """Return the job's cost, shortened to fit in the line."""
        if self._cost is None:
            return Content.styled("? price not known yet", "$text-muted")
        estimate = self._cost.estimate
        if estimate.tasks and self._screen.size.width < WIDE:
            local = "cloud " if self._editor.local else ""
            text = f"{local}{money(hour_of_a_task(estimate), '/h')} a task"
            return Content.assemble((text, "bold"), (f"  est. {estimate.date}", "$text-muted"))
        if estimate.tasks:
            return Content(plain(price_words(estimate, billed=not self._editor.local)))
        if estimate.hour is None:
            missing = f": {estimate.missing[0]}" if estimate.missing else ""
            return Content.styled(f"? price not known{plain(missing)}", "$text-muted")
        # The emulator bills nothing, so this is the price in the cloud.
        local = "cloud " if self._editor.local else ""
        rate, whole = (f"{local}{money(estimate.hour, '/h')}", "bold"), estimate.whole
        if self._screen.size.width < WIDE:
            # A price needs its date, so the sum is left out first.
            return Content.assemble(rate, (f"  est. {estimate.date}", "$text-muted"))
        more = f", {money(whole)} in all" if whole is not None else ""
        return Content.assemble(rate, f"{more}  ", (f"estimate, prices of {estimate.date}", "$text-muted"))

    def reducers_text(self, analysis: Analysis) -> tuple[str, str, str]:
        """Return value, note and help of the Reduction Server's switch."""
        if analysis.job is None:
            return "", "known once the errors are fixed", ""
        value, note, help = switch_text(propose(analysis.job, analysis.region))
        if self._cost is None or note or not self._cost.reducers:
            return value, note, help
        return value, self._cost.reducers, help

    # Quota

    def read_quotas(self) -> None:
        """Read the limits and their usage in the background."""
        session = self._screen.session
        if session is not None and self._screen.blocked_reason(action_named("app.quotas")) is None:
            background(self._screen, partial(self._read_quotas, session), "form-quotas")

    async def _read_quotas(self, session: Session) -> None:
        try:
            async with asyncio.timeout(QUOTA_SECONDS):
                self._quotas = await session.backend.quotas.read()
            self._quota_problem = ""
        except TimeoutError:
            self._quota_problem = f"no answer within {QUOTA_SECONDS} s"
        except BackendError as error:
            self._quota_problem = error.message
        if self._screen.is_attached:
            self._on_quotas()

    def quota_text(self) -> Content:
        """Return whether the quota is sufficient for the job."""
        job = self._editor.analysis.job
        if job is None or not needs(job):
            return Content("")
        if self._quotas is None:
            why = f": {self._quota_problem}" if self._quota_problem else " not known yet"
            return Content.styled(f"? quota{plain(why)}", "$text-muted")
        console = self._screen.console
        quotas = with_running(self._quotas, console.store.active.values(), console.connection.read_at)
        return fit_text(fit(job, self._editor.region, quotas))


def fit_text(fit: Fit) -> Content:
    """Return whether the quota is sufficient, in a few words with a mark."""
    if fit.status == "short":
        return Content.styled(plain(f"✗ quota: {fit.sentence}"), "$text-error")
    text, tone = _FIT_TEXT[fit.status]
    more = f": {plain(fit.sentence)}" if fit.status == "unknown" else ""
    return Content.styled(f"{text}{more}", tone)


def switch_text(proposal: Proposal) -> tuple[str, str, str]:
    """Return value, note and help of the Reduction Server's switch, without the price."""
    help = sentences(proposal.reason, proposal.note)
    if proposal.running:
        note = (
            f"enter makes it {proposal.count}"
            if proposal.helps and proposal.running != proposal.count
            else ""
        )
        return (
            f"on   {proposal.running} × {proposal.machine_type}",
            note if proposal.helps else proposal.reason,
            help,
        )
    if proposal.helps:
        return f"off   {proposal.count} × {proposal.machine_type} would do", "", help
    return "off", proposal.reason, help
