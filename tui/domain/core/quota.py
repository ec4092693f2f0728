"""Training quotas: limits, usage, and the age of each value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota metric in one region.

    `limit` is -1 for unlimited and `None` if it could not be read. `used` is `None` if the service reported
    no usage, which on Vertex usually, but not certainly, means that the quota was never used.
    """

    metric: str
    region: str
    limit: int | None
    used: int | None
    display_name: str = ""
    quota_id: str = ""
    unit: str = ""
    preemptible: bool = False
    limit_read_at: datetime | None = None
    used_at: datetime | None = None
    estimated: bool = False
    """Whether `used` is the sum of the known running jobs, which exceeds the service's late value."""
    named: bool = False
    """Whether `display_name` describes the quota and the metric is only a key, as in a cluster."""
    hardware: str = ""
    """The counted hardware, as named by a metric of Vertex AI, e.g. `nvidia_a100_gpus`; "" if unknown."""

    @property
    def free(self) -> int | None:
        """The unused quota; `None` if unlimited or unknown."""
        if self.limit is None or self.limit == UNLIMITED or self.used is None:
            return None
        return max(0, self.limit - self.used)
