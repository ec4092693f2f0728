"""The filter language: what it parses to, what it means, and that asking SQLite first changes nothing."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.emulator.filters.evaluate import compiled
from tui.emulator.filters.parser import parse
from tui.emulator.filters.syntax import (
    And,
    Comparison,
    FilterCall,
    FilterError,
    Node,
    Not,
    Or,
    Search,
    Value,
    render,
)
from tui.emulator.filters.value_types import time_value
from tui.emulator.logging.query.fields import ENTRY_FIELDS
from tui.emulator.logging.query.plan import query_plan
from tui.emulator.logging.record import JSON, TEXT, EntryRow, LogSource, StoredEntry
from tui.emulator.logging.store import EntryStore


def equal(path: str, text: str, quoted: bool = True) -> Comparison:
    return Comparison(tuple(path.split(".")), "=", Value(text, quoted))


A, B, C = Search("a"), Search("b"), Search("c")

MEANINGS: list[tuple[str, Node]] = [
    ("", And(())),
    (" -- only a comment", And(())),
    ("a b", And((A, B))),
    ("a AND b -- and more\nc", And((A, B, C))),
    # As Logging documents it: OR binds closer than AND.
    ("a OR b AND c", And((Or((A, B)), C))),
    ("a OR NOT b -c", And((Or((A, Not(B))), Not(C)))),
    ("NOT (a OR b)", Not(Or((A, B)))),
    ("NOT NOT a", Not(Not(A))),
    ('"a" AND "AND"', And((A, Search("AND")))),
    ("and", Search("and")),
    ('resource.type="ml_job"', equal("resource.type", "ml_job")),
    ("resource.type = ml_job", equal("resource.type", "ml_job", False)),
    ('x=("a" OR "b")', Or((equal("x", "a"), equal("x", "b")))),
    ('x=("a" -"b")', And((equal("x", "a"), Not(equal("x", "b"))))),
    ("x=10.0.0.1", equal("x", "10.0.0.1", False)),
    ("x=-5.5e3", equal("x", "-5.5e3", False)),
    ('labels."a.b/c"=d', Comparison(("labels", "a.b/c"), "=", Value("d", False))),
    (r'x="a\"\\\n\u00e9\d"', equal("x", 'a"\\\né\\d')),
    ("x:*", Comparison(("x",), ":", Value("*", False))),
    ('log_id("a")', FilterCall("log_id", (Value("a"),))),
    (
        'x=one_of("a", b, 5)',
        Comparison(("x",), "=", FilterCall("one_of", (Value("a"), Value("b", False), Value("5", False)))),
    ),
    ('"two words"=5', Comparison(("two words",), "=", Value("5", False))),
    ("foo-bar", Search("foo-bar")),
    ("'single \"quotes\"'", Search('single "quotes"')),
]


@pytest.mark.parametrize(("text", "tree"), MEANINGS)
def test_trees(text: str, tree: Node) -> None:
    assert parse(text) == tree
    assert parse(render(tree)) == tree


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("a AND", 5, "expected a condition"),
        ("(a", 2, "character 1"),
        ("a)", 1, "unexpected ')'"),
        ("x=", 2, "expected a value"),
        ("x=a:b", 3, "unexpected ':'"),
        ('x="a', 2, "quote is never closed"),
        ("OR a", 0, "expected a condition"),
        ("x=(a OR)", 7, "expected a value"),
        ("x.=1", 2, "name after the dot"),
        ("f(a", 3, "expected )"),
        ("a ! b", 2, "no meaning"),
        ("(" * 200, 100, "nested conditions"),
        ("x" * 20_001, 20_000, "20000"),
    ],
)
def test_errors_say_where(text: str, position: int, says: str) -> None:
    with pytest.raises(FilterError, match=re.escape(says)) as caught:
        parse(text)
    assert caught.value.position == position


SCRAPS = st.sampled_from(
    ["ab", "(", ")", "=", ":", "<>", "!~", "-.", ",", '"', "'", "*/", "\\", "AND", "OR", "NOT", "5"]
)


@given(st.text(max_size=60) | st.lists(SCRAPS).map(" ".join))
@settings(max_examples=300)
def test_any_text_is_a_filter_or_a_clear_error(text: str) -> None:
    try:
        tree = parse(text)
    except FilterError as error:
        assert 0 <= error.position <= len(text)
    else:
        assert parse(render(tree)) == tree


NAMES = st.sampled_from(["x", "a_b", "with.dot", "é", "AND", "5", "-", 'q"'])
TEXTS = st.text(max_size=8).filter(lambda t: not any(0xD800 <= ord(c) < 0xE000 for c in t))
LEAVES: st.SearchStrategy[Node] = st.one_of(
    st.builds(Search, TEXTS),
    st.builds(
        Comparison,
        st.tuples(st.sampled_from(["x", "y"]), NAMES),
        st.sampled_from(["=", "!=", "<", "<=", ">", ">=", ":", "=~", "!~"]),
        st.one_of(
            st.builds(Value, TEXTS),
            st.sampled_from([Value("*", False), Value("-1.5", False), Value("a.b", False)]),
        ),
    ),
    st.builds(FilterCall, st.just("log_id"), st.tuples(st.builds(Value, TEXTS))),
)


def trees(leaves: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    def branch(parts: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        several = st.lists(parts, min_size=2, max_size=3).map(tuple)
        return st.builds(And, several) | st.builds(Or, several) | st.builds(Not, parts)

    return st.recursive(leaves, branch, max_leaves=8)


@given(trees(LEAVES))
@settings(max_examples=300)
def test_a_tree_survives_being_written_down(tree: Node) -> None:
    assert parse(render(tree)) == tree


# A small world: two sources, few values, so that conditions are often met.

SOURCES = [
    LogSource(
        1, "p", "projects/p/logs/workerpool0-0", "ml_job", {"job_id": "1", "task_name": "workerpool0-0"}
    ),
    LogSource(2, "p", "projects/p/logs/app", "global", {"project_id": "p"}),
    LogSource(3, "p", "projects/p/logs/service", "ml_job", {"job_id": "2", "task_name": "service"}),
]
BASE = time_value("2026-11-21T00:00:00Z")
PAYLOAD = st.one_of(
    st.sampled_from(["", "NCCL up", "nccl down 5", "loss 2.5"]).map(lambda t: (TEXT, t)),
    st.fixed_dictionaries(
        {},
        optional={
            "message": st.sampled_from(["NCCL", "ok", "", "Café\nnccl", 'say "5"']),
            "step": st.sampled_from([1, 5, 2.5, "5"]),
            "flag": st.sampled_from([True, False, None]),
            "deep": st.sampled_from([{"k": ["Nccl", {"z": 1}]}, [], {}, ["ok", 5]]),
        },
    ).map(lambda d: (JSON, json.dumps(d))),
)


@st.composite
def rows(draw: st.DrawFn) -> list[EntryRow]:
    found: list[EntryRow] = []
    for index in range(draw(st.integers(0, 12))):
        kind, payload = draw(PAYLOAD)
        source = draw(st.sampled_from(SOURCES)).id
        at = BASE + draw(st.integers(0, 4)) * 10**9
        found.append((source, at, f"{index:02}", draw(st.sampled_from([0, 200, 500])), kind, payload, at))
    return found


def times(operator: str) -> st.SearchStrategy[Comparison]:
    return st.integers(0, 4).map(
        lambda n: Comparison(("timestamp",), operator, Value(f"2026-11-21T00:00:0{n}Z"))
    )


def compare(path: str, operators: str, *values: str) -> st.SearchStrategy[Comparison]:
    return st.builds(
        Comparison,
        st.just(tuple(path.split("."))),
        st.sampled_from(operators.split()),
        st.sampled_from([Value(v) for v in values]),
    )


CONDITIONS: st.SearchStrategy[Node] = st.one_of(
    st.sampled_from(["=", "!=", "<", "<=", ">", ">="]).flatmap(times),
    compare("severity", "= != < <= > >=", "INFO", "error", "0"),
    compare("resource.type", "= != :", "ml_job", "GLOBAL", "ml"),
    compare("resource.labels.job_id", "= != > :", "1", "2"),
    compare("resource.labels.nosuch", "= !=", "1"),
    compare("logName", "= : =~", "projects/p/logs/app", "worker", "app$"),
    compare("textPayload", "= != : =~ !~", "", "nccl", "loss 2.5", "NCCL"),
    compare("jsonPayload.message", "= != : < >=", "nccl", "ok", "", "CAFÉ", 'y "5', "é\nn"),
    compare("jsonPayload.step", "= != < >= :", "5", "2.5", "x"),
    compare("jsonPayload.flag", "= !=", "true", "FALSE"),
    compare("jsonPayload.deep", ": =", "nccl", "ok", "k", "5"),
    st.sampled_from(["jsonPayload", "jsonPayload.flag", "textPayload", "resource.labels.job_id"]).map(
        lambda path: Comparison(tuple(path.split(".")), ":", Value("*", False))
    ),
    st.sampled_from(["nccl", "5", "5.0", "workerpool", "zzz", "CAFÉ", '"5"']).map(Search),
    st.sampled_from(["app", "service"]).map(lambda name: FilterCall("log_id", (Value(name),))),
)


def naive(node: Node, record: StoredEntry) -> bool:
    """The rules written down once more, slowly, over the entry's REST form."""
    match node:
        case And(parts):
            return all(naive(p, record) for p in parts)
        case Or(parts):
            return any(naive(p, record) for p in parts)
        case Not(part):
            return not naive(part, record)
        case FilterCall(_, (Value(name),)):
            return record.source.log_name.endswith(f"/{name}")
        case Search(text):
            return any(_found(text, leaf) for leaf in _leaves(_everything(record)))
    assert isinstance(node, Comparison) and isinstance(node.value, Value)
    if node.path[0] in {"timestamp", "severity"}:
        got = record.timestamp if node.path[0] == "timestamp" else record.row[3]
        words = {"INFO": 200, "error": 500, "0": 0}
        wanted = words[node.value.text] if node.path[0] == "severity" else time_value(node.value.text)
        return bool(_ordered(node.operator, got, wanted))
    value: Any = _rest_form(record)
    for name in node.path:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    if node.presence:
        return bool(value) if node.path == ("textPayload",) else True
    return _holds(node.operator, value, node.value.text)


def _rest_form(record: StoredEntry) -> dict[str, Any]:
    source = record.source
    form: dict[str, Any] = {
        "logName": source.log_name,
        "resource": {"type": source.resource_type, "labels": dict(source.resource_labels)},
        "textPayload": record.text,
    }
    return form | ({"jsonPayload": record.json} if record.json is not None else {})


def _everything(record: StoredEntry) -> list[Any]:
    source = record.source
    return [record.text, record.json, source.log_name, source.resource_type, dict(source.resource_labels)]


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for v in value.values() for leaf in _leaves(v)]
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, list) else [value]


def _found(text: str, leaf: Any) -> bool:
    if isinstance(leaf, str):
        return text.lower() in leaf.lower()
    return leaf is not None and not isinstance(leaf, bool) and f"{leaf:g}" == text


def _holds(operator: str, value: Any, text: str) -> bool:
    if operator == "!=":
        return not _holds("=", value, text)
    if operator == "!~":
        return not _holds("=~", value, text)
    if operator == ":" and isinstance(value, dict):
        return any(k.lower() == text.lower() or _holds(":", v, text) for k, v in value.items())
    if isinstance(value, list):
        return any(_holds(operator, v, text) for v in value)
    if isinstance(value, bool):
        return operator in "=:" and str(value).lower() == text.lower()
    if isinstance(value, int | float):
        try:
            number = float(text)
        except ValueError:
            return False
        return bool(_ordered("=" if operator == ":" else operator, value, number))
    if not isinstance(value, str):
        return False
    if operator == "=~":
        return re.search(text, value) is not None
    if operator == ":":
        return text.lower() in value.lower()
    return bool(_ordered(operator, value.lower(), text.lower()))


def _ordered(operator: str, left: Any, right: Any) -> Any:
    return {
        "=": left == right, "!=": left != right, "<": left < right, "<=": left <= right,
        ">": left > right, ">=": left >= right,
    }[operator]  # fmt: skip


@given(trees(CONDITIONS), rows())
@settings(max_examples=300)
def test_evaluation_and_its_plan_agree_with_the_rules(tree: Node, stored: list[EntryRow]) -> None:
    by_id = {source.id: source for source in SOURCES}
    judge, how = compiled(tree, ENTRY_FIELDS), query_plan(tree)
    for row in stored:
        record = StoredEntry(by_id[row[0]], row)
        expected = naive(tree, record)
        assert judge(record) is expected
        bounds = how.window
        planned = (
            how.source(record.source) is not False
            and bounds.first <= record.timestamp <= bounds.last
            and row[3] >= bounds.severity
            and how.entry(record)
        )
        assert bool(planned) is expected


@given(trees(CONDITIONS), rows(), st.booleans())
@settings(max_examples=40)
def test_sqlite_gives_what_evaluation_gives(tree: Node, stored: list[EntryRow], newest_first: bool) -> None:
    judge, how = compiled(tree, ENTRY_FIELDS), query_plan(tree)
    with tempfile.TemporaryDirectory(prefix="vx") as root:
        store = EntryStore(Path(root) / "logs.db")
        made = {
            s.id: store.source(s.project, s.log_name, s.resource_type, s.resource_labels) for s in SOURCES
        }
        store.add([(made[row[0]].id, *row[1:]) for row in stored])
        sources = [s for s in store.sources() if how.source(s) is not False]
        found = [r for r in store.scan(sources, how.window, newest_first=newest_first) if how.entry(r)]
        store.close()
    ids = {s.id: s for s in made.values()}
    everything = [StoredEntry(ids[made[row[0]].id], (made[row[0]].id, *row[1:])) for row in stored]
    wanted = [r.row for r in everything if judge(r)]
    wanted.sort(key=lambda row: (-row[1] if newest_first else row[1], row[2]))
    assert [r.row for r in found] == wanted


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01", 0),
        ("1970-01-02T00:00:00Z", 86_400 * 10**9),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:01.000000001Z", 10**9 + 1),
        ("1970-01-01t00:00:00.5z", 5 * 10**8),
        ("1970-01-01T00:01", 60 * 10**9),
    ],
)
def test_times(text: str, nanoseconds: int) -> None:
    assert time_value(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "now", "2026-13-01", "2026-11-21T25:00:00Z", "12:00"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="must be a time"):
        time_value(text)
