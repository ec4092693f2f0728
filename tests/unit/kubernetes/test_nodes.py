"""Machines of nodes by their labels, what pods take of them, and what that costs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.ui.double import job
from tui.domain.core.job import Job
from tui.domain.core.replica import NodeShare
from tui.domain.core.states import JobState
from tui.domain.kubernetes.nodes.machine import NodeMachine, machine_of
from tui.domain.kubernetes.nodes.shares import node_shares
from tui.domain.kubernetes.pods import Pod
from tui.domain.vertex.cost import hourly, missing, spent
from tui.domain.vertex.prices import CE_SHARE, ZERO, Range, built_in
from tui.store.jobs.costs import Costs

NOW = datetime(2026, 11, 25, 18, tzinfo=UTC)
A100 = NodeMachine("a2-highgpu-8g", "us-central1", "NVIDIA_TESLA_A100", 8)
E2 = NodeMachine("e2-standard-8", "us-central1")


def node(**labels: str) -> dict[str, Any]:
    known = {
        "machine": "node.kubernetes.io/instance-type", "region": "topology.kubernetes.io/region",
        "gpu": "cloud.google.com/gke-accelerator", "gpus": "cloud.google.com/gke-accelerator-count",
        "spot": "cloud.google.com/gke-spot", "flex": "cloud.google.com/gke-flex-start",
    }  # fmt: skip
    return {"metadata": {"name": "n", "labels": {known[name]: value for name, value in labels.items()}}}


def pod(index: int, on: str, state: JobState = JobState.RUNNING, **more: Any) -> Pod:
    made = Pod(f"p-{index}-{on}", "ns", f"u{index}{on}", None, "worker", index, 0, state, "Running", node=on)
    return replace(made, **more)


def of_cluster(*nodes: NodeShare, state: JobState = JobState.RUNNING) -> Job:
    name = "clusters/c/namespaces/team/pytorchjobs/bert"
    made = job(1, "bert", state, region="team", kind="pytorch_job")
    return replace(made, name=name, nodes=nodes, start_time=NOW - timedelta(hours=2), end_time=None)


def test_labels_of_gke_say_the_machine() -> None:
    found = node(machine="a2-highgpu-8g", region="us-central1", gpu="nvidia-tesla-a100", gpus="8")
    assert machine_of(found) == A100
    # This machine type has eight in any case; an N1 has as many as it was made with.
    assert machine_of(node(machine="a2-highgpu-8g", gpu="nvidia-tesla-a100")).accelerator_count == 8
    assert machine_of(node(machine="n1-standard-8", gpu="nvidia-tesla-t4")).accelerator_count == 0
    assert machine_of(node(machine="e2-standard-8", spot="true")).strategy == "SPOT"
    assert machine_of(node(machine="e2-standard-8", flex="true")).strategy == "FLEX_START"
    assert machine_of({"metadata": {}}) == NodeMachine()


def test_pods_take_the_larger_share_of_accelerators_and_cpus() -> None:
    machines = {"a": A100, "b": A100, "c": E2}
    pods = [pod(0, "a", gpus=8), pod(1, "b", gpus=4, cpus=12.0), pod(2, "c", cpus=2.0), pod(3, "gone")]
    assert node_shares(pods, machines) == (
        NodeShare("a2-highgpu-8g", "us-central1", "NVIDIA_TESLA_A100", 8, "STANDARD", 2, 1.5),
        NodeShare("e2-standard-8", "us-central1", nodes=1, share=0.25),
    )
    # One that asks for nothing may use the whole node, but two on it do not use two nodes.
    [shared] = node_shares([pod(0, "c"), pod(1, "c")], machines)
    assert (shared.nodes, shared.share) == (1, 1.0)


def test_of_an_ended_job_the_last_pod_of_each_replica_counts() -> None:
    first = pod(0, "a", JobState.FAILED, gpus=8, created=NOW)
    last = pod(0, "b", JobState.SUCCEEDED, gpus=8, created=NOW + timedelta(minutes=1))
    [share] = node_shares([last, first], {"a": A100, "b": A100})
    assert (share.nodes, share.share) == (1, 1.0)
    [share] = node_shares([first, replace(last, state=JobState.RUNNING)], {"a": A100, "b": A100})
    assert share.nodes == 1


def test_a_share_of_nodes_costs_what_compute_engine_takes() -> None:
    prices = built_in().regions["us-central1"]
    core, ram = prices["core:e2"].usd.low, prices["ram:e2"].usd.low
    whole = (core * 8 + ram * 32) * CE_SHARE
    running = of_cluster(NodeShare("e2-standard-8", "us-central1", nodes=2, share=0.5))
    rate = hourly(running)
    assert rate is not None and rate.low == rate.high == pytest.approx(whole / 2)
    so_far = spent(running, NOW)
    assert so_far is not None and so_far.low == pytest.approx(whole)
    # Spot has Vertex AI's fee of the full price in it, which Compute Engine does not take.
    spot = hourly(of_cluster(NodeShare("e2-standard-8", "us-central1", strategy="SPOT")))
    assert spot is not None and 0 < spot.low < spot.high < whole * 0.5
    assert missing(running) == ""


def test_what_is_missing_for_a_price_is_named() -> None:
    def why(*nodes: NodeShare, state: JobState = JobState.RUNNING) -> str:
        found = of_cluster(*nodes, state=state)
        assert hourly(found) is None
        return missing(found)

    assert "are unknown" in why()
    assert why(state=JobState.SUSPENDED).startswith("the job is suspended and costs nothing now")
    assert why(NodeShare("e2-standard-8", "mars-north1")) == "missing: prices in mars-north1"
    assert why(NodeShare("x9-huge", "us-central1")) == "missing: x9-huge"
    assert "label node.kubernetes.io/instance-type" in why(NodeShare("", "us-central1"))
    assert "label topology.kubernetes.io/region" in why(NodeShare("e2-standard-8", ""))
    t4 = NodeShare("n1-standard-8", "us-central1", "NVIDIA_TESLA_T4")
    assert "label cloud.google.com/gke-accelerator-count" in why(t4)
    waits = replace(of_cluster(state=JobState.PENDING), start_time=None)
    assert spent(waits, NOW) == ZERO


def test_the_rate_follows_the_nodes(tmp_path: Any) -> None:
    costs = Costs(tmp_path)
    costs.load()
    first = of_cluster(NodeShare("e2-standard-8", "us-central1"))
    one, none = costs.rate(first), costs.rate(replace(first, nodes=()))
    two = costs.rate(replace(first, nodes=(replace(first.nodes[0], nodes=2, share=2.0),)))
    assert none is None and one is not None and two == Range(one.low * 2, one.high * 2)
    assert costs.missing([first]) == ""
