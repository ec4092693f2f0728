"""Operations that write profile files: import, duplicate, fix, save, and the user's own editor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tui.actions.operations.runner import OperationError, OperationRunner, Outcome
from tui.store.profiles.draft import Draft, FileChanged
from tui.store.profiles.files import BadName, copy_profile, replace_text, write_profile

T = TypeVar("T")


class ProfileOperations:
    """Operations on profiles in `folder`, the user's own folder, or at a given path."""

    def __init__(self, runner: OperationRunner, folder: Path) -> None:
        self._runner = runner
        self._folder = folder

    async def write(self, name: str, text: str, *, force: bool = False) -> Outcome[Path]:
        """Write an imported text as the profile NAME. With `force`, replace an existing profile."""
        return await self._write(
            "profile.import",
            self._folder / f"{name}.yaml",
            lambda: write_profile(self._folder, name, text, force=force),
            "Saved",
        )

    async def duplicate(self, source: Path, name: str) -> Outcome[Path]:
        """Copy a profile's file to NAME, never over an existing file."""
        return await self._write(
            "profile.duplicate",
            self._folder / f"{name}.yaml",
            lambda: copy_profile(source, self._folder, name),
            "Copied to",
        )

    async def fix(self, path: Path, text: str) -> Outcome[None]:
        """Replace a file's text with a text in which its problems are fixed."""
        return await self._write("profile.fix", path, lambda: replace_text(path, text), "Fixed")

    async def save(self, draft: Draft, *, over: bool = False) -> Outcome[None]:
        """Write a draft to its file; the outcome's error names a change of the file by another program."""
        return await self._write("profile.save", draft.path, lambda: draft.save(over=over), "Saved")

    async def save_as(self, draft: Draft, path: Path) -> Outcome[None]:
        """Write a draft to a new file, which becomes the file of the draft."""
        return await self._write("profile.save", path, lambda: draft.save_as(path), "Saved")

    async def edit(self, path: Path, edit: Callable[[], str]) -> Outcome[None]:
        """Open the file in the user's own editor. `edit` blocks and returns the problem, or ""."""

        async def run() -> None:
            problem = edit()
            if problem:
                raise OperationError(problem, code="UNAVAILABLE", exit_code=5)

        return await self._runner.run("profile.edit", str(path), run, lambda _: f"Edited {path}")

    async def _write(self, operation_id: str, path: Path, write: Callable[[], T], done: str) -> Outcome[T]:
        async def run() -> T:
            try:
                return await asyncio.to_thread(write)
            except FileExistsError as error:
                fix = "Choose another name."
                raise OperationError(f"{path} already exists.", fix=fix, code="EXISTS") from error
            except (BadName, FileChanged) as error:
                raise OperationError(str(error)) from error
            except OSError as error:
                message = f"{path} can't be written: {error.strerror or error}."
                raise OperationError(message, code="UNWRITABLE") from error

        return await self._runner.run(operation_id, str(path), run, lambda _: f"{done} {path}")
