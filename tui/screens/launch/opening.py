"""Opens the launch screen. In a group of contexts, the user first chooses a context."""

from __future__ import annotations

from textual.content import Content

from tui.config.settings import Context
from tui.domain.core.text import plain
from tui.screens.console_app import ConsoleApp
from tui.screens.dialogs.pick import PickScreen
from tui.screens.launch.screen import LaunchScreen
from tui.store.profiles.entries import ProfileEntry
from tui.store.profiles.preferences import family_of


async def open_launch(console: ConsoleApp, entry: ProfileEntry) -> None:
    """Show the launch screen of a profile. In a group, ask for the context and open it first."""
    context = console.connection.context
    if context.kind != "group":
        console.push_screen(LaunchScreen(entry))
        return
    fitting = [
        member
        for member in (console.contexts[name] for name in context.members)
        if not entry.family or family_of(member.kind) == entry.family
    ]

    async def chosen(name: str | None) -> None:
        if name is not None:
            await _launch_in(console, console.contexts[name], entry)

    if len(fitting) > 1:
        options = [(context.name, Content(plain(context.name))) for context in fitting]
        console.push_screen(PickScreen(f"Launch {plain(entry.name)} in which context?", options), chosen)
    elif fitting:
        await _launch_in(console, fitting[0], entry)
    else:
        members = ", ".join(context.members)
        why = f"No context of the group {context.name} can run {entry.name}. Its contexts: {members}."
        console.notify(why, severity="warning", markup=False)


async def _launch_in(console: ConsoleApp, context: Context, entry: ProfileEntry) -> None:
    await console.go_to(context)
    console.push_screen(LaunchScreen(entry))
