"""Quotas of a cluster from what its API lists."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.domain.core.quota import Quota
from tui.domain.kubernetes.quantity import NotAQuantity, parse
from tui.domain.kubernetes.quotas import CLUSTER, ClusterObjects, pod_requests, quotas_of
from tui.domain.kubernetes.workloads import SPOT
from tui.domain.vertex.quota_grid import Grid

NOW = datetime(2026, 11, 25, tzinfo=UTC)
GPUS = "nvidia.com/gpu"


def _node(name: str, gpus: int, *, spot: bool = False, ready: bool = True, cordoned: bool = False) -> Any:
    labels = {"cloud.google.com/gke-nodepool": "a100"} | ({SPOT: "true"} if spot else {})
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "allocatable": {"cpu": "95800m", "memory": "350Gi", GPUS: str(gpus)},
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


def _pod(node: str, gpus: int, phase: str = "Running") -> Any:
    container = {"name": "pytorch", "resources": {"limits": {GPUS: gpus, "cpu": "500m"}}}
    return {"spec": {"nodeName": node, "containers": [container]}, "status": {"phase": phase}}


def _by_name(found: list[Quota]) -> dict[str, Quota]:
    return {quota.display_name: quota for quota in found}


def test_nodes_that_take_no_pods_count_for_the_use_alone() -> None:
    nodes = [_node("a", 8), _node("b", 8, cordoned=True), _node("c", 8, ready=False)]
    pods = [_pod("a", 6), _pod("b", 8), _pod("a", 8, "Succeeded"), _pod("gone", 8)]
    found = _by_name(quotas_of(ClusterObjects(nodes=nodes, pods=pods), NOW))
    gpus = found["Node pool a100 (3 nodes, 2 accept no pods) · GPUs"]
    assert (gpus.region, gpus.limit, gpus.used, gpus.free) == (CLUSTER, 8, 14, 0)
    # 95.8 CPUs are 95 that can be had; 2 pods of half a CPU take 1.
    cpus = found["Node pool a100 (3 nodes, 2 accept no pods) · CPUs"]
    assert (cpus.limit, cpus.used) == (95, 1)


def test_without_the_pods_the_use_of_nodes_is_not_known() -> None:
    (gpus,) = [q for q in quotas_of(ClusterObjects(nodes=[_node("a", 8)]), NOW) if q.unit == GPUS]
    assert (gpus.limit, gpus.used, gpus.free) == (8, None, None)


def test_spot_nodes_are_a_pool_of_their_own() -> None:
    found = quotas_of(ClusterObjects(nodes=[_node("a", 8), _node("b", 4, spot=True)], pods=[]), NOW)
    gpus = {quota.preemptible: quota.limit for quota in found if quota.unit == GPUS}
    assert gpus == {False: 8, True: 4}


def test_node_pools_of_the_same_hardware_are_one_cell_of_the_grid() -> None:
    """A group's grid has a cluster's row beside those of regions: it must not say that there are no GPUs."""
    nodes = [_node("a", 8), _node("b", 4), _node("c", 2, spot=True)]
    nodes[1]["metadata"]["labels"]["cloud.google.com/gke-nodepool"] = "other"
    for node in nodes:
        node["metadata"]["labels"]["cloud.google.com/gke-accelerator"] = "nvidia-tesla-a100"
    found = quotas_of(ClusterObjects(nodes=nodes, pods=[_pod("a", 6), _pod("b", 1)]), NOW)
    cells = {spot: Grid(found, preemptible=spot).cell(CLUSTER, "nvidia_a100_gpus") for spot in (False, True)}
    assert (cells[False].text, cells[True].text) == ("7/12", "0/2")
    assert Grid(found, preemptible=False).cell(CLUSTER, "nvidia_l4_gpus").text == "–"
    assert Grid(found, preemptible=False).clusters == {CLUSTER}


def test_a_cluster_queue_has_its_nominal_quota_and_what_is_reserved() -> None:
    resources = [{"name": GPUS, "nominalQuota": 32}, {"name": "memory", "nominalQuota": "1000Gi"}]
    queue = {
        "metadata": {"name": "team"},
        "spec": {"resourceGroups": [{"flavors": [{"name": "spot", "resources": resources}]}]},
        "status": {
            "flavorsReservation": [
                {"name": "spot", "resources": [{"name": GPUS, "total": "16"}]},
            ]
        },
    }
    flavor = {"metadata": {"name": "spot"}, "spec": {"nodeLabels": {SPOT: "true"}}}
    local = {"metadata": {"name": "mine", "namespace": "ns"}, "status": queue["status"]}
    both = quotas_of(ClusterObjects(cluster_queues=[queue], local_queues=[local], flavors=[flavor]), NOW)
    found = _by_name(both)
    gpus = found["ClusterQueue team · spot · GPUs"]
    assert (gpus.limit, gpus.used, gpus.preemptible) == (32, 16, True)
    # Nothing is reported of it yet.
    memory = found["ClusterQueue team · spot · memory GiB"]
    assert (memory.limit, memory.used) == (1000, None)
    assert len(both) == 2
    # Who may not read the ClusterQueue sees what the own queue takes.
    (own,) = quotas_of(ClusterObjects(local_queues=[local]), NOW)
    assert (own.display_name, own.region) == ("LocalQueue mine · spot · GPUs", "ns")
    assert (own.limit, own.used) == (None, 16)


def test_a_resource_quota_says_what_it_bounds() -> None:
    quota = {
        "metadata": {"name": "compute", "namespace": "ns"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "4", "limits.memory": "64Gi", "pods": "10"}},
        "status": {"used": {"requests.nvidia.com/gpu": "1", "limits.memory": "1500Mi"}},
    }
    found = _by_name(quotas_of(ClusterObjects(resource_quotas=[quota]), NOW))
    assert {name: (q.limit, q.used) for name, q in found.items()} == {
        "ResourceQuota compute · GPUs": (4, 1),
        "ResourceQuota compute · memory GiB (limits)": (64, 2),
        "ResourceQuota compute · pods": (10, None),
    }


def test_what_is_no_quantity_is_not_counted() -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "many"}}}
    (found,) = quotas_of(ClusterObjects(resource_quotas=[quota]), NOW)
    assert found.limit is None
    assert pod_requests({"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}}) == {}


_CPUS = st.integers(0, 8)


@given(st.lists(_CPUS, max_size=3), st.lists(st.tuples(_CPUS, st.booleans()), max_size=4))
def test_a_pod_asks_for_what_it_needs_at_once(containers: list[int], before: list[tuple[int, bool]]) -> None:
    """By the definition: at each init container's turn, those beside it that started earlier run too."""

    def container(cpus: int, stays: bool = False) -> Any:
        policy = {"restartPolicy": "Always"} if stays else {}
        return {"resources": {"requests": {"cpu": cpus}}, **policy}

    pod = {
        "spec": {
            "containers": [container(cpus) for cpus in containers],
            "initContainers": [container(*each) for each in before],
        }
    }
    stay, most = 0, 0
    for cpus, stays in before:
        most = max(most, stay + cpus)
        stay += cpus * stays
    assert pod_requests(pod).get("cpu", Decimal(0)) == max(most, stay + sum(containers))


@given(st.decimals(0, 10**6, places=3), st.sampled_from(["", "m", "k", "Mi", "e2"]))
def test_a_quantity_is_read_exactly(number: Decimal, suffix: str) -> None:
    factor = {"": 1, "m": Decimal("0.001"), "k": 1000, "Mi": 1 << 20, "e2": 100}[suffix]
    assert parse(f"{number:f}{suffix}") == number * factor


@pytest.mark.parametrize("text", ["", "1 Gi", "Gi", "1GiB", "0x1", "1e", "--1", "nan"])
def test_other_text_is_no_quantity(text: str) -> None:
    with pytest.raises(NotAQuantity, match="must be a quantity"):
        parse(text)
