"""`vxtui` on a terminal: the console with its settings, profiles, themes and last snapshot."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tui import interrupts
from tui.app import VxtuiApp
from tui.config.loader import load_settings
from tui.config.paths import config_dir, shipped, state_dir
from tui.config.settings import Context, Settings, all_contexts, profile_folder
from tui.config.themes import cached_themes
from tui.display.app import ENDED_BY_SIGNAL
from tui.domain.core.text import plain
from tui.store.jobs.snapshot import SnapshotFile
from tui.terminal_output import NoTerminal, screen_only

if TYPE_CHECKING:
    from tui.backends.interface import Backend
    from tui.store.profiles.entries import ProfileEntry


def _open(context: Context, settings: Settings) -> Backend:
    # Google's clients are loaded after the first paint.
    from tui.backends.factory import open_backend

    return open_backend(context, settings)


def _read_profiles(folder: Path) -> list[ProfileEntry]:
    from tui.store.profiles.library import entries

    return entries(folder)


def run_console(settings: Settings, context_name: str, *, read_only: bool = False) -> int:
    """Run the console. The exit code is 0, 1 for an internal error, and 2 without a terminal. Raises KeyError
    for an unknown context."""
    contexts = {context.name: context for context in all_contexts(settings)}
    context = contexts[context_name]
    where = state_dir()
    themes, problems = cached_themes([shipped("themes"), config_dir() / "themes"])
    log = where / "console.log"
    try:
        with screen_only(log):
            app = VxtuiApp(
                settings,
                context,
                opener=_open,
                contexts=list(contexts.values()),
                state_dir=where,
                read_profiles=partial(_read_profiles, profile_folder(settings)),
                profile_folder=profile_folder(settings),
                themes=themes,
                read_only=read_only,
                snapshot=SnapshotFile(where, context.name).load(),
            )
            app.read_settings = load_settings
            for problem in problems:
                app.journal.add("error", problem)
            with interrupts.raising():
                app.run()
    except NoTerminal as error:
        sys.stderr.write(
            f"vxtui: {error}. Use a verb instead, e.g. vxtui jobs; vxtui --help lists all verbs.\n"
        )
        return 2
    for line in app.unanswered.parting_words():
        sys.stderr.write(f"vxtui: {plain(line)}\n")
    if app.return_code and app.return_code < ENDED_BY_SIGNAL:
        sys.stderr.write(f"vxtui ended with an internal error; the details are in {log}\n")
    return app.return_code or 0
