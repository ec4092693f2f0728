"""Keys that move through the form by problems, folds, sections and search, and that show more about a row."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tui.domain.document.source import dotted
from tui.domain.form.rows import FormRow
from tui.domain.form.values import Path, canonical
from tui.screens.dialogs.message import MessageScreen
from tui.screens.frame import FrameScreen
from tui.screens.profile_form.body import FormBody
from tui.screens.profile_form.draft_editor import DraftEditor
from tui.screens.profile_form.line_editor import typed_text
from tui.widgets.filter_bar import FilterBar

MOST_FOLDS = 6
"""Maximum number of nested groups that may enclose a row."""


class FormNavigation:
    """Moves the cursor and opens folds; changes nothing in the draft."""

    def __init__(self, screen: FrameScreen, editor: DraftEditor, body: FormBody) -> None:
        self._screen = screen
        self._editor = editor
        self._body = body
        self._find_from = ""
        """Key of the row under the cursor when find was opened."""

    def _position(self) -> int:
        row = self._body.row
        rows = self._body.view.rows
        return next((i for i, r in enumerate(rows) if row is not None and r.key == row.key), 0)

    # Problems

    def action_next_problem(self) -> None:
        """Go to the next problem."""
        self._to_problem(1)

    def action_previous_problem(self) -> None:
        """Go to the previous problem."""
        self._to_problem(-1)

    def _to_problem(self, step: int) -> None:
        rows, here = self._body.view.rows, self._position()
        order = [*range(here + 1, len(rows)), *range(here + 1)]
        order = order if step > 0 else [*reversed(range(here)), *reversed(range(here, len(rows)))]
        target = next((rows[i] for i in order if rows[i].problems), None)
        if target is not None:
            self.go_to(target.problems[0].path, target.key)

    def go_to(self, path: Path, otherwise: str) -> None:
        """Move the cursor to the row of a path and open the groups around it. If there is no such row, move
        to the row `otherwise`."""
        target, view = canonical(path), self._body.view
        for _ in range(MOST_FOLDS if target else 0):
            row = next((r for r in view.rows if canonical(r.path) == target), None)
            if row is not None:
                view.move_to(row.key)
                return
            closed = self._closed_around(target)
            if closed is None:
                break
            self._body.toggle(closed)
            view.show(self._body.rows_of(self._editor.analysis))
        view.move_to(otherwise)

    def _closed_around(self, target: Path) -> str | None:
        """Return the key of the outermost closed group that contains the path."""
        rows = self._body.all_rows()
        at_row = next((i for i, r in enumerate(rows) if canonical(r.path) == target), None)
        if at_row is None:
            return None
        depth, around = rows[at_row].depth, []
        for row in reversed(rows[:at_row]):
            if row.depth < depth:
                around.append(row.key)
                depth = row.depth
        shown = {r.key: r for r in self._body.view.rows}
        keys = [*reversed(around)]
        candidates = [*keys, *(f"{key}:more" for key in keys)]
        return next((key for key in candidates if key in shown and shown[key].open is False), None)

    # Folds and sections

    def action_fold(self) -> None:
        """Open or close the group of the row."""
        rows, row = self._body.view.rows, self._body.row
        if row is None:
            return
        if row.open is None:
            above = reversed(rows[: self._position()])
            row = next((r for r in above if r.open is not None and r.depth < row.depth), row)
        if row.open is not None:
            self._body.toggle(row.key)
            self._body.show(row.key)

    def action_fold_all(self) -> None:
        """Close every section and pool, or open the sections and pools that are open by default."""
        heads = [r for r in self._body.view.rows if r.depth == 0 and r.open is not None]
        if any(r.open for r in heads):
            self._body.toggled ^= {r.key for r in heads if r.open}
        else:
            self._body.toggled.clear()
        self._body.show()

    def action_next_section(self) -> None:
        """Go to the next section or pool."""
        self._to_section(1)

    def action_previous_section(self) -> None:
        """Go to the previous section or pool."""
        self._to_section(-1)

    def _to_section(self, step: int) -> None:
        rows, here = self._body.view.rows, self._position()
        heads = [i for i, r in enumerate(rows) if r.depth == 0]
        ahead = [i for i in heads if i > here] if step > 0 else [i for i in reversed(heads) if i < here]
        if ahead:
            self._body.view.move_to(rows[ahead[0]].key)

    # Find

    @property
    def _bar(self) -> FilterBar:
        return self._screen.query_one(FilterBar)

    def action_find(self) -> None:
        """Open the line for finding a field."""
        row = self._body.row
        self._find_from = row.key if row is not None else ""
        self._bar.clear()
        self._bar.open()

    def find(self, text: str) -> None:
        """Go to the row whose name matches these words best, or else to the first row with a matching
        value."""
        words = text.casefold().split()
        rows = self._body.all_rows() if words else []
        named = [row for row in rows if _matches(row, words)]
        nearest = min(named, key=lambda row: _rank(row, words), default=None) or next(
            (row for row in rows if _matches(row, words, values=True)), None
        )
        self._bar.show_problem("no field" if words and nearest is None else "")
        if nearest is not None:
            self.go_to(nearest.path, nearest.key)

    def close_find(self, text: str) -> None:
        """Give the keyboard focus back to the form. Without a text, the cursor returns to its earlier row."""
        view = self._body.view
        if not text and self._find_from:
            view.move_to(self._find_from)
        view.focus()
        self._screen.refresh_frame()

    # More about a row

    def action_why(self) -> None:
        """Show all information about the row."""
        row = self._body.row
        if row is None:
            return
        lines = [dotted(row.path)] if row.path else []
        lines += [row.field.help] if row.field else [row.help] if row.help else []
        for problem in row.problems:
            lines += ["", f"{problem.severity}: {problem.message}"]
            lines += [problem.fix] if problem.fix else []
            lines += [f"{problem.id}  {problem.source}".strip()]
        self._screen.app.push_screen(MessageScreen(row.label, "\n".join(lines)))

    def action_copy(self) -> None:
        """Copy the value."""
        row = self._body.row
        if row is not None:
            text = typed_text(self._editor.values, row) or row.value
            self._screen.console.send_copy(text, "the value")


def _matches(row: FormRow, words: Sequence[str], *, values: bool = False) -> bool:
    """Return whether the row's name has all the words; with `values`, its name and value together."""
    value = row.value if values else ""
    text = f"{row.label} {row.path[-1] if row.path else ''} {value}".casefold()
    return all(word in text for word in words)


def _rank(row: FormRow, words: Sequence[str]) -> int:
    """Rank how well the words match the row's name: 0 for the whole name, 1 for its start, 2 for complete
    words, 3 for starts of words, and 4 for no match."""
    key = str(row.path[-1]) if row.path else ""
    names = [row.label.casefold(), key.casefold()]
    text = " ".join(words)
    if text in names:
        return 0
    if any(name.startswith(text) for name in names):
        return 1
    parts = [part.casefold() for part in _NAME_PART.findall(f"{row.label} {key}")]
    if all(word in parts for word in words):
        return 2
    return 3 if all(any(part.startswith(word) for part in parts) for word in words) else 4


_NAME_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
"""The words of a label or of a camelCase key."""
