"""The object store against a plain model: any name, any listing, and no name that leads outside."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.emulator.storage.names import InvalidObjectName, after_prefix, check_object, file_of, is_bucket
from tui.emulator.storage.store import BucketStore, NewObject, Preconditions, StoreError, checksums_of

PART = st.text("ab-.é\U0001f600", min_size=1, max_size=3).filter(lambda p: p not in {".", ".."})
NAME = st.lists(PART, min_size=1, max_size=4).map("/".join)
TEXT = st.text("ab/-.é", max_size=4)


@contextmanager
def store() -> Iterator[BucketStore]:
    with tempfile.TemporaryDirectory(prefix="vx") as folder:
        made = BucketStore(Path(folder) / "buckets", Path(folder) / "x.db")
        made.create_bucket("bucket", {})
        try:
            yield made
        finally:
            made.close()


def put(where: BucketStore, name: str, text: str = "x") -> int:
    part = where.parts / "one.part"
    part.write_text(text)
    return where.put(NewObject("bucket", name), part, checksums_of(part)).generation


def without_conflicts(names: set[str]) -> list[str]:
    """Names of which none is a folder of another."""
    return [n for n in sorted(names) if not any(o.startswith(f"{n}/") for o in names)]


def model(names: list[str], prefix: str, delimiter: str, start: str, end: str) -> tuple[list[str], list[str]]:
    items, prefixes = [], []
    for name in sorted(names):
        if not name.startswith(prefix) or name < start or (end and name >= end):
            continue
        cut = name.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            items.append(name)
        elif (group := name[: cut + len(delimiter)]) not in prefixes:
            prefixes.append(group)
    return items, prefixes


@settings(max_examples=60)
@given(
    names=st.sets(NAME, max_size=12), prefix=TEXT, delimiter=st.sampled_from(["", "/", "-", "a", "b/"]),
    start=TEXT, end=TEXT, limit=st.integers(1, 4),
)  # fmt: skip
def test_a_list_is_that_of_a_flat_map_of_names(
    *, names: set[str], prefix: str, delimiter: str, start: str, end: str, limit: int
) -> None:
    kept = without_conflicts(names)
    with store() as where:
        for name in kept:
            put(where, name)
        items: list[str] = []
        prefixes: list[str] = []
        position = start
        for _ in range(50):
            page = where.page(
                "bucket", prefix=prefix, delimiter=delimiter or "\0", start=position, end=end, limit=limit,
                trailing=False,
            )  # fmt: skip
            assert len(page.items) + len(page.prefixes) <= limit
            items += [one.name for one in page.items]
            prefixes += page.prefixes
            position = page.more
            if not position:
                break
        assert (items, prefixes) == model(kept, prefix, delimiter, start, end)


@given(st.text(max_size=40))
def test_any_name_is_refused_or_lies_in_its_bucket(name: str) -> None:
    root = Path("/nonexistent/bucket")
    try:
        path = file_of(root, name)
    except InvalidObjectName as error:
        assert str(error)
    else:
        assert path.is_relative_to(root) and path != root and str(path) == f"{root}/{name.removesuffix('/')}"


@given(st.text(min_size=1), st.text())
def test_what_begins_with_a_prefix_comes_before_what_follows_it(prefix: str, more: str) -> None:
    if "\U0010ffff" not in prefix + more:
        assert prefix + more < after_prefix(prefix)


@pytest.mark.parametrize(
    ("name", "good"),
    [("abc", True), ("a.b-c_d", True), ("ab", False), ("Abc", False), ("-ab", False), ("a..b", False),
     (".uploads", False), ("a" * 64, False), ("a/b", False), ("abc\n", False)],
)  # fmt: skip
def test_names_of_buckets(name: str, good: bool) -> None:
    assert is_bucket(name) is good


def test_a_name_is_never_a_file_and_a_folder_and_an_empty_folder_is_neither() -> None:
    with store() as where:
        put(where, "a/b/c")
        for name in ("a", "a/b", "a/b/c/d"):
            with pytest.raises(StoreError, match="as a folder or file"):
                put(where, name)
        put(where, "a/d/")
        where.delete("bucket", "a/b/c")
        with pytest.raises(StoreError):
            put(where, "a")  # a/d/ is an object
        where.delete("bucket", "a/d/")
        put(where, "a", "now a file")
        assert where.path("bucket", "a").read_text() == "now a file"


def test_generations_only_grow_and_conditions_are_about_the_newest() -> None:
    with store() as where:
        seen = [put(where, "x", str(n)) for n in range(5)]
        assert seen == sorted(set(seen))
        found = where.get("bucket", "x")
        Preconditions(generation=found.generation, metageneration=1).check(found)
        Preconditions(generation=0).check(None)
        for wrong in (
            Preconditions(generation=0),
            Preconditions(generation=seen[0]),
            Preconditions(not_generation=found.generation),
            Preconditions(metageneration=2),
            Preconditions(not_metageneration=1),
        ):
            with pytest.raises(StoreError) as refused:
                wrong.check(found)
            assert refused.value.status == 412
        # A job that writes the file anew makes a new object of it, in the eyes of every condition.
        where.path("bucket", "x").write_text("by a job, longer")
        assert where.get("bucket", "x").generation > found.generation


def test_names_at_the_limit() -> None:
    assert check_object("a/" * 511 + "ab")
    for name in ("a/" * 511 + "abc", "a" * 256, "é" * 128, "", "/", "a//", "\udcff"):
        with pytest.raises(InvalidObjectName):
            check_object(name)
