"""What a cheap command and the lowest modules must not import, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.waiting import LIMIT

HEAVY = ("textual", "google", "grpc", "torch", "pydantic")


# An installed package of Google's declares the bare names `google` and `google.cloud` to every interpreter;
# what counts is what every client of theirs loads.
GOOGLE = ("google.protobuf", "google.auth", "google.api_core")


def loaded(names: tuple[str, ...]) -> str:
    """An expression for those of `names` that the interpreter has loaded."""
    real = [found for name in names for found in (GOOGLE if name == "google" else (name,))]
    return f"[name for name in {real!r} if name in sys.modules]"


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_version_and_help_load_nothing_heavy(argument: str) -> None:
    code = (
        "import sys\n"
        "from tui.cli import main\n"
        f"sys.argv = ['vxtui', {argument!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"loaded = {loaded(HEAVY)}\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "vxtui" in done.stdout


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("tui.domain.core.job", ("textual", "google", "grpc", "psutil", "click")),
        ("tui.backends.interface", ("textual", "google", "grpc")),
        ("tui.emulator.paths", ("textual", "google", "grpc", "pydantic")),
        ("tui.emulator.runner.plan", ("textual", "google", "grpc", "pydantic")),
        ("trainer", ("tui", "textual", "google")),
    ],
)
def test_a_module_imports_nothing_of_the_layers_above(module: str, forbidden: tuple[str, ...]) -> None:
    code = f"import sys, {module}\nloaded = {loaded(forbidden)}\n"
    code += "assert not loaded, loaded"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 0, done.stderr
