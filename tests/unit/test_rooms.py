"""The rooms keep their doors shut: what a cheap command must not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("textual", "google", "grpc", "torch", "pydantic")


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_version_and_help_load_nothing_heavy(argument: str) -> None:
    code = (
        "import sys\n"
        "from tui.cli import main\n"
        f"sys.argv = ['vxtui', {argument!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"loaded = [m for m in {HEAVY!r} if m in sys.modules]\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "vxtui" in done.stdout


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("tui.domain.job", ("textual", "google", "grpc", "psutil", "click")),
        ("tui.backends.base", ("textual", "google", "grpc")),
        ("tui.emulator.paths", ("textual", "google", "grpc", "pydantic")),
        ("tui.emulator.plan", ("textual", "google", "grpc", "pydantic")),
        ("trainer", ("tui", "textual", "google")),
    ],
)
def test_a_room_can_be_entered_without_its_neighbours(module: str, forbidden: tuple[str, ...]) -> None:
    code = f"import sys, {module}\nloaded = [m for m in {forbidden!r} if m in sys.modules]\n"
    code += "assert not loaded, loaded"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
