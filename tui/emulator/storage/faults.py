"""Faults of the bucket server on request: errors, delays and broken uploads."""

from __future__ import annotations

from dataclasses import dataclass

from tui.emulator.faults.limit import Limit
from tui.emulator.storage.store import StoreError, no_bucket


@dataclass(frozen=True, slots=True)
class BucketFaults:
    """The faults of the bucket server; the default injects none. Times are in seconds."""

    kind: str = ""
    """Error of every request: unavailable, denied, missing or rate; "" if there is none."""
    bucket: str = ""
    """Bucket that the faults apply to; "" for all buckets."""
    delay: float = 0.0
    """Delay of each reply."""
    cut_after: int = 0
    """Number of bytes of an upload's body after which its connection breaks; 0 means never."""
    lasts: float = 0.0
    """Duration of the faults, 0 until they are cleared."""
    times: int = 0
    """Number of requests with the faults; 0 means any number."""


class ActiveBucketFaults:
    """The faults in force. One thread sets them and another reads them: `set` replaces them atomically."""

    OFF = BucketFaults()

    def __init__(self) -> None:
        self._state = (self.OFF, Limit())

    @property
    def current(self) -> BucketFaults:
        """The faults in force, or the default faults once they are over."""
        faults, limit = self._state
        return self.OFF if limit.used_up else faults

    def set(self, faults: BucketFaults) -> None:
        """Replace the faults."""
        self._state = (faults, Limit(faults.lasts, faults.times))

    def take(self, bucket: str) -> BucketFaults:
        """Return the faults of the next request to `bucket` ("" for the list of buckets), and count the
        request."""
        faults, limit = self._state
        return faults if faults.bucket in {"", bucket} and limit.take() else self.OFF


def raise_fault(faults: BucketFaults) -> None:
    """Raise the fault's StoreError, unless the fault has no error."""
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
