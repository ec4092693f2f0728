"""The rows of the jobs screen: filter, order and groups; an update costs as much as what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from textual.content import Content

from tui.domain.formatting import age, pieces
from tui.domain.job import Job
from tui.domain.job_query import JobQuery
from tui.domain.short_ids import short_ids
from tui.domain.states import JobState
from tui.domain.text import plain
from tui.kinds.registry import kind_of
from tui.store.jobs.table import JobStore
from tui.widgets.state import state_content
from tui.widgets.table.job_table import newest_first, sort_key
from tui.widgets.table.rows import Listing, SortKey, below_parents, grouped
from tui.widgets.table.table import Cells, Table

GROUPS = ("", "region", "state", "kind")
"""What jobs can be grouped by; "" means no groups."""
HEAD = "group "
"""Prefix of the key of a group's row; no resource name starts like this."""
PART = "└ "
"""Before the name of a job that stands below the one it is a part of."""
OPEN, CLOSED = "▾ ", "▸ "
"""Before the name of a job whose parts can be hidden."""
MANY = 1_000
"""From this many jobs, a filter that depends on the time is applied only every `EVERY` seconds."""
EVERY = 10


class JobRows:
    """Connects the job store to the table. `cells` makes a job's row, `cost` returns its cost text, `spent`
    its cost in USD."""

    def __init__(
        self,
        store: JobStore,
        clock: Callable[[], datetime],
        cells: Callable[[Job, datetime], Cells],
        cost: Callable[[Job, datetime], str],
        spent: Callable[[Job, datetime], float | None],
        *,
        as_of: Callable[[Job], datetime] | None = None,
    ) -> None:
        self.store = store
        self.sort = "age"
        self.reverse = False
        self.group = GROUPS[0]
        self.query = JobQuery()
        self._clock = clock
        self._now = clock()
        self._job_cells = cells
        self._cost = cost
        self._spent = spent
        self.groups_known = False
        """The groups were closed or opened by the user already, in an earlier run."""
        self._as_of = as_of
        self._listing: Listing[Job] = Listing(store.jobs)
        self._changed: dict[str, None] = {}
        """In order of arrival, almost that of the list: a set would shuffle what has to be sorted."""
        self._looks: dict[str, tuple[str, ...]] = {}
        self._members: dict[str, list[str]] = {}
        self.parts: frozenset[str] = frozenset()
        """Listed jobs that stand below the one they are a part of."""
        self.part_count = 0
        """Matching jobs that are a part of another matching one, in whatever group they stand."""
        self._suffixes: Mapping[str, str] = {}
        """Short ids of the jobs whose names repeat."""
        self._folded: Counter[str] = Counter()
        """Listed parts of each job whose parts can be hidden."""
        self._fold_known: set[str] = set()
        self._table: Table | None = None
        self._known_parents = 0
        self._asked: tuple[object, ...] = ()
        self._ticks = 0

    @property
    def count(self) -> int:
        """Matching jobs, including those of closed groups."""
        return len(self._listing.order)

    def count_text(self) -> str:
        """`3 of 42 + 8 parts`: a job and its parts are one piece of work."""
        jobs, parts = self.store.jobs, self.part_count
        of_others = sum(name in jobs and parent in jobs for name, parent in self.store.parents.items())
        shown, total = self.count - parts, len(jobs) - of_others
        text = f"{shown:,}" if shown == total else f"{shown:,} of {total:,}"
        return text + (f" + {pieces(parts, 'part')}" if parts else "")

    def note(self, names: Iterable[str]) -> None:
        """These jobs have changed; the next `show` updates them."""
        self._changed.update(dict.fromkeys(names))

    def show(self, table: Table) -> None:
        """Update the table with the changed jobs, the filter, the order and the groups."""
        self._now = self._clock()
        changed, self._changed = self._changed, {}
        for name in [name for name in self._looks if name not in self.store.jobs]:
            del self._looks[name]
        asked = (self.query, self.sort, self.reverse, self.group)
        if asked != self._asked:
            regrouped = self._asked[3:] != asked[3:] and not self.groups_known
            self.groups_known = False
            self._asked = asked
            matches = self._matches if self.query.terms else None
            self._listing.configure(matches, self._sort_key(), reverse=self.reverse)
            moved = True
        else:
            regrouped = False
            # A job's part may be known as such only later.
            moved = self._listing.update(changed) or self._known_parents != len(self.store.parents)
        self._known_parents = len(self.store.parents)
        if moved or (self.group and self._regrouped(changed)):
            before = self.parts
            self._table = table
            order, parents = self._grouped_order(table if regrouped else None)
            table.show_lazily(order, self._cells, parents)
            table.change(before ^ self.parts)
            table.change(self._note_repeats())
        table.change(changed.keys())
        if changed and self.group:
            table.change([key for key in table.in_view if key.startswith(HEAD)])
        # All rows are of one moment: an age beside an older one would contradict their order.
        table.change(self._outdated(table))

    def tick(self, table: Table) -> None:
        """Once a second: update the ages in view, and an order or filter by time."""
        self._now = self._clock()
        self._ticks += 1
        timed = any(term.key in {"age", "duration"} for term in self.query.terms)
        if timed and (len(self.store.jobs) < MANY or not self._ticks % EVERY):
            self.note(self.store.jobs)
        elif self.sort in {"duration", "cost"}:
            self.note(self.store.active)
        if self._changed:
            self.show(table)
        table.change(self._outdated(table))

    def _outdated(self, table: Table) -> list[str]:
        """The rows in view that were made at another moment, where that shows."""
        looks = self._looks
        return [key for key in table.in_view if key in looks and looks[key] != self._time_texts(key)]

    def _moment(self, job: Job) -> datetime:
        """The moment of a job's ages and cost: that of this paint, or of when it was last read."""
        return self._now if self._as_of is None else min(self._now, self._as_of(job))

    # One job

    def _matches(self, job: Job) -> bool:
        return self.query.matches(job, self._now)

    def _sort_key(self) -> Callable[[Job], SortKey]:
        column = self.sort
        if column == "age":
            return newest_first
        if column == "cost":
            return self._dearest_first
        return lambda job: sort_key(job, column, self._now)

    def _dearest_first(self, job: Job) -> SortKey:
        spent = self._spent(job, self._now)
        return (spent is None, 0.0 if spent is None else -spent, job.name)

    def _cells(self, key: str) -> Cells:
        if key.startswith(HEAD):
            return self._head(key)
        self._looks[key] = self._time_texts(key)
        cells = dict(self._job_cells(self.store.jobs[key], self._moment(self.store.jobs[key])))
        if key in self._suffixes:
            cells["name"] = Content.assemble(
                cells["name"], (f" #{plain(self._suffixes[key])}", "$text-muted")
            )
        if key in self.parts:
            cells["name"] = Content.assemble((PART, "$text-muted"), self._part_name(key) or cells["name"])
            parent = self.store.jobs.get(self.store.parents.get(key, ""))
            if parent is None or parent.groups:
                # A piece of work costs once: the row above says it.
                cells["cost"] = Content("")
        elif key in self._folded and self._table is not None:
            mark = OPEN if self._table.is_open(key) else CLOSED
            hidden = "" if self._table.is_open(key) else f"  {pieces(self._folded[key], 'part')}"
            cells["name"] = Content.assemble((mark, "$text-muted"), cells["name"], (hidden, "$text-muted"))
        return cells

    def _part_name(self, key: str) -> str:
        """What a part's name has beside that of the job above it, which a narrow column would cut."""
        job, parent = self.store.jobs[key], self.store.jobs.get(self.store.parents.get(key, ""))
        beginning = f"{parent.display_name}-" if parent is not None else ""
        rest = job.display_name.removeprefix(beginning)
        return plain(rest) if beginning and rest and rest != job.display_name else ""

    def _note_repeats(self) -> list[str]:
        """Find the jobs whose names repeat; returns those whose suffix differs now. Long lists have none."""
        jobs, before = self.store.jobs, self._suffixes
        self._suffixes = short_ids(jobs.values()) if len(jobs) <= MANY else {}
        return [
            name for name in before.keys() | self._suffixes if before.get(name) != self._suffixes.get(name)
        ]

    def _time_texts(self, key: str) -> tuple[str, ...]:
        """The parts of a row that change with time alone."""
        job = self.store.jobs.get(key)
        if job is None:
            return ()
        now = self._moment(job)
        return age(job.age(now)), age(job.duration(now)), self._cost(job, now)

    # Groups

    def _group_of(self, name: str) -> str:
        job = self.store.jobs[name]
        if self.group == "state":
            return HEAD + job.state.value.lower()
        if self.group == "kind":
            return HEAD + kind_of(job).words.noun
        return f"{HEAD}{job.context}/{job.region}"

    def _regrouped(self, changed: Iterable[str]) -> bool:
        """Whether a job has moved to another group, as when its state changes."""
        return self.group == "state" and any(name in self.store.jobs for name in changed)

    def _grouped_order(self, fresh: Table | None) -> tuple[list[str], Mapping[str, str]]:
        self._members = {}
        store_parents = self.store.parents
        order, parts = below_parents(self._listing.order, store_parents)
        self.part_count = len(parts)
        if not self.group:
            self.parts = parts
            return order, self._foldable(parts)
        order, parents, self._members = grouped(order, self._group_of)
        # One in another group than its parent stands for itself.
        self.parts = frozenset(name for name in parts if parents[name] == parents[store_parents[name]])
        if fresh is not None and len(self._members) > 1:
            # Large groups start closed: their heads summarise them.
            for head, names in self._members.items():
                fresh.open_group(head, len(names) <= MANY)
        return order, parents

    def _foldable(self, parts: frozenset[str]) -> Mapping[str, str]:
        """The parts that can be hidden, by name, with the job above each; those of a new job are hidden."""
        jobs, known = self.store.jobs, self.store.parents
        found = {name: known[name] for name in parts if jobs[known[name]].composite}
        self._folded = Counter(found.values())
        for parent in self._folded.keys() - self._fold_known:
            self._fold_known.add(parent)
            if self._table is not None:
                self._table.open_group(parent, False)
        return found

    def _head(self, key: str) -> Cells:
        # A job and its parts are one piece of work.
        names = [name for name in self._members.get(key, []) if name not in self.parts]
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
            "replicas": Content.styled(f"{sum(job.replica_count for job in jobs):,}", "$text-muted"),
            "progress": Content("  ").join(words) if words else Content(pieces(0, "job")),
        }
