"""Base of the quota screens: reading the quotas, and the notice when there are none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tui.domain.core.quota import Quota
from tui.domain.vertex.quota_fit import with_running
from tui.screens.list_screen import ListScreen
from tui.screens.workers import background
from tui.session import BackendError, Session
from tui.store.jobs.connection_state import cure
from tui.widgets.notice import Notice


class QuotaListScreen(ListScreen):
    """Quotas are read when the screen is opened and on `ctrl+r`. A subclass gives `reload`."""

    HEADING = "Quotas"
    HIDDEN = ("Nothing to show here.", "Quotas with no limit and no use are hidden.")

    def __init__(self) -> None:
        super().__init__()
        self._quotas: Sequence[Quota] = ()
        self._error: BackendError | None = None
        self._read = False
        self._all = False

    def on_mount(self) -> None:
        self.console.connection_changed.subscribe(self, lambda _: self._connected())

    @property
    def quotas(self) -> Sequence[Quota]:
        """The quotas as last read, with the use of the jobs that are known to run."""
        return with_running(self._quotas, self.console.store.active.values(), self.console.connection.read_at)

    def _connected(self) -> None:
        if not self._read and self._error is None and self.is_current:
            self.read()
        self.refresh_frame()

    def on_screen_resume(self) -> None:
        self.read()

    def read(self) -> None:
        """Read the quotas again."""
        session = self.session
        if session is not None:
            background(self, partial(self._read_quotas, session), "quotas")

    def refresh_here(self) -> None:
        self.read()

    def _places(self) -> Sequence[str]:
        """Regions to read; empty for those of the context."""
        return ()

    async def _read_quotas(self, session: Session) -> None:
        try:
            self._quotas = await session.backend.quotas.read(self._places())
        except BackendError as error:
            self._error = error
        else:
            self._error, self._read = None, True
        await self._was_read()
        self.reload()

    async def _was_read(self) -> None:
        """Called before the quotas are shown."""

    def show_why_empty(self, *, shown: bool) -> None:
        """Show the notice in place of an empty table, or below a stale one."""
        notice = self.query_one(Notice)
        if self._error is not None:
            notice.show(
                "Quotas can't be read", self._error.message, cure(self._error), bad=True, alone=not shown
            )
        elif shown:
            notice.hide()
        elif self._quotas:
            notice.show(*self.HIDDEN, "a shows all")
        elif self._read:
            notice.show("This context reports no training quotas.")
        elif not self.show_stale(()):
            notice.show("Reading quotas…")

    def action_all(self) -> None:
        """Show or hide quotas with no limit and no use."""
        self._all = not self._all
        self.reload()
