"""Base of the lists that no store keeps: they are read while the screen is shown."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import ClassVar

from tui.domain.core.formatting import age
from tui.screens.list_screen import ListScreen
from tui.screens.workers import background
from tui.session import BackendError, Session
from tui.store.jobs.connection_state import cure
from tui.widgets.notice import Notice


class PolledListScreen(ListScreen):
    """It is read when it is opened, every few seconds while it is shown, and on `ctrl+r`."""

    NEEDS: ClassVar[str] = ""
    """The service that has it, as `Backend.offers` names it."""
    WHAT: ClassVar[str] = ""
    """What is listed, as a sentence says it: "endpoints"."""
    EVERY: ClassVar[tuple[float, float]] = (10.0, 2.0)
    """Seconds between two readings of a context in the cloud, and of the emulator."""
    EMPTY: ClassVar[tuple[str, str]] = ("", "")

    def __init__(self) -> None:
        super().__init__()
        self._errors: Mapping[str, BackendError] = {}
        self._read_from: Session | None = None
        """The context that is shown."""
        self._reading = False
        self._was_read = False
        self._last = 0.0
        self._whole = 0.0
        """When everything was read last, by the clock of `app_seconds`."""

    async def read_now(self, session: Session) -> Mapping[str, BackendError]:
        """Read what is listed; why regions can't be read, by region. Raises BackendError."""
        raise TypeError(f"{type(self).__name__} must read what it lists")

    def forget(self) -> None:
        """Another context was opened: nothing that was read belongs to it."""

    @property
    def has_rows(self) -> bool:
        """Something was read."""
        raise TypeError(f"{type(self).__name__} must say whether it has rows")

    @property
    def is_unknown(self) -> bool:
        """Nothing is shown because nothing could be read, or not yet: that is not a count of 0."""
        return not self.has_rows and (bool(self._errors) or not self._was_read)

    def on_mount(self) -> None:
        self.console.connection_changed.subscribe(self, lambda _: self._connected())

    def _connected(self) -> None:
        if self.is_current:
            self.read()

    def on_screen_resume(self) -> None:
        self.read()

    def refresh_here(self) -> None:
        self.read()

    def tick(self) -> None:
        """Read again when it is time; update the ages."""
        super().tick()
        session = self.session
        if session is None or not self.is_current:
            return
        if self.app_seconds() - self._last >= self.every(session):
            self.read()

    def every(self, session: Session) -> float:
        """Seconds until it is read again."""
        return self.EVERY[session.backend.info.local]

    def app_seconds(self) -> float:
        """Seconds of a clock that only goes on."""
        return time.monotonic()

    def read(self) -> None:
        """Read again, unless a reading is in progress."""
        session = self.session
        if session is None:
            self.reload()
            return
        if session is not self._read_from:
            self._read_from, self._errors, self._whole = session, {}, 0.0
            self.forget()
            self._reading = self._was_read = False
        if not self._reading and session.backend.offers(self.NEEDS):
            self._reading = True
            background(self, partial(self._read, session), self.NEEDS)

    async def _read(self, session: Session) -> None:
        try:
            errors = await self.read_now(session)
        except BackendError as error:
            errors = {"": error}
        finally:
            self._reading = False
            self._last = self.app_seconds()
        if session is self._read_from:
            self._errors, self._was_read = errors, True
            if not errors:
                self._whole = self._last
            self.reload()

    def show_why(self, *, shown: bool, filtered: str) -> None:
        """Show the notice in place of an empty table, or below a table that lacks something."""
        notice = self.query_one(Notice)
        if self._errors:
            region, error = next(iter(self._errors.items()))
            where = f" of {region}" if region else ""
            more = f" (and of {len(self._errors) - 1} more)" if len(self._errors) > 1 else ""
            words = f"The {self.WHAT}{where} can't be read{more}"
            if shown and self._whole:
                ago = age(timedelta(seconds=self.app_seconds() - self._whole))
                words += f"; what is shown was read {ago} ago"
            notice.show(words, error.message, cure(error), bad=True, alone=not shown)
        elif shown:
            notice.hide()
        elif self.has_rows and filtered:
            notice.show(f"None of the {self.WHAT} match this filter.", filtered, "esc clears it")
        elif self.show_stale(()):
            pass
        elif self._was_read:
            notice.show(*self.EMPTY)
        else:
            notice.show(f"Reading the {self.WHAT}…")
