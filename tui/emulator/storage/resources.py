"""Resources of buckets and objects in the JSON API's form."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from tui.emulator.storage.store import Bucket, StoredObject

LOCATION = "US-CENTRAL1"
"""Location of a bucket that the emulator created because a job names it."""
MULTI = {"US": "multi-region", "EU": "multi-region", "ASIA": "multi-region", "NAM4": "dual-region"}
BUCKET_FIELDS = (
    "location", "storageClass", "labels", "versioning", "lifecycle", "iamConfiguration", "softDeletePolicy",
    "hierarchicalNamespace", "autoclass", "customPlacementConfig", "rpo", "encryption",
    "defaultEventBasedHold",
)  # fmt: skip
"""Fields of a bucket that a client may set; all but location and class are only stored."""


def bucket_json(one: Bucket, base: str, project_number: str) -> dict[str, Any]:
    location = str(one.body.get("location") or LOCATION).upper()
    kind = "dual-region" if "+" in location else MULTI.get(location, "region")
    found = {
        "kind": "storage#bucket",
        "id": one.name,
        "name": one.name,
        "selfLink": f"{base}/storage/v1/b/{one.name}",
        "projectNumber": project_number,
        "generation": str(one.created),
        "metageneration": str(one.metageneration),
        "location": location,
        "locationType": kind,
        "storageClass": str(one.body.get("storageClass") or "STANDARD"),
        "timeCreated": _time(one.created),
        "updated": _time(one.updated),
        "etag": _etag(one.metageneration),
    }
    return found | {k: v for k, v in one.body.items() if k in BUCKET_FIELDS and k not in found}


def layout_json(bucket: dict[str, Any]) -> dict[str, Any]:
    """The storage layout of a bucket of `bucket_json`; gcloud asks for it before it lists or copies.

    https://docs.cloud.google.com/storage/docs/json_api/v1/buckets/getStorageLayout
    """
    return {
        "kind": "storage#storageLayout",
        "bucket": bucket["name"],
        "location": bucket["location"],
        "locationType": bucket["locationType"],
        "hierarchicalNamespace": {"enabled": False},
    }


def object_json(one: StoredObject, base: str) -> dict[str, Any]:
    where = f"b/{one.bucket}/o/{quote(one.name, safe='')}"
    made: dict[str, Any] = {
        "kind": "storage#object",
        "id": f"{one.bucket}/{one.name}/{one.generation}",
        "selfLink": f"{base}/storage/v1/{where}",
        "mediaLink": f"{base}/download/storage/v1/{where}?generation={one.generation}&alt=media",
        "name": one.name,
        "bucket": one.bucket,
        "generation": str(one.generation),
        "metageneration": str(one.metageneration),
        "storageClass": "STANDARD",
        "size": str(one.size),
        "timeCreated": _time(one.created),
        "updated": _time(one.updated),
        "timeStorageClassUpdated": _time(one.created),
        "etag": _etag(one.generation + one.metageneration),
    }
    if one.crc32c:
        made["crc32c"] = one.crc32c
    if one.md5:
        made["md5Hash"] = one.md5
    return made | dict(one.body)


def media_headers(one: StoredObject) -> dict[str, str]:
    """Headers of a download that describe the object."""
    sums = [f"crc32c={one.crc32c}"] * bool(one.crc32c) + [f"md5={one.md5}"] * bool(one.md5)
    found = {
        "accept-ranges": "bytes",
        "etag": _etag(one.generation + one.metageneration),
        "last-modified": datetime.fromtimestamp(one.updated / 1e6, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "x-goog-generation": str(one.generation),
        "x-goog-metageneration": str(one.metageneration),
        "x-goog-storage-class": str(one.body.get("storageClass", "STANDARD")),
        "x-goog-stored-content-encoding": str(one.body.get("contentEncoding", "identity")),
        "x-goog-stored-content-length": str(one.size),
    }
    if sums:
        found["x-goog-hash"] = ",".join(sums)
    for key in ("contentEncoding", "contentDisposition", "contentLanguage"):
        if key in one.body:
            # A header can't contain line breaks or other than ASCII characters.
            text = str(one.body[key]).encode("ascii", "replace").decode()
            found["content-" + key.removeprefix("content").lower()] = " ".join(text.split())
    return found


def _etag(number: int) -> str:
    return base64.b64encode(number.to_bytes(9, "big")).decode()


def _time(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).isoformat(timespec="milliseconds")[:23] + "Z"
