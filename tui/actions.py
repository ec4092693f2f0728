"""The one registry of actions: footer, help, palette, key map, read-only mode and verbs follow from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tui.backends.base import Capability

NOTHING = Capability(0)


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a person can do.

    `id` is stable and is what a key map names, e.g. `job.cancel`. `scope` is the screen it belongs to
    ("app" for everywhere). A screen implements `action_<method>`. `mutates` closes it in read-only mode;
    `confirm` means that a dialog naming the target comes first. `footer` shows it in the last line.
    """

    id: str
    key: str
    label: str
    help: str
    scope: str
    method: str
    mutates: bool = False
    confirm: bool = False
    footer: bool = True
    needs: Capability = NOTHING
    command: str = ""
    """Word after `:` that runs it; empty means the last part of the id."""


_ACTIONS: tuple[Action, ...] = ()


def actions(scope: str | None = None) -> Iterable[Action]:
    """All actions, or those of one scope, in display order."""
    return [a for a in _ACTIONS if scope is None or a.scope == scope]


def action(action_id: str) -> Action:
    """The action of that id. Raises KeyError."""
    return next(a for a in _ACTIONS if a.id == action_id)
