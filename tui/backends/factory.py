"""From a context in the settings to a backend; nothing heavy is loaded before `connect`."""

from __future__ import annotations

from tui.backends.base import Backend, ContextInfo
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.endpoints import EmulatorEndpoint, GoogleEndpoint
from tui.config import Context, Settings
from tui.emulator.paths import default_state_dir

EVERYWHERE = ("-",)
"""The emulator lists over all locations (AIP-159), so a job launched anywhere is seen."""


def open_backend(context: Context, settings: Settings) -> Backend:
    """A backend for `context`, not connected yet."""
    if context.kind == "local":
        state = default_state_dir()
        info = ContextInfo(
            context.name, context.project, tuple(context.regions), endpoint=str(state.socket), local=True
        )
        return VertexBackend(info, EmulatorEndpoint(state), EVERYWHERE)
    regions = tuple(context.regions)
    info = ContextInfo(context.name, context.project, regions, endpoint="googleapis.com")
    return VertexBackend(info, GoogleEndpoint(), regions)
