"""google.api.cloudquotas.v1 through the unmodified client."""

from __future__ import annotations

import pytest
from google.api_core import exceptions

from tests.wire.observe import Jobs, place
from tui.domain.vertex.catalog import all_quota_metrics
from tui.emulator.services.quota_service import quota_id

PARENT = "projects/p/locations/global/services/aiplatform.googleapis.com"


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        ("custom_model_training_cpus", "CPUs"),
        ("custom_model_training_nvidia_t4_gpus", "T4GPUs"),
        ("custom_model_training_nvidia_a100_80gb_gpus", "A10080GBGPUs"),
        ("custom_model_training_nvidia_h100_mega_gpus", "H100MEGAGPUs"),
        ("custom_model_training_nvidia_rtx_pro_6000_gpus", "RTXPRO6000GPUs"),
        ("custom_model_training_tpu_v3", "V3TPUs"),
        ("aiplatform.googleapis.com/custom_model_training_preemptible_nvidia_l4_gpus", "PreemptibleL4GPUs"),
    ],
)
def test_ids_follow_the_documented_pattern(metric: str, name: str) -> None:
    assert quota_id(metric) == f"CustomModelTraining{name}PerProjectPerRegion"


@pytest.mark.parametrize("size", [0, 7, 1000])
async def test_every_training_quota_is_listed_once(size: int) -> None:
    jobs = Jobs(limits={("us-central1", "custom_model_training_cpus"): -1})
    async with place(jobs) as here:
        pager = await here.quotas.list_quota_infos(request={"parent": PARENT, "page_size": size}, timeout=60)
        found = [info async for info in pager]
        metrics = [info.metric.removeprefix("aiplatform.googleapis.com/") for info in found]
        assert sorted(metrics) == sorted(all_quota_metrics())
        cpus = found[metrics.index("custom_model_training_cpus")]
        assert cpus.dimensions == ["region"] and cpus.container_type.name == "PROJECT" and cpus.is_precise
        limits = {
            place: info.details.value for info in cpus.dimensions_infos for place in info.applicable_locations
        }
        assert limits == {"europe-west4": 8, "us-central1": -1}
        assert [dict(i.dimensions) for i in cpus.dimensions_infos] == [
            {"region": "europe-west4"},
            {"region": "us-central1"},
        ]
        again = await here.quotas.get_quota_info(request={"name": cpus.name}, timeout=60)
        assert again == cpus


async def test_other_services_have_no_quotas_here_and_bad_names_are_refused() -> None:
    async with place() as here:
        other = PARENT.replace("aiplatform", "compute")
        assert [i async for i in await here.quotas.list_quota_infos(request={"parent": other})] == []
        with pytest.raises(exceptions.InvalidArgument, match="parent"):
            await here.quotas.list_quota_infos(request={"parent": "projects/p"})
        with pytest.raises(exceptions.InvalidArgument, match="global"):
            await here.quotas.list_quota_infos(request={"parent": PARENT.replace("global", "us-central1")})
        with pytest.raises(exceptions.NotFound, match="NoSuchQuota"):
            await here.quotas.get_quota_info(request={"name": f"{PARENT}/quotaInfos/NoSuchQuota"})
        with pytest.raises(exceptions.InvalidArgument, match="page_token"):
            await here.quotas.list_quota_infos(request={"parent": PARENT, "page_token": "x"})
