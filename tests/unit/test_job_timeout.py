"""The rest of a job's timeout, whatever becomes of the clock."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tui.emulator.faults import clock
from tui.emulator.faults.limit import Limit
from tui.emulator.interfaces import CustomJobPb
from tui.emulator.runs.job_run import JobRun


@pytest.fixture(autouse=True)
def right_clock() -> Iterator[None]:
    yield
    clock.set_offset(0, Limit())


@pytest.mark.parametrize("jump", [600, -600])
def test_the_rest_of_a_timeout_does_not_jump_with_the_clock(jump: int) -> None:
    pb = CustomJobPb()
    pb.job_spec.scheduling.timeout.seconds = 5000
    pb.start_time.FromNanoseconds(int((clock.time() - 1000) * 1e9))
    run = JobRun(cast("Any", None), cast("Any", SimpleNamespace(pb=pb)))
    clock.set_offset(jump, Limit())
    # 4,000 s are left but for what the test took; a jump would take or add 600.
    assert 3600 < run._time_left() <= 4000.1
