"""Prices from the Cloud Billing catalogue (docs/facts/vertex.md 9.3), whose client is imported on first use.

Descriptions of SKUs are known only from dumps of the catalogue. A SKU with an unknown description is left
out, and the built-in table supplies its price.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from tui import lazy_imports
from tui.backends.interface import PriceService, Unavailable
from tui.backends.local.threads import in_thread
from tui.backends.vertex.transport.channels import Clients
from tui.backends.vertex.transport.connect import Service
from tui.domain.vertex.prices import Prices, Sku, from_skus, key_of

VERTEX, COMPUTE = "C7E2-9256-1C43", "6F81-5844-456A"
"""Ids of the services Vertex AI and Compute Engine."""
CLIENT = ("google.cloud.billing_v1.services.cloud_catalog",)
"""Modules that are imported on first use."""
PAGE = 5000
SIMULATED = "(emulator)"
"""Part of the provider's name in the emulator's SKUs."""


class PriceList(PriceService):
    """The catalogue with the prices that one context's credentials can read."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def read(self) -> Prices:
        """Return today's training prices. Raises BackendError, including when the catalogue has none."""
        await in_thread(lambda: lazy_imports.load(CLIENT))
        return await _read(self._clients)


async def _read(clients: Clients) -> Prices:
    from google.cloud.billing_v1.services.cloud_catalog import CloudCatalogAsyncClient
    from google.cloud.billing_v1.services.cloud_catalog.transports.grpc_asyncio import (
        CloudCatalogGrpcAsyncIOTransport,
    )

    client = clients.client_of(Service.BILLING, "", CloudCatalogAsyncClient, CloudCatalogGrpcAsyncIOTransport)
    groups = await asyncio.gather(*(_skus(clients, client, service) for service in (VERTEX, COMPUTE)))
    skus = [pb for group in groups for pb in group]
    today = datetime.now(UTC).date().isoformat()
    simulated = any(SIMULATED in pb.service_provider_name for pb in skus)
    source = "Cloud Billing catalogue" + (" of the emulator" if simulated else "")
    # Thousands of SKUs would block the event loop.
    prices = await asyncio.to_thread(
        lambda: from_skus((sku for pb in skus for sku in sku_of(pb)), today, source, simulated=simulated)
    )
    if not prices.regions:
        raise Unavailable(
            f"The catalogue's {len(skus):,} SKUs contain no training price.",
            fix="The built-in table stays in use; `vxtui prices` shows its date.",
        )
    return prices


async def _skus(clients: Clients, client: Any, service: str) -> list[Any]:
    """Return the SKUs of a service that training uses: a few of thousands."""
    action = "read the prices of the Cloud Billing catalogue"
    request = {"parent": f"services/{service}", "currency_code": "USD", "page_size": PAGE}
    skus = clients.pages(action, lambda: client.list_skus, request, "skus")
    return [pb async for pb in skus if key_of(pb.description)]


def sku_of(pb: Any) -> Iterator[Sku]:
    """Yield the SKU of a message with its newest price, of the last tier; nothing without a USD price."""
    if not pb.pricing_info:
        return
    expression = pb.pricing_info[-1].pricing_expression
    if not expression.tiered_rates:
        return
    price = expression.tiered_rates[-1].unit_price
    if price.currency_code not in {"", "USD"}:
        return
    yield Sku(
        pb.description,
        pb.category.usage_type,
        tuple(pb.service_regions),
        expression.usage_unit,
        price.units + price.nanos / 1e9,
    )
