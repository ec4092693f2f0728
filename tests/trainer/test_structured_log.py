"""Lines of many processes in one pipe."""

from __future__ import annotations

import array
import fcntl
import json
import os
import subprocess
import sys
import termios
from pathlib import Path

from tests.waiting import wait_for

ROOT = str(Path(__file__).parents[2])
WRITER = """
import random, sys, threading
from trainer.structured_log import emit
rank = int(sys.argv[1])
sys.stdin.read()
def write(thread):
    sizes = random.Random(f"{rank} {thread}")
    for number in range(50):
        emit("error", "x", text="x" * sizes.randint(100, 20_000), rank=rank, thread=thread, number=number)
threads = [threading.Thread(target=write, args=(n,)) for n in range(2)]
[t.start() for t in threads]
[t.join() for t in threads]
"""


def start(code: str, out: int, *words: str, begin: int | None = None) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": ROOT}
    return subprocess.Popen([sys.executable, "-c", code, *words], stdin=begin, stdout=out, env=env)


def wait_full(pipe: int) -> None:
    """Fill the pipe until the next line is written in parts."""
    room, waiting = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ), array.array("i", [0])

    def full() -> bool:
        fcntl.ioctl(pipe, termios.FIONREAD, waiting)
        return waiting[0] > room - 20_000

    wait_for(full, "a full pipe", every=0.01)


def test_long_lines_of_many_processes_and_threads_do_not_mix() -> None:
    read, write = os.pipe()
    wait, begin = os.pipe()
    writers = [start(WRITER, write, str(rank), begin=wait) for rank in range(8)]
    for end in (write, wait, begin):
        os.close(end)
    wait_full(read)
    with os.fdopen(read, "rb") as pipe:
        found = [json.loads(line)["vxtui"] for line in pipe]
    assert [writer.wait(60) for writer in writers] == [0] * 8
    assert len(found) == len({(line["rank"], line["thread"], line["number"]) for line in found}) == 800
    assert max(len(line["text"]) for line in found) > 4 * 4096


def test_a_process_that_keeps_the_lock_does_not_stop_the_others() -> None:
    read, write = os.pipe()
    # It is stopped in the middle of its line.
    stop = "import fcntl, os, signal; fcntl.lockf(1, fcntl.LOCK_EX); os.kill(os.getpid(), signal.SIGSTOP)"
    stopped = start(stop, write)
    state = Path(f"/proc/{stopped.pid}/stat")
    wait_for(lambda: state.read_text().rsplit(")", 1)[1].split()[0] == "T", "the stop", every=0.01)
    late = start(
        "import trainer.structured_log as log; log._LOCK_SECONDS = 0.2; log.emit('step', 'late')", write
    )
    os.close(write)
    assert late.wait(60) == 0
    stopped.kill()
    stopped.wait()
    with os.fdopen(read, "rb") as pipe:
        assert json.loads(pipe.read())["message"] == "late"


def test_a_full_pipe_that_does_not_block_gets_whole_lines() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    say = "from trainer.structured_log import emit\nfor n in range(20): emit('step', 'x' * 20_000, number=n)"
    writer = start(say, write)
    os.close(write)
    wait_full(read)
    with os.fdopen(read, "rb") as pipe:
        assert [json.loads(line)["vxtui"]["number"] for line in pipe] == list(range(20))
    assert writer.wait(60) == 0
