"""A profile's request in the formats of other tools: shown, copied and saved."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from textual.containers import VerticalScroll
from textual.content import Content

from tui.actions.registry import bindings
from tui.domain.core.text import plain
from tui.domain.interchange import SUFFIXES, Exported, export, forms_of
from tui.domain.profile import Profile, ProfileInvalid
from tui.screens.console.request_name import named_now
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.dialogs.text_screen import TextScreen
from tui.screens.new_file import write_new
from tui.screens.workers import background
from tui.store.profiles.entries import ProfileEntry
from tui.store.profiles.library import read_profile
from tui.widgets.header_lines import Line

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp

TITLES = {"gcloud": "gcloud command", "rest": "REST by curl", "python": "Python", "kubectl": "kubectl"}


class ExportScreen(TextScreen):
    """The screen of an export. `j` shows the next format, `y` copies, and `ctrl+s` saves."""

    SCOPE = "export"
    CSS_PATH = "../dialogs/preview.tcss"
    BINDINGS = bindings("export")

    def __init__(self, profile: Profile, forms: dict[str, Exported]) -> None:
        super().__init__()
        self._profile = profile
        self._forms = forms
        self._order = tuple(forms)
        self._form = self._order[0]

    @property
    def heading(self) -> str:
        return f"Export of {plain(self._profile.name)}"

    @property
    def text(self) -> str:
        """The shown text, or the reason why the format can't describe the job."""
        export = self._forms[self._form]
        return export.text or export.problem

    def line(self, line: str) -> Content:
        return Content.styled(plain(line), "$text-muted") if line.startswith("#") else super().line(line)

    def show(self) -> None:
        super().show()
        self.query_one("#request", VerticalScroll).scroll_home(animate=False)

    def second_line(self) -> Line:
        parts: list[Content | str | tuple[str, str]] = []
        for form in self._order:
            parts += [
                (f" {TITLES[form]} ", "bold $accent reverse" if form == self._form else "$text-muted"),
                " ",
            ]
        lost = len(self._forms[self._form].notes)
        note = f"{lost} not exported, see the comments" if lost else ""
        return Content.assemble(*parts), Content.styled(note, "$text-warning")

    # Actions

    def action_next(self) -> None:
        """Show the next format."""
        self._form = self._order[(self._order.index(self._form) + 1) % len(self._order)]
        self.show()

    def action_copy(self) -> None:
        """Copy the shown text."""
        cast("ConsoleApp", self.app).send_copy(self.text, f"the {TITLES[self._form]}")

    def action_save(self) -> None:
        """Save the shown text to a new file."""
        text, name = self.text, f"{self._profile.name}{SUFFIXES[self._form]}"

        def check(typed: str) -> str:
            return "A file of that name exists." if Path(typed).expanduser().exists() else ""

        def named(typed: str | None) -> None:
            if typed:
                background(self, partial(self._save, Path(typed).expanduser(), text), "save")

        self.app.push_screen(PromptScreen("Save it to", str(Path.cwd() / name), check=check), named)

    async def _save(self, path: Path, text: str) -> None:
        try:
            await asyncio.to_thread(write_new, path, text)
        except OSError as error:
            self.notify(f"{path} was not written: {error.strerror}", severity="error", markup=False)
        else:
            self.notify(f"Saved to {path}", markup=False)


def show_export(console: ConsoleApp, entry: ProfileEntry) -> None:
    """Open the export of a profile with its parameters' defaults."""
    background(console, partial(_open, console, entry), "export")


async def _open(console: ConsoleApp, entry: ProfileEntry) -> None:
    session, context = console.session, console.connection.context
    project = session.backend.info.project if session else context.project
    local = session.backend.info.local if session else context.emulated
    try:
        profile = await asyncio.to_thread(read_profile, entry.path)
        request = profile.render()
        request = replace(request, custom_job=await named_now(console, request.custom_job, entry.path))
    except (ProfileInvalid, OSError) as error:
        console.notify(f"{entry.name} can't be exported: {error}", severity="error", markup=False)
        return
    region = request.region or context.home_region
    forms = {
        form: export(profile, request, form, project="" if local else project, region=region)
        for form in forms_of(profile)
    }
    console.push_screen(ExportScreen(profile, forms))
