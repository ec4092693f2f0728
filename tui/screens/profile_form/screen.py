"""The profile form: every field of a custom job in one screen, with its problems and its cost."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from textual import on
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

from tui.actions.registry import Action, bindings
from tui.domain.core.text import plain
from tui.domain.document.source import dotted
from tui.domain.form.analysis import Analysis
from tui.screens.frame import FrameScreen
from tui.screens.profile_form.body import SEP, FormBody
from tui.screens.profile_form.draft_editor import DraftEditor
from tui.screens.profile_form.estimates import Estimates
from tui.screens.profile_form.field_actions import FieldActions, fixable, folds, switches
from tui.screens.profile_form.file_actions import FileActions
from tui.screens.profile_form.line_editor import LineEditor
from tui.screens.profile_form.navigation import FormNavigation
from tui.screens.workers import background
from tui.store.profiles.draft import Draft, read_text
from tui.widgets.filter_bar import FilterBar
from tui.widgets.form.line import FormLine
from tui.widgets.form.view import FormView
from tui.widgets.header_lines import Line


class FormScreen(FrameScreen):
    """Composes the form. Each action of the form is a method of one of the parts."""

    SCOPE = "form"
    BINDINGS = bindings("form")
    CSS_PATH = "screen.tcss"

    def __init__(self, draft: Draft, *, mine: bool = True) -> None:
        super().__init__()
        self.editor = DraftEditor(draft, self, self.refresh_draft)
        self._estimates = Estimates(self, self.editor, on_prices=self._show, on_quotas=self._show_summary)
        self.body = FormBody(self, self.editor, self._estimates)
        self._line = LineEditor(self, self.editor, self.body)
        self.navigation = FormNavigation(self, self.editor, self.body)
        self._fields = FieldActions(self, self.editor, self.body, self.navigation, self._line)
        self._file = FileActions(self, self.editor, self._line, mine=mine)
        self._parts = (self.navigation, self._fields, self._file)

    @property
    def draft(self) -> Draft:
        """The edited profile."""
        return self.editor.draft

    @property
    def analysis(self) -> Analysis:
        """The result of the last check of the draft."""
        return self.editor.analysis

    @property
    def view(self) -> FormView:
        """The widget with the rows."""
        return self.body.view

    @property
    def line(self) -> FormLine:
        """The widget in which a value is typed."""
        return self.body.line

    def compose_body(self) -> Iterable[Widget]:
        yield from self.body.compose()

    def on_mount(self) -> None:
        self._file.start()
        self.watch(self.view, "scroll_y", self._line.follow_row, init=False)
        self._estimates.start()
        self.view.focus()
        background(self, self.refresh_draft, "form-check", exclusive=False)

    def on_screen_resume(self) -> None:
        """Read the quotas, because another screen may have read newer quotas."""
        super().on_screen_resume()
        self._estimates.read_quotas()

    async def on_unmount(self) -> None:
        """Save unsaved changes as a draft."""
        await self._file.stop()

    def on_resize(self) -> None:
        """Move the line to its row. The summary may fit more text."""
        self.call_after_refresh(self._line.follow_row)
        self.body.show_summary()

    async def refresh_draft(self, cursor: str = "") -> None:
        """Check the draft's text in a thread and show it."""
        analysis = await self.editor.check()
        await self._estimates.compute(analysis)
        self.editor.analysis = analysis
        self.body.show(cursor)

    def _show(self) -> None:
        self.body.show()

    def _show_summary(self) -> None:
        self.body.show_summary()

    def refresh_here(self) -> None:
        """Read the quotas again, and reload the file if another program has changed it."""
        super().refresh_here()
        self._estimates.read_quotas()
        background(self, self._file.check_disk, "form-file")

    # Actions

    def target(self, action: Action) -> object:
        if action.scope != self.SCOPE:
            return super().target(action)
        return next((part for part in self._parts if hasattr(part, f"action_{action.method}")), self)

    def unmet(self, condition: str, action: Action) -> str:
        draft, row = self.draft, self.body.row
        match condition:
            case "readable":
                return "" if self.analysis.readable else "The file can't be read; E opens the editor."
            case "writable_row" if row is not None and folds(row):
                return ""
            case "writable" | "writable_row":
                closed = self.access.read_only
                return "" if closed is None else f"{closed.refuses(action.title)} {closed.fix}"
            case "problems":
                return "" if self.analysis.problems else "There are no problems."
            case "fix":
                return "" if fixable(row) else "No automatic fix here; n goes to the next problem."
            case "switch":
                switched = row is not None and switches(row)
                return "" if switched else "space toggles a switch or a yes/no; enter edits other values."
            case "changes":
                saved = not draft.changed and self._file.mine
                return "Nothing has changed since the last save." if saved else ""
            case "difference":
                return "" if draft.changed else "Nothing differs from the file."
            case "undo":
                return "" if draft.can_undo else "There is nothing to undo."
            case "redo":
                return "" if draft.can_redo else "There is nothing to redo."
            case "request":
                no_request = self.analysis.job is None
                return "There is no request until the errors are fixed." if no_request else ""
        return super().unmet(condition, action)

    @on(FormView.Moved)
    def _moved(self) -> None:
        self.body.show_detail()

    @on(FormView.Chosen)
    async def _chosen(self) -> None:
        await self.action_do("form.open")

    @on(Input.Changed, "#edit")
    def _typing(self, event: Input.Changed) -> None:
        event.stop()
        self._line.typing(event.value)

    @on(FormLine.Left)
    async def _line_left(self, event: FormLine.Left) -> None:
        event.stop()
        await self._line.take(event)

    @on(FilterBar.Changed)
    def _finding(self, event: FilterBar.Changed) -> None:
        event.stop()
        self.navigation.find(event.text)

    @on(FilterBar.Closed)
    def _find_closed(self, event: FilterBar.Closed) -> None:
        event.stop()
        self.navigation.close_find(event.text)

    def note_switched_away(self) -> None:
        self._file.note_unsaved()

    def confirm_leave(self) -> bool:
        return self._file.confirm_leave()

    # The frame

    def top_line(self) -> Line:
        console, draft = self.console, self.draft
        state = "~ not saved" if draft.changed else "" if self._file.mine else "ready-made"
        left = Content.assemble(
            ("vxtui", "bold $accent"),
            SEP,
            (f"Edit {plain(draft.path.stem)}", "bold"),
            "  ",
            (state, "$text-accent"),
        )
        right = Content.assemble((plain(console.context_name), "bold"), f"  {plain(self.editor.region)}")
        if self.read_only:
            right = Content.assemble(("read-only", "bold $text-warning"), SEP, right)
        others = self._file.others
        if others:
            editors = others[0].name + (f" +{len(others) - 1}" if len(others) > 1 else "")
            right = Content.assemble((f"also open: {plain(editors)}", "bold $text-warning"), SEP, right)
        return left, right

    def second_line(self) -> Line:
        row = self.body.row
        where = dotted(row.path) if row is not None and row.path else ""
        file = str(self.draft.path)
        home = str(Path.home())
        file = file.replace(home, "~", 1) if file.startswith(home) else file
        if len(where) + len(file) + len(SEP) > self.size.width:
            file = self.draft.path.name if not where else ""
        return Content(plain(where)), Content.styled(plain(file), "$text-muted")


def open_draft(path: Path, state_dir: Path) -> Draft:
    """Read the file as a draft.

    Raises:
        OSError: the file can't be read.
    """
    return Draft(path, read_text(path), state_dir / "drafts")
