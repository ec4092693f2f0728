"""google.cloud.location.Locations: the regions that can run training jobs."""

from __future__ import annotations

import re

from google.cloud.location import locations_pb2

from tui.emulator.rpc.methods import Method, invalid, methods_of, not_found
from tui.emulator.rpc.paging import page_at, page_size, query_digest
from tui.emulator.vertex.job_catalog import JobCatalog

SERVICE = "google.cloud.location.Locations"
_PROJECT = re.compile(r"projects/([^/]+)")
_NAME = re.compile(r"projects/([^/]+)/locations/([^/]+)")


class Locations:
    """Serves the known regions and the regions in which a project has jobs."""

    def __init__(self, catalog: JobCatalog) -> None:
        self._catalog = catalog

    def methods(self) -> list[Method]:
        list_, get = ("ListLocations", self.list), ("GetLocation", self.get, locations_pb2.Location)
        return methods_of(SERVICE, locations_pb2, list_, get)

    async def list(self, request: locations_pb2.ListLocationsRequest) -> locations_pb2.ListLocationsResponse:
        match = _PROJECT.fullmatch(request.name)
        if match is None:
            raise invalid(("name", f"{request.name!r} must have the form projects/P"))
        if request.filter:
            raise invalid(("filter", "must be empty: the emulator does not filter locations"))
        digest = query_digest("locations", request.name)
        regions = self._catalog.regions(match[1])
        page, token = page_at(regions, request.page_token, page_size(request.page_size), digest)
        return locations_pb2.ListLocationsResponse(
            locations=[_location(match[1], region) for region in page], next_page_token=token
        )

    async def get(self, request: locations_pb2.GetLocationRequest) -> locations_pb2.Location:
        match = _NAME.fullmatch(request.name)
        if match is None or match[2] not in self._catalog.regions(match[1]):
            raise not_found("cloud.googleapis.com/Location", request.name)
        return _location(match[1], match[2])


def _location(project: str, region: str) -> locations_pb2.Location:
    return locations_pb2.Location(
        name=f"projects/{project}/locations/{region}",
        location_id=region,
        display_name=region,
        labels={"cloud.googleapis.com/region": region},
    )
