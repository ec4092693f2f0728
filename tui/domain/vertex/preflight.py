"""Results of the checks before a launch, and the images and buckets that a job names."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tui.domain.core.job import Job
from tui.domain.document.document_edit import Edit
from tui.domain.spec.custom_job_spec import within
from tui.domain.spec.spec_format import bodies, custom_jobs


class CheckStatus(StrEnum):
    """Status of a check; the sentence of an `unknown` result has the reason."""

    OK = "ok"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check before a launch.

    `fix` is a sentence; `edits` (of the CustomJob in REST format) or `region` apply the fix to this launch if
    there is only one fix. A problem that `stops` makes the launch fail; any other problem costs money or
    time.
    """

    id: str
    status: CheckStatus
    sentence: str
    fix: str = ""
    edits: tuple[Edit, ...] = ()
    region: str = ""
    stops: bool = True
    seconds: float = 0.0

    @property
    def fatal(self) -> bool:
        """Whether the launch would fail, by the result of the check."""
        return self.status is CheckStatus.PROBLEM and self.stops

    @property
    def words(self) -> str:
        """The sentence with the check's name: `The check "quota" reports: short by 16`."""
        return f'The check "{self.id.partition(":")[0]}" reports: {self.sentence}'

    @property
    def fixable(self) -> bool:
        """Whether there is only one fix."""
        return bool(self.edits or self.region)


RunningJobs = Callable[[], Awaitable[Iterable[Job]]]
"""Function that returns the active jobs of a context; raises BackendError."""


def ok(id: str, sentence: str) -> Check:
    return Check(id, CheckStatus.OK, sentence)


def unknown(id: str, sentence: str, fix: str = "") -> Check:
    return Check(id, CheckStatus.UNKNOWN, sentence, fix)


ORDER = (
    "credentials",
    "served",
    "permissions",
    "namespace",
    "name",
    "dry-run",
    "quota",
    "queue",
    "nodes",
    "runtime",
    "template",
    "image",
    "bucket",
    "account",
    "network",
    "resource",
    "board",
)
"""Check ids in display order; images and buckets are `image:NAME` and `bucket:NAME`."""


def in_order(checks: Sequence[Check]) -> list[Check]:
    """Sort by display order, then by name."""

    def rank(check: Check) -> tuple[int, str]:
        kind = check.id.partition(":")[0]
        return (ORDER.index(kind) if kind in ORDER else len(ORDER), check.id)

    return sorted(checks, key=rank)


Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Image:
    """The parts of a container image's URI; `repository` is "" outside Artifact Registry."""

    uri: str
    host: str
    location: str = ""
    project: str = ""
    repository: str = ""
    package: str = ""
    tag: str = ""
    digest: str = ""

    @property
    def parent(self) -> str:
        """Resource name of the repository."""
        return f"projects/{self.project}/locations/{self.location}/repositories/{self.repository}"


_OLD_HOSTS = {"gcr.io": "us", "us.gcr.io": "us", "eu.gcr.io": "europe", "asia.gcr.io": "asia"}
"""Hosts of Container Registry; Artifact Registry serves them from repositories of the same names."""
_HUB = "docker.io"


def image_of(uri: str) -> Image:
    """Split an image's URI as a container runtime does."""
    name, _, digest = uri.partition("@")
    head, slash, tail = name.rpartition("/")
    tail, _, tag = tail.partition(":")
    parts = f"{head}{slash}{tail}".split("/")
    host = parts.pop(0) if len(parts) > 1 and ("." in parts[0] or ":" in parts[0]) else _HUB
    modern = host.endswith("-docker.pkg.dev")
    if len(parts) > 1 and "." in parts[0] and (modern or host in _OLD_HOSTS):
        # A project within a domain, which other APIs write as domain:project.
        parts[:2] = [":".join(parts[:2])]
    tag = tag or ("" if digest else "latest")
    if modern and len(parts) > 2:
        location = host.removesuffix("-docker.pkg.dev")
        return Image(uri, host, location, parts[0], parts[1], "/".join(parts[2:]), tag, digest)
    if host in _OLD_HOSTS and len(parts) > 1:
        return Image(uri, host, _OLD_HOSTS[host], parts[0], host, "/".join(parts[1:]), tag, digest)
    return Image(uri, host, package="/".join(parts), tag=tag, digest=digest)


def images_of(job: Mapping[str, Any]) -> dict[str, list[Path]]:
    """Return every container image of a job in REST format, with the paths of its fields."""
    image_paths: dict[str, list[Path]] = {}
    for known in custom_jobs(job):
        for index, pool in enumerate(within(known.job, "jobSpec", "workerPoolSpecs") or []):
            for keys in (("containerSpec", "imageUri"), ("pythonPackageSpec", "executorImageUri")):
                uri = within(pool or {}, *keys)
                # A parameter determines the image; its value is known only at run time.
                if uri and "{{" not in str(uri):
                    path = known.image or ("jobSpec", "workerPoolSpecs", index, *keys)
                    paths = image_paths.setdefault(str(uri), [])
                    paths += [path] if path not in paths else []
    return image_paths


def settings_of(job: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the content of the part with a job's account and network: the CustomJobSpec, or the
    body of a pipeline."""
    name = next((name for name in ("jobSpec", *bodies()) if isinstance(job.get(name), Mapping)), "jobSpec")
    return name, job.get(name) or {}


_GS = re.compile(r"(?:gs://|/gcs/)([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])")


_PLACES = (("jobSpec",), ("pipelineJob", "runtimeConfig"), ("pipelineJob", "templateUri"))


def buckets_of(job: Mapping[str, Any]) -> dict[str, list[Path]]:
    """Return every bucket of a job in REST format, with the paths of the texts that name it. For a pipeline
    the result has the buckets of its root and its parameters; the code of its components may use other
    buckets."""
    bucket_paths: dict[str, list[Path]] = {}
    for place in _PLACES:
        for path, text in _texts(within(job, *place), place):
            for name in dict.fromkeys(_GS.findall(text)):
                bucket_paths.setdefault(name, []).append(path)
    return bucket_paths


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _texts(inner, (*path, index))


_DUAL = {
    "nam4": ("us-central1", "us-east1"),
    "eur4": ("europe-north1", "europe-west4"),
    "eur5": ("europe-west1", "europe-west2"),
    "eur7": ("europe-west2", "europe-west3"),
    "eur8": ("europe-west3", "europe-west6"),
    "asia1": ("asia-northeast1", "asia-northeast2"),
}
_CONTINENTS = {"us": "us-", "eu": "europe-", "asia": "asia-"}


def bucket_near(location: str, region: str) -> bool | None:
    """Return whether a bucket in `location` stores its data in `region`; None if unknown."""
    location = location.lower()
    if location in _DUAL:
        return region in _DUAL[location]
    if location in _CONTINENTS:
        return region.startswith(_CONTINENTS[location])
    return None if "-" not in location else location == region


COLD = {"NEARLINE": 30, "COLDLINE": 90, "ARCHIVE": 365}
"""Storage classes that bill each read, with a minimum storage time in days: a job that rewrites checkpoints
pays for it."""


def substituted(value: str, old: str, new: str) -> str | None:
    """Replace `old` with `new` in a `value` that is `old` or a path with it; None for any other value. A part
    without a slash does not count, because a `1` would match by chance."""
    if value == old:
        return new
    head, parts, tail = old.partition(value)
    if not parts or "/" not in value or len(new) < len(head) + len(tail):
        return None
    if not (new.startswith(head) and new.endswith(tail)):
        return None
    return new[len(head) : len(new) - len(tail)]
