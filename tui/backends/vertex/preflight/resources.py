"""What a job names of Vertex AI and of Compute Engine: persistent resource, TensorBoard, network."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from google.cloud.aiplatform_v1.types import persistent_resource

from tui.backends.interface import ContextInfo, NotFound
from tui.backends.vertex.preflight.clients import CheckClients
from tui.backends.vertex.resources import resource_pool
from tui.domain.core.resource_name import name_pattern
from tui.domain.resources.persistent import unfit
from tui.domain.spec.custom_job_spec import within
from tui.domain.vertex.preflight import Check, CheckStatus, ok, unknown
from tui.domain.vertex.sources import TRAINING

_BOARD = name_pattern("tensorboards")
_NETWORK = re.compile(r"projects/([^/]+)/global/networks/([^/]+)")
_ATTACHMENT = re.compile(r"projects/([^/]+)/regions/([^/]+)/networkAttachments/([^/]+)")
_MATCH = f"{TRAINING}/persistent-resource-train"
_State = persistent_resource.PersistentResource.State


class NamedResources:
    """Asks the services that have them."""

    def __init__(self, info: ContextInfo, clients: CheckClients) -> None:
        self._info = info
        self._clients = clients

    async def resource(self, job: Mapping[str, Any], region: str) -> Sequence[Check]:
        """The persistent resource is there, runs, and has the job's machines (docs/facts/vertex.md 12.2)."""
        id = str(within(job, "jobSpec", "persistentResourceId"))
        name = f"projects/{self._info.project}/locations/{region}/persistentResources/{id}"

        async def send(seconds: float) -> Any:
            client = self._clients.clients.resources(region)
            return await client.get_persistent_resource(name=name, retry=None, timeout=seconds)

        try:
            found = await self._call(f"read the persistent resource {id}", send)
        except NotFound:
            fix = "Leave persistentResourceId out to run on machines of the job's own."
            return [
                Check(
                    "resource", CheckStatus.PROBLEM, f"there is no persistent resource {id} in {region}", fix
                )
            ]
        if found.state != _State.RUNNING:
            state = _State(found.state).name
            sentence = f"the persistent resource {id} is {state}, not RUNNING"
            return [Check("resource", CheckStatus.PROBLEM, sentence, "Wait for it, or reboot it.")]
        pools = [resource_pool(pool) for pool in type(found).pb(found).resource_pools]
        why = unfit(job, pools)
        if why:
            fix = f"Machine and disk of each pool must be exactly a resource pool's ({_MATCH})."
            return [Check("resource", CheckStatus.PROBLEM, f"{id} has {why}", fix)]
        if unfit(job, [pool.unused() for pool in pools]):
            used = sum(pool.used for pool in pools)
            return [ok("resource", f"{id} has the machines, but {used} are in use: the job waits for them")]
        return [ok("resource", f"{id} runs and has the machines")]

    async def board(self, name: str, region: str) -> Sequence[Check]:
        """The TensorBoard is there and in the job's region."""
        match = _BOARD.fullmatch(name)
        if match is None:
            fix = "Write projects/P/locations/L/tensorboards/ID."
            return [Check("board", CheckStatus.PROBLEM, f"{name} is not the name of a TensorBoard", fix)]
        place = match[2]

        async def send(seconds: float) -> Any:
            return await self._clients.boards(place).get_tensorboard(name=name, retry=None, timeout=seconds)

        try:
            await self._call(f"read the TensorBoard {match[3]}", send)
        except NotFound:
            fix = "Create one with `gcloud ai tensorboards create`, or leave the field out."
            return [Check("board", CheckStatus.PROBLEM, f"there is no TensorBoard {name}", fix)]
        if place != region:
            sentence = f"the TensorBoard {match[3]} is in {place}, the job in {region}"
            return [Check("board", CheckStatus.PROBLEM, sentence, f"Name one in {region}.")]
        return [ok("board", f"the TensorBoard {match[3]} is there")]

    async def network(self, spec: Mapping[str, Any]) -> Sequence[Check]:
        """Compute Engine is not asked: the check names the command that does."""
        network = _NETWORK.fullmatch(str(spec.get("network") or ""))
        attached = str(within(spec, "pscInterfaceConfig", "networkAttachment") or "")
        attachment = _ATTACHMENT.fullmatch(attached)
        why = "is not looked up: Compute Engine isn't asked from here"
        if network:
            command = f"gcloud compute networks describe {network[2]} --project={network[1]}"
            return [unknown("network", f"the network {network[2]} {why}", f"Run `{command}`.")]
        if attachment:
            command = f"gcloud compute network-attachments describe {attachment[3]} --region={attachment[2]}"
            return [unknown("network", f"the attachment {attachment[3]} {why}", f"Run `{command}`.")]
        return [unknown("network", f"{spec.get('network') or attached} {why}")]

    async def _call(self, what: str, send: Any) -> Any:
        return await self._clients.clients.caller.read(what, send, patience=2.0)
