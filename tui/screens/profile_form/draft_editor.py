"""The draft with its analysis. Every change of the form uses `apply` or `replace`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar

from tui.domain.document.document_edit import Edit
from tui.domain.document.source import read
from tui.domain.form.analysis import Analysis, analyse
from tui.domain.masking import secrets_in
from tui.domain.profile import ProfileInvalid
from tui.screens.frame import FrameScreen
from tui.screens.profile_form.shared_value import EVERYWHERE, SharedChange, question, without_secrets
from tui.screens.workers import background
from tui.store.profiles.draft import Draft

RESPONSIVE_INTERVAL, USUAL_INTERVAL = 0.0001, sys.getswitchinterval()
"""Seconds after which a computing thread yields the interpreter."""
P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Run `work` in a thread with a short switch interval, so that the screen stays responsive. With Python's
    default interval, a key would wait 5 ms at each switch."""
    sys.setswitchinterval(RESPONSIVE_INTERVAL)
    try:
        return await asyncio.to_thread(work, *args, **more)
    finally:
        sys.setswitchinterval(USUAL_INTERVAL)


class DraftEditor:
    """Holds the draft, its problems, and the last saved text of its file."""

    def __init__(self, draft: Draft, screen: FrameScreen, show: Callable[[str], Awaitable[None]]) -> None:
        """Set the draft. `show` checks and shows it; its argument is the key of the row to go to."""
        self.draft = draft
        self.analysis = Analysis(draft.text)
        self._screen = screen
        self._show = show
        self._saved = Analysis(draft.text)

    @property
    def values(self) -> Any:
        """The draft's values; None if the text is not YAML."""
        return self.analysis.value

    def saved_values(self, otherwise: Any) -> Any:
        """Return the saved file's values, or `otherwise` if that file is not YAML."""
        return self._saved.value if self._saved.readable else otherwise

    @property
    def region(self) -> str:
        """The region in which the job would run."""
        return self.analysis.region or self._screen.console.connection.home_region

    @property
    def local(self) -> bool:
        """Whether the job would run on this machine."""
        session = self._screen.session
        return session is not None and session.backend.info.local

    def analyse(self, text: str) -> Analysis:
        """Check a text of this profile for the open context."""
        path, connection = self.draft.path, self._screen.console.connection
        return analyse(text, str(path), path.stem, region=connection.home_region, local=self.local)

    async def check(self) -> Analysis:
        """Check the draft's text in a thread. The caller must set `analysis` to the result."""
        text, saved = self.draft.text, self.draft.saved
        analysis = await in_thread(self.analyse, text)
        if saved != self._saved.text or not self._saved.readable:
            self._saved = analysis if saved == text else await in_thread(self.analyse, saved)
        return analysis

    async def refresh(self, cursor: str = "") -> None:
        """Check the draft and show it, with the cursor on the row of that key."""
        await self._show(cursor)

    async def apply(
        self, edits: Sequence[Edit], label: str, cursor: str = "", before: Callable[[], None] | None = None
    ) -> bool:
        """Make a change that undo reverts. Return whether the text has changed.

        If a changed value is shared with other parts of the file, ask first whether they change too; the text
        then changes after the answer. `before` is called before the changed text is shown.
        """
        if not edits:
            return False
        try:
            change = await in_thread(self._change, edits)
        except (ProfileInvalid, LookupError, ValueError) as error:
            self._screen.notify(f"{label}: {error}", severity="error", markup=False)
            return False
        if not change.paths:
            return await self.replace(change.here, label, cursor, before)

        def chosen(answer: str | None) -> None:
            if answer:
                done = f"{label}, everywhere" if answer == EVERYWHERE else label
                take = partial(self._take, change.text(answer), done, cursor, before)
                background(self._screen, take, "form-take", exclusive=False)

        self._screen.app.push_screen(question(change, self._screen.app.size.height), chosen)
        return False

    def _change(self, edits: Sequence[Edit]) -> SharedChange:
        """Return the texts that the edits produce; without paths if nothing else shares a value."""
        draft = self.draft
        paths, here = draft.shares(edits), draft.preview(edits)
        everywhere = draft.preview(edits, everywhere=True) if paths else here
        if everywhere == here:
            return SharedChange((), here, here, (), ())
        # The secrets of both texts are the same values.
        secrets = secrets_in(read(draft.text, "").value) | secrets_in(read(here, "").value)
        lines = [without_secrets(draft.changed_lines(text), secrets) for text in (here, everywhere)]
        return SharedChange(paths, here, everywhere, *lines)

    async def _take(self, *change: Any) -> None:
        await self.replace(*change)

    async def replace(
        self, text: str, label: str, cursor: str = "", before: Callable[[], None] | None = None
    ) -> bool:
        """Replace the text, check and show it, and save it on disk in case of a crash.

        `before` is called before the text is shown. Return whether the text has changed.
        """
        if not self.draft.replace(text, label):
            return False
        if before is not None:
            before()
        await self.refresh(cursor)
        await asyncio.to_thread(self.draft.keep)
        return True
