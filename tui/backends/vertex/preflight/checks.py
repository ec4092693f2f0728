"""Checks before a launch. All checks run concurrently, each with a time limit; none raises.

A check that is refused or fails is `unknown` with the reason. A problem is always an answer of a service.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from tui.backends.concurrent_checks import CHECK_SECONDS, Probe, run_probes
from tui.backends.interface import ContextInfo
from tui.backends.vertex.preflight.access import CallerAccess
from tui.backends.vertex.preflight.buckets import Buckets
from tui.backends.vertex.preflight.clients import CheckClients
from tui.backends.vertex.preflight.images import Images
from tui.backends.vertex.preflight.programs import Programs
from tui.backends.vertex.preflight.quota import QuotaCheck
from tui.backends.vertex.preflight.resources import NamedResources
from tui.backends.vertex.preflight.templates import Templates
from tui.backends.vertex.quotas import VertexQuotas
from tui.backends.vertex.storage import Storage
from tui.domain.spec.custom_job_spec import within
from tui.domain.spec.spec_format import collection_of
from tui.domain.vertex.preflight import Check, Path, RunningJobs, buckets_of, images_of, settings_of


class PreflightChecks:
    """The checks of one context."""

    def __init__(
        self, info: ContextInfo, clients: CheckClients, storage: Storage, quotas: VertexQuotas
    ) -> None:
        self._access = CallerAccess(info, clients)
        self._images = Images(clients)
        endpoint = clients.clients.endpoint
        self._programs = Programs(clients.clients, self._images) if endpoint.runs_programs else None
        self._buckets = Buckets(storage, endpoint.makes_buckets)
        self._parts = NamedResources(info, clients)
        self._templates = Templates(storage, clients)
        self._quota = QuotaCheck(info, quotas)

    async def run(
        self,
        region: str,
        job: Mapping[str, Any],
        running: RunningJobs,
        seconds: float = CHECK_SECONDS,
    ) -> AsyncGenerator[Check, None]:
        """Yield each check as soon as its result is known. Closing the generator early cancels the others."""
        async with aclosing(run_probes(self._probes(region, job, running), seconds)) as checks:
            async for check in checks:
                yield check

    def _probes(self, region: str, job: Mapping[str, Any], running: RunningJobs) -> list[tuple[str, Probe]]:
        _, spec = settings_of(job)
        probes: list[tuple[str, Probe]] = [
            ("credentials permissions", partial(self._access.caller, collection_of(job))),
            ("quota", lambda: self._quota.check(job, region, running)),
        ]
        for uri, paths in images_of(job).items():
            probes.append((f"image:{uri}", self._image_probe(job, uri, paths)))
        if template := spec.get("templateUri"):
            probes.append(("template", partial(self._templates.check, str(template))))
        for name, paths in buckets_of(job).items():
            probes.append((f"bucket:{name}", partial(self._buckets.check, job, region, name, paths)))
        if account := spec.get("serviceAccount"):
            probes.append(("account", partial(self._access.account, str(account))))
        if spec.get("network") or within(spec, "pscInterfaceConfig", "networkAttachment"):
            probes.append(("network", partial(self._parts.network, spec)))
        if spec.get("persistentResourceId"):
            probes.append(("resource", partial(self._parts.resource, job, region)))
        if board := spec.get("tensorboard"):
            probes.append(("board", partial(self._parts.board, str(board), region)))
        return probes

    def _image_probe(self, job: Mapping[str, Any], uri: str, paths: Sequence[Path]) -> Probe:
        if self._programs is not None:
            return partial(self._programs.check, job, uri, paths)
        return partial(self._images.check, uri, paths)
