"""Quotas of a cluster: a list, since what it has is not counted by region and accelerator."""

from __future__ import annotations

from tui.actions.registry import Action, bindings
from tui.screens.quotas.list import QuotasScreen


class ClusterQuotasScreen(QuotasScreen):
    """Queues, quotas of namespaces and node pools."""

    BINDINGS = bindings("quotas")
    PLACEHOLDER = "name or namespace"
    GRID_ELSEWHERE = "A cluster's quotas are a list only; the grid is of regions."

    def blocked_reason(self, found: Action) -> str | None:
        if found.id == "quotas.grid":
            return self.GRID_ELSEWHERE
        return super().blocked_reason(found)
