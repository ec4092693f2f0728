"""REST paths of the methods that the emulator serves: those that Google's own clients call."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials

from tests.wire.control import state_dir
from tui.emulator.config import EmulatorConfig
from tui.emulator.rpc.methods import Method
from tui.emulator.rpc.rest_routes import FIELD_SEPARATOR, routes_of
from tui.emulator.server import Emulator

_PREFIX = "google.cloud.aiplatform.v1."


async def methods() -> list[Method]:
    return [method for method in await all_methods() if method.service.startswith(_PREFIX)]


async def all_methods() -> list[Method]:
    with state_dir() as state:
        async with Emulator(state, EmulatorConfig.model_validate({})) as running:
            return list(running.methods)


def official(service: str, method: str) -> tuple[str, str, str]:
    """HTTP method, path and body of the client's first binding."""
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", service).lower()
    module: Any = importlib.import_module(f"google.cloud.aiplatform_v1.services.{snake}.transports.rest_base")
    binding = getattr(getattr(module, f"_Base{service}RestTransport"), f"_Base{method}")._get_http_options()
    return binding[0]["method"].upper(), binding[0]["uri"], binding[0].get("body", "")


def path_of(template: str) -> str:
    """A path that fits a template."""
    return re.sub(r"\{[\w.]+=([^}]*)\}", lambda match: match[1].replace("*", "x1"), template)


# Seconds: the transports of four services are imported.
async def test_each_method_has_the_path_of_the_client() -> None:
    served = await methods()
    routes = routes_of(served)
    assert len({method.service for method in served}) >= 5
    for method in served:
        verb, template, body = official(method.service.rpartition(".")[2], method.name)
        path = path_of(template)
        found = next(route for route in routes if route.http_method == verb and route.path.fullmatch(path))
        assert found.method is method and (found.body or "") == body, (method.name, path, found.method.name)
        match = found.path.fullmatch(path)
        assert match is not None
        named = re.findall(r"\{([\w.]+)=", template)
        assert [name.replace(FIELD_SEPARATOR, ".") for name in match.groupdict()] == named


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_both_versions_have_the_same_paths(version: str) -> None:
    routes = routes_of(await methods())
    path = f"/{version}/projects/p/locations/l/metadataStores/s/contexts/c:addContextChildren"
    found = [
        route.method.name for route in routes if route.http_method == "POST" and route.path.fullmatch(path)
    ]
    assert found[0] == "AddContextChildren"


@pytest.mark.parametrize("kind", ["endpoint", "model"])
async def test_the_paths_by_which_clients_ask_for_an_operation_are_served(kind: str) -> None:
    transport = importlib.import_module(f"google.cloud.aiplatform_v1.services.{kind}_service.transports.rest")
    client = getattr(transport, f"{kind.title()}ServiceRestTransport")(credentials=AnonymousCredentials())
    bindings: dict[str, Any] = client.operations_client.transport._http_options
    routes = routes_of(await all_methods())
    begun = 0
    for selector, rules in bindings.items():
        method = selector.rpartition(".")[2]
        for rule in rules:
            if f"/{kind}s/*/operations/*" not in rule["uri"]:
                continue
            begun += 1
            path = path_of(rule["uri"])
            verb = rule["method"].upper()
            found = [route for route in routes if route.http_method == verb and route.path.fullmatch(path)]
            assert found and found[0].method.name == method, (verb, path)
    assert begun >= 8, "each of the four methods below /ui/ and /v1/"
