"""Checks of a launch for screens and verbs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from tui.backends.errors import BackendError
from tui.backends.interface import Backend
from tui.domain.vertex.preflight import Check, unknown


async def preflight(
    backend: Backend, region: str, custom_job: Mapping[str, Any]
) -> AsyncGenerator[Check, None]:
    """Each check as soon as it is known; leaving early ends the rest. Never raises.

    Where the context has no checks, one that says so.
    """
    try:
        checks = backend.preflight.run(region, custom_job)
    except BackendError as error:
        yield unknown("service", error.message, error.fix)
        return
    async with aclosing(checks) as found:
        async for check in found:
            yield check
