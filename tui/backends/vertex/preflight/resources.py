"""Checks the resources that a job names: persistent resource, TensorBoard, network."""

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
    """Looks the named resources up in their services."""

    def __init__(self, info: ContextInfo, clients: CheckClients) -> None:
        self._info = info
        self._clients = clients

    async def resource(self, job: Mapping[str, Any], region: str) -> Sequence[Check]:
        """Check that the persistent resource runs and has the job's machines (docs/facts/vertex.md 12.2)."""
        id = str(within(job, "jobSpec", "persistentResourceId"))
        name = f"projects/{self._info.project}/locations/{region}/persistentResources/{id}"
        try:
            pb = await self._clients.read(
                f"read the persistent resource {id}",
                lambda: self._clients.clients.resources(region).get_persistent_resource,
                name=name,
            )
        except NotFound:
            sentence = f"the persistent resource {id} does not exist in {region}"
            fix = "Leave persistentResourceId out to run on the job's own machines."
            return [Check("resource", CheckStatus.PROBLEM, sentence, fix)]
        if pb.state != _State.RUNNING:
            state = _State(pb.state).name
            sentence = f"the persistent resource {id} must be RUNNING (it is {state})"
            return [Check("resource", CheckStatus.PROBLEM, sentence, "Wait for the resource, or reboot it.")]
        pools = [resource_pool(pool) for pool in pb.resource_pools]
        why = unfit(job, pools)
        if why:
            fix = f"Each pool must have the same machine and disk as a resource pool ({_MATCH})."
            return [Check("resource", CheckStatus.PROBLEM, f"{id} has {why}", fix)]
        if unfit(job, [pool.unused() for pool in pools]):
            used = sum(pool.used for pool in pools)
            return [ok("resource", f"{id} has the machines, but {used} are in use: the job waits for them")]
        return [ok("resource", f"{id} runs and has the machines")]

    async def board(self, name: str, region: str) -> Sequence[Check]:
        """Check that the TensorBoard exists and is in the job's region."""
        match = _BOARD.fullmatch(name)
        if match is None:
            fix = "Write projects/P/locations/L/tensorboards/ID."
            return [
                Check("board", CheckStatus.PROBLEM, f"{name} must be the resource name of a TensorBoard", fix)
            ]
        place = match[2]
        try:
            await self._clients.read(
                f"read the TensorBoard {match[3]}",
                lambda: self._clients.boards(place).get_tensorboard,
                name=name,
            )
        except NotFound:
            fix = "Create a TensorBoard with `gcloud ai tensorboards create`, or leave the field out."
            return [Check("board", CheckStatus.PROBLEM, f"the TensorBoard {name} does not exist", fix)]
        if place != region:
            sentence = f"the TensorBoard {match[3]} is in {place}, but the job runs in {region}"
            return [Check("board", CheckStatus.PROBLEM, sentence, f"Use a TensorBoard in {region}.")]
        return [ok("board", f"the TensorBoard {match[3]} exists")]

    async def network(self, spec: Mapping[str, Any]) -> Sequence[Check]:
        """Name the command that looks the network up. The check itself does not query Compute Engine."""
        network = _NETWORK.fullmatch(str(spec.get("network") or ""))
        attached = str(within(spec, "pscInterfaceConfig", "networkAttachment") or "")
        attachment = _ATTACHMENT.fullmatch(attached)
        why = "is not checked: vxtui does not query Compute Engine"
        if network:
            command = f"gcloud compute networks describe {network[2]} --project={network[1]}"
            return [unknown("network", f"the network {network[2]} {why}", f"Run `{command}`.")]
        if attachment:
            command = f"gcloud compute network-attachments describe {attachment[3]} --region={attachment[2]}"
            return [unknown("network", f"the attachment {attachment[3]} {why}", f"Run `{command}`.")]
        return [unknown("network", f"{spec.get('network') or attached} {why}")]
