"""What holds for every test of this folder."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from tests.warm import WarmPopen
from tui.emulator import client


@pytest.fixture(autouse=True)
def _emulators_are_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An emulator that the product starts in a test's process is a fork of a warm one."""
    monkeypatch.setattr(client, "subprocess", SimpleNamespace(**vars(subprocess) | {"Popen": WarmPopen}))
