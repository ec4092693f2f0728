"""The rows of the jobs screen: filter, order and groups. The cost of an update depends on the changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from textual.content import Content

from tui.domain.core.formatting import accelerators_text, age, pieces
from tui.domain.core.job import Job
from tui.domain.core.short_ids import short_ids
from tui.domain.core.states import JobState
from tui.domain.core.text import plain
from tui.domain.fields.field import SortKey
from tui.domain.fields.job_row import JobRow, JobSources
from tui.domain.fields.jobs import SORTS, newest_first
from tui.domain.jobs.query import JobQuery
from tui.domain.jobs.tree import above, accelerators_at_work
from tui.kinds.registry import kind_of
from tui.screens.jobs.job_tree import JobTree
from tui.store.jobs.table import JobStore
from tui.widgets.state import state_content
from tui.widgets.table.rows import Listing, grouped
from tui.widgets.table.table import Cells, Table

GROUPS = ("", "region", "state", "kind")
"""Properties by which jobs can be grouped; "" for no groups."""
HEAD = "group "
"""Prefix of the key of a group's row. No resource name starts with it."""
PART = "└ "
"""Prefix of the name of a job that is listed below its parent job."""
OPEN, CLOSED = "▾ ", "▸ "
"""Prefixes of the name of a job whose parts can be hidden: open and closed."""
MANY = 1_000
"""Number of jobs above which a filter that depends on the time is applied only every `EVERY` seconds."""
EVERY = 10


@dataclass
class JobOrder:
    """The filter, order and grouping of the list."""

    sort: str = "age"
    reverse: bool = False
    group: str = GROUPS[0]
    query: JobQuery = field(default_factory=JobQuery)


class JobRows:
    """Connects the job store to the table. `cells` creates a job's row, `sources` provide its cost."""

    def __init__(
        self,
        store: JobStore,
        clock: Callable[[], datetime],
        cells: Callable[[Job, datetime], Cells],
        sources: JobSources,
        *,
        as_of: Callable[[Job], datetime] | None = None,
    ) -> None:
        self.store = store
        self.order = JobOrder()
        self.tree = JobTree(store)
        self._clock = clock
        self._now = clock()
        self._job_cells = cells
        self._sources = replace(sources, accelerators=self.accelerators)
        self.groups_known = False
        """Whether the user has already closed or opened the groups in an earlier run."""
        self._as_of = as_of
        self._listing: Listing[Job] = Listing(store.jobs)
        self._changed: dict[str, None] = {}
        """Changed jobs in order of arrival, which is nearly the list's order; a set would shuffle them."""
        self._shown_texts: dict[str, tuple[str, ...]] = {}
        """The last shown texts of each row that change with time."""
        self._members: dict[str, list[str]] = {}
        """The jobs of each group."""
        self._suffixes: Mapping[str, str] = {}
        """Short ids of the jobs whose names repeat."""
        self._total = 0, (-1, -1)
        """Number of jobs that are not a part of another job, cached with the numbers of jobs and parents at
        that time."""
        self._table: Table | None = None
        self._known_parents = 0
        self._shown_order: JobOrder | None = None
        self._ticks = 0

    @property
    def count(self) -> int:
        """Number of matching jobs, including jobs of closed groups."""
        return len(self._listing.order)

    @property
    def total(self) -> int:
        """Listed jobs, matching or not; a job and its parts count once."""
        jobs, parents = self.store.jobs, self.store.parents
        if self._total[1] != (len(jobs), len(parents)):
            of_others = sum(name in jobs and parent in jobs for name, parent in parents.items())
            self._total = len(jobs) - of_others, (len(jobs), len(parents))
        return self._total[0]

    @property
    def hidden(self) -> int:
        """Jobs that the filter hides."""
        return self.total - (self.count - self.tree.count)

    def count_text(self) -> str:
        """Return `3 of 42 + 8 parts`, in which a job and its parts count once."""
        parts, total = self.tree.count, self.total
        text = f"{total - self.hidden:,} of {total:,}" if self.hidden else f"{total:,}"
        return text + (f" + {pieces(parts, 'part')}" if parts else "")

    def note(self, names: Iterable[str]) -> None:
        """Record changed jobs, which the next `show` updates."""
        self._changed.update(dict.fromkeys(names))

    def show(self, table: Table) -> None:
        """Update the table with the changed jobs, the filter, the order and the groups."""
        self._now = self._clock()
        changed, self._changed = self._changed, {}
        for name in [name for name in self._shown_texts if name not in self.store.jobs]:
            del self._shown_texts[name]
        order, before = self.order, self._shown_order
        if order != before:
            regrouped = (before is None or order.group != before.group) and not self.groups_known
            self.groups_known = False
            self._shown_order = replace(order)
            matches = self._matches if order.query.terms else None
            self._listing.configure(matches, self._sort_key(), reverse=order.reverse)
            moved = True
        else:
            regrouped = False
            # A later read may show that a job is a part of another job.
            moved = self._listing.update(changed) or self._known_parents != len(self.store.parents)
        self._known_parents = len(self.store.parents)
        if moved or (order.group and self._regrouped(changed)):
            tree = self.tree
            depths, dimmed, folded = tree.depths, tree.dimmed, tree.folded
            self._table = table
            keys, parents = self._grouped_order(table if regrouped else None)
            table.show_lazily(keys, self._cells, parents)
            table.change((depths.keys() ^ tree.depths.keys()) | (dimmed ^ tree.dimmed))
            table.change([name for name in folded | tree.folded if folded[name] != tree.folded[name]])
            table.change(self._note_repeats())
        table.change(changed.keys())
        # A job's values are the sum of its parts' values.
        table.change({name for part in changed for name in above(part, self.store.parents)})
        if changed and order.group:
            table.change([key for key in table.in_view if key.startswith(HEAD)])
        # All rows show the same moment, because different moments would contradict the order by age.
        table.change(self._outdated(table))

    def tick(self, table: Table) -> None:
        """Update the ages in view, and an order or filter by time, once a second."""
        self._now = self._clock()
        self._ticks += 1
        timed = any(term.key in {"age", "duration"} for term in self.order.query.terms)
        if timed and (len(self.store.jobs) < MANY or not self._ticks % EVERY):
            self.note(self.store.jobs)
        elif self.order.sort in {"duration", "cost"}:
            self.note(self.store.active)
        if self._changed:
            self.show(table)
        table.change(self._outdated(table))

    def _outdated(self, table: Table) -> list[str]:
        """Return the rows in view whose ages or costs are outdated."""
        shown = self._shown_texts
        return [key for key in table.in_view if key in shown and shown[key] != self._time_texts(key)]

    def _moment(self, job: Job) -> datetime:
        """Return the moment of a job's ages and cost: now, or the last read of the job."""
        return self._now if self._as_of is None else min(self._now, self._as_of(job))

    # One job

    def _matches(self, job: Job) -> bool:
        return self.order.query.matches(job, self._now)

    def _sort_key(self) -> Callable[[Job], SortKey]:
        field = SORTS[self.order.sort]
        if field.key == "age":
            return newest_first
        return lambda job: field.sort_key(JobRow(job, self._now, self._sources), job.name)

    def _cells(self, key: str) -> Cells:
        if key.startswith(HEAD):
            return self._head(key)
        self._shown_texts[key] = self._time_texts(key)
        cells = dict(self._job_cells(self.store.jobs[key], self._moment(self.store.jobs[key])))
        if key in self._suffixes:
            cells["name"] = Content.assemble(
                cells["name"], (f" #{plain(self._suffixes[key])}", "$text-muted")
            )
        name, tree = cells["name"], self.tree
        if key in tree.dimmed or key in self.store.unconfirmed:
            cells = {column: Content.styled(str(cell), "$text-disabled") for column, cell in cells.items()}
            name = cells["name"]
        if key in tree.folded and self._table is not None:
            mark = OPEN if self._table.is_open(key) else CLOSED
            hidden = "" if self._table.is_open(key) else f"  {pieces(tree.folded[key], 'part')}"
            name = Content.assemble((mark, "$text-muted"), name, (hidden, "$text-muted"))
            cells["accelerators"] = Content(accelerators_text(self.accelerators(self.store.jobs[key])))
        if key in tree.depths:
            before = "  " * (tree.depths[key] - 1) + PART
            name = Content.assemble(
                (before, "$text-muted"), name if key in tree.folded else self._part_name(key) or name
            )
        if tree.is_counted_elsewhere(key):
            cells["cost"] = cells["accelerators"] = Content("")
        return {**cells, "name": name}

    def accelerators(self, job: Job) -> dict[str, int]:
        """Return the accelerators of a job with its parts; of an active job, the accelerators in use."""
        if job.state.active and any(
            name in self.store.jobs for name in self.store.children.get(job.name, ())
        ):
            return accelerators_at_work(self.store.own_parts(job))
        return job.accelerators

    def _part_name(self, key: str) -> str:
        """Return a part's name without its parent's name; a narrow column would cut the complete name."""
        job, parent = self.store.jobs[key], self.store.jobs.get(self.store.parents.get(key, ""))
        beginning = f"{parent.display_name}-" if parent is not None else ""
        rest = job.display_name.removeprefix(beginning)
        return plain(rest) if beginning and rest and rest != job.display_name else ""

    def _note_repeats(self) -> list[str]:
        """Find the jobs whose names repeat. Return the jobs whose suffix has changed. Long lists have no
        suffixes."""
        jobs, before = self.store.jobs, self._suffixes
        self._suffixes = short_ids(jobs.values()) if len(jobs) <= MANY else {}
        return [
            name for name in before.keys() | self._suffixes if before.get(name) != self._suffixes.get(name)
        ]

    def _time_texts(self, key: str) -> tuple[str, ...]:
        """Return the texts of a row that change with time."""
        job = self.store.jobs.get(key)
        if job is None:
            return ()
        now = self._moment(job)
        cost = self._sources.cost(job, now) if self._sources.cost is not None else ""
        return age(job.age(now)), age(job.duration(now)), cost

    # Groups

    def _group_of(self, name: str) -> str:
        job = self.store.jobs[name]
        if self.order.group == "state":
            return HEAD + job.state.value.lower()
        if self.order.group == "kind":
            return HEAD + kind_of(job).words.noun
        return f"{HEAD}{job.context}/{job.region}"

    def _regrouped(self, changed: Iterable[str]) -> bool:
        """Return whether a job has moved to another group, e.g. because its state has changed."""
        return self.order.group == "state" and any(name in self.store.jobs for name in changed)

    def _grouped_order(self, fresh: Table | None) -> tuple[list[str], Mapping[str, str]]:
        """Return the keys in order, and the key above each row. `fresh` is a table whose groups are new."""
        self._members = {}
        keys = self.tree.arrange(self._listing.order)
        heads: dict[str, str] = {}
        if self.order.group:
            keys, heads, self._members = grouped(keys, self._group_of)
            self.tree.split(keys, heads)
            if fresh is not None and len(self._members) > 1:
                # Large groups start closed: their heads summarise them.
                for head, names in self._members.items():
                    fresh.open_group(head, len(names) <= MANY)
        return keys, {**heads, **self.tree.fold(self._table)}

    def fold(self, table: Table, group: str) -> None:
        """Show or hide the parts of a job, or the jobs of a group. The choice is saved for the next start."""
        on = not table.is_open(group)
        if not group.startswith(HEAD):
            self.tree.open(group, on)
        table.open_group(group, on)

    def _replicas(self, head: str) -> int:
        """Return the replicas of a group's jobs, each counted once."""
        jobs = [self.store.jobs[name] for name in self._members.get(head, []) if name in self.store.jobs]
        parts = [self.store.own_part(job) for job in jobs]
        return sum(part.replica_count for part in parts if part is not None)

    def _head(self, key: str) -> Cells:
        # A job and its parts count once.
        names = [name for name in self._members.get(key, []) if name not in self.tree.depths]
        jobs = [self.store.jobs[name] for name in names if name in self.store.jobs]
        title = plain(key.removeprefix(HEAD))
        states = Counter(job.state for job in jobs)
        words = [
            Content.assemble(f"{count:,} ", state_content(state))
            for state, count in sorted(states.items(), key=lambda item: list(JobState).index(item[0]))
        ]
        return {
            "state": Content.styled("", ""),
            "name": Content.assemble((title, "bold"), (f"  {pieces(len(names), 'job')}", "$text-muted")),
            "replicas": Content.styled(f"{self._replicas(key):,}", "$text-muted"),
            "progress": Content("  ").join(words) if words else Content(pieces(0, "job")),
        }
