"""An app that sends only changed cells, no more frames than the line can transmit, and one key at a time.

Textual writes a frame that can't be represented in cells. The private names of Textual that this module needs
are in `textual_private`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import termios
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeVar

from rich.color import ColorSystem
from textual import events, on
from textual._ansi_sequences import SYNC_END, SYNC_START
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App
from textual.driver import Driver
from textual.filter import Monochrome, NoColor
from textual.screen import Screen

from tui.display import textual_private
from tui.display.cells import NotRepresentable
from tui.display.frame import frame_rows
from tui.display.key_queue import KeyDone, KeyQueue
from tui.display.pace import FramePace
from tui.display.screen_buffer import ScreenBuffer
from tui.widgets.clipboard import copy_sequences

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.theme import Theme

    from tui.display.driver import ConsoleDriver
    from tui.display.writer import LineWriter

Output = Literal["diff", "stock"]
SLOW_FRAMES = 4.0
"""Frames per second of the preset for slow lines."""
RETRY_SECONDS = 0.25
KEY_CHANGES = 0.1
"""Time in seconds within which a key's change reaches the screen."""
KEY_WAIT = 0.05
"""Seconds that a frame waits for the end of the key that is being handled."""
ENDED_BY_SIGNAL = 128
"""Exit code for signal 0; a shell shows this number plus the signal's number."""
HANGUP_SECONDS = 10.0
"""Seconds that the process survives the loss of its terminal."""
RESET = (
    "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?2004l\x1b[?2048l\x1b[?1004l\x1b[?7h\x1b[m\x1b[r\x1b[<u"
    "\x1b[?1049l\x1b[?25h"
)
"""Resets the modes that Textual's driver enables: mouse, paste, focus, keyboard protocol, screen and
cursor."""
Result = TypeVar("Result")


def end_at_once(driver: Driver | None, number: int) -> None:
    """Restore the terminal without the event loop, and end the process as the signal would have ended it."""
    descriptor, before = getattr(driver, "fileno", -1), getattr(driver, "attrs_before", None)
    with contextlib.suppress(OSError, termios.error):
        if before is not None:
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
        os.set_blocking(descriptor, False)
        os.write(descriptor, RESET.encode())
    os._exit(ENDED_BY_SIGNAL + number)


class DisplayApp(App[Result]):
    """An app with the settings `output` and `slow`, set before it runs. `stock` selects Textual's output."""

    output: Output = "diff"
    _styled_theme: Theme | None = None
    _theme_variables: Mapping[str, str] = MappingProxyType({})

    def __init__(self) -> None:
        super().__init__()
        self.pace = FramePace()
        self.key_queue = KeyQueue(self, self._handle_event, self.key_over)
        self._buffer: ScreenBuffer | None = None
        self._painted_by: LineWriter | None = None
        self._held: Screen[object] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._key_over_at: float | None = None
        self._for_key: Screen[object] | None = None
        self._for_key_until = 0.0
        self._signaled = False
        self._released = False
        self.key_at = 0.0
        """Monotonic time of the last key or click."""

    def get_css_variables(self) -> dict[str, str]:
        """Return the theme's variables. Textual would generate them three times at each start."""
        theme = self.current_theme
        if self._styled_theme is not theme:
            self._styled_theme, self._theme_variables = theme, super().get_css_variables()
        return dict(self._theme_variables)

    def go_slow(self) -> None:
        """Limit the frames per second and turn off animations, for a slow line."""
        self.pace.limit(SLOW_FRAMES)
        self.animation_level = "none"

    def drop_colours(self) -> None:
        """Use no colours rather than Textual's greys, for a theme that works without colours."""
        # Every widget reads these filters when it renders, and Textual offers no other hook.
        self._filters[:] = [NoColor() if isinstance(f, Monochrome) else f for f in self._filters]

    def on_load(self) -> None:
        """Restore the terminal before a signal ends the process."""
        if not self.is_headless:
            self._event_loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGHUP):
                # Don't use the loop's own handler, because a key handler that never returns would delay it.
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _: object) -> None:
        """Handle a signal. Python calls this between two instructions of the main thread."""
        if self._signaled:
            end_at_once(self._driver, number)
        self._signaled = True
        if number == signal.SIGHUP:
            # Nobody is left to send another signal.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, HANGUP_SECONDS)
        self._event_loop.call_soon_threadsafe(self.leave, signal.Signals(number))

    def leave(self, number: signal.Signals) -> None:
        """Exit with the signal's code after restoring the terminal."""
        self.exit(return_code=ENDED_BY_SIGNAL + number)

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's driver for this platform, with `LineWriter` on Linux."""
        driver_class = super().get_driver_class()
        if driver_class.__name__ == "LinuxDriver" and self.output == "diff":
            from tui.display.driver import ConsoleDriver  # noqa: PLC0415 - not on other platforms

            return ConsoleDriver
        return driver_class

    def repaint_all(self) -> None:
        """Repaint the entire terminal."""
        self._buffer = None
        self.screen.refresh()

    @on(Driver.SignalResume)
    def _resumed(self) -> None:
        # While the process was stopped, the shell wrote to the terminal.
        self.repaint_all()

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """Hand the terminal to another program while the event loop and all reading continue.

        Raises:
            SuspendNotSupported: the screen is not on a terminal.
        """
        failure: BaseException | None = None
        with self.suspend():
            self._released = True
            try:
                yield
            except BaseException as error:  # noqa: BLE001 - raised again once the screen is back
                failure = error
            finally:
                self._released = False
        self.repaint_all()
        if failure is not None:
            raise failure

    def send_copy(self, text: str, label: str) -> None:
        """Copy, and notify that the text was sent, because a program can't know whether the text arrived."""
        if copy_sequences(text):
            self.copy_to_clipboard(text)
            self.notify(f"Sent {label} to the terminal's clipboard", markup=False)
        else:
            self.notify(f"{label} is too long for the terminal's clipboard", severity="warning", markup=False)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy as Textual does, and also through tmux."""
        super().copy_to_clipboard(text)
        wrapped = copy_sequences(text, bare=False)
        # Textual has no public way to write a control sequence.
        if wrapped and self._driver is not None:
            self._driver.write(wrapped)

    # Frames

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if self._released:
            return
        driver = self._console_driver()
        if driver is None or self._batch_count or renderable is None:
            super()._display(screen, renderable)
            return
        try:
            if not isinstance(renderable, LayoutUpdate | ChopsUpdate):
                raise NotRepresentable(type(renderable).__name__)
            if self._painted_by is not driver.line:
                # Another program has used the terminal in between.
                self._buffer, self._painted_by = None, driver.line
            text = self.paint(renderable)
        except NotRepresentable:
            self._buffer = None
            # Textual's frames start with the default colours.
            driver.write("\x1b[m")
            super()._display(screen, renderable)
            return
        if text:
            self._send(text, driver)
        self.post_display_hook()

    def _console_driver(self) -> ConsoleDriver | None:
        """Return the driver that accepts our frames, or `None`."""
        driver = self._driver
        if self.output != "diff" or driver is None or not self._running or self._closed or self.is_headless:
            return None
        return driver if getattr(driver, "line", None) is not None else None  # type: ignore[return-value]

    def paint(self, update: LayoutUpdate | ChopsUpdate) -> str:
        """Return the bytes that bring the terminal from its current content to this update.

        Raises:
            NotRepresentable: see `frame_rows`.
        """
        width, height = self.size
        if self._buffer is None or (self._buffer.width, self._buffer.height) != (width, height):
            self._buffer = ScreenBuffer(width, height, blank_keeps_colour=keeps_colour(os.environ))
        rows = frame_rows(update, self._buffer, self.console._color_system or ColorSystem.TRUECOLOR)
        cursor = self.screen.outer_size.clamp_offset(self.cursor_position)
        self._previous_cursor_position = cursor
        return self._buffer.paint(rows, (cursor.x, cursor.y))

    def _send(self, text: str, driver: ConsoleDriver) -> None:
        """Write the entire frame at once, followed by the cursor position request of the pacing."""
        question = self.pace.sent(len(text))
        if question:
            driver.questions += 1
        if self._sync_available:
            text = f"{SYNC_START}{text}{SYNC_END}"
        driver.write(text + question)

    # FramePace

    async def on_event(self, event: events.Event) -> None:
        """Queue a key behind earlier keys, and handle other events at once."""
        if isinstance(event, events.Key) and not event.is_forwarded:
            await self.key_queue.add(event)
        else:
            await self._handle_event(event)

    @on(KeyDone)
    def _key_done(self, event: KeyDone) -> None:
        self.key_queue.note_done(event)

    async def _handle_event(self, event: events.Event) -> None:
        """Handle an event. A key makes its frame urgent, so the held frame is tried again."""
        if isinstance(event, events.Key | events.MouseDown | events.Paste) and not event.is_forwarded:
            self.key_at = time.monotonic()
            self.pace.key()
            self._try_held()
        elif isinstance(event, events.Resize):
            self._buffer = None
        await super().on_event(event)

    def quiet_for(self) -> float:
        """Return the seconds since the last key or click; 0 while a key is being handled."""
        return 0.0 if self.key_in_progress else time.monotonic() - self.key_at

    @property
    def key_in_progress(self) -> bool:
        """Whether a key is being handled. Work that can wait should then yield."""
        return self.key_queue.in_progress

    def hold(self, screen: Screen[object]) -> bool:
        """Return whether a frame must wait. A held frame is rendered later without another call."""
        return self._hold_for_key(screen) or self.hold_frame(screen)

    def _hold_for_key(self, screen: Screen[object]) -> bool:
        """Return whether a frame waits until the key is handled, because opening a screen lays it out several
        times. The frame waits no longer than `KEY_WAIT`, even if this key or later keys take longer."""
        if not self.key_in_progress:
            self._for_key = None
            return False
        now = time.monotonic()
        if self._for_key is not screen:
            self._for_key, self._for_key_until = screen, now + KEY_WAIT
            asyncio.get_running_loop().call_later(KEY_WAIT, self._paint_for_key, screen)
        if now < self._for_key_until:
            return True
        # The next frame of this key waits as long again.
        self._for_key = None
        return False

    def _paint_for_key(self, screen: Screen[object]) -> None:
        """Render the frame that waits for a key, if it is still waiting."""
        if self._for_key is screen:
            self._for_key_until = 0.0
            screen.call_next(textual_private.render_now, screen)

    def key_over(self) -> None:
        """Handle the end of a key, and paint its change as soon as the screen is updated."""
        waits, self._for_key = self._for_key, None
        if waits is not None and not textual_private.waits_for_layout(waits):
            waits.call_next(textual_private.render_now, waits)
        if self.screen_stack:
            self._key_over_at = time.monotonic()
            self.pace.key_over()
            self.screen.check_idle()

    def key_frame_due(self, screen: Screen[object]) -> bool:
        """Return whether to render now rather than at the next tick of the screen's timer. After a slow frame
        the next tick may be two periods away, i.e. 33 ms."""
        if self._key_over_at is None or not self.screen_stack or screen is not self.screen:
            return False
        if time.monotonic() - self._key_over_at > KEY_CHANGES:
            self._key_over_at = None
            return False
        if not textual_private.needs_frame(screen):
            return False
        self._key_over_at = None
        return True

    def hold_frame(self, screen: Screen[object]) -> bool:
        """Return whether a frame waits because the line is busy."""
        driver = self._console_driver()
        if driver is None or driver.line is None or self._batch_count:
            return False
        self.pace.stalled(driver.line.rate, driver.line.stalled_at)
        seconds = self.pace.wait(driver.line.behind)
        if seconds <= 0:
            self._held = None
            return False
        self._held = screen
        self._again_in(seconds)
        return True

    def _again_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + min(seconds, RETRY_SECONDS)
        if self._retry is not None:
            if self._retry.when() <= at:
                return
            self._retry.cancel()
        self._retry = loop.call_at(at, self._on_retry)

    def _on_retry(self) -> None:
        self._retry = None
        self._try_held()

    def _try_held(self) -> None:
        """Render the held frame if it may be sent, else try again later."""
        screen = self._held
        driver = self._console_driver()
        if screen is None or driver is None or driver.line is None:
            return
        seconds = self.pace.wait(driver.line.behind)
        if seconds > 0:
            self._again_in(seconds)
        else:
            self._held = None
            screen.call_next(textual_private.render_now, screen)

    def line_free(self) -> None:
        """Handle the event that the writer has sent everything."""
        self._try_held()

    def line_answered(self) -> None:
        """Handle the terminal's answer to a request."""
        self.pace.answered()
        self._try_held()


def keeps_colour(environ: os._Environ[str] | dict[str, str]) -> bool:
    """Return whether erased cells have the background colour: not in GNU screen, recognised by its TERM."""
    return not environ.get("TERM", "").startswith("screen") or "TMUX" in environ


def _control_of(app: App[object]) -> DisplayApp[object] | None:
    return app if isinstance(app, DisplayApp) else None


textual_private.control_frames(_control_of)
textual_private.render_only_dirty_lines()
textual_private.lay_out_and_style_once()
textual_private.hash_rules_by_identity()
