"""The one registry of actions: footer, help, palette, key map, read-only mode and verbs follow from it.

A scope's actions stand in the module of the part that has the screens: `lists`, `profile_form` and `job`. A
screen or widget takes its keys with `BINDINGS = bindings(SCOPE)`; a key then runs `FrameScreen.action_do`,
which asks `blocked_reason` before the scope's target runs the action.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tui.actions.action import Action
from tui.actions.job import ACTIONS as _JOB
from tui.actions.lists import ACTIONS as _LISTS
from tui.actions.profile_form import ACTIONS as _FORM

if TYPE_CHECKING:
    from textual.binding import BindingType

__all__ = ["Action", "action", "actions", "bindings", "key_problems", "key_text"]

_ACTIONS: tuple[Action, ...] = (*_LISTS, *_FORM, *_JOB)
_BY_ID = {a.id: a for a in _ACTIONS}

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
    "up": "↑",
    "down": "↓",
    "pageup": "pgup",
    "pagedown": "pgdn",
}


def actions(scope: str | None = None) -> list[Action]:
    """All actions, or those of one scope, in display order."""
    return [a for a in _ACTIONS if scope is None or a.scope == scope]


def action(action_id: str) -> Action:
    """The action of that id. Raises KeyError."""
    return _BY_ID[action_id]


def bindings(*scopes: str) -> list[BindingType]:
    """Textual bindings of these scopes, for a class's `BINDINGS`; the footer is ours, so none is shown.

    Textual is imported here, so that verbs may read the registry without paying for it.
    """
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
    """What is wrong with a user's key map: ids that no action has, and keys that two actions want."""
    unknown = sorted(set(keymap) - set(_BY_ID))
    found = [f"The key map names no action: {', '.join(unknown)}. ? lists the ids."] if unknown else []
    for scope in dict.fromkeys(a.scope for a in _ACTIONS):
        taken: dict[str, str] = {}
        for each in (*actions("app"), *actions(scope)) if scope != "app" else actions("app"):
            for key in (keymap.get(each.id) or each.key).split(","):
                other = taken.setdefault(key.strip(), each.id)
                if key.strip() and other != each.id and (each.id in keymap or other in keymap):
                    found.append(f"The key map gives {key.strip()} to both {other} and {each.id}.")
    return list(dict.fromkeys(found))


def key_text(found: Action, keymap: Mapping[str, str]) -> str:
    """The action's keys as a person reads them, after the user's own key map: `j ↓`, `ctrl+r`, `?`."""
    keys = (keymap.get(found.id) or found.key).split(",")
    return " ".join(_KEY_TEXT.get(key.strip(), key.strip()) for key in keys if key.strip())
