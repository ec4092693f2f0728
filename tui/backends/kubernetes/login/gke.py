"""A cluster of Google Kubernetes Engine. The login uses Google's application-default credentials.

kubectl and its plugin are not needed: the container API returns the address and certificate authority, and
`gke_token` replaces the plugin.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from tui.backends.errors import (
    BackendError,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    Unavailable,
    unexpected_reply,
)
from tui.backends.kubernetes.fields import mapping
from tui.backends.kubernetes.login.cluster import Cluster, Login, log_in_with
from tui.backends.reply_limit import limited
from tui.backends.vertex.transport.connect import SCOPE, google_login
from tui.domain.core.resource_name import GKE_CLUSTER
from tui.domain.document.decoding import decode_json

API = "https://container.googleapis.com"
SECONDS = 15.0
Fetch = Callable[[str], tuple[int, Mapping[str, Any]]]
"""A function that sends a GET with Google's credentials and returns the status and the JSON."""


class GkeCluster(Cluster):
    """The cluster with this resource name: projects/P/locations/L/clusters/C."""

    def __init__(self, resource: str, fetch: Fetch | None = None) -> None:
        self._resource = resource
        self._fetch = fetch or _fetch

    async def log_in(self) -> Login:
        match = GKE_CLUSTER.fullmatch(self._resource)
        if match is None:
            raise InvalidRequest(
                f"{self._resource!r} must be the resource name of a GKE cluster.",
                fix="Write gke: projects/PROJECT/locations/LOCATION/clusters/CLUSTER.",
            )
        path = f"projects/{match['project']}/locations/{match['location']}/clusters/{match['cluster']}"
        status, reply = await google_login(lambda: self._fetch(f"{API}/v1/{path}"))
        if status >= 400:
            raise _refused(status, reply, path)
        name = f"gke_{match['project']}_{match['location']}_{match['cluster']}"
        return await log_in_with(kubeconfig(name, reply))


def kubeconfig(name: str, cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return a kubeconfig for a cluster of the container API. Raises Unavailable while it has no address."""
    dns = mapping(mapping(cluster.get("controlPlaneEndpointsConfig")).get("dnsEndpointConfig"))
    authority = mapping(cluster.get("masterAuth")).get("clusterCaCertificate")
    if dns.get("endpoint") and dns.get("allowExternalTraffic"):
        # This endpoint is reachable from anywhere and has a certificate of a public authority.
        place: dict[str, Any] = {"server": f"https://{dns['endpoint']}"}
    elif cluster.get("endpoint") and authority:
        place = {"server": f"https://{cluster['endpoint']}", "certificate-authority-data": authority}
    else:
        state = cluster.get("status") or "unknown"
        raise Unavailable(f"The cluster {name} has no address (its state is {state}).")
    try:
        host = urlsplit(place["server"]).hostname
    except ValueError:
        host = None
    if not host:
        raise Unavailable(f"The cluster {name} has an address that can't be read: {place['server']}.")
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
        "command": sys.executable, "args": ["-m", "tui.backends.kubernetes.login.gke_token"],
    }  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{"name": name, "cluster": place}],
        "users": [{"name": name, "user": {"exec": plugin}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }  # fmt: skip


def _fetch(url: str) -> tuple[int, Mapping[str, Any]]:
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    credentials, _ = google.auth.default(scopes=[SCOPE])
    with limited(AuthorizedSession(credentials)) as session:
        reply = session.get(url, timeout=SECONDS)
        try:
            answer = decode_json(reply.content)
        except ValueError:
            answer = None
    if isinstance(answer, dict):
        return reply.status_code, answer
    if reply.ok:
        raise unexpected_reply("find the cluster", "a JSON object", reply.content)
    return reply.status_code, {"error": {"message": reply.text[:200]}}


def _refused(status: int, reply: Mapping[str, Any], path: str) -> BackendError:
    reason = str(mapping(reply.get("error")).get("message") or f"the container API answered {status}")
    message = f"Can't find the cluster {path}: {reason}"
    if status == 404:
        return NotFound(message, fix="`gcloud container clusters list` lists the clusters.")
    if status == 403:
        fix = "Ask for the permission container.clusters.get (roles/container.viewer)."
        return PermissionDenied(message, fix=fix)
    return Unavailable(message, fix="`vxtui doctor` shows which services can be reached.")
