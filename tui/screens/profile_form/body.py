"""The form's widgets: the summary, the fields with their folds, and the lines about the current field."""

from __future__ import annotations

from collections.abc import Iterable

from textual.containers import Container
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.domain.core.text import plain
from tui.domain.document.source import ProblemSeverity, dotted
from tui.domain.form.analysis import Analysis
from tui.domain.form.rows import FormRow, FormState, RowKind, build_rows
from tui.domain.form.summary import problem_counts, roles, totals
from tui.domain.form.values import Path, canonical
from tui.screens.frame import FrameScreen
from tui.screens.profile_form.draft_editor import DraftEditor
from tui.screens.profile_form.estimates import Estimates
from tui.widgets.filter_bar import FilterBar
from tui.widgets.form.line import FormLine
from tui.widgets.form.view import FormView
from tui.widgets.notice import Notice

SEP = "   "
NO_REQUEST = "The pools are shown once the errors are fixed."
_TONE = {
    ProblemSeverity.ERROR: "$text-error",
    ProblemSeverity.WARNING: "$text-warning",
    ProblemSeverity.NOTE: "$text-muted",
}
_GLYPH = {ProblemSeverity.ERROR: "✗", ProblemSeverity.WARNING: "!", ProblemSeverity.NOTE: "·"}


class FormBody:
    """Shows the last checked draft. `toggled` holds groups whose fold differs from the default."""

    def __init__(self, screen: FrameScreen, editor: DraftEditor, estimates: Estimates) -> None:
        self.view = FormView()
        self.line = FormLine()
        """The input line for a value."""
        self.toggled: set[str] = set()
        self._screen = screen
        self._editor = editor
        self._estimates = estimates

    def compose(self) -> Iterable[Widget]:
        """Yield the widgets from the top."""
        yield Static("", id="summary", markup=False)
        yield FilterBar("find a field")
        with Container(id="area"):
            yield self.view
            yield self.line
        yield Notice()
        yield Static("", id="detail", markup=False)

    @property
    def row(self) -> FormRow | None:
        """The row under the cursor; None if the file is not YAML."""
        return self.view.current if self._editor.analysis.readable else None

    # Rows and folds

    def rows_of(self, analysis: Analysis) -> list[FormRow]:
        """Return the rows of these values and problems."""
        return build_rows(
            FormState(
                analysis.value,
                self._editor.saved_values(analysis.value),
                analysis.spec_path,
                frozenset(self.toggled),
                analysis.problems,
                self._estimates.reducers_text(analysis),
                inputs=analysis.inputs,
            )
        )

    def all_rows(self) -> list[FormRow]:
        """Return the rows with every group open."""
        analysis = self._editor.analysis
        return build_rows(
            FormState(
                analysis.value,
                analysis.value,
                analysis.spec_path,
                expanded=True,
                problems=analysis.problems,
                inputs=analysis.inputs,
            )
        )

    def toggle(self, key: str) -> None:
        """Open or close a group, without showing it yet."""
        self.toggled ^= {key}

    def keep_open(self, path: Path | None) -> None:
        """Open the list at `path` the next time it is shown."""
        key = dotted(canonical(path or ()))
        row = self.view.row(key)
        if row is not None and not row.open and key not in self.toggled:
            self.toggled.add(key)

    # Showing

    def show(self, cursor: str = "") -> None:
        """Show the draft. `cursor` is the key of the row to go to."""
        analysis, draft = self._editor.analysis, self._editor.draft
        self._screen.query_one("#area").display = analysis.readable
        notice = self._screen.query_one(Notice)
        if analysis.readable:
            notice.hide()
            self.view.show(self.rows_of(analysis), cursor)
        else:
            problem = analysis.problems[0]
            where = f"line {problem.line}: " if problem.line else ""
            notice.show(
                f"{draft.path.name} can't be read as YAML",
                f"{where}{problem.message}",
                "E opens the editor" + ("   u undoes the change" if draft.can_undo else ""),
                bad=True,
            )
        self.show_summary()
        self.show_detail()
        self._screen.refresh_frame()

    def show_summary(self) -> None:
        """Update the lines above the fields."""
        job = self._editor.analysis.job
        if job is None:
            lines = [Content(NO_REQUEST)]
        else:
            price = self._estimates.price_text()
            lines = [Content(plain(roles(job))), Content.assemble(Content(plain(totals(job))), SEP, price)]
        lines.append(Content.assemble(self._problems_text(), SEP, self._estimates.quota_text()))
        self._screen.query_one("#summary", Static).update(Content("\n").join(lines))

    def _problems_text(self) -> Content:
        analysis = self._editor.analysis
        worst = next((s for s in ProblemSeverity if analysis.count(s)), None)
        if worst is None:
            return Content.styled("✓ no problems", "$text-success")
        return Content.styled(f"{_GLYPH[worst]} {problem_counts(analysis)}", f"bold {_TONE[worst]}")

    def show_detail(self) -> None:
        """Show the current field's help, or its problem and the fix."""
        self._update_detail(detail(self.row))
        self._screen.refresh_frame()

    def show_wrong(self, why: str) -> None:
        """Show the problem with the typed text."""
        self._update_detail(
            Content.assemble((f"✗ {plain(why)}", "$text-error"), ("\nesc discards the change", "$text-muted"))
        )

    def _update_detail(self, text: Content) -> None:
        self._screen.query_one("#detail", Static).update(text, layout=False)


def detail(row: FormRow | None) -> Content:
    """Return two lines about a row: its worst problem with the fix, or its help."""
    if row is None:
        return Content("")
    if row.problems:
        problem = next(p for p in row.problems if p.severity is row.severity)
        tone = _TONE[problem.severity]
        more = f"  (+{len(row.problems) - 1} more, i)" if len(row.problems) > 1 else ""
        key = "F " if problem.edits else ""
        return Content.assemble(
            (f"{_GLYPH[problem.severity]} {plain(problem.message)}{more}", tone),
            "\n",
            (key, "bold $footer-key-foreground"),
            (plain(problem.fix), "$foreground"),
        )
    help = row.field.help if row.field is not None else row.help or _HELP.get(row.kind, "")
    first = Content.styled(plain(help), "$text-muted")
    if row.parameter and row.kind is not RowKind.PAIR:
        first = Content.assemble(
            (f"Parameter {plain(row.parameter)}: ", "$text-primary"),
            ("editing changes its default. ", "$text-muted"),
            first,
        )
    return first


_HELP = {
    RowKind.SECTION: "z folds the section; ] and [ go to the next and the previous section; / finds a field.",
    RowKind.PARAMETER: "A launch requests the value; ${name} stands for it in the profile. enter edits the "
    "default, z opens its settings.",
    RowKind.POOL: "A worker pool; its position is its role. a adds a pool; D removes or skips this one.",
    RowKind.SWITCH: "Reducers that sum gradients on the way, for NCCL all-reduce between GPU nodes. "
    "space turns Reduction Server on or off.",
    RowKind.TASK: "What each replica runs: a container of yours, or a Python package on a prebuilt image.",
    RowKind.MORE: "enter opens the group.",
    RowKind.ELEMENT: "D removes the element; a adds another.",
    RowKind.UNKNOWN: "No field of a profile has this name. D removes the field.",
}
