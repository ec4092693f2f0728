"""google.cloud.billing.v1 through the unmodified client, and prices made of what it says."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from google.api_core import exceptions
from google.cloud.billing_v1.services.cloud_catalog import CloudCatalogAsyncClient
from google.cloud.billing_v1.services.cloud_catalog.transports import CloudCatalogGrpcAsyncIOTransport
from google.cloud.billing_v1.types import Sku

from tests.wire.observe import state_dir
from tui.backends.vertex.prices import COMPUTE, VERTEX, sku_of
from tui.domain.vertex.prices import Range, built_in, from_skus, newest, to_json
from tui.emulator.rpc.methods import grpc_handlers
from tui.emulator.services import billing
from tui.store.jobs.costs import FILE, keep_prices, read_prices


async def skus(page_size: int) -> list[Sku]:
    with state_dir() as state:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(grpc_handlers(billing.methods()))
        server.add_insecure_port(state.target)
        await server.start()
        channel = grpc.aio.insecure_channel(state.target)
        client = CloudCatalogAsyncClient(transport=CloudCatalogGrpcAsyncIOTransport(channel=channel))
        try:
            names = [s.service_id async for s in await client.list_services(request={})]
            assert {VERTEX, COMPUTE} <= set(names)
            with pytest.raises(exceptions.InvalidArgument, match="parent"):
                await client.list_skus(request={"parent": VERTEX})
            found: list[Sku] = []
            for service in (VERTEX, COMPUTE):
                request = {"parent": f"services/{service}", "page_size": page_size}
                found += [sku async for sku in await client.list_skus(request=request, timeout=60)]
            return found
        finally:
            await channel.close()
            await server.stop(None)


@pytest.mark.parametrize("page_size", [7, 5000])
async def test_the_catalogue_comes_back_as_the_table_it_was_made_from(page_size: int) -> None:
    found = await skus(page_size)
    assert len({sku.sku_id for sku in found}) == len(found)
    assert all("emulator" in sku.service_provider_name for sku in found)
    prices = from_skus((one for sku in found for one in sku_of(Sku.pb(sku))), "2027-01-01", "x")
    table = built_in()
    for region, known in table.regions.items():
        for key, price in known.items():
            if key.startswith(("core:", "ram:", "gpu:")):
                read = prices.of(region, key)
                assert read is not None, key
                assert read.usd.high == pytest.approx(price.usd.high)
                spot = prices.of(region, f"spot:{key}")
                assert spot is not None
                share = spot.usd.high / price.usd.high
                assert table.spot.low < share < table.spot.high


async def test_fetched_prices_are_kept_used_when_newer_and_a_damaged_file_is_said(tmp_path: Path) -> None:
    assert read_prices(tmp_path) == (built_in(), "")
    found = await skus(5000)
    prices = from_skus((one for sku in found for one in sku_of(Sku.pb(sku))), "2027-01-01", "x")
    keep_prices(tmp_path, prices)
    read, problem = read_prices(tmp_path)
    assert not problem
    assert to_json(read) == to_json(newest(prices))
    assert read.date == "2027-01-01"
    disk = read.of("us-central1", "disk:pd-ssd")
    assert disk is not None
    assert disk.usd == Range(0.0002678, 0.0002678)
    (tmp_path / FILE).write_text("{broken")
    table, problem = read_prices(tmp_path)
    assert table is built_in()
    assert FILE in problem
