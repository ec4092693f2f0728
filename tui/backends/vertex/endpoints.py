"""The two places a Vertex backend can talk to: the emulator's socket and Google."""

from __future__ import annotations

import asyncio
from typing import Any

from tui.backends import base
from tui.backends.vertex.clients import OPTIONS
from tui.emulator import launcher
from tui.emulator.paths import StateDir

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)


class EmulatorEndpoint:
    """The emulator of a state directory, started on demand."""

    def __init__(self, state: StateDir) -> None:
        self.state = state

    async def prepare(self) -> None:
        """Raises Unavailable with the emulator's own words when it can't be started."""
        try:
            await asyncio.to_thread(launcher.ensure_running, self.state)
        except launcher.LauncherError as error:
            raise base.Unavailable(
                f"The local emulator can't be reached: {error}", fix="`vxtui emulator logs` may say more."
            ) from error

    def channel(self, host: str) -> Any:
        import grpc

        return grpc.aio.insecure_channel(self.state.target, options=OPTIONS)


class GoogleEndpoint:
    """Google's services, with Application Default Credentials."""

    def __init__(self) -> None:
        self._credentials: Any = None

    async def prepare(self) -> None:
        """Find and refresh the credentials first: over gRPC their failure would look like an outage."""
        from tui.backends.vertex.errors import translate

        try:
            self._credentials = await asyncio.wait_for(asyncio.to_thread(_login), 30)
        except Exception as error:
            raise translate(error, "log in to Google") from error

    def channel(self, host: str) -> Any:
        import grpc
        from google.auth.transport.grpc import AuthMetadataPlugin
        from google.auth.transport.requests import Request

        plugin = AuthMetadataPlugin(self._credentials, Request())
        credentials = grpc.composite_channel_credentials(
            grpc.ssl_channel_credentials(), grpc.metadata_call_credentials(plugin)
        )
        return grpc.aio.secure_channel(f"{host}:443", credentials, options=OPTIONS)


def _login() -> Any:
    import google.auth
    from google.auth.transport.requests import Request

    credentials, _ = google.auth.default(scopes=SCOPES)
    if not credentials.valid:
        credentials.refresh(Request())
    return credentials
