"""The last log lines of model servers, in a dialog."""

from __future__ import annotations

from tui.domain.core.text import plain
from tui.domain.serving.log import log_lines
from tui.domain.serving.traffic import Deployed, ServingEndpoint
from tui.screens.dialogs.message import MessageScreen
from tui.screens.frame import FrameScreen
from tui.screens.workers import background
from tui.session import BackendError


def show(screen: FrameScreen, endpoint: ServingEndpoint, deployed: Deployed | None) -> None:
    """Read the lines in the background, then show them, the newest at the end."""
    session = screen.session
    if session is None:
        return

    async def read() -> None:
        try:
            entries = await session.backend.serving.log(endpoint.name, deployed.id if deployed else "")
        except BackendError as error:
            screen.notify(f"The log can't be read: {error.message}", severity="error", markup=False)
            return
        name = plain(endpoint.display_name)
        title = f"{plain(deployed.display_name)} version {deployed.version} on {name}" if deployed else name
        lines = log_lines(entries, endpoint.deployed) or ["Nothing was written in the last day."]
        if screen.is_current:
            screen.app.push_screen(MessageScreen(f"Log of {title}", "\n".join(lines), at_end=True))

    background(screen, read, "read log", exclusive=True)
