"""Checks of a launch for the screens, which know no backend."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, cast

from tui.backends.interface import LaunchRequest
from tui.domain.preflight import Check
from tui.session import Session


def launch_request(region: str, custom_job: Mapping[str, Any]) -> LaunchRequest:
    """A request that a backend can send."""
    return LaunchRequest(region, custom_job)


async def look(session: Session, region: str, custom_job: Mapping[str, Any]) -> AsyncGenerator[Check, None]:
    """Each check as soon as it is known; leaving early ends the rest. Never raises."""
    request = launch_request(region, custom_job)
    checks = cast("AsyncGenerator[Check, None]", session.backend.preflight(request))
    async with aclosing(checks) as found:
        async for check in found:
            yield check
