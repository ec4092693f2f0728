"""Simulated accelerators: only where asked for, never beside a real one, and never passed off as measured."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from tests.waiting import until
from tests.wire.attempts import FOREVER
from tests.wire.backend_emulator_support import both, launch, pool
from tui.domain.core.metric import CPU, GPU, GPU_MEMORY, MetricsReading
from tui.emulator.runner import process_tree, sampler
from tui.emulator.runner.plan import ReplicaPlan
from tui.emulator.runs import gpus


async def test_simulated_accelerators_move_and_say_that_they_are_no_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpus, "present", tuple)
    gpu = pool(FOREVER)
    gpu["machineSpec"] |= {"acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 2}
    async with both(sample_period=0.1, simulate_accelerators=True) as (_, found):
        job = await found.jobs["custom_job"].create(launch(gpu, pool(FOREVER), name="simulated"))

        async def look() -> MetricsReading | None:
            reading = await found.metrics.read(job.name, metrics=[GPU, GPU_MEMORY, CPU])
            moved = [len(one.points) > 5 for one in reading.series if one.metric == GPU]
            return reading if sum(moved) == 2 else None

        reading = await until(look, "samples of two accelerators")
        invented = {(s.metric, s.replica, s.accelerator) for s in reading.series if s.simulated}
        assert invented == {
            (metric, "workerpool0-0", number) for metric in (GPU, GPU_MEMORY) for number in "01"
        }
        values = [value for s in reading.series if s.simulated for _, value in s.points]
        assert all(0 <= value <= 1 for value in values)
        assert len(set(values)) > 5
        # What is measured is not called simulated, nor does a machine without accelerators get any.
        assert {s.replica for s in reading.series if s.metric == CPU} == {"workerpool0-0", "workerpool1-0"}
        await found.jobs["custom_job"].cancel(job.name)


async def test_nothing_is_simulated_unasked_or_beside_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    class Device:
        NVMLError = OSError

        def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
            return index

        def nvmlDeviceGetMemoryInfo(self, _handle: int) -> SimpleNamespace:
            return SimpleNamespace(used=1, total=4)

        def nvmlDeviceGetUtilizationRates(self, _handle: int) -> SimpleNamespace:
            return SimpleNamespace(gpu=50)

    monkeypatch.setattr(sampler, "_open_nvml", Device)
    me = process_tree.read(os.getpid())
    assert me is not None
    real = ReplicaPlan("real", ("x",), {}, "/", accelerators=(0,), simulated=4)
    unasked = ReplicaPlan("unasked", ("x",), {}, "/")
    meter = sampler.ReplicaSampler({"real": real, "unasked": unasked})
    samples = meter.sample({"real": [me], "unasked": [me]})
    found = [(who, which, value) for _, who, name, which, value in samples if name.startswith("accelerator/")]
    assert found == [("real", "0", 0.25), ("real", "0", 0.5)]
