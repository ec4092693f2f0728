"""Tests run in parallel with one thread each, because spinning threads would slow the others down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from trainer.checkpoint.manager import CheckpointManager
from trainer.distributed.process_group import ProcessGroup

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer writes into the working directory: ./checkpoints, ./data-cache."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _folders_are_released(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A manager that a test leaves open has a thread, which would write its lock to the session's end."""
    begun: list[CheckpointManager] = []
    begin = CheckpointManager.__init__

    def noted(self: CheckpointManager, *args: Any, **kw: Any) -> None:
        begin(self, *args, **kw)
        begun.append(self)

    monkeypatch.setattr(CheckpointManager, "__init__", noted)
    yield
    for manager in begun:
        manager.close()


@pytest.fixture
def group() -> Iterator[ProcessGroup]:
    """A group of a single process."""
    found = ProcessGroup({})
    found.init(torch.device("cpu"), 60)
    yield found
    found.destroy()
