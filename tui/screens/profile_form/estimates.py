"""What the form says of money and room: the price, the quotas, the reducers' part in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from textual.content import Content

from tui.actions.registry import action
from tui.domain.quota import Quota
from tui.domain.text import plain
from tui.domain.vertex.cost import Estimate, estimate, money
from tui.domain.vertex.form.analysis import Analysis
from tui.domain.vertex.prices import Prices
from tui.domain.vertex.quota_fit import Fit, fit
from tui.domain.vertex.reducers import Proposal, propose
from tui.screens.profile_form.base import FormBase, aside
from tui.screens.workers import background
from tui.session import BackendError, Session

QUOTA_SECONDS = 20
WIDE = 100
"""Cells from which on the summary has room for all of a price."""
_LOOK = {"fits": ("✓ quota fits", "$text-success"), "unknown": ("? quota", "$text-muted")}


@dataclass(frozen=True, slots=True)
class Figures:
    """What was reckoned for one request."""

    estimate: Estimate
    proposal: Proposal
    reducers: str
    """Price an hour of the reducers that are there, or that would do."""


def figures_of(job: Mapping[str, Any], region: str, prices: Prices | None) -> Figures:
    """Price and reducers of a request, by these prices; None are the built-in ones."""
    found, proposal = estimate(job, region, prices), propose(job, region)
    rate = found.reducers
    if rate is None and proposal.pool is not None:
        spec = job.get("jobSpec") or {}
        alone = {"jobSpec": {"workerPoolSpecs": [proposal.pool], "scheduling": spec.get("scheduling") or {}}}
        rate = estimate(alone, region, prices).hour
    return Figures(found, proposal, money(rate, "/h") if rate is not None else "")


class FormFigures(FormBase):
    """See the module."""

    _figures: Figures | None = None
    _quotas: Sequence[Quota] | None = None
    _quota_problem = ""

    def on_mount(self) -> None:
        self.read_quotas()
        again = partial(background, self, self._reprice, "form-prices")
        self.console.prices_changed.subscribe(self, lambda _: again())

    async def reckon(self, analysis: Analysis) -> None:
        job = analysis.job
        place = analysis.region or self.console.connection.regions[0]
        prices = self.console.costs.prices
        self._figures = await aside(figures_of, job, place, prices) if job is not None else None

    async def _reprice(self) -> None:
        """The same request by other prices."""
        looked_at = self.analysis
        await self.reckon(looked_at)
        if looked_at is not self.analysis:
            await self.reckon(self.analysis)
        self.show()

    # Price

    def price_text(self) -> Content:
        if self._figures is None:
            return Content.styled("? price not known yet", "$text-muted")
        found = self._figures.estimate
        if found.hour is None:
            missing = found.missing[0] if found.missing else "no price is known"
            return Content.styled(f"? price: no {plain(missing)}", "$text-muted")
        # The emulator bills nothing: it is what the cloud would take.
        local = "cloud " if self._is_local() else ""
        rate, whole = (f"{local}{money(found.hour, '/h')}", "bold"), found.whole
        if self.size.width < WIDE:
            # A figure without its date is none: the sum gives way.
            return Content.assemble(rate, (f"  est. {found.date}", "$text-muted"))
        more = f", {money(whole)} in all" if whole is not None else ""
        return Content.assemble(rate, f"{more}  ", (f"estimate, prices of {found.date}", "$text-muted"))

    def on_resize(self) -> None:
        """What the summary has room for differs."""
        self.say_summary()

    def _is_local(self) -> bool:
        return self.session is not None and self.session.backend.info.local

    def reducers_text(self, analysis: Analysis) -> tuple[str, str, str]:
        value, note, words = super().reducers_text(analysis)
        figures = self._figures
        if figures is None or note or not figures.reducers:
            return value, note, words
        return value, figures.reducers, words

    # Quota

    def read_quotas(self) -> None:
        """Read the limits and what is used of them, in the background."""
        session = self.session
        if session is not None and self.blocked_reason(action("app.quotas")) is None:
            background(self, partial(self._read_quotas, session), "form-quotas")

    async def _read_quotas(self, session: Session) -> None:
        try:
            async with asyncio.timeout(QUOTA_SECONDS):
                self._quotas = await session.backend.read_quotas()
            self._quota_problem = ""
        except TimeoutError:
            self._quota_problem = f"no answer within {QUOTA_SECONDS} s"
        except BackendError as error:
            self._quota_problem = error.message
        if self.is_attached:
            self.say_summary()

    def refresh_here(self) -> None:
        super().refresh_here()
        self.read_quotas()

    def quota_text(self) -> Content:
        job = self.analysis.job
        if job is None:
            return Content("")
        if self._quotas is None:
            why = f": {self._quota_problem}" if self._quota_problem else " not known yet"
            return Content.styled(f"? quota{plain(why)}", "$text-muted")
        found = fit(job, self.place, self._quotas, running=tuple(self.console.store.active.values()))
        return fit_words(found)


def fit_words(found: Fit) -> Content:
    """The verdict in a few words, with its mark."""
    if found.verdict == "short":
        return Content.styled(plain(f"✗ quota: {found.sentence}"), "$text-error")
    words, tone = _LOOK[found.verdict]
    more = f": {plain(found.sentence)}" if found.verdict == "unknown" else ""
    return Content.styled(f"{words}{more}", tone)
