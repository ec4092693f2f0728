"""Verbs whose output nobody reads, or whose disk is full."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest

from tui.verbs.command_group import run


def _closed_pipe() -> TextIO:
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "w", encoding="utf-8")


def _full_disk() -> TextIO:
    return Path("/dev/full").open("w", encoding="utf-8")


@pytest.mark.parametrize(
    "arguments", [["contexts"], ["contexts", "--json"], ["prices", "--json"], ["--version"]]
)
@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize(
    ("stream", "code", "words"),
    [
        (_closed_pipe, 0, ""),
        (_full_disk, 5, "The output can't be written: No space left on device.\n"),
        (lambda: None, 0, ""),
    ],
)
def test_an_output_that_cannot_be_written_ends_the_verb_in_plain_words(
    *,
    arguments: list[str],
    unbuffered: bool,
    stream: Callable[[], TextIO | None],
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("VXTUI_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("VXTUI_CONFIG", str(tmp_path / "config.yaml"))
    (tmp_path / "config.yaml").write_text("{}\n")
    monkeypatch.setattr(sys, "argv", ["vxtui", *arguments])
    output = stream()
    if output is not None and unbuffered:
        output.reconfigure(write_through=True)  # type: ignore[attr-defined]
    monkeypatch.setattr(sys, "stdout", output)
    assert run() == code
    assert capsys.readouterr().err == words
    assert not (tmp_path / "crash.log").exists()
