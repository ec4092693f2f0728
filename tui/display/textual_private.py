"""The private names of Textual that vxtui patches, overrides or reads, and the patches themselves.

Textual has no public hook for these names. `tests/ui/test_textual_private.py` compares `PRIVATE_NAMES` with
the installed Textual and with the names that `tui` uses. If the test fails after an upgrade, read Textual's
source at the name, adapt its user, then update the signature here and `CHECKED_WITH`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from textual import events
from textual._compositor import ChopsUpdate, Compositor
from textual.css.model import RuleSet
from textual.geometry import Region, Size
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen

from tui.display.partial import Rendered, render_dirty

CHECKED_WITH = {"textual": "8.2.8", "textual_plot": "0.10.1", "rich": "15.0.0"}
"""The versions whose source was read for `PRIVATE_NAMES`."""


class PrivateName(NamedTuple):
    """A private name and the reason why vxtui needs it."""

    owner: str
    """`module:class`; `module` for a name of the module itself."""
    name: str
    signature: str
    """The parameters of a method; "" for a property or an attribute that the class assigns."""
    why: str


_FRAMES = "A frame of changed cells replaces Textual's frame, and waits for the line or a key."
_PARTIAL = "A partial update renders only the dirty lines of each widget."
_ONCE = "A screen is laid out and styled once when it opens, not twice."
_ERRORS = "An exception of a pane or dialog is shown there and does not end the app."
_TOASTS = "Toasts of one topic replace each other, and at most three are shown."
_KEYS = "Input is read without ending the app on bytes that are not UTF-8."
_WIDGET = "The widget adds its own step to Textual's handler."
_PLOT = "A plot is drawn without its frame, and the cursor's line without moving the plot."
_CELLS = "A style becomes an SGR sequence without Rich's slower rendering."

PRIVATE_NAMES = (
    PrivateName("textual.screen:Screen", "_compositor_refresh", "(self)", _FRAMES),
    PrivateName("textual.screen:Screen", "_on_idle", "(self, event)", _FRAMES),
    PrivateName("textual.screen:Screen", "_on_timer_update", "(self)", _FRAMES),
    PrivateName("textual.screen:Screen", "_compositor", "", _FRAMES),
    PrivateName("textual.screen:Screen", "_dirty_widgets", "", _FRAMES),
    PrivateName("textual.widget:Widget", "_repaint_required", "", _FRAMES),
    PrivateName("textual.widget:Widget", "_layout_required", "", _FRAMES),
    PrivateName("textual.app:App", "_display", "(self, screen, renderable)", _FRAMES),
    PrivateName("textual.app:App", "_driver", "", "Writes control sequences that Textual lacks."),
    PrivateName("textual.app:App", "_batch_count", "", _FRAMES),
    PrivateName("textual.app:App", "_sync_available", "", _FRAMES),
    PrivateName("textual.app:App", "_previous_cursor_position", "", _FRAMES),
    PrivateName("textual.app:App", "_filters", "", "A theme without colours replaces Textual's greys."),
    PrivateName(
        "textual.app:App",
        "_refresh_truecolor_filter",
        "(self, theme)",
        "The first theme is set before anything is styled.",
    ),
    PrivateName("textual.message_pump:MessagePump", "_running", "", _FRAMES),
    PrivateName("textual.message_pump:MessagePump", "_closed", "", _FRAMES),
    PrivateName("rich.console:Console", "_color_system", "", _FRAMES),
    PrivateName("textual._ansi_sequences", "SYNC_START", "", _FRAMES),
    PrivateName("textual._ansi_sequences", "SYNC_END", "", _FRAMES),
    PrivateName("textual._compositor", "LayoutUpdate", "", _FRAMES),
    PrivateName("textual._compositor", "ChopsUpdate", "", _FRAMES),
    PrivateName("textual._compositor", "Compositor", "", _PARTIAL),
    PrivateName("textual._compositor:Compositor", "_get_renders", "(self, crop)", _PARTIAL),
    PrivateName("textual._compositor:Compositor", "_regions_to_spans", "(cls, regions)", _PARTIAL),
    PrivateName(
        "textual._compositor:Compositor", "_render_chops", "(self, crop, is_rendered_line)", _PARTIAL
    ),
    PrivateName("textual._compositor:Compositor", "_dirty_regions", "", _PARTIAL),
    PrivateName("textual.screen:Screen", "_screen_resized", "(self, size)", _ONCE),
    PrivateName("textual.screen:Screen", "_on_screen_resume", "(self, event)", _ONCE),
    PrivateName("textual.app:App", "_handle_exception", "(self, error)", _ERRORS),
    PrivateName("textual.message_pump:MessagePump", "_dispatch_message", "(self, message)", _ERRORS),
    PrivateName("textual.app:App", "_notifications", "", _TOASTS),
    PrivateName("textual.app:App", "_on_notify", "(self, event)", _TOASTS),
    PrivateName("textual.app:App", "_unnotify", "(self, notification, refresh)", _TOASTS),
    PrivateName("textual.widgets._toast", "Toast", "", _TOASTS),
    PrivateName("textual.widgets._toast:Toast", "_notification", "", _TOASTS),
    PrivateName("textual._parser", "ParseError", "", _KEYS),
    PrivateName("textual._time", "get_time", "", _KEYS),
    PrivateName("textual._xterm_parser", "XTermParser", "", _KEYS),
    PrivateName("textual._parser:Parser", "_timeout_time", "", _KEYS),
    PrivateName("textual.driver:Driver", "_debug", "", _KEYS),
    PrivateName("textual.driver:Driver", "_app", "", _KEYS),
    PrivateName("textual.driver:Driver", "_loop", "", _KEYS),
    PrivateName("textual.drivers.linux_driver:LinuxDriver", "_file", "", _KEYS),
    PrivateName("textual.drivers.linux_driver:LinuxDriver", "_writer_thread", "", _KEYS),
    PrivateName("textual.widgets:Input", "_on_key", "(self, event)", _WIDGET),
    PrivateName("textual.widgets:Input", "_on_blur", "(self, event)", _WIDGET),
    PrivateName("textual.widget:Widget", "_scroll_update", "(self, virtual_size)", _WIDGET),
    PrivateName(
        "textual.widget:Widget",
        "_size_updated",
        "(self, size, virtual_size, container_size, layout)",
        _WIDGET,
    ),
    PrivateName("textual_plot:PlotWidget", "_render_plot", "(self)", _PLOT),
    PrivateName("textual_plot:PlotWidget", "_v_lines", "", _PLOT),
    PrivateName("textual_plot:PlotWidget", "_scale_rectangle", "", _PLOT),
    PrivateName("textual_hires_canvas:Canvas", "_canvas_size", "", _PLOT),
    PrivateName("rich.style:Style", "_link", "", _CELLS),
    PrivateName("rich.style:Style", "_ansi", "", _CELLS),
)


class FrameControl(Protocol):
    """Methods of the app that the patched screens call before a frame."""

    @property
    def screen(self) -> Screen[Any]: ...

    def hold(self, screen: Screen[object]) -> bool: ...

    def key_frame_due(self, screen: Screen[object]) -> bool: ...


def render_now(screen: Screen[object]) -> None:
    """Render the dirty widgets as the screen's timer does, but immediately."""
    if screen.app.screen_stack and screen.is_current:
        screen._compositor.update_widgets(screen._dirty_widgets)
        screen._compositor_refresh()


def waits_for_layout(screen: Screen[Any]) -> bool:
    """Return whether the screen is laid out again before it is rendered."""
    return screen._layout_required


def needs_frame(screen: Screen[Any]) -> bool:
    """Return whether something on the screen has changed since its last frame."""
    return bool(screen._dirty_widgets or screen._repaint_required or screen._layout_required)


def control_frames(control_of: Callable[[Any], FrameControl | None]) -> None:
    """Make every screen call its app before rendering, including Textual's own screens, e.g. the palette."""
    stock, stock_idle = Screen._compositor_refresh, Screen._on_idle

    def refresh(self: Screen[object]) -> None:
        control = control_of(self.app)
        if control is not None and self is control.screen and control.hold(self):
            return
        stock(self)

    async def idle(self: Screen[object], event: events.Idle) -> None:
        control = control_of(self.app)
        if control is not None and control.key_frame_due(self):
            self._on_timer_update()
        await stock_idle(self, event)

    Screen._compositor_refresh = refresh  # type: ignore[method-assign, assignment]
    Screen._on_idle = idle  # type: ignore[method-assign, assignment]


def render_only_dirty_lines() -> None:
    """Make the compositor render only the dirty lines of each widget, see `tui.display.partial`."""
    stock = Compositor._get_renders

    def render_partial_update(self: Compositor) -> ChopsUpdate | None:
        dirty = [part for part in map(self.size.region.intersection, self._dirty_regions) if part]
        self._dirty_regions.clear()
        if not dirty:
            return None
        spans = list(self._regions_to_spans(dirty))
        holder: Any = self
        holder.dirty_now = dirty
        try:
            chops: Any = self._render_chops(Region.from_union(dirty), {y for y, _, _ in spans}.__contains__)
        finally:
            del holder.dirty_now
        return ChopsUpdate(chops, spans, [cuts[1:] for cuts in self.cuts])

    def get_renders(self: Compositor, crop: Region | None = None) -> Iterable[Rendered]:
        dirty = getattr(self, "dirty_now", None)
        return stock(self, crop) if dirty is None else render_dirty(self, dirty)

    Compositor.render_partial_update = render_partial_update  # type: ignore[method-assign]
    Compositor._get_renders = get_renders  # type: ignore[method-assign]


def _laid_out(screen: Screen[Any], size: Size) -> bool:
    compositor = screen._compositor
    return compositor.root is screen and compositor.size == size and not screen._layout_required


def _style_inputs(screen: Screen[Any]) -> tuple[object, ...]:
    """Return the state outside a screen that determines its styles. A widget that changes restyles itself."""
    app = screen.app
    return app.theme, app.app_focus, frozenset(app.classes), frozenset(app.pseudo_classes)


def lay_out_and_style_once() -> None:
    """Skip Textual's repeated work for a screen.

    A dialog that opens lays out all screens below it again although their size is unchanged. A screen that
    opens or is shown again has all its widgets styled a second time.
    """
    stock_resized, stock_resume = Screen._screen_resized, Screen._on_screen_resume

    def screen_resized(self: Screen[Any], size: Size) -> None:
        if self.is_active or not _laid_out(self, size):
            stock_resized(self, size)

    def on_screen_resume(self: Screen[Any], event: events.ScreenResume) -> None:
        holder: Any = self
        inputs = _style_inputs(self)
        if getattr(self, "styled_with", inputs) == inputs:
            event.refresh_styles = False
        holder.styled_with = inputs
        stock_resume(self, event)

    Screen._screen_resized = screen_resized  # type: ignore[method-assign]
    Screen._on_screen_resume = on_screen_resume  # type: ignore[method-assign]


def hash_rules_by_identity() -> None:
    """Use object identity as the hash: Textual builds a set of all rules for each widget that it styles."""
    RuleSet.__hash__ = object.__hash__  # type: ignore[method-assign]


def contain_exceptions(contain: Callable[[MessagePump, Exception], bool]) -> None:
    """Let `contain` show an exception of a message handler, and continue the widget's message loop.

    Textual leaves the loop at any exception, so that the widget would no longer respond.
    """
    stock = MessagePump._dispatch_message

    async def dispatch(self: MessagePump, message: Message) -> None:
        try:
            await stock(self, message)
        except Exception as error:
            if not contain(self, error):
                raise

    MessagePump._dispatch_message = dispatch  # type: ignore[method-assign]
