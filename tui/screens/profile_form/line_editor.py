"""The line in which a value is typed: open the line, check the text, and accept or discard the text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial

from tui.domain.document.document_edit import Edit
from tui.domain.document.source import dotted
from tui.domain.form import changes
from tui.domain.form.changes import Refused
from tui.domain.form.rows import FormRow, RowKind
from tui.domain.form.values import at, canonical, pair_text, scalar_text
from tui.domain.masking import MASK
from tui.domain.profile import ProfileInvalid
from tui.screens.frame import FrameScreen
from tui.screens.profile_form.body import FormBody
from tui.screens.profile_form.draft_editor import DraftEditor, in_thread
from tui.screens.workers import background
from tui.widgets.form.line import FormLine

TYPING_PAUSE = 0.2
"""Seconds without a key after which the typed text is checked."""


class LineEditor:
    """Edits one row at a time, in the body's line."""

    def __init__(self, screen: FrameScreen, editor: DraftEditor, body: FormBody) -> None:
        self._screen = screen
        self._editor = editor
        self._body = body
        self._editing: tuple[FormRow, bool] | None = None
        """The row whose value is typed, and whether the text is added to its list."""

    def open(self, row: FormRow, text: str, *, add: bool = False, hint: str = "") -> None:
        """Edit `text` at the row. `add` makes the text a new element of the row's list."""
        place = self._body.view.place_of(row.key)
        if place is not None:
            self._editing = (row, add)
            # Show dots for values that the form masks.
            self._body.line.password = not add and MASK in row.value
            self._body.line.open(text, *place, hint)

    def follow_row(self) -> None:
        """Move the line to its row when the form has scrolled."""
        place = self._body.view.place_of(self._editing[0].key) if self._editing is not None else None
        if place is not None:
            self._body.line.move_to(*place)

    def typing(self, text: str) -> None:
        """Check the changed text once the keys pause."""
        if self._editing is not None:
            background(self._screen, partial(self._check, text), "form-typing")

    async def _check(self, text: str) -> None:
        """Show the problem with the text, or the rows with the text applied."""
        await asyncio.sleep(TYPING_PAUSE)
        edits, wrong = self._edits_of(text)
        if wrong:
            self._body.show_wrong(wrong)
            return
        rows = await in_thread(self._preview, edits)
        if self._editing is not None and rows:
            self._body.view.show(rows)
            self._body.show_detail()

    def _preview(self, edits: Sequence[Edit]) -> list[FormRow]:
        """Return the rows with these edits; none if the edits can't be made."""
        try:
            text = self._editor.draft.preview(edits)
        except (ProfileInvalid, LookupError, ValueError):
            return []
        return self._body.rows_of(self._editor.analyse(text))

    def _edits_of(self, text: str) -> tuple[Sequence[Edit], str]:
        """Return the edits for the text, or its problem."""
        if self._editing is None:
            return (), ""
        row, add = self._editing
        values = self._editor.values
        try:
            matches = (
                changes.addition_edits(values, row, text)[0]
                if add
                else changes.value_edits(values, row, text)
            )
        except (ValueError, Refused) as error:
            return (), str(error)
        return matches, ""

    async def take(self, event: FormLine.Left) -> None:
        """Accept the text and close the line. An invalid text keeps the line open, unless a click has left
        it."""
        if self._editing is None:
            return
        row, add = self._editing
        text = self._body.line.value
        if add and not text.strip():
            self._close()
            return
        edits, wrong = self._edits_of(text)
        if wrong and not event.clicked:
            self._body.show_wrong(wrong)
            return
        self._close()
        if wrong:
            self._screen.notify(f"{row.label} is unchanged. {wrong}", severity="warning", markup=False)
        elif not await self._apply(row, text, edits, add=add, moves=bool(event.move)):
            self._body.show()
        view = self._body.view
        if event.move:
            (view.action_cursor_down if event.move > 0 else view.action_cursor_up)()

    async def _apply(self, row: FormRow, text: str, edits: Sequence[Edit], *, add: bool, moves: bool) -> bool:
        """Make the edits for the text. An added element is shown in its list.

        The cursor goes to the row unless `moves` is set, because a question may delay the edits until then.
        """
        if not add:
            return await self._editor.apply(edits, f"set {row.label}", "" if moves else row.key)
        path = changes.addition_edits(self._editor.values, row, text)[1]
        opened = partial(self._body.keep_open, changes.list_path(row))
        return await self._editor.apply(edits, f"add to {row.label}", dotted(canonical(path)), opened)

    def _close(self) -> bool:
        """Close the line. Return whether the line was open."""
        was_open = self._editing is not None
        self._editing = None
        self._screen.workers.cancel_group(self._screen, "form-typing")
        self._body.line.close()
        if was_open:
            self._body.view.focus()
        return was_open

    async def settle(self) -> bool:
        """Accept the typed text. Return whether the line is now closed."""
        if self._editing is not None:
            await self.take(FormLine.Left(0))
        return self._editing is None

    def discard(self) -> bool:
        """Close the line without accepting the text. Return whether the line was open."""
        was_open = self._close()
        if was_open:
            self._body.show()
        return was_open


def typed_text(root: object, row: FormRow) -> str:
    """Return the initial text of the line; for a parameter, its default."""
    if row.kind is RowKind.PAIR:
        raw = row.raw
        if isinstance(raw, dict):
            return pair_text(raw.get("name", ""), raw.get("value", ""), reveal=True)
        return pair_text(row.path[-1], raw, reveal=True)
    if row.parameter:
        setting = at(root, ("parameters", row.parameter))
        return scalar_text(setting.get("default") if isinstance(setting, dict) else setting)
    if row.field is not None and row.field.kind.name == "value" and isinstance(row.raw, list | dict):
        # A value too long for one line uses several.
        return json.dumps(row.raw, ensure_ascii=False, indent=None if row.value != "…" else 2)
    return "" if isinstance(row.raw, list | dict) else scalar_text(row.raw)
