"""Every private name of Textual that vxtui uses is declared, and is what it was when it was checked."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import tui
from tui.display.textual_private import CHECKED_WITH, PRIVATE_NAMES, PrivateName

ROOT = Path(tui.__file__).parent
LIBRARIES = re.compile(r"^\s*(from|import) (textual|rich)", re.MULTILINE)
ASSIGNED = re.compile(r"(?:self\.|def |^    )(_[a-z]\w*)\b", re.MULTILINE)


def advice() -> str:
    installed = ", ".join(f"{name} {version(name)} (checked with {v})" for name, v in CHECKED_WITH.items())
    return f"Installed: {installed}. See tui/display/textual_private.py."


def assigns(owner: type, name: str) -> bool:
    """Whether the class, or one that it is made of, assigns the attribute or has it as a slot."""
    for base in owner.__mro__:
        if name in vars(base) or name in getattr(base, "__annotations__", {}):
            return True
        if base.__module__ != "builtins" and re.search(rf"self\.{name}\b[^=\n]*=", inspect.getsource(base)):
            return True
    return False


@pytest.mark.parametrize("private", PRIVATE_NAMES, ids=lambda private: f"{private.owner}.{private.name}")
def test_a_private_name_is_as_it_was_checked(private: PrivateName) -> None:
    module, _, name = private.owner.partition(":")
    owner: ModuleType | type = importlib.import_module(module)
    if not name:
        assert hasattr(owner, private.name), f"{module} has no {private.name}: {private.why} {advice()}"
        return
    owner = getattr(owner, name)
    assert isinstance(owner, type)
    if not private.signature:
        assert assigns(owner, private.name), f"{name} has no {private.name}: {private.why} {advice()}"
        return
    method = inspect.getattr_static(owner, private.name, None)
    assert method is not None, f"{name} has no {private.name}: {private.why} {advice()}"
    parameters = ", ".join(inspect.signature(getattr(method, "__func__", method)).parameters)
    moved = f"{name}.{private.name} takes ({parameters}) rather than {private.signature}"
    assert f"({parameters})" == private.signature, f"{moved}: {private.why} {advice()}"


def own_names() -> set[str]:
    return {name for path in ROOT.rglob("*.py") for name in ASSIGNED.findall(path.read_text())}


def used_names(path: Path) -> set[str]:
    """Private names in a module that its own tree does not define, and those of `super()`."""
    text = path.read_text()
    names = set()
    for node in ast.walk(ast.parse(text)) if LIBRARIES.search(text) else ():
        if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr):
            names.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and re.search(r"\b(textual|rich)\S*\._", node.module or ""):
            names |= {alias.name for alias in node.names}
    return names


def test_every_private_name_is_declared() -> None:
    declared, own = {private.name for private in PRIVATE_NAMES}, own_names()
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        unknown = {
            name
            for name in used_names(path) - declared
            if name not in own or re.search(rf"super\(\)\.{name}\b", text)
        }
        unknown -= {"_exit", "_make", "_replace", "_asdict"}
        assert not unknown, f"{path}: declare {', '.join(sorted(unknown))} in tui/display/textual_private.py"
