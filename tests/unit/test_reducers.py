"""Reduction Server's sizing: the documented numbers, the cases without a gain, and the switch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.domain.document.document_edit import edited
from tui.domain.vertex.reducers import MACHINE, POSITION, edits_off, edits_on, image_for, is_on, propose


def workers(machine: str, kind: str, count: int, replicas: int) -> dict[str, Any]:
    spec = {"machineType": machine, "acceleratorType": kind, "acceleratorCount": count}
    return {"machineSpec": spec, "replicaCount": replicas, "containerSpec": {"imageUri": "i"}}


def a100(replicas: int) -> dict[str, Any]:
    return workers("a2-highgpu-8g", "NVIDIA_TESLA_A100", 8, replicas)


def job(*pools: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"displayName": "x", "jobSpec": {"workerPoolSpecs": copy.deepcopy(list(pools)), **spec}}


def two(machine: str, kind: str, count: int) -> dict[str, Any]:
    return job(workers(machine, kind, count, 1), workers(machine, kind, count, 1))


MEGA = "a2-megagpu-16g", "NVIDIA_TESLA_A100", 16
H100_MEGA = "a3-megagpu-8g", "NVIDIA_H100_MEGA_80GB", 8


@pytest.mark.parametrize(
    ("pools", "count"),
    [
        ((workers(*MEGA, 1), workers(*MEGA, 4)), 16),  # the documentation's 5 × 100 Gbps
        ((workers(*MEGA, 1), workers(*MEGA, 7)), 25),  # and its 8 × a2-megagpu-16g
        ((a100(1), a100(3)), 13),
        (
            (
                workers("n1-highmem-16", "NVIDIA_TESLA_T4", 1, 1),
                workers("n1-highmem-16", "NVIDIA_TESLA_T4", 1, 2),
            ),
            3,
        ),
    ],
)
def test_the_documented_sizes(pools: tuple[dict[str, Any], ...], count: int) -> None:
    found = propose(job(*pools))
    assert found.helps and found.count == count
    assert str(count) in found.reason and "google-reduction-server" in found.note
    assert found.pool is not None and found.pool["replicaCount"] == count
    assert found.pool["machineSpec"] == {"machineType": MACHINE}


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (job(a100(1)), "single node"),
        (job(), "has no GPU"),
        (job({"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1}), "has no GPU"),
        (two(*H100_MEGA), "TCPXO"),
        (two("a3-highgpu-8g", "NVIDIA_H100_80GB", 8),
         "cost more"),
        (two("g2-standard-12", "NVIDIA_L4", 1),
         "is unknown"),
        (job(workers("cloud-tpu", "TPU_V3", 8, 1)), "TPU"),
        (job(a100(1), a100(1), scheduling={"strategy": "FLEX_START"}), "FLEX_START"),
        (job(a100(1), a100(1), a100(1)), "in use"),
    ],
)  # fmt: skip
def test_where_reducers_cannot_help(bad: dict[str, Any], words: str) -> None:
    found = propose(bad)
    assert not found.helps and found.pool is None and words in found.reason
    assert edits_on(bad) == ()


def test_the_switch_goes_on_and_off_again() -> None:
    plain = job(a100(1), a100(3))
    on = edited(plain, edits_on(plain, "europe-west4"))
    assert [p["replicaCount"] for p in on["jobSpec"]["workerPoolSpecs"]] == [1, 3, 13]
    assert on["jobSpec"]["workerPoolSpecs"][POSITION]["containerSpec"]["imageUri"] == image_for(
        "europe-west4"
    )
    assert is_on(on) and propose(on).running == 13 and not is_on(plain)
    assert edited(on, edits_off(on)) == plain
    assert edits_off(plain) == ()


def test_running_reducers_only_change_their_number() -> None:
    on = edited(job(a100(1), a100(3)), edits_on(job(a100(1), a100(3))))
    pool = on["jobSpec"]["workerPoolSpecs"][POSITION]
    pool["machineSpec"]["machineType"], pool["replicaCount"] = "n2-highcpu-16", 2
    again = edited(on, edits_on(on))["jobSpec"]["workerPoolSpecs"][POSITION]
    assert again == {**pool, "replicaCount": 13}


def test_an_evaluator_behind_the_reducers_keeps_its_place() -> None:
    on = edited(job(a100(1), a100(3), {}, a100(1)), edits_on(job(a100(1), a100(3), {}, a100(1))))
    assert is_on(on)
    assert edited(on, edits_off(on))["jobSpec"]["workerPoolSpecs"] == [a100(1), a100(3), {}, a100(1)]


@pytest.mark.parametrize(
    ("region", "multi"),
    [
        ("us-central1", "us"),
        ("europe-west4", "europe"),
        ("asia-east1", "asia"),
        ("me-west1", "europe"),
        ("", "us"),
    ],
)
def test_the_image_is_the_nearest(region: str, multi: str) -> None:
    assert image_for(region) == f"{multi}-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"


@given(st.integers(2, 64))
def test_reducers_send_as_fast_as_the_workers_and_one_less_would_not(nodes: int) -> None:
    count = propose(job(a100(1), a100(nodes - 1))).count
    assert count * 32 >= nodes * 100 > (count - 1) * 32
