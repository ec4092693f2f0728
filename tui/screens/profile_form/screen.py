"""The profile form: every field of a custom job in one screen, what is wrong with it and what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from textual.content import Content

from tui.actions.registry import Action, action, bindings, key_text
from tui.domain.formatting import age
from tui.domain.text import plain
from tui.screens.dialogs.choice import ChoiceScreen
from tui.screens.dialogs.preview import PreviewScreen
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.editor import edit_file
from tui.screens.launch.screen import LaunchScreen
from tui.screens.profile_form.base import SEP
from tui.screens.profile_form.diff import DiffScreen
from tui.screens.profile_form.field_keys import FormFields
from tui.screens.workers import background
from tui.session import now
from tui.store.profiles.draft import Draft, FileChanged, read_text
from tui.store.profiles.files import bad_name
from tui.store.profiles.library import entry
from tui.store.profiles.unsaved import Editor, Kept
from tui.widgets.header_lines import Line

OTHERS_SECONDS = 3.0
"""Between two looks whether another console has the file open."""


class FormScreen(FormFields):
    """What concerns the file: save, save as, reload, the diff, the editor, launching, leaving."""

    SCOPE = "form"
    BINDINGS = bindings("form")

    _others: Sequence[Editor] = ()
    _away = False
    """It was said that the changes are kept; nothing more is to be said of them."""

    def on_mount(self) -> None:
        background(self, self._opened, "form-file", exclusive=False)
        self.set_interval(OTHERS_SECONDS, partial(background, self, self._look_around, "form-others"))

    async def _opened(self) -> None:
        self._say_others(await asyncio.to_thread(self.draft.come))
        kept = await asyncio.to_thread(self.draft.found)
        if kept is not None:
            self._offer(kept)

    async def on_unmount(self) -> None:
        """What is not saved is kept, and said so where nobody was asked."""
        if self.draft.changed and not self._away:
            self.console.notify(
                f"Changes to {self.draft.path.name} are kept; e on it offers them again.", markup=False
            )
        await asyncio.to_thread(self.draft.go)

    # Other consoles

    async def _look_around(self) -> None:
        self._say_others(await asyncio.to_thread(self.draft.others))

    def _say_others(self, found: Sequence[Editor]) -> None:
        """Tell who else edits the file, once; the first line keeps saying so."""
        new = [editor for editor in found if editor not in self._others]
        self._others = found
        if new:
            who = ", ".join(f"{editor.name} for {age(now() - editor.since)}" for editor in new)
            self.notify(
                f"{self.draft.path.name} is open in another console too: {who}. Each keeps its own changes; "
                "whoever saves second is asked.",
                severity="warning",
                markup=False,
                timeout=10,
            )
        self.refresh_frame()

    def top_line(self) -> Line:
        left, right = super().top_line()
        if self._others:
            who = self._others[0].name + (f" +{len(self._others) - 1}" if len(self._others) > 1 else "")
            right = Content.assemble((f"also open: {plain(who)}", "bold $text-warning"), SEP, right)
        return left, right

    def blocked_reason(self, found: Action) -> str | None:
        reason = super().blocked_reason(found)
        if reason is not None or found.scope != "form":
            return reason
        match found.method:
            case "save" if not self.draft.changed and self.mine:
                return "Nothing has changed since it was saved."
            case "diff" if not self.draft.changed:
                return "Nothing differs from the file."
            case "undo" if not self.draft.can_undo:
                return "There is nothing to undo."
            case "redo" if not self.draft.can_redo:
                return "There is nothing to redo."
            case "request" | "launch" if self.analysis.job is None:
                return "There is no request as long as the fields don't have the right shape."
        return None

    # Undo

    async def action_undo(self) -> None:
        """Take the last change back."""
        what = self.draft.undo()
        await self._stepped(f"Took back: {what}")

    async def action_redo(self) -> None:
        """Make it again."""
        what = self.draft.redo()
        await self._stepped(f"Made again: {what}")

    async def _stepped(self, words: str) -> None:
        await self.look()
        self.notify(words, markup=False, timeout=2)
        await asyncio.to_thread(self.draft.keep)

    # Saving

    async def action_save(self) -> None:
        """Write the file."""
        if not await self.settle():
            return
        if not self.mine:
            self.action_save_as()
            return
        await self._save()

    async def _save(self, *, over: bool = False) -> bool:
        try:
            await asyncio.to_thread(self.draft.save, over=over)
        except FileChanged as error:
            self._ask_changed(error)
            return False
        except OSError as error:
            self._cant("save", self.draft.path, error)
            return False
        await self._was_saved()
        return True

    async def _was_saved(self) -> None:
        await self.look()
        wrong = len([p for p in self.analysis.problems if p.severity == "error"])
        more = f"; it has {wrong} error{'s' * (wrong > 1)} still" if wrong else ""
        self.notify(
            f"Saved {self.draft.path}{more}", severity="warning" if wrong else "information", markup=False
        )

    def _cant(self, verb: str, path: Path, error: OSError) -> None:
        why = error.strerror or str(error)
        self.notify(f"Can't {verb} {path}: {why}. What you changed is kept.", severity="error", markup=False)

    def _ask_changed(self, error: FileChanged) -> None:
        answers = [
            ("o", "write it all the same", "" if error.gone else "u brings back what was there"),
            ("a", "save as another file", ""),
        ]
        if not error.gone:
            answers.insert(0, ("r", "read what is on the disk", "u brings yours back"))

        def chosen(key: str | None) -> None:
            if key == "o":
                background(self, self._save_over, "form-file", exclusive=False)
            elif key == "a":
                self.action_save_as()
            elif key == "r":
                background(self, self._reload, "form-file", exclusive=False)

        self.app.push_screen(ChoiceScreen(f"{error}. Nothing was written.", answers), chosen)

    async def _save_over(self) -> None:
        await self._save(over=True)

    async def _reload(self) -> None:
        try:
            await asyncio.to_thread(self.draft.reload)
        except OSError as error:
            self._cant("read", self.draft.path, error)
            return
        await self.look()

    def action_save_as(self) -> None:
        """Save under another name in the user's own folder."""
        folder = self.console.profile_folder

        def check(name: str) -> str:
            there = folder / f"{name}.yaml"
            return bad_name(name) or (f"{there} is there already." if there.exists() else "")

        def answered(name: str | None) -> None:
            if name:
                background(
                    self, partial(self._save_as, folder / f"{name}.yaml"), "form-file", exclusive=False
                )

        name = self.draft.path.stem if not self.mine else f"{self.draft.path.stem}-copy"
        self.app.push_screen(PromptScreen("Save as", name, check=check), answered)

    async def _save_as(self, path: Path) -> None:
        try:
            await asyncio.to_thread(self.draft.save_as, path)
        except OSError as error:
            self._cant("write", path, error)
            return
        self.mine = True
        await self._was_saved()

    def refresh_here(self) -> None:
        """Look whether the file is still what was opened, and read the quotas again."""
        super().refresh_here()
        background(self, self._look_at_disk, "form-file")

    async def _look_at_disk(self) -> None:
        try:
            text = await asyncio.to_thread(read_text, self.draft.path)
        except OSError as error:
            self._cant("read", self.draft.path, error)
            return
        if text == self.draft.saved:
            return
        if self.draft.changed:
            self._ask_changed(FileChanged(self.draft.path))
        else:
            await self._reload()
            self.notify("The file was changed by somebody else; this is what it says now.", markup=False)

    # Unsaved work

    def _offer(self, kept: Kept) -> None:
        since = age(now() - kept.time)
        changed = "" if kept.base == self.draft.saved else "; the file was changed since"
        answers = [("g", "go on with them", "u takes them back"), ("t", "throw them away", "")]

        def chosen(key: str | None) -> None:
            if key == "g":
                background(self, partial(self._take_kept, kept), "form-file", exclusive=False)
            elif key == "t":
                background(
                    self, partial(asyncio.to_thread, self.draft.forget, kept), "form-file", exclusive=False
                )

        question = f"Changes of {since} ago to {self.draft.path.name} were not saved{changed}"
        self.app.push_screen(ChoiceScreen(question, answers), chosen)

    async def _take_kept(self, kept: Kept) -> None:
        await self.take_text(kept.text, "go on with what was not saved")
        # It is this console's own from now on.
        await asyncio.to_thread(self.draft.forget, kept)

    # Elsewhere

    def action_diff(self) -> None:
        """What differs from the file."""
        self.app.push_screen(DiffScreen(self.draft.path.name, self.draft.diff()))

    def action_request(self) -> None:
        """The exact request with the parameters' defaults."""
        job = self.analysis.job
        if job is not None:
            path = self.console.create_path(self.place)
            self.app.push_screen(PreviewScreen(f"Request of {self.draft.path.stem}", path, job))

    async def action_launch(self) -> None:
        """Open the launch screen of the saved file."""
        if self.draft.changed or not await asyncio.to_thread(self.draft.path.exists):
            self.notify("Save it first: ctrl+s. What is launched is what the file says.", markup=False)
            return
        found = await asyncio.to_thread(entry, self.draft.path, mine=self.mine)
        if found.problem:
            self.notify(found.problem, severity="warning", markup=False)
        else:
            self.app.push_screen(LaunchScreen(found))

    async def action_editor(self) -> None:
        """Edit the file in the user's editor, unsaved changes included."""
        if not self.mine:
            self.notify("A ready-made profile: S saves a copy of your own first.", markup=False)
            return
        if self.draft.changed and not await self._save():
            return
        problem = edit_file(self.app, self.draft.path)
        if problem:
            self.notify(problem, severity="error", markup=False)
        await self._reload()

    def action_back(self) -> None:
        """From the value to the keys, from the keys back to the list; what is not saved is asked about."""
        if self.leave_line():
            return
        if not self.confirm_leave():
            self.dismiss()

    def left_behind(self) -> None:
        """Say where the changes are."""
        if self.draft.changed:
            key = key_text(action("app.profiles"), self.keymap)
            self.console.notify(
                f"{self.draft.path.name} has changes that are not saved; {key} goes back to it.", markup=False
            )

    def confirm_leave(self) -> bool:
        """Ask what to do with unsaved changes; `False` where there are none."""
        if not self.draft.changed:
            return False
        lines = len([x for x in self.draft.diff() if x[:1] in "+-" and not x.startswith(("+++", "---"))])
        answers = [
            ("s", "save and leave", f"{lines} lines differ"),
            ("k", "keep for later", "offered at the next opening"),
            ("t", "throw the changes away", ""),
        ]

        def chosen(key: str | None) -> None:
            if key:
                background(self, partial(self._leave, key), "form-file", exclusive=False)

        self.app.push_screen(
            ChoiceScreen(f"{self.draft.path.name} has changes that are not saved", answers), chosen
        )
        return True

    async def _leave(self, how: str) -> None:
        if how == "s":
            if not self.mine:
                self.action_save_as()
                return
            if not await self._save():
                return
        await asyncio.to_thread(self.draft.forget if how == "t" else self.draft.keep)
        await asyncio.to_thread(self.draft.go)
        self._away = True
        self.dismiss()


def open_draft(path: Path, state_dir: Path) -> Draft:
    """The file as a draft.

    Raises:
        OSError: when it can't be read.
    """
    return Draft(path, read_text(path), state_dir / "drafts")
