"""Fresh prices by a key, on every screen at once; and those that somebody else has fetched."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from tests.ui.double import MemoryBackend
from tests.ui.form_screen_support import form, screen
from tests.ui.jobs_screen_support import opened, said, until
from tests.ui.profiles_screen_support import launch_screen, profiles, text
from tui.app import VxtuiApp
from tui.backends.interface import PermissionDenied, PriceService
from tui.domain.vertex.prices import Price, Prices, Range, built_in
from tui.screens.quotas.prices import PricesScreen
from tui.store.jobs.costs import keep_prices, read_prices

DAY = "2027-03-01"


def table(factor: float, *, simulated: bool = False) -> Prices:
    """The built-in table of us-central1 at another level, of a later day."""
    regions = {
        "us-central1": {
            key: Price(Range(price.usd.low * factor, price.usd.high * factor), DAY)
            for key, price in built_in().regions["us-central1"].items()
        }
    }
    return Prices(DAY, "Cloud Billing catalogue", built_in().spot, regions, simulated)


class Priced(MemoryBackend):
    """Has prices once `go` is set; `denied` answers with an error instead."""

    def __init__(self, prices: Prices | None = None, *, denied: bool = False) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.stored_prices = prices or table(100)
        self.denied = denied
        self.asked = 0
        self.use(prices=Catalogue(self))


class Catalogue(PriceService):
    def __init__(self, backend: Priced) -> None:
        self._backend = backend

    async def read(self) -> Prices:
        self._backend.asked += 1
        await self._backend.go.wait()
        if self._backend.denied:
            raise PermissionDenied(
                "The billing catalogue can't be read.", fix="Enable cloudbilling.googleapis.com."
            )
        return self._backend.stored_prices


def dialog(app: VxtuiApp) -> str:
    return "\n".join(str(line.content) for line in app.screen.query(Static))


async def ask(app: VxtuiApp, pilot: Pilot[None]) -> None:
    await pilot.press("dollar_sign")
    await until(pilot, lambda: isinstance(app.screen, PricesScreen), "the prices")


async def test_the_form_takes_fresh_prices_at_once(tmp_path: Path) -> None:
    backend = Priced()
    async with form(tmp_path, backend=backend) as (app, pilot, _):
        summary = screen(app).query_one("#summary", Static)
        await until(pilot, lambda: "est. " in str(summary.content), "the built-in ones")
        before = str(summary.content)
        assert DAY not in before
        await ask(app, pilot)
        assert f"the built-in table of {built_in().date}" in dialog(app)
        assert "reading" in dialog(app) and "reading continues" in dialog(app)
        await pilot.press("r", "dollar_sign")
        assert backend.asked == 1, "one reading at a time"
        backend.go.set()
        await until(pilot, lambda: f"fetched {DAY}" in dialog(app), "the fresh ones")
        assert f"prices of 1 region, {DAY}" in dialog(app) and "r reads again" in dialog(app)
        await pilot.press("escape")
        await until(pilot, lambda: f"est. {DAY}" in str(summary.content), "the form")
        assert "k/h" in str(summary.content) and "k/h" not in before
        assert read_prices(tmp_path)[0].date == DAY


async def test_what_went_wrong_is_said_there_and_after_leaving(tmp_path: Path) -> None:
    backend = Priced(denied=True)
    async with opened(backend, tmp_path, size=(80, 24)) as (app, pilot):
        await ask(app, pilot)
        backend.go.set()
        await until(pilot, lambda: "Enable cloudbilling" in dialog(app), "the error")
        assert "can't be read" in dialog(app) and built_in().date in dialog(app)
        backend.go.clear()
        await pilot.press("r", "escape")
        backend.go.set()
        await until(pilot, lambda: "Prices: The billing catalogue can't be read" in said(app), "the word")


async def test_made_up_prices_are_not_kept(tmp_path: Path) -> None:
    backend = Priced(table(2, simulated=True))
    backend.go.set()
    async with opened(backend, tmp_path) as (app, pilot):
        await ask(app, pilot)
        await until(pilot, lambda: "not saved" in dialog(app), "the answer")
        assert app.costs.prices == built_in() and not (tmp_path / "prices.json").exists()


async def test_prices_that_a_verb_has_fetched_reach_the_launch_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.app.PRICES_EVERY", 0.05)
    async with profiles(MemoryBackend(), tmp_path, monkeypatch) as (app, pilot, _):
        await launch_screen(app, pilot, "local-2node")
        await until(pilot, lambda: "prices of" in text(app, "#shape"), "the built-in ones")
        keep_prices(tmp_path, table(3))
        await until(pilot, lambda: DAY in text(app, "#shape"), "the fetched ones")
