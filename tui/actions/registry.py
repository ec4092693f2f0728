"""The registry of actions, from which footer, help, palette, key map, read-only mode and verbs follow.

The actions of a scope are declared in a module for the screens, e.g. `lists` or `profile_form`. A screen or
widget declares its keys with `BINDINGS = bindings(SCOPE)`; a key then runs `FrameScreen.action_do`, which
calls `availability.available` before the scope's target runs the action.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from tui.actions.action import Action
from tui.actions.job import ACTIONS as _JOB
from tui.actions.launch import ACTIONS as _LAUNCH
from tui.actions.lists import ACTIONS as _LISTS
from tui.actions.profile_form import ACTIONS as _FORM
from tui.actions.resources import ACTIONS as _RESOURCES
from tui.actions.schedules import ACTIONS as _SCHEDULES
from tui.actions.serving import ACTIONS as _SERVING
from tui.actions.studies import ACTIONS as _STUDIES
from tui.actions.verbs import ACTIONS as _VERBS
from tui.kinds.kind import Kind
from tui.kinds.registry import kinds

if TYPE_CHECKING:
    from textual.binding import BindingType

__all__ = [
    "Action",
    "action",
    "actions",
    "bindings",
    "key_problems",
    "key_text",
    "operation",
    "register",
]

_BY_ID: dict[str, Action] = {}
"""Every action, in display order."""

_KEY_TEXT = {
    "question_mark": "?",
    "colon": ":",
    "dollar_sign": "$",
    "slash": "/",
    "asterisk": "*",
    "ampersand": "&",
    "exclamation_mark": "!",
    "greater_than_sign": ">",
    "less_than_sign": "<",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "escape": "esc",
    "comma": ",",
    "pageup": "pgup",
    "pagedown": "pgdn",
}


def register(new: Iterable[Action]) -> None:
    """Register actions that every kind of work has, before a screen reads its bindings. Raises ValueError for
    an id that is already registered."""
    for action in new:
        if action.id in _BY_ID:
            raise ValueError(f"two actions have the id {action.id}")
        _BY_ID[action.id] = action


# Actions of the command line come first: their labels name an operation without a key.
register((*_VERBS, *_LISTS, *_LAUNCH, *_FORM, *_JOB, *_SERVING, *_RESOURCES, *_SCHEDULES, *_STUDIES))


def actions(scope: str | None = None) -> list[Action]:
    """Return all actions, or the actions of one scope, in display order."""
    return [a for a in (*_BY_ID.values(), *_of_kinds()) if scope is None or a.scope == scope]


def action(action_id: str) -> Action:
    """Return the action with this id. Raises KeyError."""
    return _BY_ID.get(action_id) or {a.id: a for a in _of_kinds()}[action_id]


def _of_kinds() -> list[Action]:
    """Return the actions of only one kind of work."""
    return [action for kind in kinds() for action in _actions_of(kind)]


@cache
def _actions_of(kind: Kind) -> tuple[Action, ...]:
    return tuple(
        Action(
            f"{kind.scope}.{own.method}",
            own.key,
            own.label,
            own.help,
            kind.scope,
            own.method,
            operation=own.operation,
            confirm=own.confirm,
            footer=own.footer,
            when=("job",),
        )
        for own in kind.actions
    )


def operation(operation_id: str) -> Action:
    """Return the first action that runs this operation; its label names the operation. Raises KeyError for an
    operation that no action declares."""
    for action in actions():
        if action.operation == operation_id:
            return action
    raise KeyError(operation_id)


def bindings(*scopes: str) -> list[BindingType]:
    """Return the Textual bindings of these scopes, for a class's `BINDINGS`; Textual's footer does not show
    them. Textual is imported here, so that verbs can read the registry without this import."""
    from textual.binding import Binding  # noqa: PLC0415

    return [
        Binding(
            a.key,
            a.method if a.direct else f"screen.do({a.id!r})",
            a.label,
            id=a.id,
            show=False,
            tooltip=a.help,
        )
        for scope in scopes
        for a in actions(scope)
        if a.key
    ]


def key_problems(keymap: Mapping[str, str]) -> list[str]:
    """Return the problems with a user's key map: ids without an action, and keys of two actions."""
    unknown = sorted(set(keymap) - {a.id for a in actions()})
    problems = (
        [f"The key map has ids without an action: {', '.join(unknown)}. ? lists the ids."] if unknown else []
    )
    scopes: dict[str, list[Action]] = {"app": []}
    for action in actions():
        scopes.setdefault(action.scope, []).append(action)
    for scope, own in scopes.items():
        by_key: dict[str, str] = {}
        for action in (*scopes["app"], *own) if scope != "app" else own:
            for key in (keymap.get(action.id) or action.key).split(","):
                other = by_key.setdefault(key.strip(), action.id)
                if key.strip() and other != action.id and (action.id in keymap or other in keymap):
                    problems.append(f"The key map gives {key.strip()} to both {other} and {action.id}.")
    return list(dict.fromkeys(problems))


def key_text(action: Action, keymap: Mapping[str, str]) -> str:
    """Return the action's keys for the user, after the user's own key map: `j down`, `ctrl+r`, `?`."""
    keys = (keymap.get(action.id) or action.key).split(",")
    return " ".join(_KEY_TEXT.get(key.strip(), key.strip()) for key in keys if key.strip())
