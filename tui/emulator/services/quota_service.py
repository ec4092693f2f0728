"""google.api.cloudquotas.v1.CloudQuotas: limits of the training quotas, read-only.

The service contains only limits, as in the cloud; usage is in Monitoring (docs/facts/vertex.md 7.4). Names of
quotas that the facts don't list follow the pattern of the listed names (docs/facts/vertex.md 7.3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from google.cloud.cloudquotas_v1.types import cloudquotas, resources

from tui.domain.vertex.catalog import SERVICE as AIPLATFORM
from tui.domain.vertex.catalog import all_quota_metrics
from tui.emulator.messages import Pb
from tui.emulator.rpc.methods import Method, invalid, methods_of, not_found
from tui.emulator.rpc.paging import page_of_names, page_size, query_digest
from tui.emulator.vertex.job_catalog import JobCatalog

SERVICE = "google.api.cloudquotas.v1.CloudQuotas"
MAX_PAGE = 1000

QuotaInfoPb = resources.QuotaInfo.pb()
ListResponse = cloudquotas.ListQuotaInfosResponse.pb()

_STEM = "custom_model_training_"
_GPUS = re.compile(r"nvidia_(.+)_gpus")
_PARENT = re.compile(
    r"projects/(?P<project>[^/\s]+)/locations/(?P<location>[^/\s]+)/services/(?P<service>[^/\s]+)"
)


def quota_id(metric: str) -> str:
    """Return the id of a training quota by its metric, with or without the service's prefix
    (docs/facts/vertex.md 7.3)."""
    word = metric.removeprefix(f"{AIPLATFORM}/").removeprefix(_STEM)
    preemptible = "Preemptible" if word.startswith("preemptible_") else ""
    word = word.removeprefix("preemptible_")
    gpus = _GPUS.fullmatch(word)
    if gpus:
        name = gpus[1].replace("_", "").upper() + "GPUs"
    elif word.startswith("tpu_"):
        name = word.removeprefix("tpu_").upper() + "TPUs"
    else:
        name = word.upper().replace("CPUS", "CPUs")
    return f"CustomModelTraining{preemptible}{name}PerProjectPerRegion"


_METRIC_OF: Mapping[str, str] = {quota_id(metric): metric for metric in all_quota_metrics()}


class QuotaServer:
    """RPC handlers of Cloud Quotas."""

    def __init__(self, catalog: JobCatalog) -> None:
        self._catalog = catalog

    async def list_quota_infos(self, request: Pb) -> Pb:
        project, service = _read_parent("parent", request.parent)
        size = page_size(request.page_size, MAX_PAGE)
        # Other services have quotas too, but no job here uses them.
        ids = sorted(_METRIC_OF) if service == AIPLATFORM else []
        page, token = page_of_names(ids, request.page_token, size, query_digest("quotas", request.parent))
        infos = [self._info(request.parent, project, name) for name in page]
        return ListResponse(quota_infos=infos, next_page_token=token)

    async def get_quota_info(self, request: Pb) -> Pb:
        parent, _, name = request.name.rpartition("/quotaInfos/")
        project, service = _read_parent("name", parent)
        if service != AIPLATFORM or name not in _METRIC_OF:
            raise not_found("quota", request.name)
        return self._info(parent, project, name)

    def _info(self, parent: str, project: str, name: str) -> Pb:
        metric = _METRIC_OF[name]
        words = metric.removeprefix(_STEM).replace("_", " ")
        info = QuotaInfoPb(
            name=f"{parent}/quotaInfos/{name}",
            quota_id=name,
            metric=f"{AIPLATFORM}/{metric}",
            service=AIPLATFORM,
            is_precise=True,
            container_type=int(resources.QuotaInfo.ContainerType.PROJECT),
            dimensions=["region"],
            metric_display_name=f"Custom model training {words}",
            quota_display_name=f"Custom model training {words} per project per region",
            metric_unit="1",
        )
        # A limit is raised in the emulator's configuration, not by a request.
        reason = resources.QuotaIncreaseEligibility.IneligibilityReason.NOT_SUPPORTED
        info.quota_increase_eligibility.ineligibility_reason = int(reason)
        for region in self._catalog.regions(project):
            limits = info.dimensions_infos.add(dimensions={"region": region}, applicable_locations=[region])
            limits.details.value = self._catalog.quota_limit(project, region, metric)
        return info


def _read_parent(field: str, parent: str) -> tuple[str, str]:
    match = _PARENT.fullmatch(parent)
    if match is None or match["location"] != "global":
        raise invalid((field, f"{parent!r}: write projects/PROJECT/locations/global/services/{AIPLATFORM}"))
    return match["project"], match["service"]


def methods(catalog: JobCatalog) -> list[Method]:
    """Return the RPCs of this service."""
    service = QuotaServer(catalog)
    return methods_of(
        SERVICE,
        cloudquotas,
        ("ListQuotaInfos", service.list_quota_infos),
        ("GetQuotaInfo", service.get_quota_info, QuotaInfoPb),
    )
