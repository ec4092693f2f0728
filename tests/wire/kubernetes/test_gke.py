"""GKE without kubectl: address and authority from the container API, the token from a module of ours."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.wire.kubernetes.told_server import serving
from tui.backends.errors import InvalidRequest, NotFound, PermissionDenied, Unavailable
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.login import gke
from tui.backends.kubernetes.login.gke import GkeCluster, kubeconfig
from tui.backends.kubernetes.login.gke_token import credential

NAME = "projects/p-1/locations/us-central1/clusters/prod"


def answers(status: int, reply: dict[str, Any], asked: list[str] | None = None) -> gke.Fetch:
    def fetch(url: str) -> tuple[int, dict[str, Any]]:
        if asked is not None:
            asked.append(url)
        return status, reply

    return fetch


async def test_a_token_of_the_plugin_reaches_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin is our module, run with credentials of a file; here a stand-in prints its answer."""
    plugin = tmp_path / "plugin.py"
    found = credential(SimpleNamespace(token="t-1", expiry=datetime(2026, 11, 25, 19)))
    plugin.write_text(f"import json\nprint(json.dumps({found!r}))\n")
    seen: list[str] = []

    async def answer(request: Request) -> Response:
        seen.append(request.headers["authorization"])
        return JSONResponse({"gitVersion": "v1.34.1-gke.1"})

    asked: list[str] = []
    async with serving(answer) as server:
        made = kubeconfig(
            "gke_p-1_us-central1_prod",
            {"endpoint": "1.2.3.4", "masterAuth": {"clusterCaCertificate": "QQ=="}},
        )
        made["clusters"][0]["cluster"] = {"server": server}
        made["users"][0]["user"]["exec"] |= {"command": sys.executable, "args": [str(plugin)]}
        monkeypatch.setattr(gke, "kubeconfig", lambda name, cluster: made)
        connection = ClusterConnection(GkeCluster(NAME, answers(200, {}, asked)))
        await connection.open()
        version = await connection.request("GET", "/version", action="read the cluster's version")
        await connection.aclose()
    assert asked == [f"https://container.googleapis.com/v1/{NAME}"] and seen == ["Bearer t-1"]
    assert version == {"gitVersion": "v1.34.1-gke.1"}
    assert connection.login.cluster == "gke_p-1_us-central1_prod"


def test_the_kubeconfig_that_is_made() -> None:
    authority = {"masterAuth": {"clusterCaCertificate": "QQ=="}}
    made = kubeconfig("c", {"endpoint": "10.0.0.2", **authority})
    assert made["clusters"][0]["cluster"] == {
        "server": "https://10.0.0.2", "certificate-authority-data": "QQ==",
    }  # fmt: skip
    plugin = made["users"][0]["user"]["exec"]
    assert (plugin["command"], plugin["args"][1]) == (
        sys.executable,
        "tui.backends.kubernetes.login.gke_token",
    )
    dns = {"dnsEndpointConfig": {"endpoint": "gke-1.us-central1.gke.goog", "allowExternalTraffic": True}}
    made = kubeconfig("c", {"endpoint": "10.0.0.2", "controlPlaneEndpointsConfig": dns, **authority})
    assert made["clusters"][0]["cluster"] == {"server": "https://gke-1.us-central1.gke.goog"}
    with pytest.raises(Unavailable, match="its state is PROVISIONING"):
        kubeconfig("c", {"status": "PROVISIONING"})


@pytest.mark.parametrize(
    ("cluster", "kind", "words"),
    [
        (GkeCluster("prod", answers(200, {})), InvalidRequest, "must be the resource name of a GKE cluster"),
        (GkeCluster(NAME, answers(404, {"error": {"message": "no such"}})), NotFound, "no such"),
        (GkeCluster(NAME, answers(403, {})), PermissionDenied, "answered 403"),
        (GkeCluster(NAME, answers(503, {})), Unavailable, "answered 503"),
    ],
)
async def test_what_is_wrong_with_a_cluster_is_said(
    cluster: GkeCluster, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        await cluster.log_in()
