"""No text of a user's becomes a part of another host's name: credentials go to Google's hosts alone."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.auth.credentials import Credentials

from tui.backends.interface import BackendError, ContextInfo, InvalidRequest
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.preflight.clients import CheckClients
from tui.backends.vertex.preflight.resources import NamedResources
from tui.backends.vertex.transport.channels import Clients
from tui.backends.vertex.transport.connect import CloudEndpoint, Service
from tui.config.settings import SettingsError
from tui.config.settings_file import read_settings

GOOGLE = re.compile(r"[a-z0-9-]+\.googleapis\.com")
MARKS = [
    "{0}#", "{0}/", "{0}?", "{0}\\", "user@{0}", "user@{0}#", "unix:/tmp/x", "unix:///tmp/x#", "ipv4:{0}#",
    "dns:///{0}#", "dns://{0}/", "//{0}/", "http://{0}/", "http://{0}#", "{0}%23", "{0}%2F", "{0}\x00",
    "{0}\n", "{0}\t#", "{0} ", " {0}", "us-central1.{0}#", "us-central1@{0}", "us-central1#{0}",
    "us-central1/../{0}", "us-central1\r\nhost: {0}", "..", ".", "-", "--", "", "évil", "us‐central1", "ｕs",
    "xn--{0}", "vsock:1:2", "unix-abstract:x", "xds:///x", "google-c2p:///x", "ipv6:[::1]:1", "[::1]:1#",
    "127.0.0.1", "localhost", "0", "0x7f000001", "2130706433", "a" * 300, "$(id)", "`id`", "{{0}}",
]  # fmt: skip
INFO = ContextInfo("test", "p", ("us-central1",), "googleapis.com")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Nobody may connect to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def injections(listener: socket.socket) -> list[str]:
    port = listener.getsockname()[1]
    local = (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", f"127.1:{port}", f"0:{port}")
    hosts = (*local, "evil.example.com", "evil.example:443", "169.254.169.254")
    found = [mark.replace("{0}", host) for mark in MARKS for host in hosts]
    return list(dict.fromkeys(found))


class Token(Credentials):  # type: ignore[misc]
    """Credentials that any server would be given."""

    def __init__(self) -> None:
        super().__init__()
        self.token = "secret"

    def refresh(self, _: Any) -> None:
        return None


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Targets of the channels that were opened with credentials; Google's own are not connected to."""
    targets: list[str] = []
    real = grpc.aio.secure_channel

    def secure_channel(target: str, *rest: Any, **named: Any) -> grpc.aio.Channel:
        targets.append(target)
        if GOOGLE.fullmatch(target):
            raise InvalidRequest("no network in a test")
        return real(target, *rest, **named)

    monkeypatch.setattr(grpc.aio, "secure_channel", secure_channel)
    return targets


def cloud_endpoint(tmp_path: Path) -> CloudEndpoint:
    endpoint = CloudEndpoint()
    endpoint.credentials, endpoint.budgets = Token(), tmp_path / "budgets"
    return endpoint


def foreign(targets: list[str]) -> set[str]:
    return {target for target in targets if not GOOGLE.fullmatch(target)}


def nobody_connected(listener: socket.socket) -> bool:
    try:
        listener.accept()
    except BlockingIOError:
        return True
    return False


def test_there_are_enough_strings(listener: socket.socket) -> None:
    assert len(injections(listener)) >= 200


async def test_a_region_in_a_name_opens_no_foreign_host(
    listener: socket.socket, opened: list[str], tmp_path: Path
) -> None:
    async with aclosing(VertexBackend(INFO, cloud_endpoint(tmp_path))) as backend:
        await backend.connect()
        for text in injections(listener):
            for name in (
                f"projects/p/locations/{text}/customJobs/1",
                f"projects/p/locations/{text}/trainingPipelines/1",
                f"projects/p/locations/us/{text}/customJobs/1",
                f"projects/{text}/locations/us-central1/customJobs/1",
                f"projects/p/locations/us-central1/customJobs/{text}",
            ):  # fmt: skip
                with pytest.raises(BackendError):
                    async with asyncio.timeout(10):
                        await backend.job_service(name).get(name)
    assert foreign(opened) == set()
    assert nobody_connected(listener)


async def test_a_tensorboard_opens_no_foreign_host(
    listener: socket.socket, opened: list[str], tmp_path: Path
) -> None:
    parts = NamedResources(INFO, CheckClients(Clients(cloud_endpoint(tmp_path))))
    for text in injections(listener):
        try:
            checks = await parts.board(f"projects/p/locations/{text}/tensorboards/1", "us-central1")
        except InvalidRequest:
            assert opened, "its host would be Google's"
        else:
            assert checks[0].fix
    assert foreign(opened) == set()
    assert nobody_connected(listener)


def test_the_address_itself_refuses_what_is_no_region(listener: socket.socket) -> None:
    endpoint = CloudEndpoint()
    for text in injections(listener):
        try:
            target = endpoint.target(Service.JOBS, text)
        except InvalidRequest as error:
            assert repr(text) in error.message and error.fix
        else:
            assert GOOGLE.fullmatch(target), target


def test_a_context_has_no_foreign_host(listener: socket.socket, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    for text in injections(listener):
        for field in ("project", "regions"):
            value = text if field == "project" else [text]
            values = {"project": "p", "regions": ["us-central1"], field: value}
            environment = {"contexts": json.dumps([{"name": "c", **values}])}
            try:
                context = read_settings(file, environment).contexts[0]
            except SettingsError as error:
                assert "VXTUI_CONTEXTS" in str(error) and "\n" not in str(error)
            else:
                assert GOOGLE.fullmatch(CloudEndpoint().target(Service.JOBS, context.regions[0]))
                assert re.fullmatch(r"[A-Za-z0-9.:_-]+", context.project)
