"""The current prices, and refreshing them from the billing catalogue for all screens."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.domain.core.text import plain
from tui.screens.not_connected import not_connected
from tui.screens.workers import background
from tui.session import BackendError, Session
from tui.widgets.labelled_lines import EMPTY, Labelled, LabelledLines

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp

READ_SECONDS = 120.0
"""Timeout in seconds for reading the entire catalogue."""
LABEL = 9


class PricesScreen(ModalScreen[None]):
    """The prices dialog. The dialog reads prices when it opens, unless a read is in progress; esc does not
    stop the read."""

    CSS_PATH = "prices.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q", "app.pop_screen", "Back"),
        Binding("r,dollar_sign", "read", "Read again"),
    ]

    def compose(self) -> ComposeResult:
        with VerticalGroup(id="dialog"):
            yield Static(Content.styled("Prices", "bold"))
            yield LabelledLines("text")
            yield Static("", id="keys", markup=False)

    @property
    def console(self) -> ConsoleApp:
        """The app as a `ConsoleApp`."""
        return cast("ConsoleApp", self.app)

    def on_mount(self) -> None:
        self.set_interval(0.5, self.show)
        self.action_read()

    def action_read(self) -> None:
        """Read fresh prices."""
        refresh(self.console)
        self.show()

    def show(self) -> None:
        """Show the current prices and the progress of the read."""
        costs = self.console.costs
        lines = [_line("in force", costs.words)]
        if costs.reading_since is not None:
            seconds = time.monotonic() - costs.reading_since
            lines.append(_line("reading", f"the Cloud Billing catalogue… {seconds:.0f} s", "$text-warning"))
        elif costs.answer is not None:
            good, answer = costs.answer
            head, *more = answer.splitlines()
            lines.append(_line("read" if good else "not read", head, "" if good else "$text-error"))
            lines += [_line("", words, "$text-muted") for words in more]
        lines += [(EMPTY, EMPTY), (EMPTY, Content.styled(ALL_ESTIMATES, "$text-muted"))]
        self.query_one("#text", LabelledLines).show(lines)
        going = costs.reading_since is not None
        keys = "esc back; reading continues" if going else "r reads again   esc back"
        self.query_one("#keys", Static).update(Content.styled(keys, "$text-muted"))


ALL_ESTIMATES = "Every amount is an estimate based on list prices, without discounts and credits."


def _line(label: str, words: str, style: str = "") -> Labelled:
    return Content.styled(f"{label:<{LABEL}} ", "$text-muted"), Content.styled(plain(words), style)


def refresh(console: ConsoleApp) -> None:
    """Read fresh prices in the background, unless a read is in progress."""
    costs, session = console.costs, console.session
    if costs.reading_since is not None:
        return
    if session is None:
        costs.answer = (False, not_connected(console))
        return
    costs.reading_since = time.monotonic()
    background(console, partial(_read, console, session), "read prices", exclusive=False)


async def _read(console: ConsoleApp, session: Session) -> None:
    costs = console.costs
    try:
        async with asyncio.timeout(READ_SECONDS):
            prices = await session.backend.prices.read()
        costs.answer = (True, await asyncio.to_thread(costs.take, prices))
        await console.load_prices()
    except BackendError as error:
        costs.answer = (False, "\n".join(filter(None, (error.message, error.fix))))
    except TimeoutError:
        costs.answer = (False, f"No answer from the catalogue within {READ_SECONDS:.0f} s.\nr tries again.")
    except OSError as error:
        costs.answer = (False, f"The prices can't be saved: {error}")
    finally:
        costs.reading_since = None
    if not isinstance(console.screen, PricesScreen) and costs.answer is not None:
        good, words = costs.answer
        console.notify(
            f"Prices: {plain(words.splitlines()[0])}",
            severity="information" if good else "error",
            markup=False,
        )
