"""A question before an irreversible action. The question names the object, and No is the default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.domain.core.text import plain


class ConfirmScreen(ModalScreen[bool]):
    """Returns True only for `y`. Enter, esc, `n` and a held key mean No.

    `question` has no key hint; `details` are lines below it, e.g. one per job.
    """

    CSS_PATH = "confirm.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,N,escape,enter,q", "answer(False)", "No"),
    ]

    def __init__(self, question: str, details: Sequence[str] = ()) -> None:
        super().__init__()
        self._question = plain(question)
        self._details = [plain(line) for line in details]

    def compose(self) -> ComposeResult:
        with VerticalGroup(id="dialog"):
            yield Static(Content(self._question), id="question")
            if self._details:
                with VerticalScroll(id="details", can_focus=False):
                    yield Static(Content("\n".join(self._details)))
            yield Static(
                Content.assemble(
                    ("y", "bold"), ("  yes     ", "$text-muted"), ("N", "bold"), ("  no", "$text-muted")
                ),
                id="answers",
            )

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)
