"""Ctrl+C at any moment of `vxtui`: exit code 130 and one word, or one JSON document; never a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.terminal import Terminal
from tests.waiting import LIMIT
from tui import skeleton

CONSOLE = """
import pathlib, signal, sys
# A shell starts its background jobs with SIGINT ignored, and the tests may be one of them.
signal.signal(signal.SIGINT, signal.default_int_handler)
from tui import cli, interrupts
install = interrupts.end_at_once
def installed():
    install()
    pathlib.Path(sys.argv.pop(1)).touch()
interrupts.end_at_once = installed
cli.main()
"""
HANGING = """
import asyncio, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import click
from tui.verbs.run import Run, value_of, verb

@click.command()
@verb("profile.import")
async def hang(run: Run) -> None:
    async def act() -> None:
        print("acting", file=sys.stderr, flush=True)
        await asyncio.Event().wait()
    runner = run.profile_operations()._runner
    value_of(await runner.run("profile.import", "target", act, lambda _: "done"))

sys.exit(hang.main(standalone_mode=False))
"""
ASKING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import click
from tui.verbs.run import Run, READS, confirmed, verb

@click.command()
@verb(READS)
async def ask(run: Run) -> None:
    await confirmed("Really?", yes=False)

sys.exit(ask.main(standalone_mode=False))
"""
ERROR = {"schema": 1, "error": {"code": "INTERRUPTED", "message": "interrupted", "fix": ""}}


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VXTUI_")}
    return kept | {"VXTUI_STATE_DIR": str(home), "XDG_CONFIG_HOME": str(home / "config")}


@contextmanager
def started(home: Path, code: str, *argv: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", code, *argv], env=environment(home), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        yield process


def wait_for_the_handler(mark: Path) -> None:
    deadline = time.monotonic() + LIMIT
    while not mark.exists():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("after", [0, 0.02, 0.05, 0.1, 0.2, 0.4])
def test_it_ends_a_verb_that_starts_or_reads(tmp_path: Path, after: float, as_json: bool) -> None:
    argv = ["profiles", "import", "-", *(["--json"] if as_json else [])]
    with started(tmp_path, CONSOLE, str(tmp_path / "mark"), *argv) as process:
        wait_for_the_handler(tmp_path / "mark")
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        # The verb still waits for the end of its input.
        assert process.wait(LIMIT) == 130
        out, err = process.stdout.read(), process.stderr.read()  # type: ignore[union-attr]
    if as_json:
        assert json.loads(out) == ERROR and err == ""
    else:
        assert (out, err) == ("", "interrupted\n")


@pytest.mark.parametrize("after", [0, 0.02, 0.1])
def test_it_ends_the_screen_that_starts(tmp_path: Path, after: float) -> None:
    argv = [sys.executable, "-c", CONSOLE, str(tmp_path / "mark")]
    screen = Terminal(argv, environment(tmp_path), columns=80, rows=24)
    try:
        wait_for_the_handler(tmp_path / "mark")
        time.sleep(after)
        screen.process.send_signal(signal.SIGINT)
        assert screen.wait_exit() == 130
        shown, left, rest = bytes(screen.raw).rpartition(skeleton.LEAVE.encode())
        assert rest == b"interrupted\r\n"
        # The signal may come just before the skeleton is written; leaving too much does no harm.
        assert left or skeleton.ENTER.encode() not in shown
    finally:
        screen.close()


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_no_changes_nothing_and_says_so(tmp_path: Path, flags: list[str]) -> None:
    screen = Terminal([sys.executable, "-c", ASKING, *flags], environment(tmp_path), columns=80, rows=24)
    try:
        screen.wait("Really?")
        screen.press("n", "enter")
        assert screen.wait_exit() == 1
        shown = bytes(screen.raw).decode()
        assert '"code": "DECLINED"' in shown if flags else shown.endswith("Nothing was changed.\r\n")
    finally:
        screen.close()


def test_it_ends_a_question(tmp_path: Path) -> None:
    screen = Terminal([sys.executable, "-c", ASKING], environment(tmp_path), columns=80, rows=24)
    try:
        screen.wait("Really?")
        screen.process.send_signal(signal.SIGINT)
        assert screen.wait_exit() == 130
        assert bytes(screen.raw).endswith(b"interrupted\r\n")
    finally:
        screen.close()


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_operation_says_that_its_effect_is_not_known(
    tmp_path: Path, number: signal.Signals, as_json: bool
) -> None:
    with started(tmp_path, HANGING, *(["--json"] if as_json else [])) as process:
        assert process.stderr is not None and process.stderr.readline() == "acting\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    if as_json:
        assert json.loads(out) == ERROR and err == ""
    else:
        assert (out, err) == ("", "interrupted\n")
    asked, ended = (json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines())
    assert (asked["result"], ended["result"], ended["code"]) == ("asked", "failed", "INTERRUPTED")
    assert ended["surface"] == "verb" and ended["context"] == "local" and ended["target"] == "target"
