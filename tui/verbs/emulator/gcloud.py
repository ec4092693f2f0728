"""`vxtui emulator gcloud`: the environment in which Google's gcloud uses the emulator.

CLOUDSDK_SECTION_PROPERTY sets a property of gcloud, `api_endpoint_overrides` sets an endpoint. Checked with
gcloud 578: https://docs.cloud.google.com/sdk/docs/properties
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import click

from tui.emulator.client import StateDir, default_state_dir, server_status
from tui.verbs.output import note, out, print_json
from tui.verbs.run import READS, Run, value_of, verb

_USE = 'Apply with: eval "$(vxtui emulator gcloud)"; undo with: eval "$(vxtui emulator gcloud --unset)"'
_NO_SERVER = {"rest": "", "buckets": ""}
_REST_APIS = ("aiplatform", "logging", "monitoring", "cloudquotas")
"""gcloud's names of the services that the emulator serves over REST by gcloud's paths."""


@click.command("gcloud")
@click.option("--unset", is_flag=True, help="Print the commands that unset the variables.")
@verb(READS)
async def gcloud(run: Run, unset: bool) -> None:
    """Print the environment that directs gcloud to the emulator, for the shell's eval.

    The verb starts the emulator and opens REST on a free port, if needed. gcloud gets a configuration
    directory of its own: your accounts and settings stay as they are.
    """
    state, context = default_state_dir(), run.emulator_context
    info = _NO_SERVER if unset else await _with_rest(run, state)
    environment = gcloud_environment(state, info, context.project, context.home_region)
    if run.json:
        print_json({"environment": environment})
        return
    for name, value in environment.items():
        out(f"unset {name}" if unset else f"export {name}={shlex.quote(value)}")
    if sys.stdout.isatty():
        note(_USE)


async def _with_rest(run: Run, state: StateDir) -> dict[str, object]:
    """Return the running emulator's status with its REST address. Raises the errors of `emulator start`."""
    info = await asyncio.to_thread(server_status, state)
    if info is None or not info["rest"]:
        info = value_of(await run.emulator_operations().start(rest="127.0.0.1:0"))
    return dict(info)


def gcloud_environment(state: StateDir, info: Mapping[str, Any], project: str, region: str) -> dict[str, str]:
    """Return variables for a shell. `info` is the running server's status, with its REST address.

    CLOUDSDK_CONFIG separates gcloud from the user's accounts and settings. The storage endpoint has no secret
    in its path: gcloud drops a path for uploads, and the bucket server accepts the token.
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
