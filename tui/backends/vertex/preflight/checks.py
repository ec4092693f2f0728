"""Checks before a launch: all run at once, each with a time limit, none raises.

A look that is refused or fails is `unknown` with the reason. Only what a service has answered is a problem.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tui.backends.interface import BackendError, ContextInfo, PermissionDenied, Unauthenticated
from tui.backends.vertex.preflight.access import Access
from tui.backends.vertex.preflight.buckets import Buckets
from tui.backends.vertex.preflight.clients import CheckClients
from tui.backends.vertex.preflight.images import Images
from tui.backends.vertex.preflight.programs import Programs
from tui.backends.vertex.preflight.quota import QuotaCheck
from tui.backends.vertex.preflight.resources import Parts
from tui.backends.vertex.preflight.templates import Templates
from tui.backends.vertex.quotas import Quotas
from tui.backends.vertex.storage import Storage
from tui.domain.spec_format import collection_of
from tui.domain.vertex.custom_job_spec import within
from tui.domain.vertex.preflight import Check, Path, RunningJobs, buckets_of, images_of, settings_of, unknown

LOG = logging.getLogger("vxtui")
CHECK_SECONDS = 8.0
"""Time limit of one check."""

Look = Callable[[], Awaitable[Sequence[Check]]]


class Checks:
    """The checks of one context."""

    def __init__(self, info: ContextInfo, clients: CheckClients, storage: Storage, quotas: Quotas) -> None:
        self._access = Access(info, clients)
        self._images = Images(clients)
        endpoint = clients.clients.endpoint
        self._programs = Programs(clients.clients, self._images) if endpoint.runs_programs else None
        self._buckets = Buckets(storage, endpoint.makes_buckets)
        self._parts = Parts(info, clients)
        self._templates = Templates(storage, clients)
        self._quota = QuotaCheck(info, quotas)

    async def run(
        self,
        region: str,
        job: Mapping[str, Any],
        running: RunningJobs,
        seconds: float = CHECK_SECONDS,
    ) -> AsyncGenerator[Check, None]:
        """Each check as soon as it is known; leaving early cancels the others."""
        looks = self._looks(region, job, running)
        tasks = [asyncio.create_task(_bounded(name, look, seconds)) for name, look in looks]
        try:
            for done in asyncio.as_completed(tasks):
                for check in await done:
                    yield check
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _looks(self, region: str, job: Mapping[str, Any], running: RunningJobs) -> list[tuple[str, Look]]:
        _, spec = settings_of(job)
        found: list[tuple[str, Look]] = [
            ("credentials permissions", _of(self._access.caller, collection_of(job))),
            ("quota", lambda: self._quota.look(job, region, running)),
        ]
        for uri, paths in images_of(job).items():
            found.append((f"image:{uri}", self._image_look(job, uri, paths)))
        if template := spec.get("templateUri"):
            found.append(("template", _of(self._templates.look, str(template))))
        for name, paths in buckets_of(job).items():
            found.append((f"bucket:{name}", _of(self._buckets.look, job, region, name, paths)))
        if account := spec.get("serviceAccount"):
            found.append(("account", _of(self._access.account, str(account))))
        if spec.get("network") or within(spec, "pscInterfaceConfig", "networkAttachment"):
            found.append(("network", _of(self._parts.network, spec)))
        if spec.get("persistentResourceId"):
            found.append(("resource", _of(self._parts.resource, job, region)))
        if board := spec.get("tensorboard"):
            found.append(("board", _of(self._parts.board, str(board), region)))
        return found

    def _image_look(self, job: Mapping[str, Any], uri: str, paths: Sequence[Path]) -> Look:
        if self._programs is not None:
            return _of(self._programs.look, job, uri, paths)
        return _of(self._images.look, uri, paths)


def _of(look: Callable[..., Awaitable[Sequence[Check]]], *given: Any) -> Look:
    return lambda: look(*given)


async def _bounded(name: str, look: Look, seconds: float) -> list[Check]:
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
