"""Queries of entries: owners, filter, order and start."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tui.emulator.filters.parser import parse
from tui.emulator.filters.syntax import FilterError
from tui.emulator.interfaces import project_id
from tui.emulator.logging.query.plan import QueryPlan, query_plan
from tui.emulator.logging.record import LogSource, StoredEntry
from tui.emulator.logging.store import EntryStore
from tui.emulator.rpc.methods import invalid
from tui.emulator.rpc.paging import query_digest, read_token, write_token

MAX_RESOURCES = 100
DEFAULT_PAGE, MAX_PAGE = 50, 1000
"""Limits of entries.list (docs/facts/vertex.md 5.3)."""
SCAN_SECONDS = 10.0
"""Maximum duration of a scan in seconds; then a list returns the entries found so far and a token, as the API
allows."""

_PARENT = re.compile(
    r"(?P<parent>(?:projects|organizations|folders|billingAccounts)/[^/\s]+)"
    r"(?:/locations/[^/\s]+/buckets/[^/\s]+/views/[^/\s]+)?"
)
_ORDERS = {"": False, "timestamp asc": False, "timestamp": False, "timestamp desc": True}


def owner(parent: str) -> str:
    """Return the store's name of a parent: a project's id, any other parent's full name."""
    return project_id(parent.removeprefix("projects/"))


def owners(field: str, names: Iterable[str]) -> list[str]:
    """Return the owners of resource names: projects as `projects/P`, or one of their log views.

    Raises:
        WireError: INVALID_ARGUMENT for none, too many, or a malformed name.
    """
    matches = []
    for index, name in enumerate(names):
        match = _PARENT.fullmatch(name)
        if match is None:
            raise invalid(
                (f"{field}[{index}]", f"{name!r} must be a resource name such as projects/PROJECT_ID")
            )
        matches.append(owner(match["parent"]))
    if not matches:
        raise invalid((field, "must have at least one name, e.g. projects/PROJECT_ID"))
    if len(matches) > MAX_RESOURCES:
        raise invalid((field, f"has {len(matches)} names; the limit is {MAX_RESOURCES}"))
    return list(dict.fromkeys(matches))


def filter_plan(text: str) -> QueryPlan:
    """Plan a filter. Raises WireError: INVALID_ARGUMENT with the position of the error."""
    try:
        return query_plan(parse(text))
    except FilterError as error:
        raise invalid(("filter", str(error))) from error


@dataclass(frozen=True, slots=True)
class EntryQuery:
    """The query of one page of entries.list."""

    owners: frozenset[str]
    plan: QueryPlan
    newest_first: bool
    size: int
    digest: str
    after: tuple[int, str, int] | None

    @classmethod
    def of(
        cls, names: Sequence[str], text: str, order_by: str, page_size: int, page_token: str
    ) -> EntryQuery:
        """Parse a request. Raises WireError: INVALID_ARGUMENT for an invalid request."""
        projects = frozenset(owners("resource_names", names))
        order = " ".join(order_by.lower().split())
        if order not in _ORDERS:
            raise invalid(("order_by", f'{order_by!r} must be "timestamp asc" or "timestamp desc"'))
        if not 0 <= page_size <= MAX_PAGE:
            raise invalid(("page_size", f"{page_size} must be between 0 and {MAX_PAGE}"))
        newest_first = _ORDERS[order]
        digest = query_digest("entries", *sorted(projects), text, str(newest_first))
        key = read_token(page_token, digest, (int, str, int))
        after = None if key is None else (int(key[0]), str(key[1]), int(key[2]))
        return cls(projects, filter_plan(text), newest_first, page_size or DEFAULT_PAGE, digest, after)

    def read(self, store: EntryStore) -> tuple[list[StoredEntry], str]:
        """Return the page and the token of the next page, or "" after the last page. The method runs in a
        reader's thread."""
        sources = [source for source in store.sources() if self._wants(source)]
        if not sources:
            return [], ""
        rows = store.scan(sources, self.plan.window, newest_first=self.newest_first, after=self.after)
        with contextlib.closing(rows):
            return self._page(store, rows)

    def _page(self, store: EntryStore, rows: Iterator[StoredEntry]) -> tuple[list[StoredEntry], str]:
        deadline = time.monotonic() + SCAN_SECONDS
        page: list[StoredEntry] = []
        last: StoredEntry | None = None
        meets = self.plan.entry
        for count, record in enumerate(rows):
            if count % 64 == 63 and last is not None and (time.monotonic() > deadline or store.closed):
                return page, write_token(last.key, self.digest)
            if meets(record) and not _same(page[-1] if page else None, record):
                if len(page) == self.size:
                    assert last is not None
                    return page, write_token(last.key, self.digest)
                page.append(record)
            last = record
        return page, ""

    def _wants(self, source: LogSource) -> bool:
        return source.project in self.owners and self.plan.source(source) is not False


def _same(last: StoredEntry | None, record: StoredEntry) -> bool:
    """Return whether two entries of a project are the same entry, i.e. share timestamp and insert_id."""
    return (
        last is not None and last.row[1:3] == record.row[1:3] and last.source.project == record.source.project
    )
