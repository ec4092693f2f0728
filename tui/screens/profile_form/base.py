"""The profile form's ground: the draft, what is wrong with it, and how both are shown."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from textual import on
from textual.containers import Container
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.actions.registry import Action
from tui.domain.profile import ProfileInvalid
from tui.domain.profile.document_edit import Edit
from tui.domain.profile.source import dotted
from tui.domain.text import plain
from tui.domain.vertex.form.analysis import Analysis, analyse
from tui.domain.vertex.form.rows import Look, Row, RowKind, build_rows
from tui.domain.vertex.form.summary import roles, totals, verdict
from tui.domain.vertex.reducers import Proposal, propose
from tui.domain.vertex.rules.base import Severity
from tui.screens.frame import FrameScreen
from tui.screens.workers import background
from tui.store.profiles.draft import Draft
from tui.widgets.filter_bar import FilterBar
from tui.widgets.form.line import FormLine
from tui.widgets.form.view import FormView
from tui.widgets.header_lines import Line
from tui.widgets.notice import Notice
from tui.widgets.state import glyphs

SEP = "   "
SHAPELESS = "What the job is made of is known once its fields have the right shape."
SHORT_TURN, USUAL_TURN = 0.0001, sys.getswitchinterval()
"""Seconds after which a thread that computes lets another one go on."""
P = ParamSpec("P")
T = TypeVar("T")
_TONE = {Severity.ERROR: "$text-error", Severity.WARNING: "$text-warning", Severity.NOTE: "$text-muted"}
_GLYPH = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.NOTE: "·"}


async def aside(work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Run `work` in a thread that lets others go on often: a key would wait 5 ms each time it does."""
    sys.setswitchinterval(SHORT_TURN)
    try:
        return await asyncio.to_thread(work, *args, **more)
    finally:
        sys.setswitchinterval(USUAL_TURN)


class FormBase(FrameScreen):
    """Shows a draft. Nothing here changes it but `take`."""

    CSS_PATH = "screen.tcss"

    def __init__(self, draft: Draft, *, mine: bool = True) -> None:
        super().__init__()
        self.draft = draft
        self.mine = mine
        """It is the user's own file; a ready-made one is saved as a copy."""
        self.view = FormView()
        self.line = FormLine()
        """Where a value is typed."""
        self.analysis = Analysis(draft.text)
        self._saved = Analysis(draft.text)
        self._turned: set[str] = set()

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        return self.view.current

    def compose_body(self) -> Iterable[Widget]:
        yield Static("", id="summary", markup=False)
        yield FilterBar("find a field")
        with Container(id="area"):
            yield self.view
            yield self.line
        yield Notice()
        yield Static("", id="detail", markup=False)

    def on_mount(self) -> None:
        self.view.focus()
        background(self, self.look, "form-look", exclusive=False)

    @property
    def values(self) -> Any:
        """The draft's values."""
        return self.analysis.value

    # What is shown

    async def look(self, cursor: str = "") -> None:
        """Check the draft's text, in a thread, and show it."""
        text, saved = self.draft.text, self.draft.saved
        found = await aside(self.analyse, text)
        if saved != self._saved.text or not self._saved.readable:
            self._saved = found if saved == text else await aside(self.analyse, saved)
        await self.reckon(found)
        self.analysis = found
        self.show(cursor)

    async def reckon(self, analysis: Analysis) -> None:
        """Prepare what is shown beside the fields."""

    def analyse(self, text: str) -> Analysis:
        """A text of this profile looked at, for where the console is now."""
        path, connection = self.draft.path, self.console.connection
        local = self.session is not None and self.session.backend.info.local
        return analyse(text, str(path), path.stem, region=connection.regions[0], local=local)

    def show(self, cursor: str = "") -> None:
        """Show the draft as it was last looked at; `cursor` is the key of the row to go to."""
        readable = self.analysis.readable
        self.query_one("#area").display = readable
        notice = self.query_one(Notice)
        if readable:
            notice.hide()
            self.view.show(self.rows_of(self.analysis), cursor)
        else:
            problem = self.analysis.problems[0]
            where = f"line {problem.line}: " if problem.line else ""
            notice.tell(
                f"{self.draft.path.name} can't be read as YAML",
                f"{where}{problem.message}",
                "E opens the editor" + ("   u takes the change back" if self.draft.can_undo else ""),
                bad=True,
            )
        self.say_summary()
        self.say_detail()
        self.refresh_frame()

    def rows_of(self, analysis: Analysis) -> list[Row]:
        """The rows with these values and problems."""
        return build_rows(
            Look(
                analysis.value,
                self._saved.value if self._saved.readable else analysis.value,
                analysis.wrapped,
                frozenset(self._turned),
                analysis.problems,
                self.reducers_text(analysis),
            )
        )

    def reducers_text(self, analysis: Analysis) -> tuple[str, str, str]:
        """Value, note and help of the Reduction Server's switch."""
        if analysis.job is None:
            return "", "known once the fields have the right shape", ""
        return switch_words(propose(analysis.job, analysis.region))

    def say_summary(self) -> None:
        """The lines above the fields."""
        job = self.analysis.job
        lines = [Content(SHAPELESS)]
        if job is not None:
            lines = [Content(plain(roles(job))), Content(plain(totals(job)))]
        lines[-1] = Content.assemble(lines[-1], SEP, self.price_text()) if job is not None else lines[-1]
        lines.append(Content.assemble(self._verdict_text(), SEP, self.quota_text()))
        self.query_one("#summary", Static).update(glyphs(Content("\n").join(lines), self))

    def _verdict_text(self) -> Content:
        worst = next((s for s in Severity if self.analysis.count(s)), None)
        if worst is None:
            return Content.styled("✓ no problems", "$text-success")
        return Content.styled(f"{_GLYPH[worst]} {verdict(self.analysis)}", f"bold {_TONE[worst]}")

    def price_text(self) -> Content:
        """What it costs."""
        return Content("")

    def quota_text(self) -> Content:
        """Whether the quota does for it."""
        return Content("")

    @on(FormView.Moved)
    def say_detail(self) -> None:
        """The field's help, or what is wrong with it and what helps."""
        row = self.row if self.analysis.readable else None
        self.query_one("#detail", Static).update(glyphs(detail(row), self), layout=False)
        self.refresh_frame()

    def say_wrong(self, words: str) -> None:
        """What is wrong with what is typed."""
        text = Content.assemble(
            (f"✗ {plain(words)}", "$text-error"), ("\nesc leaves it as it was", "$text-muted")
        )
        self.query_one("#detail", Static).update(glyphs(text, self), layout=False)

    # The frame

    def top_line(self) -> Line:
        console = self.console
        left = Content.assemble(
            ("vxtui", "bold $accent"), SEP, (f"Edit {plain(self.draft.path.stem)}", "bold"), "  ",
            ("~ not saved" if self.draft.changed else "" if self.mine else "ready-made", "$text-accent"),
        )  # fmt: skip
        right = Content.assemble((plain(console.context_name), "bold"), f"  {plain(self.place)}")
        if self.read_only:
            right = Content.assemble(("read-only", "bold $text-warning"), SEP, right)
        return left, right

    def second_line(self) -> Line:
        row = self.row if self.analysis.readable else None
        where = dotted(row.path) if row is not None and row.path else ""
        file = str(self.draft.path)
        home = str(Path.home())
        file = file.replace(home, "~", 1) if file.startswith(home) else file
        if len(where) + len(file) + len(SEP) > self.size.width:
            file = self.draft.path.name if not where else ""
        return Content(plain(where)), Content.styled(plain(file), "$text-muted")

    @property
    def place(self) -> str:
        """Where the job would run."""
        return self.analysis.region or self.console.connection.regions[0]

    def blocked_reason(self, found: Action) -> str | None:
        reason = super().blocked_reason(found)
        if reason is None and not self.analysis.readable and found.id in _NEED_VALUES:
            return "The file can't be read; E opens the editor."
        return reason

    # Changes

    async def take(self, edits: Sequence[Edit], what: str, cursor: str = "") -> bool:
        """Make a change that undo takes back; whether it was made."""
        if not edits:
            return False
        try:
            text = await aside(self.draft.preview, edits)
        except (ProfileInvalid, LookupError, ValueError) as error:
            self.notify(f"{what}: {error}", severity="error", markup=False)
            return False
        return await self.take_text(text, what, cursor)

    async def take_text(self, text: str, what: str, cursor: str = "") -> bool:
        """Take another text, check it, and keep it for the case of a crash."""
        if not self.draft.replace(text, what):
            return False
        await self.look(cursor)
        await asyncio.to_thread(self.draft.keep)
        return True


def switch_words(found: Proposal) -> tuple[str, str, str]:
    """Value, note and help of the Reduction Server's switch."""
    words = f"{found.reason} {found.note}".strip()
    if found.running:
        note = f"enter makes it {found.count}" if found.helps and found.running != found.count else ""
        return f"on   {found.running} × {found.machine_type}", note if found.helps else found.reason, words
    if found.helps:
        return f"off   {found.count} × {found.machine_type} would do", "", words
    return "off", found.reason, words


def detail(row: Row | None) -> Content:
    """Two lines on a row: its worst problem with what helps, or its help."""
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
    words = row.field.help if row.field is not None else row.help or _HELP.get(row.kind, "")
    first = Content.styled(plain(words), "$text-muted")
    if row.parameter and row.kind is not RowKind.PAIR:
        first = Content.assemble(
            (f"Parameter {plain(row.parameter)}: ", "$text-primary"),
            ("editing changes its default. ", "$text-muted"),
            first,
        )
    return first


_HELP = {
    RowKind.SECTION: "z folds it; ] and [ go to the next section and back; / finds a field.",
    RowKind.PARAMETER: "A launch asks for it; ${name} stands for it in any value. enter edits the default, "
    "z opens its settings.",
    RowKind.POOL: "A worker pool; its position is its role. a adds one, D takes it away or skips it.",
    RowKind.SWITCH: "Reducers that sum gradients on the way, for NCCL all-reduce between GPU nodes. space "
    "turns it on or off.",
    RowKind.TASK: "What each replica runs: a container of yours, or a Python package on a prebuilt image.",
    RowKind.MORE: "enter opens it.",
    RowKind.ELEMENT: "D takes it away, a adds another.",
    RowKind.UNKNOWN: "No field of a profile has this name. D takes it away.",
}
_NEED_VALUES = frozenset(
    f"form.{name}"
    for name in (
        "open", "switch", "add", "remove", "fix", "next_problem", "previous_problem", "parameter", "inline",
        "find", "fold", "fold_all", "next_section", "previous_section", "why", "copy", "request", "launch",
    )
)  # fmt: skip
