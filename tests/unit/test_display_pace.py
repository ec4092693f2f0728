"""When frames go: by a clock of the test's own. And the writer, on a pty that is read slowly."""

from __future__ import annotations

import os
import pty
import threading
import tty

from tui.display.pace import ASK, KEY_TAKES, FramePace
from tui.display.writer import LineWriter


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def paced(*, ask: bool = True) -> tuple[FramePace, Clock]:
    clock = Clock()
    return FramePace(clock, ask=ask), clock


def test_a_fast_line_waits_for_nothing() -> None:
    pace, clock = paced(ask=False)
    for _ in range(100):
        assert pace.wait(0) == 0 and pace.sent(20_000) == ""
        clock.now += 1 / 60
    assert not pace.slow


def test_what_has_not_left_yet_holds_the_next_frame() -> None:
    pace, _ = paced(ask=False)
    assert pace.wait(1000) == 0
    assert pace.wait(10_000) > 0


def test_a_thin_line_gets_half_of_what_it_takes() -> None:
    pace, clock = paced(ask=False)
    pace.stalled(30_000.0, clock.now)
    clock.now += 10
    sent, until = 0, clock.now + 10
    while clock.now < until:
        if pace.wait(0) == 0:
            pace.sent(7000)
            sent += 7000
        clock.now += 0.005
    assert 0.3 * 300_000 < sent < 0.6 * 300_000


def pressed() -> tuple[FramePace, Clock]:
    """A slow line that rests after a frame, and a key that was just pressed."""
    pace, clock = paced(ask=False)
    pace.stalled(30_000.0, clock.now)
    clock.now += 10
    pace.sent(7000)
    clock.now += 0.22
    assert pace.wait(0) > 0.1, "its rest is for keys"
    pace.key()
    return pace, clock


def test_a_key_goes_as_soon_as_the_line_is_free() -> None:
    pace, clock = pressed()
    assert 0 < pace.wait(0) < 2 * KEY_TAKES, "it has to take effect first"
    clock.now += 2 * KEY_TAKES
    assert pace.wait(0) == 0
    pace.sent(200)
    assert pace.wait(0) > 0, "one key, one frame"


def test_a_key_that_has_been_dealt_with_waits_no_longer() -> None:
    pace, _ = pressed()
    assert 0 < pace.wait(0) < 2 * KEY_TAKES
    pace.key_over()
    assert pace.wait(0) == 0


def test_a_line_that_becomes_fast_is_found_out() -> None:
    pace, clock = paced(ask=False)
    pace.stalled(100_000.0, clock.now)
    for _ in range(3000):
        clock.now += 0.2
        pace.wait(0)
    assert not pace.slow and pace.wait(0) == 0


def test_answers_tell_how_full_the_line_is() -> None:
    pace, clock = paced()
    assert pace.sent(200) == "", "a few bytes are not worth a question"
    assert pace.sent(5000) == ASK
    clock.now += 0.03
    pace.answered()
    assert pace.wait(0) == 0
    asked = 0
    while pace.wait(0) == 0:
        asked += pace.sent(8000) == ASK
    assert asked == 3, "no more is on its way than has been seen to arrive"
    for _ in range(asked):
        clock.now += 0.8
        pace.answered()
    assert pace.slow and pace.wait(0) > 0.3, "answers that came late leave room for keys"
    pace.key()
    clock.now += KEY_TAKES
    assert pace.wait(0) == 0


def test_a_terminal_that_never_answers_is_not_waited_for() -> None:
    pace, clock = paced()
    assert pace.sent(5000) == ASK
    assert 0 < pace.wait(0) < 0.16
    clock.now += 0.2
    assert pace.wait(0) == 0
    clock.now += 11
    assert pace.sent(5000) == "" and pace.sent(5000) == "", "nor asked again"


def test_an_answer_that_is_lost_does_not_stop_it_for_ever() -> None:
    pace, clock = paced()
    pace.sent(5000)
    clock.now += 0.02
    pace.answered()
    while pace.wait(0) == 0:
        pace.sent(8000)
    clock.now += 11
    assert pace.wait(0) == 0


def test_the_preset_for_slow_lines() -> None:
    pace, clock = paced(ask=False)
    pace.limit(4)
    pace.sent(100)
    clock.now += 0.1
    assert 0.1 < pace.wait(0) < 0.2
    pace.key()
    assert pace.wait(0) == 0


def test_the_writer_never_blocks_and_tells_the_rate() -> None:
    master, slave = pty.openpty()
    tty.setraw(slave)
    free = threading.Event()
    with os.fdopen(slave, "w") as file:
        writer = LineWriter(file, free.set)
        writer.start()
        text = "x" * 400_000
        writer.write(text)
        assert writer.behind > 100_000
        got = b""
        pause = threading.Event()
        while len(got) < len(text):
            got += os.read(master, 4096)
            # The line: a few kB each millisecond or so.
            pause.wait(0.001)
        assert free.wait(10) and writer.behind == 0 and got.decode() == text
        assert writer.stalled_at and writer.sent == len(text)
        writer.write("\x1b[?1049l")
        writer.stop()
        assert os.read(master, 100) == b"\x1b[m\x1b[r\x1b[?1049l", "the shell gets its colours back"
    os.close(master)


def test_the_writer_ends_when_the_terminal_has_gone() -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as file:
        writer = LineWriter(file)
        writer.start()
        os.close(master)
        writer.write("x" * 100_000)
        writer.stop()
        assert writer.behind == 0


def test_what_the_line_takes_is_written_without_the_thread() -> None:
    master, slave = pty.openpty()
    tty.setraw(slave)
    with os.fdopen(slave, "w") as file:
        writer = LineWriter(file)
        writer.write("at once é ")
        assert os.read(master, 100).decode() == "at once é " and writer.behind == 0
        # More than the device takes: the rest and what comes behind it are the thread's, in order.
        text = "y" * 300_000
        writer.write(text)
        writer.write("the end")
        assert writer.behind > 100_000
        writer.start()
        got = b""
        while not got.endswith(b"the end"):
            got += os.read(master, 65536)
        writer.stop()
        assert got.decode() == text + "the end"
    os.close(master)
