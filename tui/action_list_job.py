"""Actions of one job's screen and of the widgets in it."""

from __future__ import annotations

from tui.action import Action

ACTIONS: tuple[Action, ...] = ()
