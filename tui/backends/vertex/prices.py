"""Prices from the Cloud Billing catalogue (docs/facts/vertex.md 9.3). Its client is imported with the first
reading.

What the SKUs are called has been seen in dumps of the catalogue only; a SKU whose words are not known is left
out, and the built-in table holds for it.
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
from tui.backends.vertex.transport.paging import first_page
from tui.domain.vertex.prices import Prices, Sku, from_skus, key_of

VERTEX, COMPUTE = "C7E2-9256-1C43", "6F81-5844-456A"
"""Ids of the services Vertex AI and Compute Engine."""
CLIENT = ("google.cloud.billing_v1.services.cloud_catalog",)
"""Imported with the first reading."""
PAGE = 5000
SIMULATED = "(emulator)"
"""What the emulator's SKUs have in their provider's name."""


class PriceList(PriceService):
    """The catalogue as one context's credentials see it."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def read(self) -> Prices:
        """All prices of training that the catalogue has, today's.

        Raises:
            BackendError: the catalogue can't be read, or holds no price that is known here.
        """
        await in_thread(lambda: lazy_imports.load(CLIENT))
        return await _read(self._clients)


async def _read(clients: Clients) -> Prices:
    from google.cloud.billing_v1.services.cloud_catalog import CloudCatalogAsyncClient
    from google.cloud.billing_v1.services.cloud_catalog.transports.grpc_asyncio import (
        CloudCatalogGrpcAsyncIOTransport,
    )

    client = clients.client_of(Service.BILLING, "", CloudCatalogAsyncClient, CloudCatalogGrpcAsyncIOTransport)
    groups = await asyncio.gather(*(_skus(clients, client, service) for service in (VERTEX, COMPUTE)))
    found = [pb for group in groups for pb in group]
    today = datetime.now(UTC).date().isoformat()
    simulated = any(SIMULATED in pb.service_provider_name for pb in found)
    source = "Cloud Billing catalogue" + (" of the emulator" if simulated else "")
    # Dicts and sums over thousands of SKUs: not on the event loop.
    prices = await asyncio.to_thread(
        lambda: from_skus((sku for pb in found for sku in sku_of(pb)), today, source, simulated=simulated)
    )
    if not prices.regions:
        raise Unavailable(
            f"None of the catalogue's {len(found):,} SKUs is a price that is known here.",
            fix="The built-in table holds on; `vxtui prices` shows its date.",
        )
    return prices


async def _skus(clients: Clients, client: Any, service: str) -> list[Any]:
    """Those of a service that training takes; a page has thousands, of which few are kept."""
    kept: list[Any] = []
    token = ""
    while True:
        reply = await _page(clients, client, service, token)
        kept.extend(pb for pb in reply.skus if key_of(pb.description))
        token = reply.next_page_token
        if not token:
            return kept


async def _page(clients: Clients, client: Any, service: str, token: str) -> Any:
    from google.cloud.billing_v1.types import cloud_catalog

    request = cloud_catalog.ListSkusRequest(
        parent=f"services/{service}", currency_code="USD", page_size=PAGE, page_token=token
    )

    async def send(seconds: float) -> Any:
        return await first_page(await client.list_skus(request, retry=None, timeout=seconds))

    return await clients.caller.read("read the prices of the Cloud Billing catalogue", send)


def sku_of(pb: Any) -> Iterator[Sku]:
    """What a SKU message says of its newest price, in its last tier; nothing for one without a price."""
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
