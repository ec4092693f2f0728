"""Keys that go through the form: problems, folds, sections, find; and more about a row."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on

from tui.domain.profile.source import dotted
from tui.domain.vertex.form.rows import Look, Row, RowKind, build_rows
from tui.domain.vertex.form.values import Path, at, canonical, pair_text, scalar_text
from tui.screens.dialogs.message import MessageScreen
from tui.screens.profile_form.estimates import FormFigures
from tui.widgets.filter_bar import FilterBar


class FormMoves(FormFigures):
    """See the module."""

    _found_from = ""

    # Problems

    def action_next_problem(self) -> None:
        """To the next problem."""
        self._to_problem(1)

    def action_previous_problem(self) -> None:
        """To the problem before."""
        self._to_problem(-1)

    def _to_problem(self, way: int) -> None:
        rows = self.view.rows
        here = next((i for i, r in enumerate(rows) if self.row is not None and r.key == self.row.key), 0)
        order = [*range(here + 1, len(rows)), *range(here + 1)]
        order = order if way > 0 else [*reversed(range(here)), *reversed(range(here, len(rows)))]
        target = next((rows[i] for i in order if rows[i].problems), None)
        if target is not None:
            self.go_to(target.problems[0].path, target.key)

    def go_to(self, path: Path, otherwise: str) -> None:
        """Put the cursor on the row of a path, opening what it is in."""
        wanted = canonical(path)
        for _ in range(6 if wanted else 0):
            found = next((r for r in self.view.rows if canonical(r.path) == wanted), None)
            if found is not None:
                self.view.move_to(found.key)
                return
            closed = self._closed_around(wanted)
            if closed is None:
                break
            self._turn(closed)
            self.view.show(self.rows_of(self.analysis))
        self.view.move_to(otherwise)

    def _closed_around(self, wanted: Path) -> str | None:
        """Key of a closed group that the path is in."""
        everything = self._all_rows()
        at_row = next((i for i, r in enumerate(everything) if canonical(r.path) == wanted), None)
        if at_row is None:
            return None
        depth, around = everything[at_row].depth, []
        for row in reversed(everything[:at_row]):
            if row.depth < depth:
                around.append(row.key)
                depth = row.depth
        shown = {r.key: r for r in self.view.rows}
        keys = [*reversed(around)]
        for key in keys:
            if key in shown and shown[key].open is False:
                return key
        more = [f"{key}:more" for key in keys]
        return next((m for m in more if m in shown and shown[m].open is False), None)

    def _all_rows(self) -> list[Row]:
        look = Look(
            self.analysis.value, self.analysis.value, self.analysis.wrapped, everything=True,
            problems=self.analysis.problems,
        )  # fmt: skip
        return build_rows(look)

    # Folds, sections, find

    def _turn(self, key: str) -> None:
        self._turned ^= {key}

    def _turn_open(self, path: Path | None) -> None:
        """Have the list at `path` open."""
        key = dotted(canonical(path or ()))
        row = self.view.row(key)
        if row is not None and not row.open and key not in self._turned:
            self._turned.add(key)

    async def action_fold(self) -> None:
        """Open or close the group of the row."""
        rows, row = self.view.rows, self.row
        if row is None:
            return
        at_row = next(i for i, r in enumerate(rows) if r.key == row.key)
        if row.open is None:
            row = next(
                (r for r in reversed(rows[:at_row]) if r.open is not None and r.depth < row.depth), row
            )
        if row.open is not None:
            self._turn(row.key)
            self.show(row.key)

    def action_fold_all(self) -> None:
        """Close every section and pool, or open the usual ones."""
        heads = [r for r in self.view.rows if r.depth == 0 and r.open is not None]
        if any(r.open for r in heads):
            self._turned ^= {r.key for r in heads if r.open}
        else:
            self._turned.clear()
        self.show()

    def action_next_section(self) -> None:
        """Next section or pool."""
        self._to_section(1)

    def action_previous_section(self) -> None:
        """Section or pool before."""
        self._to_section(-1)

    def _to_section(self, way: int) -> None:
        rows = self.view.rows
        here = next((i for i, r in enumerate(rows) if self.row is not None and r.key == self.row.key), 0)
        heads = [i for i, r in enumerate(rows) if r.depth == 0]
        later = [i for i in heads if i > here] if way > 0 else [i for i in reversed(heads) if i < here]
        if later:
            self.view.move_to(rows[later[0]].key)

    def action_find(self) -> None:
        """Type what to find."""
        self._found_from = self.row.key if self.row is not None else ""
        bar = self.query_one(FilterBar)
        bar.clear()
        bar.open()

    @on(FilterBar.Changed)
    def _finding(self, event: FilterBar.Changed) -> None:
        event.stop()
        words = event.text.casefold().split()
        rows = self._all_rows() if words else []
        found = next((r for r in rows if _matches(r, words)), None) or next(
            (r for r in rows if _matches(r, words, values=True)), None
        )
        self.query_one(FilterBar).say("no field" if words and found is None else "")
        if found is not None:
            self.go_to(found.path, found.key)

    @on(FilterBar.Closed)
    def _find_left(self, event: FilterBar.Closed) -> None:
        event.stop()
        if not event.text and self._found_from:
            self.view.move_to(self._found_from)
        self.view.focus()
        self.refresh_frame()

    # More about a row

    def action_why(self) -> None:
        """All that is known of the row."""
        row = self.row
        if row is None:
            return
        lines = [dotted(row.path)] if row.path else []
        lines += [row.field.help] if row.field else [row.help] if row.help else []
        for problem in row.problems:
            lines += ["", f"{problem.severity}: {problem.message}"]
            lines += [problem.fix] if problem.fix else []
            lines += [f"{problem.id}  {problem.source}".strip()]
        self.app.push_screen(MessageScreen(row.label, "\n".join(lines)))

    def action_copy(self) -> None:
        """Copy the value."""
        row = self.row
        if row is not None:
            self.console.send_copy(typed_text(self.values, row) or row.value, "the value")


def typed_text(root: object, row: Row) -> str:
    """What stands in the line when the row is edited; of a parameter its default."""
    if row.kind is RowKind.PAIR:
        raw = row.raw
        if isinstance(raw, dict):
            return pair_text(raw.get("name", ""), raw.get("value", ""), open_=True)
        return pair_text(row.path[-1], raw, open_=True)
    if row.parameter:
        setting = at(root, ("parameters", row.parameter))
        return scalar_text(setting.get("default") if isinstance(setting, dict) else setting)
    return "" if isinstance(row.raw, list | dict) else scalar_text(row.raw)


def _matches(row: Row, words: Sequence[str], *, values: bool = False) -> bool:
    """The row is called so; with `values` what it holds counts too."""
    held = row.value if values else ""
    text = f"{row.label} {row.path[-1] if row.path else ''} {held}".casefold()
    return all(word in text for word in words)
