"""From a context in the settings to a backend; nothing heavy is loaded before `connect`."""

from __future__ import annotations

from tui.backends.group import GroupBackend
from tui.backends.interface import Backend, ContextInfo
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import CloudEndpoint, LocalEndpoint
from tui.config.settings import Context, Settings, members_of
from tui.emulator.paths import default_state_dir


def open_backend(context: Context, settings: Settings) -> Backend:
    """A backend for `context`, not connected yet.

    The local context lists all regions at once, whatever its own are; the first of these is where a
    profile without a region is launched.
    """
    if context.kind == "group":
        members = [open_backend(member, settings) for member in members_of(settings, context)]
        return GroupBackend(context.name, members)
    regions = tuple(context.regions)
    if context.kind == "local":
        state = default_state_dir()
        info = ContextInfo(context.name, context.project, regions, str(state.socket), local=True)
        return VertexBackend(info, LocalEndpoint(state))
    info = ContextInfo(context.name, context.project, regions, "googleapis.com")
    return VertexBackend(info, CloudEndpoint())
