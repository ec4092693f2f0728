"""REST's reading of paths, queries and bodies, against the client library's own transcoding."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from google.api_core import path_template
from google.cloud.aiplatform_v1.services.job_service.transports import rest_base
from google.cloud.aiplatform_v1.types import job_service
from google.cloud.monitoring_v3.types import metric_service
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.emulator.rpc.methods import Method, WireError
from tui.emulator.rpc.rest_json import read_request
from tui.emulator.rpc.rest_routes import Route, routes_of

SERVICE = "google.cloud.aiplatform.v1.JobService"
REQUESTS = {
    "CreateCustomJob": job_service.CreateCustomJobRequest,
    "GetCustomJob": job_service.GetCustomJobRequest,
    "ListCustomJobs": job_service.ListCustomJobsRequest,
    "CancelCustomJob": job_service.CancelCustomJobRequest,
    "DeleteCustomJob": job_service.DeleteCustomJobRequest,
    "CreateHyperparameterTuningJob": job_service.CreateHyperparameterTuningJobRequest,
    "ListHyperparameterTuningJobs": job_service.ListHyperparameterTuningJobsRequest,
}


async def _never(request: Any) -> Any:
    raise AssertionError(request)


def route(name: str) -> Route:
    request = REQUESTS[name].pb()
    (found,) = routes_of([Method(SERVICE, name, request, request, _never)])
    return found


@pytest.mark.parametrize("name", REQUESTS)
def test_paths_agree_with_the_client_library(name: str) -> None:
    # The generated transport is the only published form of these bindings in the package.
    (option,) = getattr(rest_base._BaseJobServiceRestTransport, f"_Base{name}")._get_http_options()
    ours = route(name)
    assert ours.http_method.lower() == option["method"] and ours.body == option.get("body", "")
    example = option["uri"].replace("{parent=", "").replace("{name=", "").replace("}", "").replace("*", "x-1")
    match = ours.path.fullmatch(example)
    assert match is not None
    filled = path_template.expand(option["uri"], **match.groupdict())
    assert filled == example
    assert not ours.path.fullmatch(f"{example}/more")


@given(
    size=st.integers(0, 1000), filter=st.text(max_size=30), token=st.text(max_size=10),
    mask=st.lists(st.sampled_from(["name", "display_name", "job_spec.scheduling"]), unique=True),
    camel=st.booleans(),
)  # fmt: skip
@settings(max_examples=150)
def test_a_query_means_what_was_sent(
    size: int, filter: str, token: str, mask: list[str], camel: bool
) -> None:
    sent = job_service.ListCustomJobsRequest.pb()(filter=filter, page_size=size, page_token=token)
    sent.read_mask.paths.extend(mask)
    plain = json_format.MessageToDict(sent, preserving_proto_field_name=not camel)
    query = parse_qsl(urlencode(plain), keep_blank_values=True)
    got = job_service.ListCustomJobsRequest.pb()()
    read_request(got, {}, query, "", b"")
    assert got.filter == filter and got.page_size == size and got.page_token == token
    assert list(got.read_mask.paths) == mask


def test_nested_and_repeated_parameters() -> None:
    request = metric_service.ListTimeSeriesRequest.pb()()
    query = [
        ("interval.endTime", "2026-01-01T00:00:00Z"), ("aggregation.groupByFields", "a"),
        ("aggregation.groupByFields", "b"), ("view", "1"), ("$alt", "json"), ("key", "k"),
    ]  # fmt: skip
    read_request(request, {"name": "projects/p"}, query, "", b"")
    assert list(request.aggregation.group_by_fields) == ["a", "b"] and request.view == 1
    assert request.interval.end_time.seconds == 1767225600 and request.name == "projects/p"


@given(
    content=st.binary(max_size=60)
    | st.dictionaries(st.text(), st.none() | st.text()).map(json.dumps).map(str.encode)
)
@settings(max_examples=150)
def test_any_body_is_read_or_refused(content: bytes) -> None:
    request = job_service.CreateCustomJobRequest.pb()()
    try:
        read_request(request, {}, [], "custom_job", content)
    except WireError as error:
        assert error.code == 3 and error.message
