"""Training quotas: what may run, what runs, and how old each figure is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota metric in one region.

    `limit` is -1 for unlimited and `None` where it could not be read; `used` is `None` where the service
    reported no figure (which on Vertex usually, but not surely, means never used).
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
    """`used` is what the jobs known to run take: more than the service reported, which comes minutes late."""
    named: bool = False
    """`display_name` describes the quota, and the metric is only a key, as for a cluster's quotas."""
    hardware: str = ""
    """The hardware it counts, as a metric of Vertex AI names it, e.g. `nvidia_a100_gpus`; "" if unknown."""

    @property
    def free(self) -> int | None:
        """What is left; `None` when unlimited or not known."""
        if self.limit is None or self.limit == UNLIMITED or self.used is None:
            return None
        return max(0, self.limit - self.used)
