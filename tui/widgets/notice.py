"""A notice for empty, loading and failed screens: the missing content, the reason, and the key that helps."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from tui.domain.core.text import plain


class Notice(Static):
    """A block of text in the middle of an empty screen, or a strip under a stale list."""

    DEFAULT_CSS = """
    Notice {
        display: none;
        padding: 0 2;
        &.-alone {
            height: 1fr;
            content-align: center middle;
        }
        &.-strip {
            height: auto;
            max-height: 6;
            padding: 0 1;
        }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__("", id=id, markup=False)
        self._shown: tuple[object, ...] = ()

    def show(
        self, headline: str, why: str = "", fix: str = "", *, bad: bool = False, alone: bool = True
    ) -> None:
        """Show up to three sentences. `alone` fills the screen; otherwise the notice is a strip."""
        shown = (headline, why, fix, bad, alone)
        if shown == self._shown and self.display:
            return
        self._shown = shown
        head = Content.styled(plain(headline), "bold $text-error" if bad else "bold")
        lines = [head]
        lines += [Content(plain(line)) for line in why.splitlines() if line]
        lines += [Content.styled(plain(line), "$text-muted") for line in fix.splitlines() if line]
        self.set_class(alone, "-alone")
        self.set_class(not alone, "-strip")
        self.update(Content("\n").join(lines))
        self.display = True

    def hide(self) -> None:
        """Hide the notice."""
        self.display = False
