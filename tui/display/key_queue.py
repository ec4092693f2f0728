"""Delivers typed-ahead keys to the widgets and screens that earlier keys opened.

Textual sends every key to the widget that has the focus when the key arrives, before the actions of earlier
keys have run. Over a slow line several keys arrive in one packet: without this module, of `/`, `a`, `enter`
and `l` the `a` would go to the list and the `l` into the filter. Here each key waits until the previous key
has been handled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from textual import events
from textual.app import App
from textual.message import Message
from textual.message_pump import MessagePump
from textual.timer import Timer

KEY_TIMEOUT = 1.0
"""Seconds after which the next key is sent even if the previous key is not handled."""
LAST_ROUND = 3


@dataclass
class KeyDone(Message):
    """Follows a key up to the app. When the message arrives there, the key has been handled.

    The message makes three rounds: behind the key itself, behind the messages of its action, and behind the
    start of a screen that it opened.
    """

    number: int
    round: int
    target: MessagePump


class KeyQueue:
    """Sends an app one key at a time. `send` passes a key to Textual; `on_idle` follows the last key."""

    def __init__(
        self, app: App[Any], send: Callable[[events.Key], Awaitable[None]], on_idle: Callable[[], None]
    ) -> None:
        self._app = app
        self._send = send
        self._on_idle = on_idle
        self.waiting: deque[events.Key] = deque()
        self.in_progress = False
        """Whether a key is being handled."""
        self.number = 0
        """Number of keys sent so far."""
        self._timer: Timer | None = None

    async def add(self, key: events.Key) -> None:
        """Send a key, or queue it."""
        if self.in_progress:
            self.waiting.append(key)
        else:
            self.in_progress = True
            await self.pass_on(key)

    async def pass_on(self, key: events.Key) -> None:
        """Send a key. The next key follows once this key is handled, or after `KEY_TIMEOUT`."""
        app = self._app
        if not app.screen_stack:
            # An earlier key has ended the app.
            self.waiting.clear()
            return
        self.number += 1
        number = self.number
        target = app.focused or app.screen
        self._timer = app.set_timer(KEY_TIMEOUT, partial(self._next, number))
        await self._send(key)
        target.post_message(KeyDone(number, 1, target))

    def note_done(self, event: KeyDone) -> None:
        """Post the next round of a key's marker message, or send the next key after the last round."""
        app = self._app
        event.stop()
        if event.number != self.number:
            return
        if event.round == LAST_ROUND or not app.screen_stack:
            self._next(event.number)
            return
        target = event.target if event.round + 1 < LAST_ROUND else app.focused or app.screen
        if not target.post_message(KeyDone(event.number, event.round + 1, target)):
            self._next(event.number)

    def _next(self, number: int) -> None:
        if number != self.number or not self.in_progress:
            return
        if self._timer is not None:
            self._timer.stop()
        if self.waiting:
            self._app.call_next(self.pass_on, self.waiting.popleft())
        else:
            self.in_progress = False
            self._on_idle()
