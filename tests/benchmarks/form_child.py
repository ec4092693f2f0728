"""The program under the form's benchmark: the real console on a profile's form, or Textual's `Input` alone.

`python -m tests.benchmarks.form_child KIND`: `form` or `input`. Ctrl+q ends it.
"""

from __future__ import annotations

import gc
import sys
import tempfile
from functools import partial
from pathlib import Path

from textual.app import App, ComposeResult
from textual.widgets import Input

from tests.ui.double import MemoryBackend, console
from tui.screens.profile_form.screen import FormScreen, open_draft
from tui.store.profiles.library import entries

LETTERS = "αβγδεζηθικλμνξοπρστυφχψω"
"""Each is two bytes that no control sequence has: where they come, the key has been painted."""
PROFILE = Path(__file__).parents[2] / "profiles" / "a100-4node-spot.yaml"


class Bare(App[None]):
    """One line to type into."""

    ENABLE_COMMAND_PALETTE = False

    def compose(self) -> ComposeResult:
        line = Input()
        line.cursor_blink = False
        yield line


def run_form(folder: Path) -> None:
    """A profile with a label for each letter, its form open, the cursor on the first."""
    labels = "".join(f"  {letter * 4}: x\n" for letter in LETTERS)
    path = folder / "bench.yaml"
    path.write_text(PROFILE.read_text().replace("labels:\n", f"labels:\n{labels}"))
    app = console(MemoryBackend(), folder, read_profiles=partial(entries, folder), profile_folder=folder)

    async def ready() -> None:
        screen = FormScreen(open_draft(path, folder))
        await app.push_screen(screen)
        await screen.refresh_draft()
        screen.view.move_to("labels")
        screen.navigation.action_fold()
        screen.view.action_cursor_down()
        screen.notify("ready", timeout=0.5)

    app.call_after_refresh(ready)
    # As `vxtui` starts; the console collects again, and only what is new, once it is connected.
    gc.disable()
    app.run()


def main() -> None:
    """Run until ctrl+q."""
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1] == "form":
            run_form(Path(folder))
        else:
            Bare().run()


if __name__ == "__main__":
    main()
