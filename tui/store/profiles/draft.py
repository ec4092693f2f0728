"""A profile that is being edited: its text, undo and redo, what differs from the file, and saving.

Each change is a whole text, so that undoing all of them gives the file byte for byte. What is not saved is
kept in the state directory after every change, and offered when the profile is opened again.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Sequence
from pathlib import Path

from tui.domain.profile.document_edit import Edit
from tui.domain.profile.edit import apply
from tui.store.profiles.files import replace_text
from tui.store.profiles.unsaved import Editor, Kept, Unsaved

LARGEST = 1_000_000
MOST_STEPS = 500


class FileChanged(Exception):
    """The file on disk is not the one that was opened; `gone` where it is there no more."""

    def __init__(self, path: Path, *, gone: bool = False) -> None:
        super().__init__(f"{path} {'is gone' if gone else 'was changed by somebody else'}")
        self.gone = gone


def read_text(path: Path) -> str:
    """The file's text with its own line ends.

    Raises:
        OSError: when it can't be read, is no text or is far too large for a profile.
    """
    if path.stat().st_size > LARGEST:
        raise OSError(f"{path} has more than {LARGEST:,} bytes; it is no profile")
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise OSError(f"{path} is not text in UTF-8") from error


class Draft:
    """Holds texts only; methods that touch files say so, and are for threads."""

    def __init__(self, path: Path, text: str, drafts: Path) -> None:
        self.path = path
        self.text = text
        self.saved = text
        """What the file held when it was last read or written."""
        self._undo: list[tuple[str, str]] = []
        self._redo: list[tuple[str, str]] = []
        self._drafts = drafts
        self._unsaved = Unsaved(drafts, path)

    @property
    def changed(self) -> bool:
        """There is something to save."""
        return self.text != self.saved

    @property
    def can_undo(self) -> bool:
        """A change can be taken back."""
        return bool(self._undo)

    @property
    def can_redo(self) -> bool:
        """A change was taken back."""
        return bool(self._redo)

    # Changes

    def preview(self, edits: Sequence[Edit]) -> str:
        """The text with these edits, without taking them.

        Raises:
            ProfileInvalid: where the text is not YAML.
            LookupError: where an edit's path leads nowhere.
        """
        return apply(self.text, str(self.path), edits) if edits else self.text

    def replace(self, text: str, what: str) -> bool:
        """Take another text, named for the undo; whether it differs."""
        if text == self.text:
            return False
        self._undo = [*self._undo[-MOST_STEPS + 1 :], (self.text, what)]
        self._redo.clear()
        self.text = text
        return True

    def undo(self) -> str:
        """Take the last change back; its name, or an empty text where there is none."""
        return self._step(self._undo, self._redo)

    def redo(self) -> str:
        """Make the change again that was taken back."""
        return self._step(self._redo, self._undo)

    def _step(self, source: list[tuple[str, str]], target: list[tuple[str, str]]) -> str:
        if not source:
            return ""
        text, what = source.pop()
        target.append((self.text, what))
        self.text = text
        return what

    def diff(self) -> list[str]:
        """Lines of a unified diff from the file to the draft, without their line ends."""
        name = self.path.name
        lines = difflib.unified_diff(
            self.saved.splitlines(), self.text.splitlines(), f"{name} (file)", f"{name} (draft)", lineterm=""
        )
        return list(lines)

    # Files

    def save(self, *, over: bool = False) -> None:
        """Write the file, whole or not at all; its mode stays, and so does a link to it.

        Raises:
            FileChanged: when somebody else changed it meanwhile, unless `over`.
            OSError: when it can't be written; the draft stays.
        """
        target = self.path.resolve()
        with contextlib.ExitStack() as stack:
            # Of two consoles that save at once the second one sees what the first one wrote.
            with contextlib.suppress(OSError):
                stack.enter_context(self._unsaved.alone())
            if over:
                self._remember(target)
            else:
                self._must_be_the_same(target)
            replace_text(target, self.text)
        self._is_saved()

    def _must_be_the_same(self, target: Path) -> None:
        try:
            if target.read_bytes() != self.saved.encode():
                raise FileChanged(self.path)
        except FileNotFoundError as error:
            raise FileChanged(self.path, gone=True) from error

    def _remember(self, target: Path) -> None:
        """What is written over can be had back by undo."""
        with contextlib.suppress(OSError):
            theirs, mine = read_text(target), self.text
            if theirs not in {self.saved, mine}:
                self.replace(theirs, "read what was on the disk")
                self.replace(mine, "write over what was on the disk")

    def save_as(self, path: Path) -> None:
        """Write a new file, which the draft is of from now on.

        Raises:
            OSError: when it can't be written or is there already.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(self.text.encode())
        self.forget()
        self.path = path
        came = self._unsaved.here
        self._unsaved.go()
        self._unsaved = Unsaved(self._drafts, path)
        if came:
            self._unsaved.come()
        self._is_saved()

    def _is_saved(self) -> None:
        self.saved = self.text
        self.forget()

    def reload(self) -> None:
        """Read the file again; the draft's text can be had back by undo.

        Raises:
            OSError: when it can't be read; the draft stays.
        """
        text = read_text(self.path)
        self.replace(text, "reload")
        self.saved = text
        self.forget()

    # Unsaved work

    def come(self) -> list[Editor]:
        """The file is open here from now on; who else has it open."""
        self._unsaved.come()
        return self._unsaved.others()

    def others(self) -> list[Editor]:
        """Who else has the file open."""
        return self._unsaved.others()

    def go(self) -> None:
        """The file is not open here any more; what is not saved is kept."""
        self._unsaved.go()

    def keep(self) -> None:
        """Keep unsaved work for the case of a crash. A disk that takes nothing is no reason to stop."""
        if self.changed:
            self._unsaved.write(self.path, self.text, self.saved)
        else:
            self.forget()

    def forget(self, kept: Kept | None = None) -> None:
        """There is no unsaved work here, or that of another console is not wanted any more."""
        self._unsaved.drop(kept)

    def found(self) -> Kept | None:
        """The newest unsaved work on this file from a console that ended without saving it."""
        return next((kept for kept in self._unsaved.left() if kept.text != self.text), None)
