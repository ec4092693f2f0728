"""A profile being edited: its text, undo and redo, the diff from the file, and saving.

Each change is a complete text, so that undoing all changes restores the file byte for byte. Unsaved changes
are stored in the state directory and offered when the profile is opened again.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Sequence
from pathlib import Path

from tui.config.regular_file import read_regular
from tui.domain.document.document_edit import Edit
from tui.domain.document.document_edit import Path as FieldPath
from tui.domain.profile.edit import apply, shared
from tui.store.profiles.files import MAX_BYTES, bring_files, replace_text
from tui.store.profiles.unsaved import Editor, Unsaved, UnsavedCopy

MAX_UNDO = 500


class FileChanged(Exception):
    """Another program has changed the file since it was read. `gone` is true if the file was deleted."""

    def __init__(self, path: Path, *, gone: bool = False) -> None:
        super().__init__(f"{path} {'was deleted' if gone else 'was changed by another program'}")
        self.gone = gone


def read_text(path: Path) -> str:
    """Return the file's text with its own line endings. Raises OSError if it can't be read, is not UTF-8 or
    is larger than `MAX_BYTES`."""
    try:
        return read_regular(path, MAX_BYTES).decode()
    except UnicodeDecodeError as error:
        raise OSError(f"{path} must be text in UTF-8") from error


class Draft:
    """The text with its history. The methods under Files and Unsaved work block: call them in a thread."""

    def __init__(self, path: Path, text: str, drafts: Path) -> None:
        self.path = path
        self.text = text
        self.saved = text
        """The file's text when it was last read or written."""
        self._undo: list[tuple[str, str]] = []
        self._redo: list[tuple[str, str]] = []
        self._drafts = drafts
        self._unsaved = Unsaved(drafts, path)

    @property
    def changed(self) -> bool:
        """Whether the text differs from the file."""
        return self.text != self.saved

    @property
    def can_undo(self) -> bool:
        """Whether there is a change to undo."""
        return bool(self._undo)

    @property
    def can_redo(self) -> bool:
        """Whether there is a change to redo."""
        return bool(self._redo)

    # Changes

    def preview(self, edits: Sequence[Edit], *, everywhere: bool = False) -> str:
        """Return the text with these edits, or with `everywhere` in all parts that share the values; the
        draft is unchanged. Raises ProfileInvalid if the text is not YAML, or an edit's path does not exist.
        """
        return apply(self.text, str(self.path), edits, everywhere=everywhere) if edits else self.text

    def shares(self, edits: Sequence[Edit]) -> list[FieldPath]:
        """Return the paths of the values that the edits would change if made in all parts that share them.

        The edits' own paths come first. Empty if nothing else shares a value, or if the edits change all of
        them. Raises ProfileInvalid like `preview`.
        """
        if "*" not in self.text:
            return []
        steps = shared(self.text, str(self.path), edits)
        own = dict.fromkeys(same_edits[0].path for same_edits in steps)
        others = dict.fromkeys(e.path for same_edits in steps for e in same_edits[1:] if e.path not in own)
        return [*own, *others] if others else []

    def replace(self, text: str, change: str) -> bool:
        """Replace the text. `change` names the change for undo. Return whether the text has changed."""
        if text == self.text:
            return False
        self._undo = [*self._undo[-MAX_UNDO + 1 :], (self.text, change)]
        self._redo.clear()
        self.text = text
        return True

    def undo(self) -> str:
        """Undo the last change. Return the name of the change, or "" if nothing can be undone."""
        return self._step(self._undo, self._redo)

    def redo(self) -> str:
        """Redo the last undone change. Return the name of the change, or "" if nothing can be redone."""
        return self._step(self._redo, self._undo)

    def _step(self, source: list[tuple[str, str]], target: list[tuple[str, str]]) -> str:
        if not source:
            return ""
        text, change = source.pop()
        target.append((self.text, change))
        self.text = text
        return change

    def diff(self) -> list[str]:
        """Return the lines of a unified diff from the file to the draft, without line endings."""
        name = self.path.name
        lines = difflib.unified_diff(
            self.saved.splitlines(), self.text.splitlines(), f"{name} (file)", f"{name} (draft)", lineterm=""
        )
        return list(lines)

    def changed_lines(self, text: str) -> list[str]:
        """Return the lines that differ between the draft and another text, each prefixed with `-` or `+`."""
        lines = difflib.unified_diff(self.text.splitlines(), text.splitlines(), n=0, lineterm="")
        # The first two lines name the files.
        return [line for line in list(lines)[2:] if line[:1] in "+-"]

    # Files

    def save(self, *, over: bool = False) -> None:
        """Write the file atomically. Its mode and links to it are preserved.

        Raises:
            FileChanged: another program has changed the file, unless `over`.
            OSError: the file can't be written; the draft remains.
        """
        target = self.path.resolve()
        with contextlib.ExitStack() as stack:
            # If two consoles save at the same time, the second console reads the first console's text.
            with contextlib.suppress(OSError):
                stack.enter_context(self._unsaved.lock())
            if over:
                self._keep_overwritten(target)
            else:
                self._check_unchanged(target)
            replace_text(target, self.text)
        self._mark_saved()

    def _check_unchanged(self, target: Path) -> None:
        try:
            if read_regular(target, MAX_BYTES) != self.saved.encode():
                raise FileChanged(self.path)
        except FileNotFoundError as error:
            raise FileChanged(self.path, gone=True) from error

    def _keep_overwritten(self, target: Path) -> None:
        """Add the overwritten text to the history, so that undo restores it."""
        with contextlib.suppress(OSError):
            theirs, mine = read_text(target), self.text
            if theirs not in {self.saved, mine}:
                self.replace(theirs, "read the file from disk")
                self.replace(mine, "overwrite the file on disk")

    def save_as(self, path: Path) -> None:
        """Write a new file, the draft's file from now on. Raises OSError if it exists or can't be written."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(self.text.encode())
        bring_files(self.path, path)
        self.discard()
        self.path = path
        was_open = self._unsaved.is_open
        self._unsaved.close()
        self._unsaved = Unsaved(self._drafts, path)
        if was_open:
            self._unsaved.open()
        self._mark_saved()

    def _mark_saved(self) -> None:
        self.saved = self.text
        self.discard()

    def reload(self) -> None:
        """Read the file again; undo restores the draft's text. Raises OSError, and the draft then remains."""
        text = read_text(self.path)
        self.replace(text, "reload")
        self.saved = text
        self.discard()

    # Unsaved work

    def open(self) -> list[Editor]:
        """Mark the file as open in this console. Return the other consoles that have it open."""
        self._unsaved.open()
        return self._unsaved.others()

    def others(self) -> list[Editor]:
        """Return the other consoles that have the file open."""
        return self._unsaved.others()

    def close(self) -> None:
        """Mark the file as closed. Unsaved changes remain stored."""
        self._unsaved.close()

    def keep(self) -> None:
        """Store unsaved changes on disk in case of a crash. A failed write is ignored."""
        if self.changed:
            self._unsaved.write(self.path, self.text, self.saved)
        else:
            self.discard()

    def discard(self, kept: UnsavedCopy | None = None) -> None:
        """Delete the stored changes of this draft, or the changes in `kept`."""
        self._unsaved.delete(kept)

    def offered(self) -> UnsavedCopy | None:
        """Return the newest unsaved changes of a console that ended without saving, or `None`."""
        return next((kept for kept in self._unsaved.orphans() if kept.text != self.text), None)
