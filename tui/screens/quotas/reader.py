"""Reads the quotas for a screen, and shows the reason for missing quotas."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from tui.domain.core.quota import Quota
from tui.domain.vertex.quota_fit import with_running
from tui.screens.list_screen import ListScreen
from tui.screens.polling import Polled, Polling
from tui.session import BackendError, Session

QUOTAS = Polled("quotas", "quotas", ("This context reports no training quotas.",), every=None)


class QuotaReader:
    """The quotas as last read, when the screen was opened or on `ctrl+r`."""

    def __init__(
        self,
        screen: ListScreen,
        *,
        regions: Callable[[], Sequence[str]] = lambda: (),
        before_show: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Set the screen. `regions` returns the regions to read, none for all; `before_show` runs first."""
        self._screen = screen
        self._regions = regions
        self._before_show = before_show
        self._quotas: Sequence[Quota] = ()
        self.all = False
        """Whether quotas with no limit and no usage are shown."""
        self.polling = Polling(
            screen,
            QUOTAS,
            self._read,
            show=screen.reload,
            forget=self._forget,
            has_rows=lambda: bool(self._quotas),
        )

    def __len__(self) -> int:
        return len(self._quotas)

    @property
    def quotas(self) -> Sequence[Quota]:
        """The last read quotas, with the usage of the jobs that are known to run."""
        console = self._screen.console
        return with_running(self._quotas, console.store.active.values(), console.connection.read_at)

    def _forget(self) -> None:
        self._quotas = ()

    async def _read(self, session: Session) -> Mapping[str, BackendError]:
        try:
            self._quotas = await session.backend.quotas.read(self._regions())
        finally:
            if self._before_show is not None:
                await self._before_show()
        return {}

    def switch_all(self) -> None:
        """Show or hide quotas with no limit and no usage."""
        self.all = not self.all
        self._screen.reload()
