"""Pre-launch checks that run concurrently, each with a time limit. No check raises."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace

from tui.backends.errors import BackendError, PermissionDenied, Unauthenticated
from tui.domain.vertex.preflight import Check, unknown

LOG = logging.getLogger("vxtui")
CHECK_SECONDS = 8.0
"""Time limit of one check, in seconds."""

Probe = Callable[[], Awaitable[Sequence[Check]]]
"""A function that queries the service and returns the results of one or more checks."""


async def run_probes(
    probes: Sequence[tuple[str, Probe]], seconds: float = CHECK_SECONDS
) -> AsyncGenerator[Check, None]:
    """Yield the checks of each probe as soon as the probe ends. Closing the generator early cancels the
    others.

    The name of a probe lists the ids of its checks, separated by blanks. If the probe fails, these checks are
    reported as unknown.
    """
    tasks = [asyncio.create_task(_run_probe(name, probe, seconds)) for name, probe in probes]
    try:
        for done in asyncio.as_completed(tasks):
            for check in await done:
                yield check
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run_probe(name: str, probe: Probe, seconds: float) -> list[Check]:
    """Return the checks of the probe, or an `unknown` check for each id in `name`."""
    began = time.monotonic()
    ids = name.split()
    try:
        async with asyncio.timeout(seconds):
            checks = list(await probe())
    except TimeoutError:
        fix = "Try again; see `vxtui doctor`."
        checks = [unknown(id, f"no answer within {seconds:.0f} s", fix) for id in ids]
    except Unauthenticated:
        checks = [unknown(id, "can't be checked without valid credentials") for id in ids]
    except PermissionDenied as error:
        checks = [unknown(id, f"permission to check it is missing: {error.message}", error.fix) for id in ids]
    except BackendError as error:
        checks = [unknown(id, error.message, error.fix) for id in ids]
    except Exception as error:
        # A defect here must not prevent a launch.
        LOG.exception("the check %s failed", name)
        checks = [unknown(id, f"the check failed: {type(error).__name__}") for id in ids]
    took = round(time.monotonic() - began, 3)
    return [replace(check, seconds=took) for check in checks]
