"""Faults of the bucket server on request: errors, delays and broken uploads."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tui.emulator.storage.store import StoreError, no_bucket

KINDS = ("", "unavailable", "denied", "missing", "rate")
_FOREVER = float("inf")


@dataclass(frozen=True, slots=True)
class BucketFaults:
    """The default is a service without faults. Times are in seconds."""

    kind: str = ""
    """The error of every request: one of `KINDS`, "" for none."""
    bucket: str = ""
    """Only this bucket; all of them when empty."""
    delay: float = 0.0
    """Before each reply."""
    cut_after: int = 0
    """Bytes of an upload's body after which its connection breaks; 0 for never."""
    lasts: float = 0.0
    """How long the faults last; 0 until they are switched off."""
    times: int = 0
    """Number of requests that have the faults; 0 for any number."""

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> BucketFaults:
        """From the admin's request; faults that it does not name are off.

        Raises:
            ValueError: naming the invalid field.
        """
        kind, bucket = request.get("kind", ""), request.get("bucket", "")
        if kind not in KINDS:
            raise ValueError(f"kind is one of {', '.join(k for k in KINDS if k)} or empty, not {kind!r}")
        if not isinstance(bucket, str):
            raise ValueError(f"bucket is a name, not {bucket!r}")
        return cls(
            kind,
            bucket.removeprefix("gs://").rstrip("/"),
            delay=_number(request, "delay", 600.0),
            cut_after=int(_number(request, "cut_after", 1e15)),
            lasts=_number(request, "lasts", 86400.0),
            times=int(_number(request, "times", 1e9)),
        )


class ActiveBucketFaults:
    """The present faults. One thread sets and another one reads them, so `set` replaces them as a whole."""

    def __init__(self) -> None:
        self._state = (BucketFaults(), _FOREVER)
        self._left = 0

    @property
    def current(self) -> BucketFaults:
        """The faults in force; none where their time has passed."""
        faults, until = self._state
        over = time.monotonic() >= until or (faults.times and self._left <= 0)
        return BucketFaults() if over else faults

    def set(self, faults: BucketFaults) -> None:
        """Replace the faults."""
        self._left = faults.times
        self._state = (faults, time.monotonic() + faults.lasts if faults.lasts else _FOREVER)

    def take(self, bucket: str) -> BucketFaults:
        """The faults of the next request to `bucket` ("" for the list of buckets); counts the request."""
        faults, until = self._state
        if faults.bucket not in {"", bucket} or time.monotonic() >= until:
            return BucketFaults()
        if faults.times:
            if self._left <= 0:
                return BucketFaults()
            self._left -= 1
        return faults


def raise_fault(faults: BucketFaults) -> None:
    """Raise the fault's StoreError, if it has one."""
    if faults.kind == "unavailable":
        raise StoreError(503, "backendError", "We encountered an internal error. Please try again.")
    if faults.kind == "rate":
        raise StoreError(429, "rateLimitExceeded", "The rate limit of this bucket was exceeded.")
    if faults.kind == "denied":
        raise StoreError(
            403,
            "forbidden",
            "The caller does not have storage.objects.get access to the Google Cloud Storage object. "
            "Permission 'storage.objects.get' denied on resource (or it may not exist).",
        )
    if faults.kind == "missing":
        raise no_bucket()


def _number(request: Mapping[str, Any], name: str, most: float) -> float:
    value = request.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError(f"{name} is a number from 0 to {most:g}, not {value!r}")
    return float(value)
