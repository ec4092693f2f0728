"""Accelerators of pods in the text format of Prometheus, from cAdvisor and from the DCGM exporter."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.domain.core.metric import CADVISOR, CPU, GPU, GPU_MEMORY, METRICS_API, Series, source_label
from tui.domain.kubernetes.nodes.accelerator_metrics import AcceleratorSample, accelerator_samples
from tui.verbs.metrics import _sources

POD = 'namespace="team",pod="bert-worker-0",container="pytorch"'
AT = datetime(2026, 11, 25, 18, tzinfo=UTC)


def test_cadvisor_names_the_accelerator_and_the_time() -> None:
    stamp = round(AT.timestamp() * 1000)
    text = f"""# TYPE container_accelerator_duty_cycle gauge
container_accelerator_duty_cycle{{{POD},acc_id="GPU-1",make="nvidia",simulated="true"}} 63.5 {stamp}
container_accelerator_memory_used_bytes{{{POD},acc_id="GPU-1",simulated="true"}} 2e+10 {stamp}
container_accelerator_memory_total_bytes{{{POD},acc_id="GPU-1",simulated="true"}} 8e+10 {stamp}
container_cpu_usage_seconds_total{{{POD}}} 12 {stamp}
"""
    place = ("team", "bert-worker-0", "pytorch", "GPU-1")
    assert accelerator_samples(text) == [
        AcceleratorSample(GPU, *place, 0.635, AT, True),
        AcceleratorSample(GPU_MEMORY, *place, 0.25, AT, True),
    ]


def test_dcgm_numbers_the_gpus_and_counts_what_is_free() -> None:
    device = 'gpu="3",UUID="GPU-9",device="nvidia3",modelName="NVIDIA A100-SXM4-40GB",Hostname="n"'
    text = f"""# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{{device},{POD}}} 97
DCGM_FI_DEV_FB_FREE{{{device},{POD}}} 10000
DCGM_FI_DEV_FB_USED{{{device},{POD}}} 29000
DCGM_FI_DEV_FB_RESERVED{{{device},{POD}}} 1000
DCGM_FI_DEV_GPU_TEMP{{{device},{POD}}} 50
"""
    place = ("team", "bert-worker-0", "pytorch", "3")
    assert accelerator_samples(text) == [
        AcceleratorSample(GPU, *place, 0.97), AcceleratorSample(GPU_MEMORY, *place, 0.725),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-9"} 97',  # of no pod
        f"DCGM_FI_DEV_GPU_UTIL{{{POD}}} NaN",
        f"DCGM_FI_DEV_FB_USED{{{POD}}} 5",  # of an unknown whole
        f"container_accelerator_duty_cycle{{{POD}}}",
        "DCGM_FI_DEV_GPU_UTIL 5",
    ],
)
def test_what_says_nothing_of_a_pod_is_left_out(line: str) -> None:
    assert accelerator_samples(line) == []


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    accelerator_samples(text)
    accelerator_samples("DCGM_FI_DEV_GPU_UTIL{" + text + "} " + text)


def test_a_label_may_have_quotes_and_braces() -> None:
    line = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",modelName="a\\"}b",pod="p",namespace="n",container="c"} 50'
    assert accelerator_samples(line) == [AcceleratorSample(GPU, "n", "p", "c", "0", 0.5)]


def test_a_verb_says_what_is_simulated_and_where_figures_are_from() -> None:
    simulated = ("simulated", "true")
    series = [
        Series(GPU, "worker-0", "0", "1", ()),
        Series(GPU, "worker-1", "0", "1", (), (source_label(CADVISOR), simulated)),
        Series(GPU_MEMORY, "worker-1", "0", "1", (), (source_label(CADVISOR), simulated)),
        Series(CPU, "worker-1", "", "1", (), (source_label(METRICS_API),)),
        Series(GPU, "worker-2", "0", "1", (), (simulated,)),
    ]
    assert _sources(series) == [
        "· accelerator/utilization: simulated",
        "· cpu/utilization: from the cluster's metrics API",
        "· accelerator/memory/utilization, accelerator/utilization: simulated, from the nodes' cAdvisor",
    ]
