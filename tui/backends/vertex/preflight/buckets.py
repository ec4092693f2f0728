"""Checks that a bucket exists, is near the job, and has a storage class suitable for checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from tui.backends.interface import BackendError, Bucket, NotFound, PermissionDenied
from tui.backends.vertex.storage import Storage
from tui.domain.document.document_edit import Edit
from tui.domain.vertex.preflight import COLD, Check, CheckStatus, Path, bucket_near, ok, unknown


class Buckets:
    """Looks buckets up. `makes` is true if the service creates the buckets that a job names."""

    def __init__(self, storage: Storage, makes: bool) -> None:
        self._storage = storage
        self._makes = makes

    async def check(
        self, job: Mapping[str, Any], region: str, name: str, paths: Sequence[Path]
    ) -> Sequence[Check]:
        """Check one bucket that the job names at `paths`."""
        id = f"bucket:{name}"
        try:
            bucket = await self._storage.bucket(name)
        except NotFound:
            if self._makes:
                return [ok(id, f"gs://{name} is created when the job starts")]
            fix = f"`gcloud storage buckets create gs://{name} --location={region}` creates it."
            return [Check(id, CheckStatus.PROBLEM, f"the bucket gs://{name} does not exist", fix)]
        except PermissionDenied as error:
            why = f"reading gs://{name} is not permitted; the job's account may have permission"
            return [unknown(id, why, error.fix)]
        near = bucket_near(bucket.location, region)
        if near is False:
            return [await self._far(id, job, region, bucket, paths)]
        return [self._fit(id, bucket, near)]

    def _fit(self, id: str, bucket: Bucket, near: bool | None) -> Check:
        days = COLD.get(bucket.storage_class)
        if days:
            sentence = (
                f"gs://{bucket.name} has the class {bucket.storage_class}: each read is billed, and "
                f"each object is billed for at least {days} days"
            )
            return Check(
                id, CheckStatus.PROBLEM, sentence, "Use a bucket of the class STANDARD.", stops=False
            )
        if near is None:
            return unknown(id, f"gs://{bucket.name} is in {bucket.location}, which is an unknown location")
        if bucket.location_type not in {"", "region"}:
            # docs/facts/vertex.md 3.7: /gcs of such buckets is not supported for training.
            sentence = (
                f"gs://{bucket.name} is {bucket.location_type} ({bucket.location}); /gcs may be refused"
            )
            fix = "Use a bucket of the job's own region."
            return Check(id, CheckStatus.PROBLEM, sentence, fix, stops=False)
        return ok(id, f"gs://{bucket.name} is in {bucket.location}, {bucket.storage_class.lower()}")

    async def _far(
        self, id: str, job: Mapping[str, Any], region: str, bucket: Bucket, paths: Sequence[Path]
    ) -> Check:
        sentence = (
            f"gs://{bucket.name} is in {bucket.location}, but the job runs in {region}: access is "
            "slow, and traffic between regions is billed"
        )
        try:
            nearer = [b.name for b in await self._storage.buckets() if b.location == region]
        except BackendError:
            nearer = []
        if not nearer:
            return Check(id, CheckStatus.PROBLEM, sentence, f"Use a bucket in {region}.", stops=False)
        # The longest common prefix most likely identifies the same bucket in another location.
        best = max(nearer, key=lambda name: (_alike(name, bucket.name), -len(name)))
        edits = [Edit(path, _renamed(_at(job, path), bucket.name, best)) for path in paths]
        return Check(id, CheckStatus.PROBLEM, sentence, f"Use gs://{best}.", tuple(edits), stops=False)


def _alike(name: str, other: str) -> int:
    """Return the length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(name, other, strict=False)))


def _at(value: Any, path: Path) -> str:
    for part in path:
        value = value[part]
    return str(value)


def _renamed(text: str, old: str, new: str) -> str:
    for head in ("gs://", "/gcs/"):
        text = text.replace(f"{head}{old}/", f"{head}{new}/")
        if text.endswith(head + old):
            text = text[: -len(old)] + new
    return text
