"""Checks that the template of a pipeline exists in Cloud Storage or Artifact Registry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from tui.backends.interface import NotFound, PermissionDenied
from tui.backends.vertex.preflight.clients import CheckClients
from tui.backends.vertex.storage import Storage
from tui.domain.vertex.preflight import Check, CheckStatus, ok, unknown

_REGISTRY = re.compile(
    r"https://(?P<location>[a-z0-9-]+)-kfp\.pkg\.dev/(?P<project>[^/]+)/(?P<repository>[^/]+)/"
    r"(?P<name>[^/]+)/(?P<tag>[^/]+)"
)


class Templates:
    """Looks templates up."""

    def __init__(self, storage: Storage, clients: CheckClients) -> None:
        self._storage = storage
        self._clients = clients

    async def check(self, uri: str) -> Sequence[Check]:
        """Check one template by its address."""
        try:
            if uri.startswith("gs://"):
                there: bool | None = await self._storage.size_of(uri) is not None
            else:
                there = await self._package(uri)
        except NotFound:
            there = False
        except PermissionDenied as error:
            why = f"reading {uri} is not permitted; the pipeline's account may have permission"
            return [unknown("template", why, error.fix)]
        if there is None:
            return [unknown("template", f"{uri} can't be looked up")]
        if not there:
            fix = "Upload the compiled pipeline, or correct templateUri."
            return [Check("template", CheckStatus.PROBLEM, f"the template {uri} does not exist", fix)]
        return [ok("template", f"{uri} exists; the service checks its parameters")]

    async def _package(self, uri: str) -> bool | None:
        match = _REGISTRY.fullmatch(uri)
        if match is None:
            return None
        package = (
            f"projects/{match['project']}/locations/{match['location']}/repositories/"
            f"{match['repository']}/packages/{quote(match['name'], safe='')}"
        )
        tag, registry = match["tag"], self._clients.registry()
        method, name = registry.get_tag, f"{package}/tags/{tag}"
        if tag.startswith("sha256:"):
            method, name = registry.get_version, f"{package}/versions/{tag}"
        await self._clients.read(f"read the template {uri}", lambda: method, {"name": name})
        return True
