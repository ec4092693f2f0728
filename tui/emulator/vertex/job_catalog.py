"""The job catalog that the observability services read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.domain.vertex.catalog import all_quota_metrics, region_accelerators
from tui.emulator.interfaces import JobRecord
from tui.emulator.vertex.job_table import CustomJobTable
from tui.emulator.vertex.quota import TrainingQuotas


class JobCatalog:
    """Custom jobs, quotas and regions of the control plane. All calls are fast and local."""

    def __init__(self, table: CustomJobTable, quotas: TrainingQuotas) -> None:
        self._table = table
        self._quotas = quotas

    def find(self, job_id: str) -> JobRecord | None:
        job = self._table.get(job_id)
        return job.record if job else None

    def list(self, project: str | None = None) -> Sequence[JobRecord]:
        """List the jobs, newest first."""
        records = (job.record for job in self._table.newest_first())
        return [record for record in records if project in (None, record.project)]

    def quota_limit(self, project: str, region: str, metric: str) -> int:
        return self._quotas.limit(region, metric)

    def quota_usage(self, project: str, region: str) -> Mapping[str, int]:
        """Return the amounts in use by metric: every known metric, or 0 if unused."""
        return dict.fromkeys(all_quota_metrics(), 0) | self._quotas.usage(project, region)

    def regions(self, project: str) -> Sequence[str]:
        """Return the regions with accelerators for training, and other regions in which the project has
        jobs."""
        return sorted({*region_accelerators(), *(r.location for r in self.list(project))})
