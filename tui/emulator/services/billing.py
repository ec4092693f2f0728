"""google.cloud.billing.v1.CloudCatalog: SKUs of training in the service's format, read-only.

The prices come from the console's built-in table, and the provider's name marks them as the emulator's: they
exist to test how the console reads prices. Prices of Compute Engine's Spot SKUs use an average discount.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from google.cloud.billing_v1.types import cloud_catalog

from tui.domain.vertex.prices import CE_SHARE, built_in
from tui.emulator.messages import Pb
from tui.emulator.rpc.methods import Method, invalid, methods_of
from tui.emulator.rpc.paging import page_at, page_size, query_digest

SERVICE = "google.cloud.billing.v1.CloudCatalog"
VERTEX, COMPUTE = "C7E2-9256-1C43", "6F81-5844-456A"
PROVIDER = "Google (emulator)"
MAX_PAGE = 5000
SPOT_SHARE = 0.25
"""Fraction of Compute Engine's on-demand price: between the known 9 and 40 %."""

SkuPb = cloud_catalog.Sku.pb()
ServicePb = cloud_catalog.Service.pb()
SkusResponse = cloud_catalog.ListSkusResponse.pb()
ServicesResponse = cloud_catalog.ListServicesResponse.pb()

_GPUS = {
    "NVIDIA_TESLA_A100": "Nvidia Tesla A100",
    "NVIDIA_A100_80GB": "Nvidia Tesla A100 80GB",
    "NVIDIA_H100_80GB": "Nvidia H100 80GB",
    "NVIDIA_L4": "Nvidia L4",
    "NVIDIA_TESLA_T4": "Nvidia Tesla T4",
    "NVIDIA_TESLA_V100": "Nvidia Tesla V100",
    "NVIDIA_TESLA_P100": "Nvidia Tesla P100",
    "NVIDIA_TESLA_P4": "Nvidia Tesla P4",
}
_CITIES = {"us-central1": "Iowa", "europe-west1": "Belgium"}


async def list_services(request: Pb) -> Pb:
    services = [
        ServicePb(name=f"services/{id_}", service_id=id_, display_name=name)
        for id_, name in ((COMPUTE, "Compute Engine"), (VERTEX, "Vertex AI"))
    ]
    return ServicesResponse(services=services)


async def list_skus(request: Pb) -> Pb:
    service = request.parent.removeprefix("services/")
    if not request.parent.startswith("services/") or not service:
        raise invalid(("parent", f"{request.parent!r}: write services/SERVICE_ID"))
    if request.currency_code not in {"", "USD"}:
        raise invalid(("currency_code", f"{request.currency_code!r}: the emulator has prices in USD only"))
    size, digest = page_size(request.page_size, MAX_PAGE, MAX_PAGE), query_digest("skus", request.parent)
    page, token = page_at(list(_skus(service)), request.page_token, size, digest)
    return SkusResponse(skus=page, next_page_token=token)


def _skus(service: str) -> Iterator[Pb]:
    for region, prices in sorted(built_in().regions.items()):
        city = _CITIES.get(region, region)
        for key, price in sorted(prices.items()):
            kind, _, name = key.partition(":")
            item = _description(kind, name)
            if not item:
                continue
            if service == VERTEX:
                words = f"Vertex AI: Training/Pipelines on {item} running in {city}"
                yield _sku(service, words, region, "OnDemand", price.usd.high)
            elif service == COMPUTE:
                spot = price.usd.high * CE_SHARE * SPOT_SHARE
                yield _sku(service, _spot_description(kind, item, city), region, "Preemptible", spot)


def _description(kind: str, name: str) -> str:
    if kind in {"core", "ram"}:
        return f"{name.upper()} Instance {'Core' if kind == 'core' else 'Ram'}"
    return _GPUS.get(name, "") + " GPU" if kind == "gpu" and name in _GPUS else ""


def _spot_description(kind: str, item: str, city: str) -> str:
    if kind == "gpu":
        return f"{item} attached to Spot Preemptible VMs running in {city}"
    return f"Spot Preemptible {item} running in {city}"


def _sku(service: str, words: str, region: str, usage: str, usd: float) -> Pb:
    # Real ids are three groups of four hexadecimal digits.
    digits = hashlib.sha256(f"{words}{region}".encode()).hexdigest()[:12].upper()
    sku_id = "-".join(digits[i : i + 4] for i in (0, 4, 8))
    sku = SkuPb(
        name=f"services/{service}/skus/{sku_id}",
        sku_id=sku_id,
        description=words,
        service_regions=[region],
        service_provider_name=PROVIDER,
    )
    sku.category.service_display_name = "Vertex AI" if service == VERTEX else "Compute Engine"
    sku.category.resource_family = "Compute"
    sku.category.usage_type = usage
    expression = sku.pricing_info.add().pricing_expression
    expression.usage_unit, expression.base_unit = "h", "s"
    expression.usage_unit_description = "hour"
    expression.display_quantity = 1
    expression.base_unit_conversion_factor = 3600
    whole = int(usd)
    rate = expression.tiered_rates.add()
    rate.unit_price.currency_code = "USD"
    rate.unit_price.units, rate.unit_price.nanos = whole, round((usd - whole) * 1e9)
    return sku


def methods() -> list[Method]:
    """Return the RPCs of this service."""
    return methods_of(SERVICE, cloud_catalog, ("ListServices", list_services), ("ListSkus", list_skus))
