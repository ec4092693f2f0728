"""Each place of an action knows its conditions, and a key has one meaning there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tui.actions.registry import actions
from tui.kinds.kind import resolve
from tui.kinds.registry import kinds

SCREENS = Path(__file__).parents[2] / "tui" / "screens"


def known_conditions() -> dict[str, set[str]]:
    """By scope: the conditions that its class or a base class answers in `unmet`."""
    classes = {node.name: node for path in SCREENS.rglob("*.py") for node in class_nodes(path)}
    conditions: dict[str, set[str]] = {}
    for node in classes.values():
        for scope in scopes_of(node):
            conditions.setdefault(scope, set()).update(answered(node, classes))
    return conditions


def class_nodes(path: Path) -> Iterator[ast.ClassDef]:
    return (node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef))


def scopes_of(node: ast.ClassDef) -> list[str]:
    values = [
        statement.value
        for statement in node.body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "SCOPE"
    ]
    return [value.value for value in values if isinstance(value, ast.Constant) and value.value]


def answered(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> set[str]:
    """The words in `unmet` of the class and of its bases."""
    words = {
        constant.value
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "unmet"
        for constant in ast.walk(method)
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    }
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            words |= answered(classes[base.id], classes)
    return words


def test_each_place_knows_the_conditions_of_its_actions() -> None:
    known = known_conditions()
    for action in actions():
        if action.when and not action.scope.startswith("kind_"):
            unknown = set(action.when) - known[action.scope]
            assert not unknown, f"{action.id} names {unknown}, which no `unmet` of {action.scope} answers"


def test_the_screens_with_actions_of_kinds_know_their_conditions() -> None:
    known = known_conditions()
    for kind in kinds():
        for action in actions(kind.scope):
            assert set(action.when) <= known["job"] & known["studies"], action.id


NARROWER = ("copy", "open", "back")
"""First words of labels: on a pane such a key acts on the row under the cursor instead of the job."""


def job_places() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each tab of each kind, with the scopes that are active there."""
    for kind in kinds():
        for tab in kind.tabs:
            pane = resolve(tab.pane)
            yield f"{kind.key}, {tab.key}", (pane.SCOPE, *pane.EXTRA, kind.scope, "job", "app")


def test_a_key_of_a_job_s_screen_means_one_thing() -> None:
    for place, scopes in job_places():
        labels: dict[str, str] = {}
        for action in (action for scope in scopes for action in actions(scope)):
            word = action.label.split()[0]
            label = (word if word in NARROWER else action.label).removesuffix("s")
            for key in filter(None, action.key.split(",")):
                first = labels.setdefault(key, label)
                assert first == label, f"{key} on {place}: {first}, {label}"
