"""A table's order kept up change by change, its groups, and the widths of its columns."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tui.widgets.table.columns import GAP, Column, place
from tui.widgets.table.rows import Listing, Rows, SortKey, grouped

values = st.one_of(st.none(), st.integers(0, 5))
names = st.sampled_from([f"k{n}" for n in range(8)])
changes = st.lists(st.dictionaries(names, st.one_of(values, st.just("gone")), max_size=4), max_size=8)


def key_of(item: tuple[str, int | None]) -> SortKey:
    name, value = item
    return (value is None, 0 if value is None else value, name)


@settings(max_examples=300)
@given(changes, st.booleans(), st.integers(0, 6))
def test_changes_give_the_order_that_sorting_anew_gives(
    steps: list[dict[str, object]], reverse: bool, most: int
) -> None:
    items: dict[str, tuple[str, int | None]] = {}

    def matches(item: tuple[str, int | None]) -> bool:
        return item[1] is None or item[1] < most

    listing = Listing(items)
    listing.configure(matches, key_of, reverse=reverse)
    for step in steps:
        for name, value in step.items():
            if value == "gone":
                items.pop(name, None)
            else:
                items[name] = (name, value)  # type: ignore[assignment]
        before = listing.order
        moved = listing.update(step)
        known = sorted((i for i in items.values() if matches(i) and i[1] is not None), key=key_of)
        unknown = sorted((i for i in items.values() if i[1] is None), key=key_of)
        expected = [name for name, _ in (known[::-1] if reverse else known) + unknown]
        assert listing.order == expected and moved == (expected != before)


def test_a_change_that_alters_no_order_leaves_the_very_list() -> None:
    items = {"a": 1, "b": 2}
    listing = Listing(items)
    listing.configure(None, lambda item: (False, item), reverse=False)
    order = listing.order
    assert not listing.update(["a", "b", "stranger"]) and listing.order is order


@given(st.dictionaries(names, st.sampled_from("xyz")), st.sets(st.sampled_from("xyz")))
def test_rows_of_closed_groups_are_not_shown(group_of: dict[str, str], closed: set[str]) -> None:
    flat, parents, members = grouped(sorted(group_of), group_of.__getitem__)
    rows = Rows()
    rows.set_order(flat, parents)
    assert list(rows.order) == flat
    for group in closed:
        rows.close(group, True)
    shown = {name for name, group in group_of.items() if group not in closed} | set(members)
    assert set(rows.order) == shown and [flat[i] for i in range(len(flat)) if flat[i] in shown] == list(
        rows.order
    )
    assert all(rows.order[at] == key for key, at in rows.index.items()) and len(rows.index) == len(shown)
    for group in closed:
        assert not rows.close(group, True)
        rows.close(group, False)
    assert list(rows.order) == flat


def test_a_group_is_known_by_its_head_and_by_its_rows() -> None:
    rows = Rows()
    rows.set_order(["h", "a", "b"], {"a": "h"})
    assert (rows.group("h"), rows.group("a"), rows.group("b")) == ("h", "h", None)


columns = st.lists(
    st.builds(
        Column,
        key=st.uuids().map(str),
        title=st.text("TITLE", max_size=6),
        width=st.integers(1, 20),
        max_width=st.one_of(st.just(0), st.integers(20, 40)),
        rank=st.integers(0, 4),
        flex=st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


@given(columns, st.integers(1, 200), st.integers(0, 60), st.data())
def test_columns_fit_or_only_those_that_stay_are_left(
    given_columns: list[Column], room: int, natural: int, data: st.DataObject
) -> None:
    folded = data.draw(st.sets(st.sampled_from([c.key for c in given_columns])))
    placed = place(given_columns, {c.key: natural for c in given_columns}, room, folded)
    assert placed and placed[0].x == GAP
    for left, right in pairwise(placed):
        assert right.x == left.x + left.width + GAP
    for column, width, _ in placed:
        # A column gives width that neither its cells nor its title fill to a column that cuts its cells.
        assert width >= min(column.min_width, max(natural, len(column.title) + 1))
        # Beyond its most only for its text, and where nothing is cut for it.
        assert not column.max_width or width <= max(column.max_width, column.min_width, natural)
    if len(folded) < len(given_columns):
        assert not folded & {p.column.key for p in placed}
    if sum(p.width + GAP for p in placed) > room:
        assert len(placed) == 1 or all(not p.column.rank for p in placed)
        assert all(p.width == p.column.min_width for p in placed)


def test_a_column_grows_beyond_its_most_only_into_room_that_nothing_else_takes() -> None:
    name, rest = Column("name", "NAME", 10, max_width=20), Column("rest", "REST", 4, max_width=30, flex=True)
    natural = {"name": 50, "rest": 10}
    for room, widths in ((54, [20, 30]), (64, [30, 30]), (200, [50, 30])):
        assert [placed.width for placed in place([name, rest], natural, room)] == widths
