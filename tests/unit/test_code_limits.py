"""Limits that keep the code readable: attributes, inheritance, unique names, citations, private names.

Parsing all modules takes some 2 s of CPU: one worker runs all of these tests and parses each module once.
"""

from __future__ import annotations

import ast
import gc
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("code limits")

ROOT = Path(__file__).parents[2]
MOST_ATTRIBUTES = 20
"""Attributes that a class assigns in its methods."""
TO_SPLIT: dict[str, int] = {}
"""Classes that still assign more; none may grow, and none may join them."""
MOST_LEVELS = 3
"""Classes of ours in a chain of inheritance."""
LONG_CHAINS: set[str] = set()
"""Classes with longer chains that are still to be composed."""
MOST_SHARED_NAMES = 8
"""Public class names that several modules may have: two services' counterparts share a name."""
MUTUAL_FOLDERS: dict[tuple[str, str], str] = {}
"""Pairs of folders that may import each other, each with the reason; at most 2."""
PRIVATE_MODULES = ("trainer/torch_private.py", "tui/display/textual_private.py")
"""The modules that import or patch private names of a library."""
SECTION = re.compile(r"docs/facts/(\w+)\.md(?:\s+(\d+(?:\.\d+)?)|,? '([^']+)')?")
NOT_SHIPPED = re.compile(
    r"\b(vertex|clients?|terminal|trainer|kubeflow|frontier) facts\b|\b(DESIGN|SCREENS|STYLE)\.md", re.I
)


@cache
def modules() -> dict[Path, ast.Module]:
    """The syntax tree of each module that ships."""
    paths = sorted(path for top in ("tui", "trainer") for path in (ROOT / top).rglob("*.py"))
    # A million nodes: collections of garbage would take four times as long as the parser.
    gc.disable()
    try:
        return {path: ast.parse(path.read_text()) for path in paths}
    finally:
        gc.freeze()
        gc.enable()


@cache
def classes() -> list[tuple[str, ast.ClassDef]]:
    """Each class with the path of its module."""
    return [
        (str(path.relative_to(ROOT)), node)
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]


def assigned_attributes(node: ast.ClassDef) -> set[str]:
    """The attributes of `self` that the methods of a class assign."""
    return {
        inner.attr
        for method in node.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(method)
        if isinstance(inner, ast.Attribute)
        and isinstance(inner.ctx, ast.Store)
        and isinstance(inner.value, ast.Name)
        and inner.value.id == "self"
    }


def chain(name: str, bases: dict[str, list[str]], seen: tuple[str, ...] = ()) -> list[str]:
    """The longest chain of classes of ours from `name` to a root."""
    if name in seen or name not in bases:
        return []
    chains = [chain(base, bases, (*seen, name)) for base in bases[name]]
    return [name, *max(chains, key=len, default=[])]


def test_a_class_assigns_few_attributes() -> None:
    counts = {f"{path}:{node.name}": len(assigned_attributes(node)) for path, node in classes()}
    assert {
        name: count for name, count in counts.items() if count > TO_SPLIT.get(name, MOST_ATTRIBUTES)
    } == {}


def test_a_chain_of_inheritance_is_short() -> None:
    bases: dict[str, list[str]] = {}
    for _, node in classes():
        names = [base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in node.bases]
        bases.setdefault(node.name, names)
    chains = [chain(name, bases) for name in bases]
    assert [
        " < ".join(names) for names in chains if len(names) > MOST_LEVELS and names[0] not in LONG_CHAINS
    ] == []


def test_a_public_class_name_means_one_thing() -> None:
    paths: dict[str, list[str]] = defaultdict(list)
    for path, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                paths[node.name].append(str(path.relative_to(ROOT)))
    shared = {name: where for name, where in paths.items() if len(where) > 1}
    assert len(shared) <= MOST_SHARED_NAMES, shared


def folder_imports() -> Counter[tuple[str, str]]:
    """The imports between sibling folders: (importer, imported) → number of import statements."""
    folders = {".".join(path.relative_to(ROOT).parent.parts) for path in modules()}
    counts: Counter[tuple[str, str]] = Counter()
    for path, tree in modules().items():
        here = path.relative_to(ROOT).parent.parts
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not node.module or node.level:
                continue
            target = node.module
            while target and target not in folders:
                target = target.rpartition(".")[0]
            there = tuple(target.split("."))
            common = next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), None)
            if target and common is not None:
                counts[".".join(here[: common + 1]), ".".join(there[: common + 1])] += 1
    return counts


def test_two_folders_do_not_import_each_other() -> None:
    counts = folder_imports()
    mutual = {(a, b) for a, b in counts if a < b and (b, a) in counts}
    assert mutual == set(MUTUAL_FOLDERS)
    assert len(MUTUAL_FOLDERS) <= 2


def headings(document: Path) -> set[str]:
    """The headings of a document: the number of a numbered one, else its text."""
    titles = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {
        match[0].rstrip(".") if (match := re.match(r"\d+(\.\d+)?\.?", title)) else title for title in titles
    }


def test_what_the_code_cites_ships() -> None:
    missing = []
    for path in modules():
        # A citation may stand in two lines of a comment.
        text = re.sub(r"\s*\n\s*(?:# )?", " ", path.read_text())
        if match := NOT_SHIPPED.search(text):
            missing.append(f"{path.relative_to(ROOT)}: {match[0]}")
        for name, number, title in SECTION.findall(text):
            document = ROOT / "docs" / "facts" / f"{name}.md"
            section = number or title
            if not document.exists() or (section and section not in headings(document)):
                missing.append(f"{path.relative_to(ROOT)}: docs/facts/{name}.md {section}")
    assert missing == []


def test_private_names_of_libraries_stand_in_their_modules() -> None:
    uses = []
    for path, tree in modules().items():
        where = str(path.relative_to(ROOT))
        if where in PRIVATE_MODULES:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                private = [
                    a.name for a in node.names if a.name.startswith("_") and not a.name.startswith("__")
                ]
                uses += [f"{where}:{node.lineno} imports {name} of {node.module}" for name in private]
            elif isinstance(node, ast.Assign):
                uses += [
                    f"{where}:{node.lineno} patches {target.value.id}.{target.attr}"
                    for target in node.targets
                    if isinstance(target, ast.Attribute)
                    and target.attr.startswith("_")
                    and isinstance(target.value, ast.Name)
                    and target.value.id[:1].isupper()
                ]
    assert uses == []
