"""The scheduler's decision, in kube-scheduler's words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.domain.kubernetes import quantity
from tui.emulator.kubernetes.node.pools import DEFAULT_POOLS, machines, node_object
from tui.emulator.kubernetes.node.scheduling import fit
from tui.emulator.kubernetes.node.scheduling.fit import NodeRoom, choose, explain

NOW = "2026-11-25T18:00:00Z"
SPOT = {"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}


def rooms() -> list[NodeRoom]:
    return [NodeRoom(node_object(machine, NOW)) for machine in machines(DEFAULT_POOLS)]


def pod(limits: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"limits": limits or {}}}
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [container], **spec}}


def refused(pod: dict[str, Any], there: list[NodeRoom]) -> str:
    room, refusals = choose(pod, there)
    assert room is None
    return explain(refusals)


def test_a_plain_pod_goes_to_a_node_without_accelerators_and_spreads() -> None:
    there = rooms()
    taken = []
    for limits in ({"cpu": "1"}, {}):
        room, _ = choose(one := pod(limits), there)
        assert room is not None
        room.add(one)
        taken.append(room.name)
    assert len(set(taken)) == 2
    assert all("-cpu-" in name for name in taken)
    nodes = set()
    for _ in range(4):
        room, _ = choose(one := pod({"nvidia.com/gpu": "1"}), there)
        assert room is not None
        room.add(one)
        nodes.add(room.name)
    assert len(nodes) == 4


def test_gpus_tolerate_their_own_taint_but_spot_has_to_be_tolerated() -> None:
    there = rooms()
    room, _ = choose(pod({"nvidia.com/gpu": "8"}), there)
    assert room is not None and "-a100-8" in room.name
    wanted = {"cloud.google.com/gke-spot": "true"}
    assert refused(pod({"nvidia.com/gpu": "8"}, nodeSelector=wanted), there) == (
        "0/10 nodes are available: 4 node(s) had untolerated taint {cloud.google.com/gke-spot: true}, "
        "6 node(s) didn't match Pod's node affinity/selector. "
        "preemption: 0/10 nodes are available: 10 Preemption is not helpful for scheduling."
    )
    room, _ = choose(pod({"nvidia.com/gpu": "8"}, nodeSelector=wanted, tolerations=[SPOT]), there)
    assert room is not None and "-a100-spot-" in room.name


def test_full_nodes_are_named_by_what_they_lack() -> None:
    there = rooms()
    for _ in range(4):
        room, _ = choose(one := pod({"nvidia.com/gpu": "8"}), there)
        assert room is not None
        room.add(one)
    assert refused(pod({"nvidia.com/gpu": "1"}), there) == (
        "0/10 nodes are available: 4 node(s) had untolerated taint {cloud.google.com/gke-spot: true}, "
        "6 Insufficient nvidia.com/gpu. "
        "preemption: 0/10 nodes are available: 4 No preemption victims found for incoming pod, "
        "6 Preemption is not helpful for scheduling."
    )


def test_a_pod_that_is_gone_leaves_its_room() -> None:
    there = rooms()
    one = pod({"nvidia.com/gpu": "8", "cpu": "90"}, nodeName="")
    room, _ = choose(one, there)
    assert room is not None
    before = dict(room.used)
    room.add(one)
    room.add(one, -1)
    assert {k: v for k, v in room.used.items() if v} == before


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"nodeSelector": {"kubernetes.io/arch": "arm64"}}, fit.AFFINITY),
        (
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "cloud.google.com/gke-accelerator", "operator": "In", "values": ["h100"]}
                ]}]
            }}}},
            fit.AFFINITY,
        ),
    ],
)  # fmt: skip
def test_what_no_node_has(spec: dict[str, Any], word: str) -> None:
    there = [room for room in rooms() if "-cpu-" in room.name]
    assert f"2 {word}" in refused(pod(**spec), there)


@pytest.mark.parametrize(
    ("operator", "values", "holds"),
    [
        ("In", ["a", "b"], True), ("NotIn", ["a"], False), ("Exists", [], True), ("DoesNotExist", [], False),
        ("Gt", ["3"], False), ("In", ["c"], False),
    ],
)  # fmt: skip
def test_operators(operator: str, values: list[str], holds: bool) -> None:
    node = {"metadata": {"name": "n", "labels": {"k": "a"}}}
    term = {"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}
    assert fit.term_matches(term, node) is holds


def test_an_init_container_needs_room_only_while_it_runs() -> None:
    spec = {
        "containers": [
            {"resources": {"requests": {"cpu": "1"}}},
            {"resources": {"requests": {"cpu": "1500m"}}},
        ],
        "initContainers": [
            {"resources": {"limits": {"cpu": "4"}}},
            {"resources": {"requests": {"cpu": "1"}}, "restartPolicy": "Always"},
            {"resources": {"requests": {"cpu": "1"}}},
        ],
    }
    assert fit.requests(spec) == {"cpu": 4000}


def test_no_nodes() -> None:
    assert explain([]) == "no nodes available to schedule pods"


@given(st.integers(0, 10**12), st.sampled_from(["", "k", "Ki", "M", "Mi", "G", "Gi"]))
def test_a_quantity_is_its_number_in_its_unit(number: int, unit: str) -> None:
    factor = {"": 1, "k": 10**3, "Ki": 1 << 10, "M": 10**6, "Mi": 1 << 20, "G": 10**9, "Gi": 1 << 30}[unit]
    assert quantity.scaled("memory", f"{number}{unit}") == number * factor


@pytest.mark.parametrize(
    ("text", "millis"), [("500m", 500), ("2", 2000), ("1.5", 1500), ("1e1", 10_000), ("100u", 1)]
)
def test_cpus_are_counted_in_thousandths(text: str, millis: int) -> None:
    assert quantity.scaled("cpu", text) == millis


@given(st.text(max_size=8))
def test_what_is_no_quantity_is_said(text: str) -> None:
    try:
        quantity.parse(text)
    except quantity.NotAQuantity as error:
        assert repr(text) in str(error)
