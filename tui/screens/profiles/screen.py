"""Saved profiles: preview, launch, copy and edit them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from textual import on
from textual.content import Content

from tui.actions.registry import Action, bindings
from tui.domain.core.formatting import pieces
from tui.domain.core.text import plain, sentences
from tui.domain.fields.field import columns
from tui.domain.fields.profiles import PROFILE_FIELDS
from tui.screens.console.request_name import named_now
from tui.screens.dialogs.preview import PreviewScreen
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.editor import edit_file
from tui.screens.launch.opening import open_launch
from tui.screens.list_screen import ListScreen
from tui.screens.profile_form.screen import FormScreen, open_draft
from tui.screens.profiles.export import show_export
from tui.screens.workers import background
from tui.store.profiles.entries import ProfileEntry, ProfileError
from tui.store.profiles.files import bad_name
from tui.store.profiles.rules import ProfileRules, RuleResult
from tui.widgets.filter_bar import FilterBar
from tui.widgets.notice import Notice
from tui.widgets.table.cells import row_cells
from tui.widgets.table.table import Cells, Table

COLUMNS = columns(PROFILE_FIELDS)
MAX_SHOWN = 2
"""Number of problems with the profile under the cursor that are shown completely."""
NO_MATCH = 3
"""Rank of a profile that does not match the filter."""


class ProfilesScreen(ListScreen):
    """Shipped profiles and the user's own. An invalid profile shows its problems."""

    SCOPE = "profiles"
    HEADING = "Profiles"
    PLACEHOLDER = "name or text"
    BINDINGS = bindings("profiles")

    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[str, ProfileEntry] = {}
        self._loaded = False
        self._filter_words: list[str] = []
        self._go_to = ""
        """Key of a profile to move the cursor to once it is in the list."""
        self._rules = ProfileRules()

    def make_table(self) -> Table:
        return Table(COLUMNS)

    def on_screen_resume(self) -> None:
        self.refresh_here()

    def refresh_here(self) -> None:
        background(self, self._load, "profiles")

    async def _load(self) -> None:
        await self.console.load_profiles()
        self._loaded = True
        self.reload()
        if self.is_current and self._move():
            self._go_to = ""
        background(self, self._check_rules, "rules")

    async def _check_rules(self) -> None:
        await self._rules.check(self.console.profiles.entries, self.console.connection.context)
        self.reload()

    def _move(self) -> bool:
        """Move the cursor to the profile in `_go_to`; return False while the profile is not in the list."""
        there = self._go_to in self.table.keys
        if there:
            self.table.move_to(self._go_to)
        return there

    def reload(self) -> None:
        words = self.query_one(FilterBar).text.casefold().split()
        self._entries = {entry.key: entry for entry in self.console.profiles.entries}
        shown = [entry for entry in self.console.profiles.entries if _rank(entry, words) < NO_MATCH]
        shown.sort(key=lambda entry: _rank(entry, words))
        table, notice = self.table, self.query_one(Notice)
        table.show([e.key for e in shown], {e.key: self._cells(e) for e in shown})
        table.display = bool(shown)
        if words != self._filter_words:
            self._filter_words = words
            if shown and words:
                table.move_to(shown[0].key)
        if shown:
            self._show_problem()
        elif self._entries:
            notice.show("No profile matches this filter.", "", "esc clears it")
        elif self._loaded:
            notice.show("There are no profiles.", "", f"Add a profile to {self.console.profiles.folder}")
        else:
            notice.show("Reading profiles…")
        self.refresh_frame()

    @on(Table.Moved)
    def _show_problem(self) -> None:
        """Show the complete problem with the profile under the cursor, which does not fit in a cell."""
        entry, notice = self.current, self.query_one(Notice)
        if entry is None or not self.table.keys:
            return
        result = self._rules.known(entry) or RuleResult()
        if entry.problem:
            headline = f"{entry.name} is not valid   e edits it"
            notice.show(headline, _by_line(entry), bad=True, alone=False)
        elif result.errors:
            many = pieces(len(result.errors), "error")
            headline = f"{entry.name} would be refused: {many}   e edits it, n goes to them"
            notice.show(headline, "\n".join(result.errors[:MAX_SHOWN]), bad=True, alone=False)
        elif result.warnings:
            many = pieces(len(result.warnings), "warning")
            notice.show(f"{entry.name}: {many}   e edits it", result.warnings[0], alone=False)
        else:
            notice.hide()

    def _refused(self, entry: ProfileEntry) -> tuple[str, ...]:
        """Return the errors that the rules have found in the profile so far."""
        return (self._rules.known(entry) or RuleResult()).errors

    def _cells(self, entry: ProfileEntry) -> Cells:
        result = self._rules.known(entry)
        row = entry.row(_by_line(entry) or next(iter(self._refused(entry)), ""))
        warned = None if result is None else bool(result.warnings)
        favourite = self.console.profiles.preferences.is_favourite(entry)
        return row_cells(COLUMNS, row._replace(warned=warned, favourite=favourite))

    def count_text(self) -> str:
        shown, total = len(self.table.keys), len(self._entries)
        text = pieces(total, "profile") if shown == total else f"{shown} of {total}"
        wrong = sum(bool(entry.problem or self._refused(entry)) for entry in self._entries.values())
        return text + (f"   {wrong} not valid" if wrong else "")

    def order_text(self) -> Content:
        return Content.styled(plain(f"yours are in {_short(self.console.profiles.folder)}"), "$text-muted")

    @property
    def current(self) -> ProfileEntry | None:
        """The profile under the cursor."""
        return self._entries.get(self.table.cursor or "")

    def unmet(self, condition: str, action: Action) -> str:
        entry = self.current
        match condition:
            case "profile":
                return "No profile is selected." if entry is None else ""
            case "valid" if entry is not None and entry.problem:
                return f"{plain(entry.name)} is not valid: {plain(_by_line(entry))}"
            case "valid":
                return ""
        return super().unmet(condition, action)

    # Actions

    async def action_launch(self) -> None:
        """Open the launch screen of the profile."""
        if self.current is not None:
            await open_launch(self.console, self.current)

    @on(Table.Chosen)
    async def _chosen(self) -> None:
        await self.action_do("profiles.preview")

    async def action_preview(self) -> None:
        """Show the request with the parameters' defaults."""
        entry = self.current
        if entry is None:
            return
        try:
            prepared = entry.prepare({}, context=self.console.connection.context, region="")
        except ProfileError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        request = prepared.request
        job = await named_now(self.console, request.custom_job, entry.path)
        request = replace(request, custom_job=job)
        path = self.console.create_path(request)
        self.app.push_screen(
            PreviewScreen(f"Request of {entry.name}", path, request.resource, secrets=request.secrets)
        )

    async def action_favourite(self) -> None:
        """Mark or unmark the profile. Favourites are listed above other profiles."""
        entry, console = self.current, self.console
        if entry is None:
            return
        marked = await asyncio.to_thread(console.profiles.preferences.toggle, entry)
        words = "is a favourite" if marked else "is no longer a favourite"
        console.notify(f"{plain(entry.name)} {words}", topic=f"favourite {entry.key}")
        await console.load_profiles()
        self.reload()
        self.table.move_to(entry.key)

    def action_export(self) -> None:
        """Show the request as gcloud, curl and Python send it."""
        if self.current is not None:
            show_export(self.console, self.current)

    def action_copy(self) -> None:
        """Copy the file's path."""
        if self.current is not None:
            self.console.send_copy(str(self.current.path), "the path")

    def action_duplicate(self) -> None:
        """Copy the file into the user's folder under a new name."""
        entry = self.current
        if entry is None:
            return
        names: Sequence[str] = [e.name for e in self._entries.values() if e.mine]

        def check(name: str) -> str:
            return bad_name(name) or (f"You already have a profile {name}." if name in names else "")

        def answered(name: str | None) -> None:
            if name:
                background(self, partial(self._duplicate, entry, name), "duplicate")

        name = f"{entry.name}-copy" if entry.name in names else entry.name
        self.app.push_screen(PromptScreen(f"Name of your copy of {entry.name}", name, check=check), answered)

    async def _duplicate(self, entry: ProfileEntry, name: str) -> None:
        outcome = await self.console.operations.profiles().duplicate(entry.path, name)
        path = outcome.value
        if path is None:
            self.notify(sentences(outcome.text, outcome.fix), severity="error", markup=False)
            return
        await self._load()
        # A read that started before the copy may end after this read and move the cursor.
        self._go_to = str(path)
        self._move()
        await self._open_form(path, mine=True)

    async def action_edit(self) -> None:
        """Open the form. A shipped profile is saved as a copy."""
        if self.current is not None:
            await self._open_form(self.current.path, mine=self.current.mine)

    async def _open_form(self, path: Path, *, mine: bool) -> None:
        try:
            draft = await asyncio.to_thread(open_draft, path, self.console.state_dir)
        except OSError as error:
            self.notify(f"Can't read {path}: {error.strerror or error}", severity="error", markup=False)
            return
        self.app.push_screen(FormScreen(draft, mine=mine))

    async def action_editor(self) -> None:
        """Edit the file in the user's editor. A shipped profile can only be copied."""
        entry = self.current
        if entry is None:
            return
        if not entry.mine:
            self.notify("A ready-made profile: d makes your own copy to edit.", markup=False)
            return
        await edit_file(self.console, entry.path)
        self.refresh_here()


def _rank(entry: ProfileEntry, words: Sequence[str]) -> int:
    """Return a profile's rank for the words of a filter (0 is best). The name counts before the
    description."""
    name = entry.name.casefold()
    if words == [name]:
        return 0
    if all(word in name for word in words):
        return 1
    text = f"{name} {entry.description} {entry.shape}".casefold()
    return 2 if all(word in text for word in words) else NO_MATCH


def _by_line(entry: ProfileEntry) -> str:
    """Return the profile's problems without the file's name, which the row shows."""
    numbered = re.sub(rf"{re.escape(str(entry.path))}:(?=\d)", "line ", entry.problem)
    return numbered.replace(f"{entry.path}: ", "")


def _short(path: Path) -> str:
    home = str(Path.home())
    return str(path).replace(home, "~", 1) if str(path).startswith(home) else str(path)
