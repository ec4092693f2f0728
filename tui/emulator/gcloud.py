"""The environment under which Google's gcloud talks to this emulator. Standard library only.

Properties of gcloud are set by CLOUDSDK_SECTION_PROPERTY; an endpoint by `api_endpoint_overrides`. Checked
with gcloud 578: https://docs.cloud.google.com/sdk/docs/properties
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tui.emulator.paths import StateDir

_REST_APIS = ("aiplatform", "logging", "monitoring", "cloudquotas")
"""Names of gcloud for the services that the emulator serves over REST by the paths that gcloud uses."""


def gcloud_environment(state: StateDir, info: Mapping[str, Any], project: str, region: str) -> dict[str, str]:
    """Variables for a shell. `info` is the running server's status, with its REST address.

    CLOUDSDK_CONFIG keeps gcloud from the user's accounts and settings. The storage endpoint has no secret in
    its path: gcloud drops a path for uploads, and the bucket server accepts the token.
    """
    buckets = urlsplit(info["buckets"])
    return {
        "CLOUDSDK_CONFIG": str(state.gcloud_config),
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(state.token),
        "CLOUDSDK_CORE_PROJECT": project,
        "CLOUDSDK_AI_REGION": region,
        **{_override(api): f"{info['rest']}/" for api in _REST_APIS},
        _override("storage"): f"{buckets.scheme}://{buckets.netloc}/storage/v1/",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        "CLOUDSDK_SURVEY_DISABLE_PROMPTS": "true",
    }


def _override(api: str) -> str:
    return f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}"
