"""Whether quotas leave room for a job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.quota_fit_support import ARR, custom_job, make_job, pool
from tui.domain.core.quota import UNLIMITED, Quota
from tui.domain.core.states import JobState
from tui.domain.vertex.quota_fit import Fit, fit, fits_in, needs, request_link, with_running
from tui.domain.vertex.quota_grid import Grid, users
from tui.domain.vertex.worker_pools import worker_pool

A100 = "custom_model_training_nvidia_a100_gpus"
SPOT_A100 = "custom_model_training_preemptible_nvidia_a100_gpus"
SPOT_CPUS = "custom_model_training_preemptible_cpus"


def quota(metric: str, limit: int | None, used: int | None, region: str = "us-central1") -> Quota:
    return Quota(f"aiplatform.googleapis.com/{metric}", region, limit, used)


def looked(*quotas: Quota, job: Any = ARR, region: str = "us-central1", running: Any = ()) -> Fit:
    return fit(job, region, with_running(quotas, running, None))


def test_all_pools_count_and_spot_takes_the_twins() -> None:
    assert needs(ARR) == {SPOT_A100: 32, SPOT_CPUS: 208, "custom_model_training_pd_ssd": 1700}
    assert needs(custom_job(pool("a2-highgpu-8g", 2, "NVIDIA_TESLA_A100", 8)))[A100] == 16
    flex = custom_job(pool("g2-standard-4", 1, "NVIDIA_L4", 1), strategy="FLEX_START")
    assert "custom_model_training_preemptible_nvidia_l4_gpus" in needs(flex)


def test_other_disks_take_no_ssd_and_a_persistent_resource_nothing() -> None:
    plain = custom_job(pool("n1-standard-4", 2, diskSpec={"bootDiskType": "pd-standard"}))
    assert needs(plain) == {"custom_model_training_cpus": 8}
    plain["jobSpec"]["persistentResourceId"] = "mine"
    assert needs(plain) == {}
    assert looked(job=plain).status == "fits"


def test_short_says_which_metric_and_by_how_much() -> None:
    found = looked(quota(SPOT_A100, 16, 0), quota(SPOT_CPUS, 2200, 100))
    assert found.status == "short"
    assert found.sentence == "preemptible A100: needs 32, 16 free of 16, short 16"
    assert found.brief == "✗ short 16 A100"


def test_not_measured_is_never_ok() -> None:
    found = looked(quota(SPOT_A100, 40, None), quota(SPOT_CPUS, 2200, 0))
    assert found.status == "unknown"
    assert "at most 40 free" in found.sentence
    assert looked().status == "unknown"
    assert "limit unknown" in looked().sentence
    # A limit that is too small is short whatever is used.
    assert looked(quota(SPOT_A100, 16, None), quota(SPOT_CPUS, 2200, 0)).status == "short"


def test_own_estimate_counts_where_it_is_more_and_says_so() -> None:
    pools = (worker_pool(0, 1, "a2-highgpu-8g", "NVIDIA_TESLA_A100", 8),)
    running = make_job(groups=pools, strategy="SPOT", state=JobState.RUNNING, region="us-central1")
    queued = make_job(groups=pools, strategy="SPOT", state=JobState.QUEUED, region="us-central1")
    found = looked(quota(SPOT_A100, 32, 0), quota(SPOT_CPUS, -1, 0), running=[running, queued])
    assert found.status == "short"
    assert found.sentence == (
        "preemptible A100: needs 32, 24 free of 32 (usage estimated from running jobs), short 8"
    )


def test_the_cell_of_the_grid_says_the_use_that_the_fit_counts() -> None:
    pools = (worker_pool(0, 4, "a2-highgpu-8g", "NVIDIA_TESLA_A100", 8),)
    running = make_job(groups=pools, strategy="SPOT", state=JobState.RUNNING, region="us-central1")
    at = datetime(2026, 11, 23, 12, tzinfo=UTC)
    quotas = with_running([quota(SPOT_A100, 32, 0), quota(A100, 32, None)], [running], at)
    [line] = fit(ARR, "us-central1", quotas).short
    cell = Grid(quotas, preemptible=True).cell("us-central1", "nvidia_a100_gpus")
    assert cell.text == "~32/32" and cell.share == 1 and cell.quota == line.quota
    assert (line.free, line.used, line.quota.used_at) == (0, 32, at)
    assert Grid(quotas, preemptible=False).cell("us-central1", "nvidia_a100_gpus").text == "·/32"


def test_in_a_group_a_job_uses_the_quota_of_its_own_context() -> None:
    pools = (worker_pool(0, 1, "a2-highgpu-8g", "NVIDIA_TESLA_A100", 8),)
    running = make_job(
        groups=pools, strategy="SPOT", state=JobState.RUNNING, region="us-central1", context="a"
    )
    here, there = (quota(SPOT_A100, 64, 0, f"{name}/us-central1") for name in ("a", "b"))
    assert [q.used for q in with_running([here, there], [running], None)] == [8, 0]
    assert [bool(users([running], q.region, [SPOT_A100])) for q in (here, there)] == [True, False]
    none = [quota(metric, 0, 0, "a/us-central1") for metric in (SPOT_A100, SPOT_CPUS)]
    # The region has the hardware, and the project no quota for it.
    assert fit(ARR, "a/us-central1", none).sentence.startswith("preemptible A100: needs 32, 0 free of 0")


def test_regions_without_the_hardware_are_named_and_a_quota_above_zero_decides() -> None:
    quotas = [
        quota(metric, 100, 0, region) for region in ("us-central1", "us-east4") for metric in (SPOT_CPUS,)
    ]
    quotas += [quota(SPOT_CPUS, 2200, 0), quota(SPOT_A100, 64, 0)]
    central, east = fits_in(ARR, ["us-central1", "us-east4"], quotas)
    assert central.status == "fits"
    assert east.status == "short"
    assert east.sentence == "no A100 40GB in us-east4"
    quotas += [quota(SPOT_A100, 64, 0, "us-east4"), quota(SPOT_CPUS, 2200, 0, "us-east4")]
    assert fits_in(ARR, ["us-east4"], quotas)[0].status == "fits"


@given(
    limit=st.one_of(st.none(), st.just(UNLIMITED), st.integers(0, 100)),
    used=st.one_of(st.none(), st.integers(0, 100)),
    replicas=st.integers(1, 8),
)
def test_fits_means_that_there_is_room(limit: int | None, used: int | None, replicas: int) -> None:
    job = custom_job(
        pool("a2-highgpu-8g", replicas, "NVIDIA_TESLA_A100", 8, diskSpec={"bootDiskType": "pd-standard"})
    )
    found = looked(quota(A100, limit, used), job=job)
    if found.status == "fits" and limit != UNLIMITED:
        assert limit is not None
        assert used is not None
        assert used + 8 * replicas <= limit
    if found.status == "short":
        assert limit is not None
        assert found.lines[0].short_by == min(8 * replicas, 8 * replicas + (used or 0) - limit)


def test_the_link_names_project_metric_and_region() -> None:
    link = request_link("p-1", A100, "us-east4")
    assert "project=p-1" in link
    assert f"aiplatform.googleapis.com/{A100}" in link
    assert link.endswith("location=us-east4")
