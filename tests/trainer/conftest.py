"""Tests run in parallel: one thread each, because threads that spin would slow the others down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from trainer.distributed.process_group import ProcessGroup

torch.set_num_threads(1)


@pytest.fixture
def group() -> Iterator[ProcessGroup]:
    """One process that is a group by itself."""
    found = ProcessGroup({})
    found.init(torch.device("cpu"), 60)
    yield found
    found.destroy()
