"""Tests run in parallel with one thread each, because spinning threads would slow the others down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from trainer.distributed.process_group import ProcessGroup

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer writes into the working directory: ./checkpoints, ./data-cache."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def group() -> Iterator[ProcessGroup]:
    """A group of a single process."""
    found = ProcessGroup({})
    found.init(torch.device("cpu"), 60)
    yield found
    found.destroy()
