"""Keys that work on the profile's file: undo, save, reload, diff, editor, launch and leaving the form."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tui.actions.registry import action as action_named
from tui.actions.registry import key_text
from tui.domain.core.formatting import age, pieces
from tui.domain.core.text import sentences
from tui.domain.masking import mask_text, secrets_in
from tui.domain.profile.model import Request
from tui.domain.spec.spec_format import body_of
from tui.screens.console.request_name import named_now
from tui.screens.dialogs.choice import ChoiceScreen
from tui.screens.dialogs.preview import PreviewScreen
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.editor import edit_file
from tui.screens.frame import FrameScreen
from tui.screens.launch.opening import open_launch
from tui.screens.profile_form.diff import DiffScreen
from tui.screens.profile_form.draft_editor import DraftEditor
from tui.screens.profile_form.line_editor import LineEditor
from tui.screens.workers import background
from tui.session import now
from tui.store.profiles.draft import FileChanged, read_text
from tui.store.profiles.files import bad_name
from tui.store.profiles.library import entry
from tui.store.profiles.unsaved import Editor, UnsavedCopy

if TYPE_CHECKING:
    from tui.actions.operations.runner import Outcome

OTHERS_SECONDS = 3.0
"""Seconds between checks whether another console has the file open."""


class FileActions:
    """Actions on the file. `mine` is true for the user's own file; a shipped file is saved as a copy."""

    def __init__(self, screen: FrameScreen, editor: DraftEditor, line: LineEditor, *, mine: bool) -> None:
        self.mine = mine
        self.others: Sequence[Editor] = ()
        """Other consoles that have the file open."""
        self._screen = screen
        self._editor = editor
        self._draft = editor.draft
        self._line = line
        self._asked = False
        """Whether the user has decided about the changes, so that leaving does not mention them."""

    def _background(self, work: Callable[[], Awaitable[object]]) -> None:
        async def run() -> None:
            await work()

        background(self._screen, run, "form-file", exclusive=False)

    # Opening and closing

    def start(self) -> None:
        """Mark the file as open here, offer unsaved changes, and watch for other consoles."""
        self._background(self._opened)
        again = partial(background, self._screen, self._check_others, "form-others")
        self._screen.set_interval(OTHERS_SECONDS, again)

    async def _opened(self) -> None:
        self._show_others(await asyncio.to_thread(self._draft.open))
        kept = await asyncio.to_thread(self._draft.offered)
        if kept is not None:
            self._offer(kept)

    async def stop(self) -> None:
        """Save unsaved changes as a draft, and notify the user if no question was asked about them."""
        if self._draft.changed and not self._asked:
            self._screen.console.notify(
                f"Changes to {self._draft.path.name} are saved as a draft; e on it offers them again.",
                markup=False,
            )
        await asyncio.to_thread(self._draft.close)

    # Other consoles

    async def _check_others(self) -> None:
        self._show_others(await asyncio.to_thread(self._draft.others))

    def _show_others(self, editors: Sequence[Editor]) -> None:
        """Notify once about each console that edits the file too. The screen's first line names these
        consoles permanently."""
        new = [editor for editor in editors if editor not in self.others]
        self.others = editors
        if new:
            names = ", ".join(f"{editor.name} for {age(now() - editor.since)}" for editor in new)
            self._screen.notify(
                f"{self._draft.path.name} is open in another console too: {names}. Each has separate "
                "changes; the second console that saves them asks first.",
                severity="warning",
                markup=False,
                timeout=10,
            )
        self._screen.refresh_frame()

    # Undo

    async def action_undo(self) -> None:
        """Undo the last change."""
        await self._show_step(f"Undid: {self._draft.undo()}")

    async def action_redo(self) -> None:
        """Redo the change that was undone last."""
        await self._show_step(f"Redid: {self._draft.redo()}")

    async def _show_step(self, text: str) -> None:
        await self._editor.refresh()
        self._screen.notify(text, markup=False, timeout=2)
        await asyncio.to_thread(self._draft.keep)

    # Saving

    async def action_save(self) -> None:
        """Write the file."""
        if not await self._line.settle():
            return
        if not self.mine:
            self.action_save_as()
            return
        await self._save()

    async def _save(self, *, over: bool = False) -> bool:
        outcome = await self._screen.console.operations.profiles().save(self._draft, over=over)
        cause = outcome.error.__cause__ if outcome.error else None
        if isinstance(cause, FileChanged):
            self._confirm_over(cause)
        elif not outcome.ok:
            self._report_unsaved(outcome)
        else:
            await self._report_saved()
        return outcome.ok

    async def _report_saved(self) -> None:
        await self._editor.refresh()
        errors = len([p for p in self._editor.analysis.problems if p.severity == "error"])
        more = f"; it still has {errors} error{'s' * (errors > 1)}" if errors else ""
        self._screen.notify(
            f"Saved {self._draft.path}{more}",
            severity="warning" if errors else "information",
            markup=False,
        )

    def _report_unsaved(self, outcome: Outcome[None]) -> None:
        self._screen.notify(
            sentences(outcome.text, "Your changes are saved as a draft."), severity="error", markup=False
        )

    def _report_unread(self, error: OSError) -> None:
        why = error.strerror or str(error)
        self._screen.notify(
            f"Can't read {self._draft.path}: {why}. Your changes are saved as a draft.",
            severity="error",
            markup=False,
        )

    def _confirm_over(self, error: FileChanged) -> None:
        answers = [
            ("o", "overwrite it", "" if error.gone else "u restores the old text"),
            ("a", "save as another file", ""),
        ]
        if not error.gone:
            answers.insert(0, ("r", "read it from disk", "u restores your changes"))

        def chosen(key: str | None) -> None:
            if key == "o":
                self._background(partial(self._save, over=True))
            elif key == "a":
                self.action_save_as()
            elif key == "r":
                self._background(self._reload)

        self._screen.app.push_screen(ChoiceScreen(f"{error}. Nothing was written.", answers), chosen)

    async def _reload(self) -> None:
        try:
            await asyncio.to_thread(self._draft.reload)
        except OSError as error:
            self._report_unread(error)
            return
        await self._editor.refresh()

    def action_save_as(self) -> None:
        """Save under another name in the user's own folder."""
        folder = self._screen.console.profiles.folder

        def check(name: str) -> str:
            target = folder / f"{name}.yaml"
            return bad_name(name) or (f"{target} already exists." if target.exists() else "")

        def answered(name: str | None) -> None:
            if name:
                self._background(partial(self._save_as, folder / f"{name}.yaml"))

        name = self._draft.path.stem if not self.mine else f"{self._draft.path.stem}-copy"
        self._screen.app.push_screen(PromptScreen("Save as", name, check=check), answered)

    async def _save_as(self, path: Path) -> None:
        outcome = await self._screen.console.operations.profiles().save_as(self._draft, path)
        if not outcome.ok:
            self._report_unsaved(outcome)
            return
        self.mine = True
        await self._report_saved()

    async def check_disk(self) -> None:
        """Reload the file if another program has changed it; ask first if there are unsaved changes."""
        try:
            text = await asyncio.to_thread(read_text, self._draft.path)
        except OSError as error:
            self._report_unread(error)
            return
        if text == self._draft.saved:
            return
        if self._draft.changed:
            self._confirm_over(FileChanged(self._draft.path))
        else:
            await self._reload()
            self._screen.notify("Another program has changed the file; it was read again.", markup=False)

    # Unsaved changes of an earlier console

    def _offer(self, kept: UnsavedCopy) -> None:
        since = age(now() - kept.time)
        changed = "" if kept.base == self._draft.saved else "; the file has changed since then"
        answers = [("g", "continue with them", "u undoes them"), ("d", "discard them", "")]

        def chosen(key: str | None) -> None:
            if key == "g":
                self._background(partial(self._take_kept, kept))
            elif key == "d":
                self._background(partial(asyncio.to_thread, self._draft.discard, kept))

        question = f"Changes of {since} ago to {self._draft.path.name} were not saved{changed}"
        self._screen.app.push_screen(ChoiceScreen(question, answers), chosen)

    async def _take_kept(self, kept: UnsavedCopy) -> None:
        await self._editor.replace(kept.text, "continue with unsaved changes")
        # From now on, this console keeps the changes as its own unsaved changes.
        await asyncio.to_thread(self._draft.discard, kept)

    # Other screens

    def action_diff(self) -> None:
        """Show the differences from the file."""
        values = self._editor.values
        known = secrets_in(values) | secrets_in(self._editor.saved_values(values))
        lines = [mask_text(line, known) for line in self._draft.diff()]
        self._screen.app.push_screen(DiffScreen(self._draft.path.name, lines))

    async def action_request(self) -> None:
        """Show the exact request with the parameters' defaults."""
        job = self._editor.analysis.job
        if job is not None:
            job = await named_now(self._screen.console, job, self._draft.path)
            request = Request(self._editor.region, body_of(job), job)
            path = self._screen.console.create_path(request)
            title = f"Request of {self._draft.path.stem}"
            known = secrets_in(self._editor.values)
            self._screen.app.push_screen(PreviewScreen(title, path, request.resource, secrets=known))

    async def action_launch(self) -> None:
        """Open the launch screen of the saved file."""
        if self._draft.changed or not await asyncio.to_thread(self._draft.path.exists):
            self._screen.notify("Save the profile first: ctrl+s. A launch reads the file.", markup=False)
            return
        saved = await asyncio.to_thread(entry, self._draft.path, mine=self.mine)
        if saved.problem:
            self._screen.notify(saved.problem, severity="warning", markup=False)
        else:
            await open_launch(self._screen.console, saved)

    async def action_editor(self) -> None:
        """Save the changes and open the file in the user's editor."""
        if not self.mine:
            self._screen.notify("A ready-made profile: S saves your own copy first.", markup=False)
            return
        if self._draft.changed and not await self._save():
            return
        await edit_file(self._screen.console, self._draft.path)
        await self._reload()

    # Leaving

    def action_back(self) -> None:
        """Close the input line without its text, or leave the form. Ask about unsaved changes."""
        if not self._line.discard() and not self.confirm_leave():
            self._screen.dismiss()

    def note_unsaved(self) -> None:
        """Notify, when another list is opened, that there are unsaved changes in this form."""
        if self._draft.changed:
            key = key_text(action_named("app.profiles"), self._screen.keymap)
            self._screen.console.notify(
                f"{self._draft.path.name} has unsaved changes; {key} goes back to it.", markup=False
            )

    def confirm_leave(self) -> bool:
        """Ask what to do with unsaved changes. Return False without unsaved changes."""
        if not self._draft.changed:
            return False
        diff = self._draft.diff()
        lines = len([x for x in diff if x[:1] in "+-" and not x.startswith(("+++", "---"))])
        answers = [
            ("k", "keep for later", "offered when the form opens again"),
            ("d", "discard the changes", ""),
        ]
        if not self._screen.read_only:
            answers.insert(0, ("s", "save and leave", f"{pieces(lines, 'line')} changed"))

        def chosen(key: str | None) -> None:
            if key:
                self._background(partial(self._leave, key))

        question = f"{self._draft.path.name} has unsaved changes"
        self._screen.app.push_screen(ChoiceScreen(question, answers), chosen)
        return True

    async def _leave(self, answer: str) -> None:
        if answer == "s":
            if not self.mine:
                self.action_save_as()
                return
            if not await self._save():
                return
        await asyncio.to_thread(self._draft.discard if answer == "d" else self._draft.keep)
        await asyncio.to_thread(self._draft.close)
        self._asked = True
        self._screen.dismiss()
