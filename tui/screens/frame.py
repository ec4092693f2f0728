"""The frame of every screen: two lines above, the keys below, and running actions."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import on
from textual.app import App, ComposeResult
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget

from tui.actions.availability import ActionRefusal, ActionSelection, available
from tui.actions.registry import Action, actions, bindings, key_text
from tui.actions.registry import action as action_named
from tui.config.access import ContextAccess
from tui.config.settings import Context, one_context
from tui.screens.containment import ErrorBoundary
from tui.screens.not_connected import not_connected
from tui.session import Session
from tui.widgets.header_lines import HeaderLines, Line
from tui.widgets.key_footer import KeyFooter

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp

BLOCKED_SECONDS = 3.0
"""Seconds for which the screen shows why a key did nothing."""


class FrameScreen(Screen[None]):
    """A screen whose keys, footer and help come from the registry.

    A subclass sets `SCOPE` and `BINDINGS = bindings(SCOPE)`, yields its widgets in `compose_body`, and
    implements `top_line` and `second_line`. `selection` is the target of its actions, and `unmet` returns
    which of their conditions are not met; a blocked key only shows the reason.
    """

    SCOPE: ClassVar[str] = ""
    # Textual's choice may be a hidden line, which would receive the typed keys.
    AUTO_FOCUS = ""
    BINDINGS = bindings("app")

    def __init__(self, session: Session | None = None) -> None:
        super().__init__()
        self.boundary = ErrorBoundary(self, kept=(HeaderLines, KeyFooter))
        self._session = session
        self._blocked_shown = ("", 0.0)
        """The reason why the last key did nothing, and the time until which the screen shows it."""
        self._top_line: Line = (Content(""), Content(""))
        """The first line as last shown."""

    @property
    def is_current(self) -> bool:
        """Whether the screen is visible: on top, or only below dialogs.

        Textual's own property is also true for the screen below the top one, even if another screen covers
        it. A covered screen would show each change and slow down the keys.
        """
        stack = self.app.screen_stack if self.is_running else []
        above = stack[stack.index(self) + 1 :] if self in stack else [self]
        return all(screen.is_modal for screen in above)

    @property
    def console(self) -> ConsoleApp:
        """The app as a `ConsoleApp`. The screen of `tui.file_viewer` is in another app and does not use
        it."""
        return cast("ConsoleApp", self.app)

    @property
    def session(self) -> Session | None:
        """The open context; `None` until the console has reached it."""
        return self._session or getattr(self.app, "session", None)

    @property
    def ascii_only(self) -> bool:
        """Whether the setting `ascii` is on."""
        settings = getattr(self.session or self.app, "settings", None)
        return bool(getattr(settings, "ascii", False))

    @property
    def access(self) -> ContextAccess:
        """The allowed changes on this screen."""
        access: ContextAccess = getattr(self._session or self.app, "access", ContextAccess())
        return access

    @property
    def read_only(self) -> bool:
        """Whether mutating actions are refused."""
        return self.access.read_only is not None

    def compose(self) -> ComposeResult:
        yield HeaderLines()
        yield from self.compose_body()
        yield KeyFooter()

    def compose_body(self) -> Iterable[Widget]:
        """Yield the widgets between the second line and the footer."""
        return ()

    def top_line(self) -> Line:
        """Return the context and its cost: (left, right)."""
        return Content("vxtui"), Content("")

    def second_line(self) -> Line:
        """Return the content of this screen: (left, right)."""
        return Content(""), Content("")

    def on_mount(self) -> None:
        self.refresh_frame()

    def on_screen_resume(self) -> None:
        self.refresh_frame()

    @property
    def has_widgets(self) -> bool:
        """Whether all widgets are mounted and Textual has not begun to remove the screen.

        `is_mounted` stays true after the removal; `display` is the public sign that the removal has begun.
        """
        return self.is_mounted and self.is_attached and self.display

    def refresh_frame(self) -> None:
        """Update the lines and the footer. Only differences are painted.

        The last action may have closed this screen; then there is nothing to update.
        """
        if self.has_widgets:
            self._top_line = self.top_line()
            self._show_lines()

    def refresh_for_cursor(self) -> None:
        """Update the second line and the footer after a move of the cursor."""
        if self.has_widgets:
            self._show_lines()

    def _show_lines(self) -> None:
        self.query_one(HeaderLines).show(self._top_line, self.second_line())
        keymap, shown = self.keymap, self.footer_actions()
        self.query_one(KeyFooter).show([(a.id, key_text(a, keymap).split(" ")[0], a.label) for a in shown])

    def footer_actions(self) -> list[Action]:
        """Return the actions of the footer that can run now, the most useful first."""
        return [action for action in self.possible_actions() if action.footer]

    def possible_actions(self) -> list[Action]:
        """Return the actions of the active scopes that can run now."""
        possible: list[Action] = []
        for scope in self.scopes():
            selection = self.selection(scope)
            possible += [action for action in actions(scope) if self._refusal(action, selection) is None]
        return possible

    def keep_focus(self, widget: Widget) -> None:
        """Focus a widget if no widget has the focus, because hiding a widget removes its focus.

        Do nothing while the terminal itself has lost the focus, because Textual restores it later.
        """
        if self.focused is None and self.app.app_focus and widget.display:
            widget.focus()

    def refresh_here(self) -> None:
        """Read again the data that only this screen reads, for `ctrl+r`."""

    def confirm_leave(self) -> bool:
        """Open a dialog that asks before the screen closes. Return `False` if no question is needed."""
        return False

    def note_switched_away(self) -> None:
        """Record that the user has switched to another list. This screen stays open in its own list."""

    @property
    def keymap(self) -> dict[str, str]:
        """The user's own keys by action id."""
        settings = getattr(self.session or self.app, "settings", None)
        return dict(getattr(settings, "keys", {}))

    def scopes(self) -> tuple[str, ...]:
        """Return the active scopes, the most specific first."""
        return (self.SCOPE, "app") if self.SCOPE else ("app",)

    def target(self, action: Action) -> object:
        """Return the object that has the action's method, `action_<method>`: the app or this screen."""
        return self.app if action.scope == "app" else self

    def selection(self, scope: str) -> ActionSelection:
        """Return the current target of the actions of a scope."""
        session, group = self.session, self.group_reason()
        return ActionSelection(
            backend=session.backend if session is not None else None,
            access=self.access,
            unmet=self.unmet,
            not_connected=not_connected(self.app) if session is None else "",
            in_group=bool(group),
        )

    def unmet(self, condition: str, action: Action) -> str:
        """Return why a condition of the action is not met here, as a sentence; "" if it is met."""
        match condition:
            case "connection":
                return not_connected(self.app) if self.session is None else ""
            case "one_context":
                return self.group_reason()
        raise LookupError(f"{type(self).__name__} must handle the condition {condition} of {action.id}")

    def blocked_reason(self, action: Action) -> str | None:
        """Return why the action can't run now, as a sentence; `None` if it can."""
        refusal = self._refusal(action, self.selection(action.scope))
        return refusal.sentence if refusal is not None else None

    def _refusal(self, action: Action, selection: ActionSelection) -> ActionRefusal | None:
        if not hasattr(self.target(action), f"action_{action.method}"):
            return ActionRefusal(f"{action.title} is not possible here.")
        return available(action, selection)

    def group_reason(self) -> str:
        """Return why an action that needs one context is refused in a group; "" outside a group."""
        connection = getattr(self.app, "connection", None)
        context: Context | None = connection.context if connection is not None else None
        if context is None or context.kind != "group":
            return ""
        return f"{one_context(context)} :context opens it."

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key is handled here. A key of an inactive scope goes to the next scope."""
        if action == "do" and parameters:
            return _scope_of(str(parameters[0])) in self.scopes()
        return super().check_action(action, parameters)

    async def action_do(self, action_id: str, argument: str | None = None) -> None:
        """Run an action of the registry, or show why it can't run."""
        action = action_named(action_id)
        reason = self.blocked_reason(action)
        if reason is not None:
            self._show_blocked(reason)
            return
        method = getattr(self.target(action), f"action_{action.method}")
        result = method(argument) if argument is not None else method()
        if inspect.isawaitable(result):
            await result
        self.refresh_frame()

    def _show_blocked(self, reason: str) -> None:
        """Show the reason briefly, and only once for repeated keys: a toast covers other lines."""
        now = time.monotonic()
        if reason != self._blocked_shown[0] or now > self._blocked_shown[1]:
            self._blocked_shown = reason, now + BLOCKED_SECONDS
            self.notify(reason, severity="warning", timeout=BLOCKED_SECONDS, markup=False)

    @on(KeyFooter.Pressed)
    async def _pressed(self, event: KeyFooter.Pressed) -> None:
        await self.action_do(event.action_id)


def frame_of(app: App[Any]) -> FrameScreen | None:
    """Return the topmost screen with a frame. Dialogs lie above it."""
    return next((s for s in reversed(app.screen_stack) if isinstance(s, FrameScreen)), None)


def _scope_of(action_id: str) -> str:
    return action_named(action_id).scope
