"""The jobs list as a tree. Parts are below their job, folded until the user opens them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tui.domain.jobs.tree import above
from tui.store.jobs.table import JobStore
from tui.widgets.table.rows import below_parents
from tui.widgets.table.table import Table


class JobTree:
    """The parts of the listed jobs."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self.depths: Mapping[str, int] = {}
        """Depth of each listed job that is below another job."""
        self.dimmed: frozenset[str] = frozenset()
        """Jobs that do not match the filter, but are listed because one of their parts matches."""
        self.count = 0
        """Number of matching jobs that are a part of another listed job, in any group."""
        self.folded: Counter[str] = Counter()
        """Number of listed parts, at all depths, of each job whose parts can be hidden."""
        self._known: set[str] = set()
        """Jobs that were folded when they were first listed."""
        self.opened: dict[str, None] = {}
        """Jobs whose parts the user has opened, in this order. The parts of other jobs are hidden."""

    def arrange(self, matches: list[str]) -> list[str]:
        """Order the matching jobs, each part below its parent job."""
        order, self.depths, self.dimmed = below_parents(matches, self._store.parents, self._store.jobs)
        self.count = sum(name not in self.dimmed for name in self.depths)
        return order

    def split(self, order: Iterable[str], heads: Mapping[str, str]) -> None:
        """Separate the parts that are in another group than the job above them. `heads` are the groups."""
        known = self._store.parents
        together = [name for name in order if name in self.depths and heads[name] == heads[known[name]]]
        depths: dict[str, int] = {}
        for name in together:
            depths[name] = depths.get(known[name], 0) + 1
        self.depths = depths

    def fold(self, table: Table | None) -> dict[str, str]:
        """Return the job above each part that can be hidden. Fold new jobs that the user has not opened.

        A match stays visible, because a job that does not match the filter hides nothing.
        """
        known = self._store.parents
        parents = {name: known[name] for name in self.depths if known[name] not in self.dimmed}
        self.folded = Counter(ancestor for name in parents for ancestor in above(name, parents))
        for parent in self.folded.keys() - self._known:
            self._known.add(parent)
            if table is not None and parent not in self.opened:
                table.open_group(parent, False)
        return parents

    def open(self, job: str, on: bool) -> None:
        """Record that the user has shown or hidden the parts of a job."""
        self.opened.pop(job, None)
        if on:
            self.opened[job] = None

    def is_counted_elsewhere(self, job: str) -> bool:
        """Return whether the row of another job counts this job's cost and accelerators."""
        return job in self.dimmed or (job in self.depths and self._store.parents[job] not in self.dimmed)
