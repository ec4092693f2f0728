"""Edits of values that pools share by an anchor: one pool changes, or exactly those that share it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.profile_edit_support import POOLS, TASK, changed_lines
from tests.unit.profile_sharing_support import FIVE
from tui.domain.document.document_edit import REMOVED, Edit, Path, edited
from tui.domain.document.source import read
from tui.domain.form import changes
from tui.domain.profile.autofix import apply_fixes
from tui.domain.profile.edit import apply, same
from tui.store.profiles.draft import Draft

VARIABLE = {"name": "B", "value": "2"}


def draft(text: str) -> Draft:
    return Draft(FilePath("f.yaml"), text, FilePath("nowhere"))


def sharing(text: str, *edits: Edit) -> list[Path]:
    return draft(text).shares(edits)


def everywhere(text: str, *edits: Edit) -> str:
    """The text with the edits in all places that share the values; only their values differ."""
    found = draft(text).preview(edits, everywhere=True)
    wanted = read(text, "").value
    for edit in edits:
        paths = sharing(text, edit) or [edit.path]
        wanted = edited(wanted, [Edit(path, edit.value, edit.insert) for path in paths])
    assert same(read(found, "").value, wanted), found
    return found


def pool(position: int, *rest: str | int) -> Path:
    return (*POOLS, position, *rest)


def test_a_variable_for_all_pools_of_an_anchor_is_one_line() -> None:
    for position in range(3):
        edit = Edit(pool(position, "containerSpec", "env", 1), VARIABLE)
        assert {path[2] for path in sharing(TASK, edit)} == {0, 1, 2}
        assert sharing(TASK, edit)[0] == edit.path
        assert changed_lines(TASK, everywhere(TASK, edit)) == ([], ['          - {name: B, value: "2"}'])


@pytest.mark.parametrize(
    ("edit", "pools", "line"),
    [
        # A map by an alias and by a merge key that does not override it.
        (Edit(pool(1, "machineSpec", "machineType"), "a2-megagpu-16g"), {0, 1, 2}, "machineType: a2-mega"),
        (Edit(pool(0, "machineSpec", "acceleratorCount"), 2), {0, 1}, "acceleratorCount: 2}"),
        (Edit(pool(2, "machineSpec", "tpuTopology"), "2x2"), set(), ""),
        (Edit(pool(0, "machineSpec", "tpuTopology"), "2x2"), {0, 1, 2}, "8, tpuTopology: "),
        # A list in a map, shared with or without the map.
        (Edit(pool(2, "containerSpec", "args", 1), "--two"), {0, 2, 3}, "[--one, --two]  # for each"),
        (Edit(pool(1, "containerSpec", "args", 1), "--two"), set(), ""),
        (Edit(pool(1, "containerSpec", "env", 0, "value"), "9"), {0, 1, 2, 3}, "{name: A, value: '9'}"),
        (Edit(pool(3, "containerSpec", "env", 0), REMOVED), {0, 1, 2, 3}, "env: &env []"),
        # One word or number.
        (Edit(pool(2, "replicaCount"), 5), {0, 2}, "replicaCount: &count 5  # as many"),
        (Edit(pool(1, "containerSpec", "imageUri"), "c/d:2"), {0, 1, 2, 3}, "imageUri: &image c/d:2"),
        # Equal values that stand for themselves.
        (Edit(pool(3, "replicaCount"), 5), set(), ""),
        (Edit(pool(4, "containerSpec", "imageUri"), "c/d:2"), set(), ""),
    ],
)  # fmt: skip
def test_the_pools_that_share_only_a_part_are_found(edit: Edit, pools: set[int], line: str) -> None:
    assert {path[2] for path in sharing(FIVE, edit)} == pools
    if not pools:
        return
    found = everywhere(FIVE, edit)
    old, new = changed_lines(FIVE, found)
    assert len(old) <= 3 and len(new) <= 1 and found.count("*") == FIVE.count("*")
    assert line.replace("'9'", '"9"') in found


def test_a_pool_that_is_skipped_is_skipped_alone() -> None:
    text = FIVE.replace("    - replicaCount: 2\n", "    - &last\n      replicaCount: 2\n") + "    - *last\n"
    assert sharing(text, Edit(pool(3), {})) == []
    assert sharing(text, Edit(pool(3, "replicaCount"), 1)) == [
        pool(3, "replicaCount"),
        pool(5, "replicaCount"),
    ]


def test_what_takes_the_place_of_a_shared_task_does_so_in_all_pools_of_it() -> None:
    value = read(TASK, "").value
    edits = changes.task_edits(value, pool(1))
    assert {path[2] for path in sharing(TASK, *edits)} == {0, 1, 2}
    found = read(apply(TASK, "f", edits, everywhere=True), "").value["jobSpec"]["workerPoolSpecs"]
    assert all("containerSpec" not in each for each in found)
    assert len({str(each["pythonPackageSpec"]) for each in found}) == 1
    (kept,) = {str(each["pythonPackageSpec"]["args"]) for each in found}
    assert "--three" in kept


def test_pools_that_the_edits_change_alike_are_no_question() -> None:
    edits = [Edit(pool(i, "containerSpec", "imageUri"), "c/d:2") for i in range(3)]
    assert sharing(TASK, *edits) == [] and len(sharing(TASK, *edits[:2])) == 3


def test_a_shared_value_outside_the_pools_counts() -> None:
    text = "labels: &l {a: b}\njobSpec:\n  workerPoolSpecs:\n    - labels: *l\n"
    edit = Edit(pool(0, "labels", "a"), "c")
    assert sharing(text, edit) == [edit.path, ("labels", "a")]
    assert everywhere(text, edit) == text.replace("b}", "c}")


def test_a_file_without_aliases_shares_nothing() -> None:
    text = '{"jobSpec": {"workerPoolSpecs": [{"replicaCount": 1}]}}'
    assert sharing(text, Edit(pool(0, "replicaCount"), 2)) == []
    assert '"replicaCount": 2' in draft(text).preview([Edit(pool(0, "replicaCount"), 2)], everywhere=True)


# Any document with anchors. The oracle is the identity of objects: an alias is the object of its anchor.


@dataclass(eq=False)
class Word:
    """One value; equal ones are different objects."""

    text: str


@dataclass(eq=False)
class Fields:
    """A map with its own keys, and the map that it merges."""

    own: dict[str, Any]
    merges: Fields | None = None

    def all(self) -> dict[str, Any]:
        return {**(self.merges.all() if self.merges else {}), **self.own}


@dataclass
class Writer:
    """Writes a document: an object that is met again becomes an alias; each line may have a comment."""

    dice: Any
    names: dict[int, str] = field(default_factory=dict)
    comments: int = 0

    def text(self, thing: Any, indent: int, shared: set[int], *, flow: bool = False) -> str:
        """The text after `key:` or `-`, with its line breaks and anchors."""
        if id(thing) in self.names:
            return f" *{self.names[id(thing)]}"
        mark = ""
        if id(thing) in shared:
            self.names[id(thing)] = f"a{len(self.names)}"
            mark = f" &{self.names[id(thing)]}"
        if isinstance(thing, Word):
            return f"{mark} {thing.text}"
        flow = flow or not (thing.own if isinstance(thing, Fields) else thing) or self.dice(4) == 0
        if isinstance(thing, Fields):
            merge = [("<<", thing.merges)] if thing.merges is not None else []
            pairs = [*merge, *thing.own.items()]
            if not merge and not pairs:
                flow = True
            if flow:
                inner = [f"{k}:{self.text(v, 0, shared, flow=True)}" for k, v in pairs]
                return f"{mark} {{{', '.join(inner)}}}"
            lines = [f"{k}:{self.text(v, indent + 2, shared)}" for k, v in pairs]
        elif flow:
            inner = [self.text(v, 0, shared, flow=True).lstrip() for v in thing]
            return f"{mark} [{', '.join(inner)}]"
        else:
            lines = [f"-{self.text(v, indent + 2, shared)}" for v in thing]
        return mark + "".join(f"\n{self.comment(indent)}{' ' * indent}{line}" for line in lines)

    def comment(self, indent: int) -> str:
        if self.dice(3):
            return ""
        self.comments += 1
        return f"{' ' * indent}# comment {self.comments}.\n"


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, list[Fields]]:
    """Three to five pools: each part of one is its own, an alias of an earlier pool's, or merges that."""
    pools: list[Fields] = []
    earlier: dict[str, list[Any]] = {}

    def choose(kind: str, make: Any) -> Any:
        found = earlier.setdefault(kind, [])
        if found and draw(st.integers(0, 2)):
            return draw(st.sampled_from(found))
        found.append(make())
        return found[-1]

    def word() -> Word:
        return Word(draw(st.sampled_from(["one", "two", "3", "'4'", '"a b"', "true"])))

    def fields(kind: str, make: Any) -> Any:
        def new() -> Fields:
            known = earlier.get(kind, [])
            if known and draw(st.booleans()):
                names = draw(st.sets(st.sampled_from(sorted(make())), max_size=1))
                return Fields({k: v for k, v in make().items() if k in names}, draw(st.sampled_from(known)))
            return Fields(make())

        return choose(kind, new)

    def machine() -> dict[str, Any]:
        return {"machineType": word(), "acceleratorCount": choose("count", word)}

    def variables() -> list[Any]:
        return [Fields({"name": word(), "value": word()}) for _ in range(draw(st.integers(1, 2)))]

    def task() -> dict[str, Any]:
        return {
            "imageUri": choose("image", word),
            "args": choose("args", lambda: [word() for _ in range(draw(st.integers(1, 2)))]),
            "env": choose("env", variables),
        }

    for _ in range(draw(st.integers(3, 5))):
        parts = {
            "machineSpec": fields("machine", machine),
            "replicaCount": choose("count", word),
            "containerSpec": fields("task", task),
        }
        pools.append(Fields(parts))
    times: dict[int, int] = {}
    _count(pools, times)
    writer = Writer(lambda n: draw(st.integers(0, n - 1)))
    body = writer.text(pools, 4, {thing for thing, n in times.items() if n > 1})
    return f"# first\njobSpec:\n  workerPoolSpecs:{body}\n  # last\n", pools


def _count(thing: Any, times: dict[int, int]) -> None:
    """How often each object is written."""
    times[id(thing)] = times.get(id(thing), 0) + 1
    if times[id(thing)] == 1 and isinstance(thing, Fields):
        for inner in (*([thing.merges] if thing.merges else []), *thing.own.values()):
            _count(inner, times)
    elif times[id(thing)] == 1 and isinstance(thing, list):
        for inner in thing:
            _count(inner, times)


def _walk(thing: Any, path: Path) -> list[tuple[Path, Any]]:
    inner = thing.all().items() if isinstance(thing, Fields) else ()
    inner = enumerate(thing) if isinstance(thing, list) else inner
    return [(path, thing), *(found for key, value in inner for found in _walk(value, (*path, key)))]


def _without_key(thing: Any, key: str, holder: Any) -> bool:
    """The map is the holder, or merges it by any number of steps, and has no key of that name."""
    if not isinstance(thing, Fields) or key in thing.all():
        return False
    while thing is not None and thing is not holder:
        thing = thing.merges
    return thing is holder


@settings(max_examples=150)
@given(document=documents(), number=st.integers(0), kind=st.sampled_from(["set", "set", "add", "remove"]))
def test_this_pool_changes_alone_and_all_are_exactly_those_that_share_it(
    document: tuple[str, list[Fields]], number: int, kind: str
) -> None:
    text, pools = document
    # Inside a pool, where the form's fields are.
    found = [(p, thing) for p, thing in _walk(pools, POOLS) if len(p) > len(POOLS) + 1]
    if kind == "add":
        found = [(p, thing) for p, thing in found if not isinstance(thing, Word)]
    elif kind == "set":
        found = [(p, thing) for p, thing in found if isinstance(thing, Word)]
    path, target = found[number % len(found)]
    alike = [p for p, thing in found if thing is target and p != path]
    if kind == "add" and isinstance(target, list):
        edits = [Edit((*p, len(target)), "new") for p in (path, *alike)]
    elif kind == "add":
        alike = [p for p, thing in found if _without_key(thing, "new", target) and p != path]
        edits = [Edit((*p, "new"), "new") for p in (path, *alike)]
    elif kind == "set":
        edits = [Edit(p, "new") for p in (path, *alike)]
    else:
        in_list = isinstance(path[-1], int)
        lists = [p for p, thing in found if isinstance(thing, list) and any(i is target for i in thing)]
        alike = [(*p, path[-1]) for p in lists if (*p, path[-1]) != path] if in_list else alike
        alike = [p for p in alike if p[-1] == path[-1]]
        edits = [Edit(p, REMOVED) for p in (path, *alike)]
    value = read(text, "").value
    here = draft(text).preview(edits[:1])
    assert same(read(here, "").value, edited(value, edits[:1])), here
    assert set(sharing(text, edits[0])) == ({e.path for e in edits} if alike else set()), text
    all_of_them = draft(text).preview(edits[:1], everywhere=True)
    assert same(read(all_of_them, "").value, edited(value, edits)), all_of_them
    if kind != "remove":
        for after in (here, all_of_them):
            comments = [line.strip() for line in text.splitlines() if line.lstrip().startswith("#")]
            assert [line for line in comments if line not in after] == [], after
        assert all_of_them.count("*") == text.count("*"), all_of_them


READY = FilePath(__file__).parents[2] / "profiles" / "a100-4node-spot.yaml"


def test_a_problem_of_all_that_share_a_value_is_fixed_where_the_anchor_is() -> None:
    right = READY.read_text()
    wrong = right.replace("acceleratorCount: 8", "acceleratorCuont: 8").replace("pd-ssd", "pdssd")
    found = apply_fixes(wrong, "f.yaml", "f", region="us-central1")
    assert found.text == right and not found.remaining
    assert [problem.path[2] for problem in found.fixed] == [0, 1, 0, 1]


def test_a_problem_of_one_pool_is_fixed_there_alone() -> None:
    smaller = "{machineType: a2-highgpu-4g, acceleratorType: NVIDIA_TESLA_A100, acceleratorCount: *n}"
    text = (
        READY.read_text()
        .replace("acceleratorCount: 8", "acceleratorCount: &n 8")
        .replace("*machine", smaller)
    )
    found = apply_fixes(text, "f.yaml", "f", region="us-central1")
    pools = read(found.text, "").value["jobSpec"]["workerPoolSpecs"]
    assert [each["machineSpec"]["acceleratorCount"] for each in pools] == [8, 4]
    assert [problem.path[2] for problem in found.fixed] == [1]
