"""`vxtui` without a verb: the screen."""

from __future__ import annotations

from dataclasses import replace

from tui import skeleton
from tui.config.loader import load_settings
from tui.config.settings import SettingsError, choose_context


def screen(
    context_name: str, *, read_only: bool, slow: bool = False, ascii_only: bool = False, output: str = ""
) -> int:
    """Run the console until the user quits. Return the exit code. Options override the settings."""
    try:
        settings = load_settings()
        settings = replace(
            settings,
            slow=slow or settings.slow,
            ascii=ascii_only or settings.ascii,
            output="stock" if (output or settings.output) == "stock" else "diff",
        )
        context = choose_context(settings, context_name)
    except SettingsError as error:
        from tui.verbs.output import print_error

        skeleton.take_back()
        return print_error("INVALID_SETTINGS", str(error), "", 2, as_json=False)
    from tui.console import run_console

    return run_console(settings, context.name, read_only=read_only)
