"""Polling of data that no store holds. A list reads the data while its screen is shown."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from tui.domain.core.formatting import age
from tui.screens.context_line import show_not_reached
from tui.screens.frame import FrameScreen
from tui.screens.workers import background
from tui.session import BackendError, Session
from tui.store.jobs.connection_state import cure
from tui.widgets.notice import Notice


@dataclass(frozen=True, slots=True)
class Polled:
    """The polled service, and its words."""

    service: str
    """The service's name in `Backend.offers`."""
    noun: str
    """The plural noun of the listed items: "endpoints"."""
    empty: tuple[str, ...]
    """The notice for an empty list."""
    every: tuple[float, float] | None = (10.0, 2.0)
    """Seconds between reads in the cloud and on the emulator; `None` reads only when the list opens."""


class Polling:
    """Reads when the list is opened, every few seconds while it is shown, and on `ctrl+r`."""

    def __init__(
        self,
        screen: FrameScreen,
        polled: Polled,
        read: Callable[[Session], Awaitable[Mapping[str, BackendError]]],
        *,
        show: Callable[[], None],
        forget: Callable[[], None],
        has_rows: Callable[[], bool],
    ) -> None:
        """Set the callbacks. `read` returns why regions can't be read, by region, or raises BackendError.

        `show` shows the data, `forget` drops the rows of another context, and `has_rows` returns whether any
        rows were read.
        """
        self._screen = screen
        self._polled = polled
        self._read_now = read
        self._show = show
        self._forget = forget
        self._has_rows = has_rows
        self.every: Callable[[Session], float | None] = self.usual
        """A function that returns the seconds until the next read."""
        self.errors: Mapping[str, BackendError] = {}
        self.was_read = False
        self._session: Session | None = None
        """The session from which the rows were read."""
        self._reading: object | None = None
        """Identity of the read in progress."""
        self._last = 0.0
        self._complete = 0.0
        """Monotonic time of the last complete read."""

    def usual(self, session: Session) -> float | None:
        """Return the usual interval between reads in seconds; `None` if the data is read only once."""
        every = self._polled.every
        return every[session.backend.info.local] if every is not None else None

    @property
    def is_unknown(self) -> bool:
        """Whether nothing is shown because nothing has been read (yet), which differs from a count of 0."""
        return not self._has_rows() and (bool(self.errors) or not self.was_read)

    def connection_changed(self) -> None:
        """Read from a new session. Data that is read only once is read again only if it was never read."""
        once = self._polled.every is None and (self.was_read or bool(self.errors))
        if self._screen.is_current and not (once and self._screen.session is self._session):
            self.read()

    def tick(self) -> None:
        """Read again when a read is due."""
        session = self._screen.session
        if session is not None and self._screen.is_current:
            every = self.every(session)
            if every is not None and time.monotonic() - self._last >= every:
                self.read()

    def read(self, *, changed: bool = False) -> None:
        """Read again, unless a read is in progress. After a change, a read in progress is cancelled, because
        its rows may be older than the change."""
        session = self._screen.session
        if session is None:
            self._show()
            return
        if session is not self._session:
            self._session, self.errors, self._complete = session, {}, 0.0
            self._forget()
            self._reading, self.was_read = None, False
        if (changed or self._reading is None) and session.backend.offers(self._polled.service):
            self._reading = reading = object()
            background(self._screen, partial(self._read, session, reading), self._polled.service)

    async def _read(self, session: Session, reading: object) -> None:
        try:
            errors = await self._read_now(session)
        except BackendError as error:
            errors = {"": error}
        finally:
            # A cancelled read leaves the state of the read that replaced it.
            if self._reading is reading:
                self._reading, self._last = None, time.monotonic()
        if session is self._session:
            self.errors, self.was_read = errors, True
            if not errors:
                self._complete = self._last
            self._show()

    def show_notice(self, *, shown: bool, filtered: str, hidden: tuple[str, ...] = ()) -> None:
        """Show the notice instead of an empty table, or below an incomplete table.

        `hidden` is the notice for rows that are hidden for another reason than the filter's text.
        """
        notice, noun = self._screen.query_one(Notice), self._polled.noun
        if self.errors:
            region, error = next(iter(self.errors.items()))
            where = f" of {region}" if region else ""
            more = f" (and of {len(self.errors) - 1} more)" if len(self.errors) > 1 else ""
            words = f"The {noun}{where} can't be read{more}"
            if shown and self._complete:
                ago = age(timedelta(seconds=time.monotonic() - self._complete))
                words += f"; the data shown was read {ago} ago"
            notice.show(words, error.message, cure(error), bad=True, alone=not shown)
        elif shown:
            notice.hide()
        elif self._has_rows() and hidden:
            notice.show(*hidden)
        elif self._has_rows() and filtered:
            notice.show(f"None of the {noun} match this filter.", filtered, "esc clears it")
        elif show_not_reached(self._screen.console, notice, alone=True):
            pass
        elif self.was_read:
            notice.show(*self._polled.empty)
        else:
            notice.show(f"Reading the {noun}…")
