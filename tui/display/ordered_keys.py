"""Delivers typed-ahead keys to what the keys before them opened.

Textual sends every key to the widget that has the focus when the key arrives, before the actions of earlier
keys have run. Over a slow line several keys come in one packet: of `/`, `a`, `enter`, `l` the `a`
would go to the list and the `l` into the filter. Here a key waits until the one before it has been
handled.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from textual import events, on
from textual.message import Message
from textual.message_pump import MessagePump
from textual.timer import Timer

from tui.display.app import DisplayApp

Result = TypeVar("Result")
KEY_TIMEOUT = 1.0
"""Seconds after which the next key is sent even if the one before it is not handled."""
LAST_ROUND = 3


@dataclass
class KeyDone(Message):
    """Follows a key up to the app; when it arrives there, the key has been handled before it.

    Three rounds: behind the key itself, behind what its action sent, and behind the start of a screen that
    it opened.
    """

    number: int
    round: int
    target: MessagePump


class OrderedKeysApp(DisplayApp[Result]):
    """An app that handles one key at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._keys_waiting: deque[events.Key] = deque()
        self._key_number = 0
        self._key_in_progress = False
        self._key_timer: Timer | None = None

    @property
    def key_in_progress(self) -> bool:
        """A key is being handled: work that can wait should yield to it."""
        return self._key_in_progress

    async def on_event(self, event: events.Event) -> None:
        """Send a key, or queue it."""
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
        elif self._key_in_progress:
            self._keys_waiting.append(event)
        else:
            self._key_in_progress = True
            await self._pass_on(event)

    async def _pass_on(self, event: events.Key) -> None:
        if not self.screen_stack:
            # The key before it has ended the app.
            self._keys_waiting.clear()
            return
        self._key_number += 1
        number = self._key_number
        target = self.focused or self.screen
        self._key_timer = self.set_timer(KEY_TIMEOUT, partial(self._next_key, number))
        await super().on_event(event)
        target.post_message(KeyDone(number, 1, target))

    @on(KeyDone)
    def _key_done(self, event: KeyDone) -> None:
        event.stop()
        if event.number != self._key_number:
            return
        if event.round == LAST_ROUND or not self.screen_stack:
            self._next_key(event.number)
            return
        target = event.target if event.round + 1 < LAST_ROUND else self.focused or self.screen
        if not target.post_message(KeyDone(event.number, event.round + 1, target)):
            self._next_key(event.number)

    def _next_key(self, number: int) -> None:
        if number != self._key_number or not self._key_in_progress:
            return
        if self._key_timer is not None:
            self._key_timer.stop()
        if self._keys_waiting:
            self.call_next(self._pass_on, self._keys_waiting.popleft())
        else:
            self._key_in_progress = False
            self.key_over()
