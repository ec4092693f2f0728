"""docs/ARCHITECTURE.md names paths and code; each of them exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
NAMES = sorted(set(re.findall(r"`([\w./-]+/[\w./-]*(?::[\w.]+)?)`", PAGE)))
MOST_LINES = 12
"""Lines of a walk."""


def defines(path: Path, name: str) -> bool:
    """Whether the module defines `name`: a function, a class or a method `Class.method` of its own."""
    body: list[ast.stmt] = ast.parse(path.read_text()).body
    for part in name.split("."):
        nodes = [
            n
            for n in body
            if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and n.name == part
        ]
        if not nodes:
            return False
        body = nodes[0].body
    return True


@pytest.mark.parametrize("name", NAMES)
def test_what_the_map_names_exists(name: str) -> None:
    path, _, attribute = name.partition(":")
    assert (ROOT / path).exists()
    if attribute:
        assert defines(ROOT / path, attribute)


def test_the_check_finds_a_name_that_does_not_exist() -> None:
    assert len(NAMES) > 40
    assert not defines(ROOT / "tui/store/log/store.py", "LogStore.no_such_method")


def test_a_walk_is_short() -> None:
    walks = re.split(r"^### ", PAGE.split("## Four walks")[1].split("\n## ")[0], flags=re.MULTILINE)[1:]
    assert len(walks) == 4
    assert [walk.splitlines()[0] for walk in walks if len(walk.strip().splitlines()[2:]) > MOST_LINES] == []
