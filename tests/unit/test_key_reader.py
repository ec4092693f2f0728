"""Keys on their way in: nothing is done while nothing is typed, and the end comes at once."""

from __future__ import annotations

import os
import threading
import tty
from collections.abc import Iterator

import pytest
from textual.events import Key
from textual.message import Message

from tests.waiting import LIMIT, wait_for
from tui.display.reader import StopEvent, read_keys


class Typed:
    """A reader in a thread of its own, at one end of a terminal."""

    def __init__(self) -> None:
        self.master, self.slave = os.openpty()
        self.end = StopEvent()
        self.taken: list[Message] = []
        self.gone: bool | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        self.gone = read_keys(self.slave, self.end, self.taken.append)

    @property
    def keys(self) -> list[str]:
        return [message.key for message in self.taken if isinstance(message, Key)]


@pytest.fixture
def typed() -> Iterator[Typed]:
    found = Typed()
    tty.setraw(found.slave)
    yield found
    if found.thread.is_alive():
        found.end.set()
        found.thread.join(LIMIT)
    os.close(found.slave)


def test_keys_and_a_lone_escape_are_told(typed: Typed) -> None:
    os.write(typed.master, b"a\x1b[A")
    wait_for(lambda: typed.keys == ["a", "up"], "two keys", every=0.01)
    os.write(typed.master, b"\x1b")
    wait_for(lambda: typed.keys == ["a", "up", "escape"], "the escape", every=0.01)
    os.close(typed.master)


def test_the_end_is_told_at_once_and_can_come_again(typed: Typed) -> None:
    typed.end.set()
    typed.thread.join(LIMIT)
    assert typed.gone is False and not typed.thread.is_alive()
    typed.end.clear()
    assert not typed.end.is_set()
    again: list[Message] = []
    thread = threading.Thread(target=lambda: read_keys(typed.slave, typed.end, again.append))
    thread.start()
    os.write(typed.master, b"b")
    wait_for(lambda: again, "a key after the end was taken back", every=0.01)
    typed.end.set()
    thread.join(LIMIT)
    assert not thread.is_alive()
    os.close(typed.master)


def test_a_terminal_that_goes_is_told(typed: Typed) -> None:
    os.close(typed.master)
    typed.thread.join(LIMIT)
    assert typed.gone is True
