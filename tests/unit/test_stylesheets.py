"""Each type that a stylesheet names is a widget: a renamed class would lose its style without a word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual import containers, widgets
from textual.dom import DOMNode

TUI = Path(__file__).parents[2] / "tui"
SHEETS = sorted(TUI.rglob("*.tcss"))
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
PAINTERS = ("screens", "widgets", "display", "app.py", "file_viewer.py")


def own_types() -> set[str]:
    """Names of the classes in the modules that paint."""
    files = [
        path
        for name in PAINTERS
        for path in ([TUI / name] if name.endswith(".py") else (TUI / name).rglob("*.py"))
    ]
    return {name for path in files if path.is_file() for name in CLASS.findall(path.read_text())}


def textual_types() -> set[str]:
    """Names of Textual's own widgets, and of what they are made of."""
    found = {*widgets.__all__, *(name for name in dir(containers) if name[0].isupper())}

    def below(cls: type[DOMNode]) -> set[str]:
        return {cls.__name__}.union(*(below(each) for each in cls.__subclasses__()))

    return found | {name for name in below(DOMNode) if name}


def types_of(text: str) -> set[str]:
    """Type selectors of a stylesheet: the capitalized names before each opening brace."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    selectors = re.findall(r"([^{};]*)\{", text)
    return {name for selector in selectors for name in re.findall(r"(?<![\w.#:$-])[A-Z]\w*", selector)}


def test_types_are_found_and_ids_classes_and_variables_are_not() -> None:
    text = "/* No { */ A, B > C.-D { color: $E; &:hover F { width: 1; } #G Hh { } }"
    assert types_of(text) == {"A", "B", "C", "F", "Hh"}


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda path: str(path.relative_to(TUI)))
def test_every_type_of_a_stylesheet_exists(sheet: Path) -> None:
    named = types_of(sheet.read_text())
    assert named and not named - own_types() - textual_types()
