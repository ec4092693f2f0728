"""Resources of buckets and objects in JSON API format."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from tui.emulator.storage.store import StoredBucket, StoredObject

LOCATION = "US-CENTRAL1"
"""Location of a bucket that the emulator created because a job names it."""
MULTI = {"US": "multi-region", "EU": "multi-region", "ASIA": "multi-region", "NAM4": "dual-region"}
BUCKET_FIELDS = (
    "location", "storageClass", "labels", "versioning", "lifecycle", "iamConfiguration", "softDeletePolicy",
    "hierarchicalNamespace", "autoclass", "customPlacementConfig", "rpo", "encryption",
    "defaultEventBasedHold",
)  # fmt: skip
"""Fields of a bucket that a client may set; all except location and class are only stored."""


def bucket_json(bucket: StoredBucket, base: str, project_number: str) -> dict[str, Any]:
    location = str(bucket.body.get("location") or LOCATION).upper()
    kind = "dual-region" if "+" in location else MULTI.get(location, "region")
    resource = {
        "kind": "storage#bucket",
        "id": bucket.name,
        "name": bucket.name,
        "selfLink": f"{base}/storage/v1/b/{bucket.name}",
        "projectNumber": project_number,
        "generation": str(bucket.created),
        "metageneration": str(bucket.metageneration),
        "location": location,
        "locationType": kind,
        "storageClass": str(bucket.body.get("storageClass") or "STANDARD"),
        "timeCreated": _time(bucket.created),
        "updated": _time(bucket.updated),
        "etag": _etag(bucket.metageneration),
    }
    return resource | {k: v for k, v in bucket.body.items() if k in BUCKET_FIELDS and k not in resource}


def layout_json(bucket: dict[str, Any]) -> dict[str, Any]:
    """Return the storage layout of a bucket of `bucket_json`, which gcloud requests before it lists or
    copies.

    https://docs.cloud.google.com/storage/docs/json_api/v1/buckets/getStorageLayout
    """
    return {
        "kind": "storage#storageLayout",
        "bucket": bucket["name"],
        "location": bucket["location"],
        "locationType": bucket["locationType"],
        "hierarchicalNamespace": {"enabled": False},
    }


def object_json(obj: StoredObject, base: str) -> dict[str, Any]:
    where = f"b/{obj.bucket}/o/{quote(obj.name, safe='')}"
    resource: dict[str, Any] = {
        "kind": "storage#object",
        "id": f"{obj.bucket}/{obj.name}/{obj.generation}",
        "selfLink": f"{base}/storage/v1/{where}",
        "mediaLink": f"{base}/download/storage/v1/{where}?generation={obj.generation}&alt=media",
        "name": obj.name,
        "bucket": obj.bucket,
        "generation": str(obj.generation),
        "metageneration": str(obj.metageneration),
        "storageClass": "STANDARD",
        "size": str(obj.size),
        "timeCreated": _time(obj.created),
        "updated": _time(obj.updated),
        "timeStorageClassUpdated": _time(obj.created),
        "etag": _etag(obj.generation + obj.metageneration),
    }
    if obj.crc32c:
        resource["crc32c"] = obj.crc32c
    if obj.md5:
        resource["md5Hash"] = obj.md5
    return resource | dict(obj.body)


def media_headers(obj: StoredObject) -> dict[str, str]:
    """Return the download headers that describe the object."""
    sums = [f"crc32c={obj.crc32c}"] * bool(obj.crc32c) + [f"md5={obj.md5}"] * bool(obj.md5)
    headers = {
        "accept-ranges": "bytes",
        "etag": _etag(obj.generation + obj.metageneration),
        "last-modified": datetime.fromtimestamp(obj.updated / 1e6, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "x-goog-generation": str(obj.generation),
        "x-goog-metageneration": str(obj.metageneration),
        "x-goog-storage-class": str(obj.body.get("storageClass", "STANDARD")),
        "x-goog-stored-content-encoding": str(obj.body.get("contentEncoding", "identity")),
        "x-goog-stored-content-length": str(obj.size),
    }
    if sums:
        headers["x-goog-hash"] = ",".join(sums)
    for key in ("contentEncoding", "contentDisposition", "contentLanguage"):
        if key in obj.body:
            # Headers can't contain line breaks or non-ASCII characters.
            text = str(obj.body[key]).encode("ascii", "replace").decode()
            headers["content-" + key.removeprefix("content").lower()] = " ".join(text.split())
    return headers


def _etag(number: int) -> str:
    return base64.b64encode(number.to_bytes(9, "big")).decode()


def _time(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).isoformat(timespec="milliseconds")[:23] + "Z"
