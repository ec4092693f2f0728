"""Checks that an image exists in Artifact Registry. Other registries can't be queried."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from tui.backends.interface import BackendError, NotFound, PermissionDenied
from tui.backends.vertex.preflight.clients import CheckClients
from tui.backends.vertex.timestamps import moment
from tui.domain.document.document_edit import Edit
from tui.domain.vertex.preflight import Check, CheckStatus, Image, Path, image_of, ok, unknown

MOST_TAGS = 200
SHOWN = 48
"""Longest image name shown in full."""
MACHINES = "amd64"
"""CPU architecture of every training machine except GB200's (docs/facts/vertex.md 8.1)."""


class Images:
    """Looks images up in the registry."""

    def __init__(self, clients: CheckClients) -> None:
        self._clients = clients

    async def check(self, uri: str, paths: Sequence[Path]) -> Sequence[Check]:
        """Check the tag, the digest and the architecture of one image."""
        image, id = image_of(uri), f"image:{uri}"
        if not image.repository:
            why = f"{uri} is on {image.host}, which can't be checked; private images there can't be pulled"
            return [unknown(id, why, "Push the image to Artifact Registry.")]
        package = f"{image.parent}/packages/{quote(image.package, safe='')}"
        try:
            digest = image.digest or await self._digest(package, image.tag)
            about = await self._about(image, digest)
        except NotFound:
            return [await self._missing(id, image, package, paths)]
        except PermissionDenied as error:
            why = f"reading {uri} in {image.project} is not permitted; the job's account may have permission"
            return [unknown(id, why, error.fix)]
        return [self._described(id, image, about)]

    def _described(self, id: str, image: Image, about: Any) -> Check:
        kinds = sorted({m.architecture for m in about.image_manifests if m.architecture}) if about else []
        if kinds and MACHINES not in kinds:
            sentence = f"{image.uri} is built for {', '.join(kinds)}; training machines are {MACHINES}"
            return Check(id, CheckStatus.PROBLEM, sentence, "Build the image with --platform=linux/amd64.")
        uploaded = moment(about, "upload_time") if about else None
        facts = [*kinds, *([_age(uploaded)] if uploaded else [])]
        return ok(id, short_image(image.uri) + (f" exists ({', '.join(facts)})" if facts else " exists"))

    async def _digest(self, package: str, tag: str) -> str:
        pb = await self._clients.read(
            f"read the tag {tag}", lambda: self._clients.registry().get_tag, name=f"{package}/tags/{tag}"
        )
        return str(pb.version).rpartition("/versions/")[2]

    async def _about(self, image: Image, digest: str) -> Any:
        """Return the image's properties, or `None` if only its tag is known."""
        name = f"{image.parent}/dockerImages/{quote(image.package, safe='')}@{digest}"
        try:
            return await self._clients.read(
                f"read the image {image.uri}", lambda: self._clients.registry().get_docker_image, name=name
            )
        except BackendError:
            if image.digest:
                raise
            return None

    async def _missing(self, id: str, image: Image, package: str, paths: Sequence[Path]) -> Check:
        name = image.uri.removesuffix(f":{image.tag}")
        tags: list[str] = []
        if not image.digest:
            with suppress(BackendError):
                page = await self._clients.read(
                    f"list the tags of {name}",
                    lambda: self._clients.registry().list_tags,
                    {"parent": package, "page_size": MOST_TAGS},
                )
                tags = [tag.name.rpartition("/tags/")[2] for tag in page.tags]
        if not tags:
            fix = "Push the image, or correct the name."
            return Check(id, CheckStatus.PROBLEM, f"the image {image.uri} does not exist", fix)
        near = difflib.get_close_matches(image.tag, tags, 1, 0.5) or (tags if len(tags) == 1 else [])
        sentence = f"{name} has no tag {image.tag}; existing tags: {', '.join(tags[:5])}"
        sentence += f" and {len(tags) - 5} more" if len(tags) > 5 else ""
        edits = tuple(Edit(path, f"{name}:{near[0]}") for path in paths) if near else ()
        fix = f"Use {name}:{near[0]}." if near else "Use one of these tags, or push the image."
        return Check(id, CheckStatus.PROBLEM, sentence, fix, edits)


def short_image(uri: str) -> str:
    """Return the name, or the end of a long name, which distinguishes images."""
    return uri if len(uri) <= SHOWN else "…/" + "/".join(uri.split("/")[-2:])


def _age(uploaded: datetime) -> str:
    days = (datetime.now(UTC) - uploaded).days
    return f"{days} days old" if days > 1 else "a day old" if days == 1 else "of today"
