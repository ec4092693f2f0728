"""What is written to the terminal beside the screen: copied text, stderr, and the word that there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tui.widgets.clipboard import copy_sequences


def test_copying_goes_through_tmux_too() -> None:
    assert copy_sequences("hé", tmux=False) == "\x1b]52;c;aMOp\x07"
    assert copy_sequences("hé", tmux=True).endswith("\x1bPtmux;\x1b\x1b]52;c;aMOp\x07\x1b\\")
    assert copy_sequences("x" * 80_000) == ""


def test_while_the_screen_is_up_fd_2_is_a_log(tmp_path: Path) -> None:
    """In a pty of its own: what native code writes to fd 2 does not reach the terminal."""
    import pty

    code = (
        "import os, sys, logging; from pathlib import Path; from tui.terminal_output import screen_only\n"
        f"with screen_only(Path({str(tmp_path / 'd' / 'console.log')!r})) as screen:\n"
        "    os.write(2, b'grpc noise'); logging.getLogger('x').error('logged')\n"
        "    sys.__stderr__.write('SCREEN'); sys.__stderr__.flush(); assert os.isatty(screen.fileno())\n"
        "sys.stderr.write('after')\n"
    )
    master, slave = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code], stdin=slave, stdout=slave, stderr=slave) as process:
        assert process.wait(60) == 0
    os.close(slave)
    assert os.read(master, 1000) == b"SCREENafter"
    os.close(master)
    log = (tmp_path / "d" / "console.log").read_text()
    assert "grpc noise" in log and "logged" in log


def test_without_a_terminal_it_says_so() -> None:
    code = (
        "from tui.terminal_output import *\n"
        "try:\n  screen_only(None).__enter__()\nexcept NoTerminal as e: print(e)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert "must be a terminal" in done.stdout and not done.stderr
