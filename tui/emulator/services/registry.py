"""google.devtools.artifactregistry.v1.ArtifactRegistry: tags and images, read-only.

Nothing is stored here. Every image exists with every tag, except images whose tags the configuration lists
(`registry`) and those that a fault removes. Slashes in a package's id are escaped, as in the cloud.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Sequence
from urllib.parse import quote, unquote

from google.cloud.artifactregistry_v1.types import artifact, tag

from tui.emulator.config import EmulatorConfig
from tui.emulator.messages import Pb
from tui.emulator.rpc.methods import Method, invalid, methods_of, not_found
from tui.emulator.services.check_faults import ActiveCheckFaults

SERVICE = "google.devtools.artifactregistry.v1.ArtifactRegistry"
TagPb = tag.Tag.pb()
ListResponse = tag.ListTagsResponse.pb()
ImagePb = artifact.DockerImage.pb()

_PARENT = r"projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)/repositories/(?P<repository>[^/]+)"
_PACKAGE = re.compile(_PARENT + r"/packages/(?P<package>[^/]+)")
_TAG = re.compile(_PACKAGE.pattern + r"/tags/(?P<tag>[^/]+)")
_IMAGE = re.compile(_PARENT + r"/dockerImages/(?P<package>[^/@]+)@(?P<digest>sha256:[0-9a-f]{64})")


class ArtifactRegistry:
    """RPC handlers of Artifact Registry."""

    def __init__(self, config: EmulatorConfig, checks: ActiveCheckFaults) -> None:
        self._config = config
        self._checks = checks

    async def get_tag(self, request: Pb) -> Pb:
        match = _TAG.fullmatch(request.name)
        if match is None:
            raise invalid(("name", f"{request.name!r} must be the name of a tag"))
        tags = self._tags(match)
        if tags is not None and match["tag"] not in tags:
            raise not_found("artifactregistry.googleapis.com/Tag", request.name)
        if self._checks.current.misses(f"{_path(match)}:{match['tag']}"):
            raise not_found("artifactregistry.googleapis.com/Tag", request.name)
        return _tag(match, match["tag"])

    async def list_tags(self, request: Pb) -> Pb:
        """Return all tags on one page, because the configuration has only a few."""
        match = _PACKAGE.fullmatch(request.parent)
        if match is None:
            raise invalid(("parent", f"{request.parent!r} must be the name of a package"))
        tags = self._tags(match)
        shown = [_tag(match, name) for name in tags or ["latest"]]
        return ListResponse(tags=shown[: request.page_size or None])

    async def get_image(self, request: Pb) -> Pb:
        match = _IMAGE.fullmatch(request.name)
        if match is None:
            raise invalid(("name", f"{request.name!r} must be the name of an image with its digest"))
        self._tags(match)
        image = ImagePb(
            name=request.name,
            uri=f"{_path(match)}@{match['digest']}",
            media_type="application/vnd.docker.distribution.manifest.v2+json",
        )
        image.image_manifests.add(architecture="amd64", os="linux", digest=match["digest"])
        return image

    def _tags(self, match: re.Match[str]) -> Sequence[str] | None:
        """Return a package's configured tags, or `None` if any tag exists. Raises WireError if it is
        missing."""
        path = _path(match)
        if self._checks.current.misses(path):
            raise not_found("artifactregistry.googleapis.com/Package", path)
        for pattern, tags in self._config.registry.items():
            if fnmatch.fnmatchcase(path, pattern):
                if not tags:
                    raise not_found("artifactregistry.googleapis.com/Package", path)
                return tags
        return None


def _path(match: re.Match[str]) -> str:
    """Return the image's name without tag and digest, as in a container runtime."""
    package = unquote(match["package"])
    project = match["project"].replace(":", "/")
    if match["repository"].endswith("gcr.io"):
        return f"{match['repository']}/{project}/{package}"
    return f"{match['location']}-docker.pkg.dev/{project}/{match['repository']}/{package}"


def _tag(match: re.Match[str], name: str) -> Pb:
    digest = hashlib.sha256(f"{_path(match)}:{name}".encode()).hexdigest()
    parent = match.string.partition("/packages/")[0]
    package = f"{parent}/packages/{quote(unquote(match['package']), safe='')}"
    return TagPb(name=f"{package}/tags/{name}", version=f"{package}/versions/sha256:{digest}")


def methods(config: EmulatorConfig, checks: ActiveCheckFaults) -> list[Method]:
    """Return the RPCs of this service."""
    here = ArtifactRegistry(config, checks)
    tags = methods_of(SERVICE, tag, ("GetTag", here.get_tag, TagPb), ("ListTags", here.list_tags))
    return [*tags, *methods_of(SERVICE, artifact, ("GetDockerImage", here.get_image, ImagePb))]
