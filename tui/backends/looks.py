"""Checks before a launch that run at once, each with a time limit; none raises."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from tui.backends.errors import BackendError, PermissionDenied, Unauthenticated
from tui.domain.vertex.preflight import Check, unknown

LOG = logging.getLogger("vxtui")
CHECK_SECONDS = 8.0
"""Time limit of one check."""

Look = Callable[[], Awaitable[Sequence[Check]]]


async def run_looks(
    looks: Sequence[tuple[str, Look]], seconds: float = CHECK_SECONDS
) -> AsyncGenerator[Check, None]:
    """What each look finds, as soon as it is known; leaving early cancels the others.

    A name has the ids that a look answers for: they are unknown where it fails.
    """
    tasks = [asyncio.create_task(bounded(name, look, seconds)) for name, look in looks]
    try:
        for done in asyncio.as_completed(tasks):
            for check in await done:
                yield check
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def look_of(look: Callable[..., Awaitable[Sequence[Check]]], *given: Any) -> Look:
    return lambda: look(*given)


async def bounded(name: str, look: Look, seconds: float) -> list[Check]:
    """What `look` finds, or `unknown` under each of the ids in `name`."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(seconds):
            found = list(await look())
    except TimeoutError:
        why = unknown("", f"there was no answer within {seconds:.0f} s", "Try again; see `vxtui doctor`.")
        found = [replace(why, id=id) for id in name.split()]
    except Unauthenticated:
        found = [unknown(id, "can't be looked up without valid credentials") for id in name.split()]
    except PermissionDenied as error:
        found = [unknown(id, f"you may not look it up: {error.message}", error.fix) for id in name.split()]
    except BackendError as error:
        found = [unknown(id, error.message, error.fix) for id in name.split()]
    except Exception as error:
        # A defect here must not prevent a launch.
        LOG.exception("the check %s failed", name)
        found = [unknown(id, f"the check failed: {type(error).__name__}") for id in name.split()]
    took = round(time.monotonic() - began, 3)
    return [replace(check, seconds=took) for check in found]
