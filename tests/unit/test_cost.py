"""What a job costs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.quota_fit_support import ARR, custom_job, make_job, pool
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.vertex.cost import dated, estimate, hourly, money, spent, total
from tui.domain.vertex.prices import (
    Prices,
    Range,
    Sku,
    built_in,
    from_json,
    from_skus,
    key_of,
    newest,
    to_json,
)
from tui.domain.vertex.worker_pools import worker_pool
from tui.store.jobs.costs import Costs, keep_prices
from tui.verbs.command_group import cli

US = "us-central1"
MACHINES = [
    ("n1-standard-4", "", 0),
    ("n1-highcpu-16", "NVIDIA_TESLA_T4", 2),
    ("a2-highgpu-8g", "NVIDIA_TESLA_A100", 8),
    ("g2-standard-48", "NVIDIA_L4", 4),
    ("a3-highgpu-8g", "NVIDIA_H100_80GB", 8),
]


def test_known_machines_cost_what_their_sources_say() -> None:
    bare = {"bootDiskType": "hyperdisk-balanced"}
    n1 = estimate(custom_job(pool("n1-standard-4", 1, diskSpec=bare)), US)
    assert n1.hour is not None
    assert n1.hour.low == pytest.approx(0.2185, abs=1e-4)
    a3 = estimate(custom_job(pool("a3-highgpu-8g", 1, "NVIDIA_H100_80GB", 8, diskSpec=bare)), US)
    assert a3.hour is not None
    assert a3.hour.low == pytest.approx(101.01, abs=0.02)
    flex = custom_job(pool("a3-highgpu-8g", 1, "NVIDIA_H100_80GB", 8, diskSpec=bare), strategy="FLEX_START")
    found = estimate(flex, US)
    assert found.hour is not None
    # Without the local SSD, which no field of a job asks for.
    assert found.hour.low == pytest.approx(50.84, abs=0.05)


def test_spot_is_a_range_and_the_reducers_are_told_apart() -> None:
    found = estimate(ARR, US)
    assert found.hour is not None
    assert found.reducers is not None
    assert found.hour.low < found.hour.high
    assert found.reducers.high < found.hour.high / 10
    assert money(found.reducers, "/h") == "~$2.12–4.40/h"
    assert (found.date, found.oldest) == (built_in().date, "2026-09-08")
    assert any("Spot" in note for note in found.notes)
    assert money(found.hour, "/h") == "~$30–72/h"


def test_an_estimate_has_the_date_of_the_table_that_it_is_taken_from() -> None:
    older = built_in()
    here = {key: replace(price, date="2027-03-01") for key, price in older.regions[US].items()}
    job = custom_job(pool("n1-standard-4", 1))
    assert estimate(job, US).date == older.date
    newer = newest(Prices("2027-03-01", "catalogue", older.spot, {US: here}))
    assert estimate(job, US, newer).date == "2027-03-01"
    del here["core:n1"]
    assert estimate(job, US, newer).date == older.date, "the older table fills in"


def test_the_whole_is_for_the_timeout() -> None:
    job = custom_job(pool("n1-standard-4", 1))
    job["jobSpec"]["scheduling"]["timeout"] = "7200s"
    found = estimate(job, US)
    assert found.hour is not None
    assert found.whole == found.hour.times(2)


@pytest.mark.parametrize(
    ("job", "region", "missing"),
    [
        (ARR, "europe-west4", "prices in europe-west4"),
        (ARR, "europe-west1", "price of a2-highgpu-8g in europe-west1"),
        (custom_job(pool("z9-odd-4", 1)), US, "z9-odd-4"),
        (custom_job(pool("a4-highgpu-8g", 1, "NVIDIA_B200", 8)), US, "price of NVIDIA_B200 in us-central1"),
        (
            custom_job(pool("g2-standard-4", 1, "NVIDIA_L4", 1), strategy="FLEX_START"), US,
            "Flex-start price of NVIDIA_L4 in us-central1",
        ),
    ],
)  # fmt: skip
def test_what_is_not_known_is_named_and_never_guessed(job: Any, region: str, missing: str) -> None:
    found = estimate(job, region)
    assert found.hour is None
    assert found.whole is None
    assert missing in found.missing


@given(
    machines=st.lists(st.tuples(st.sampled_from(MACHINES), st.integers(1, 64)), min_size=1, max_size=4),
    strategy=st.sampled_from(["", "STANDARD", "SPOT"]),
    which=st.integers(0, 3),
)
def test_pools_add_up_and_more_replicas_never_cost_less(machines: Any, strategy: str, which: int) -> None:
    pools = [pool(m[0], n, m[1], m[2]) for m, n in machines]
    hour = estimate(custom_job(*pools, strategy=strategy), US).hour
    assert hour is not None
    assert 0 < hour.low <= hour.high
    alone = [estimate(custom_job(one, strategy=strategy), US).hour for one in pools]
    added, unknown = total(alone)
    assert unknown == 0
    assert (added.low, added.high) == (pytest.approx(hour.low), pytest.approx(hour.high))
    at = which % len(pools)
    pools[at] = {**pools[at], "replicaCount": int(pools[at]["replicaCount"]) + 1}
    more = estimate(custom_job(*pools, strategy=strategy), US).hour
    assert more is not None
    assert more.low > hour.low
    assert more.high > hour.high


def test_a_job_and_its_launch_name_the_same_date() -> None:
    for machine, kind, each in (("n1-standard-4", "", 0), ("a2-highgpu-8g", "NVIDIA_TESLA_A100", 8)):
        before = estimate(custom_job(pool(machine, 1, kind, each)), US)
        listed = make_job(groups=(worker_pool(0, 1, machine, kind, each),), region=US)
        assert dated(listed) == before.date <= built_in().date
    assert dated(make_job(groups=())) == built_in().date


def test_spent_so_far() -> None:
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    pools = (worker_pool(0, 2, "n1-standard-4"),)
    job = make_job(groups=pools, region=US, start_time=now - timedelta(hours=3), state=JobState.RUNNING)
    rate = hourly(job)
    assert rate is not None
    assert spent(job, now) == rate.times(3)
    queued = make_job(groups=pools, region=US, start_time=None, state=JobState.QUEUED)
    assert money(spent(queued, now)) == "$0"
    unknown = make_job(groups=pools, region=US, start_time=None, state=JobState.UNKNOWN)
    assert spent(unknown, now) is None
    pods = make_job(groups=(worker_pool(0, 2, ""),), start_time=None, state=JobState.QUEUED)
    assert spent(pods, now) is None
    assert spent(make_job(groups=pools, region="asia-east1", start_time=now), now) is None


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ((), "$0"),
        ((JobState.PENDING, JobState.SKIPPED, JobState.CANCELLED), "$0"),
        ((JobState.SUCCEEDED, JobState.PENDING), "·"),
        ((JobState.RUNNING,), "·"),
    ],
)
def test_tasks_that_ran_without_a_known_start_have_no_known_cost(
    states: tuple[JobState, ...], text: str
) -> None:
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    tasks = tuple(Task(str(at), state) for at, state in enumerate(states))
    job = make_job(groups=(worker_pool(0, 1, "n1-standard-4"),), region=US, composite=True, tasks=tasks)
    assert money(spent(job, now)) == text
    begun = replace(job, tasks=(*tasks, Task("z", JobState.RUNNING, start_time=now - timedelta(hours=1))))
    assert spent(begun, now) == hourly(job)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (46.2, 71.4, "~$46–71/h"),
        (3120, 3120, "~$3.1k/h"),
        (950, 3400, "~$950–3.4k/h"),
        (2900, 3400, "~$2.9–3.4k/h"),
        (0.652, 0.652, "~$0.65/h"),
        (0, 0, "$0/h"),
    ],
)
def test_money(low: float, high: float, text: str) -> None:
    assert money(Range(low, high), "/h") == text
    assert money(None) == "·"


# The table


@given(
    st.recursive(
        st.none() | st.floats() | st.text() | st.booleans(),
        lambda v: (
            st.lists(v)
            | st.dictionaries(st.sampled_from(["date", "source", "regions", "spot", "usd", "x"]), v)
        ),
    )
)
def test_a_damaged_table_is_a_value_error(raw: Any) -> None:
    with pytest.raises(ValueError, match="not a table of prices"):
        from_json(raw)


def test_the_table_survives_its_json_and_newer_ones_go_over_it() -> None:
    table = built_in()
    assert from_json(to_json(table)) == table
    own = Sku(
        "Vertex AI: Training/Pipelines on N1 Instance Core running in Iowa", "OnDemand", (US,), "h", 0.05
    )
    newer = newest(from_skus([own], "2027-01-01", "catalogue"))
    found = newer.of(US, "core:n1")
    assert found is not None
    assert found.usd == Range(0.05, 0.05)
    assert newer.of(US, "ram:n1") == table.of(US, "ram:n1")
    assert newest(from_skus([own], "2020-01-01", "catalogue")) is table


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("Vertex AI: Training/Pipelines on N1 Instance Core running in Iowa", "core:n1"),
        ("Vertex AI: Training/Pipelines on N1 Instance RAM running in Iowa", "ram:n1"),
        ("Vertex AI: Training/Pipelines on NVIDIA H100 80GB in Iowa", "gpu:NVIDIA_H100_80GB"),
        (
            "Vertex AI: Training/Pipelines on Nvidia Tesla A100 GPU running in Americas",
            "gpu:NVIDIA_TESLA_A100",
        ),
        ("Vertex AI: Training/Pipelines on NVIDIA A100 80GB in Iowa", "gpu:NVIDIA_A100_80GB"),
        ("Vertex AI: Training/Pipelines Management fee on NVIDIA L4 in Iowa", "fee:gpu:NVIDIA_L4"),
        ("Spot Preemptible A2 Instance Core running in Americas", "spot:core:a2"),
        ("Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in Iowa", "spot:gpu:NVIDIA_TESLA_T4"),
        ("Vertex AI: Online/Batch Prediction N1 Instance Core running in Iowa", ""),
        ("N1 Predefined Instance Core running in Americas", ""),
    ],
)
def test_words_of_skus(words: str, key: str) -> None:
    assert key_of(words) == key


def test_a_spot_price_has_its_fee() -> None:
    def sku(words: str, usd: float) -> Sku:
        return Sku(words, "OnDemand", (US,), "h", usd)

    full = sku("Vertex AI: Training/Pipelines on NVIDIA L4 in Iowa", 1.15)
    spot = sku("Nvidia L4 GPU attached to Spot Preemptible VMs running in Iowa", 0.3)
    price = from_skus([full, spot], "2027-01-01", "x").of(US, "spot:gpu:NVIDIA_L4")
    assert price is not None
    assert price.usd.low == pytest.approx(0.45)
    fee = sku("Vertex AI: Training/Pipelines Management fee on NVIDIA L4 in Iowa", 0.1)
    price = from_skus([full, spot, fee], "2027-01-01", "x").of(US, "spot:gpu:NVIDIA_L4")
    assert price is not None
    assert price.usd.low == pytest.approx(0.4)


def test_the_verb_names_the_price_table_as_the_screens_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VXTUI_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    a_day_later = replace(built_in(), date="2027-03-01", source="Cloud Billing catalogue")
    for table in (None, a_day_later):
        if table is not None:
            keep_prices(tmp_path, table)
        costs = Costs(tmp_path)
        costs.load()
        said = CliRunner().invoke(cli, ["prices", "a2-highgpu-8g"]).output
        assert costs.words in said and costs.prices is not None and costs.prices.date in said
