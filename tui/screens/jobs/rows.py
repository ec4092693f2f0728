"""The rows of the jobs screen: filter, order and groups; an update costs as much as what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from textual.content import Content

from tui.domain.core.formatting import accelerators_text, age, pieces
from tui.domain.core.job import Job
from tui.domain.core.short_ids import short_ids
from tui.domain.core.states import JobState
from tui.domain.core.text import plain
from tui.domain.jobs.query import JobQuery
from tui.domain.jobs.tree import above, accelerators_at_work
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
        self.dimmed: frozenset[str] = frozenset()
        """Jobs that do not match: they are listed because a part of theirs does."""
        self._depths: Mapping[str, int] = {}
        """How deep each of `parts` stands."""
        self.part_count = 0
        """Matching jobs that are a part of another listed one, in whatever group they stand."""
        self._suffixes: Mapping[str, str] = {}
        """Short ids of the jobs whose names repeat."""
        self._folded: Counter[str] = Counter()
        """Listed parts, in all depths, of each job whose parts can be hidden."""
        self._fold_known: set[str] = set()
        self.opened: dict[str, None] = {}
        """Jobs whose parts the user has opened, in this order; the others' are hidden."""
        self._total = 0, (-1, -1)
        """Jobs that are part of no other one, and of how many jobs and parents that was counted."""
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
        jobs, parts, parents = self.store.jobs, self.part_count, self.store.parents
        if self._total[1] != (len(jobs), len(parents)):
            of_others = sum(name in jobs and parent in jobs for name, parent in parents.items())
            self._total = len(jobs) - of_others, (len(jobs), len(parents))
        shown, total = self.count - parts, self._total[0]
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
            before, dimmed, folded = self.parts, self.dimmed, self._folded
            self._table = table
            order, parents = self._grouped_order(table if regrouped else None)
            table.show_lazily(order, self._cells, parents)
            table.change((before ^ self.parts) | (dimmed ^ self.dimmed))
            table.change([name for name in folded | self._folded if folded[name] != self._folded[name]])
            table.change(self._note_repeats())
        table.change(changed.keys())
        # What a job has is the sum of what its parts have.
        table.change({name for part in changed for name in above(part, self.store.parents)})
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
        if column == "accelerators":
            return lambda job: (False, -sum(self.accelerators(job).values()), job.name)
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
        name = cells["name"]
        if key in self.dimmed:
            cells = {column: Content.styled(str(cell), "$text-disabled") for column, cell in cells.items()}
            name = cells["name"]
        if key in self._folded and self._table is not None:
            mark = OPEN if self._table.is_open(key) else CLOSED
            hidden = "" if self._table.is_open(key) else f"  {pieces(self._folded[key], 'part')}"
            name = Content.assemble((mark, "$text-muted"), name, (hidden, "$text-muted"))
            cells["accelerators"] = Content(accelerators_text(self.accelerators(self.store.jobs[key])))
        if key in self.parts:
            before = "  " * (self._depths[key] - 1) + PART
            name = Content.assemble(
                (before, "$text-muted"), name if key in self._folded else self._part_name(key) or name
            )
        if key in self.dimmed or (key in self.parts and self.store.parents[key] not in self.dimmed):
            # Work is counted once, and the row that has all of it is another one.
            cells["cost"] = cells["accelerators"] = Content("")
        return {**cells, "name": name}

    def accelerators(self, job: Job) -> dict[str, int]:
        """Those that it has with its parts: of one that goes on, those at work."""
        if job.state.active and any(
            name in self.store.jobs for name in self.store.children.get(job.name, ())
        ):
            return accelerators_at_work(self.store.own_parts(job))
        return job.accelerators

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
        known = self.store.parents
        order, depths, dimmed = below_parents(self._listing.order, known, self.store.jobs)
        self.dimmed = dimmed
        self.part_count = sum(name not in dimmed for name in depths)
        heads: dict[str, str] = {}
        if self.group:
            order, heads, self._members = grouped(order, self._group_of)
            # One in another group than its parent stands for itself.
            together = [name for name in order if name in depths and heads[name] == heads[known[name]]]
            depths = {}
            for name in together:
                depths[name] = depths.get(known[name], 0) + 1
        below = [name for name in depths if known[name] not in dimmed]
        self.parts, self._depths = frozenset(depths), depths
        if self.group and fresh is not None and len(self._members) > 1:
            # Large groups start closed: their heads summarise them.
            for head, names in self._members.items():
                fresh.open_group(head, len(names) <= MANY)
        # What matches a filter is shown, so a parent that does not match hides nothing.
        return order, {**heads, **self._fold({name: known[name] for name in below})}

    def _fold(self, parents: Mapping[str, str]) -> Mapping[str, str]:
        """Count the parts that can be hidden; those of a new job are, unless the user has opened it."""
        self._folded = Counter(over for name in parents for over in above(name, parents))
        for parent in self._folded.keys() - self._fold_known:
            self._fold_known.add(parent)
            if self._table is not None and parent not in self.opened:
                self._table.open_group(parent, False)
        return parents

    def fold(self, table: Table, group: str) -> None:
        """Show or hide the parts of a job, or the jobs of a group; kept for the next start."""
        on = not table.is_open(group)
        if not group.startswith(HEAD):
            self.opened.pop(group, None)
            if on:
                self.opened[group] = None
        table.open_group(group, on)

    def _replicas(self, head: str) -> int:
        """The replicas of a group's jobs, each counted once."""
        jobs = [self.store.jobs[name] for name in self._members.get(head, []) if name in self.store.jobs]
        parts = [self.store.own_part(job) for job in jobs]
        return sum(part.replica_count for part in parts if part is not None)

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
            "replicas": Content.styled(f"{self._replicas(key):,}", "$text-muted"),
            "progress": Content("  ").join(words) if words else Content(pieces(0, "job")),
        }
