"""Change endpoints: deploy and undeploy versions, split the traffic, and take the last split back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from tui.actions.operations.runner import OperationError, OperationRunner, Outcome
from tui.backends.interface import Backend
from tui.backends.serving import Deployment
from tui.domain.serving.rollout import (
    called,
    percents_of,
    shares,
    split_before,
    split_with_new,
)
from tui.domain.serving.traffic import Deployed, ServingEndpoint, SplitError
from tui.domain.text import plain
from tui.domain.vertex.catalog import built_in_accelerator
from tui.store.split_history import SplitHistory

Act = Callable[[], Awaitable[ServingEndpoint]]


class EndpointOperations:
    """What changes endpoints, through one open backend."""

    def __init__(self, runner: OperationRunner, backend: Backend) -> None:
        self._runner = runner
        self._backend = backend
        self._history = SplitHistory(runner.journal.path.parent)

    async def split(self, endpoint: ServingEndpoint, percents: Mapping[str, int]) -> Outcome[ServingEndpoint]:
        """Send that percent of the requests to each deployed model, by its id."""

        async def split() -> ServingEndpoint:
            made = await self._backend.serving.split(endpoint.name, percents)
            await self._remember(endpoint, made)
            return made

        return await self._run("endpoint.split", endpoint, split)

    async def deploy(
        self, endpoint: ServingEndpoint, version: str, machine: str, percent: int
    ) -> Outcome[ServingEndpoint]:
        """Deploy a version, MODEL@VERSION, on one machine; it gets `percent` of the requests.

        It takes minutes, and ends when the model answers.
        """

        async def deploy() -> ServingEndpoint:
            before = await self._backend.serving.endpoint(endpoint.name)
            try:
                percents = split_with_new(before.deployed, percent)
            except SplitError as error:
                raise OperationError(str(error)) from error
            made = await self._backend.serving.deploy(
                endpoint.name, Deployment(version, machine, percents, built_in_accelerator(machine))
            )
            await self._remember(before, made)
            return made

        return await self._run("endpoint.deploy", endpoint, deploy)

    async def undeploy(self, endpoint: ServingEndpoint, gone: Deployed) -> Outcome[ServingEndpoint]:
        """Take a version off the endpoint. It may have no requests, unless it is the only one."""

        async def undeploy() -> ServingEndpoint:
            now = await self._backend.serving.endpoint(endpoint.name)
            share = percents_of(now).get(gone.id, 0)
            if share and len(now.deployed) > 1:
                raise OperationError(
                    f"Version {gone.version} gets {share} % of the requests.",
                    fix="Send them to another version first.",
                    code="FAILED_PRECONDITION",
                    exit_code=1,
                )
            return await self._backend.serving.undeploy(endpoint.name, gone.id)

        return await self._run("endpoint.undeploy", endpoint, undeploy)

    async def before(self, endpoint: ServingEndpoint) -> dict[str, int]:
        """The split before the last change, for what is deployed now.

        Raises:
            OperationError: where no change is known, or the split was changed elsewhere since.
        """
        changes = await asyncio.to_thread(self._history.changes, endpoint.name)
        if not changes:
            raise OperationError(
                f"No earlier split of {endpoint.display_name} is known here: vxtui has changed none.",
                fix="Set the split itself.",
                code="FAILED_PRECONDITION",
                exit_code=1,
            )
        before, after = changes[-1]
        if shares(percents_of(endpoint)) != shares(after):
            raise OperationError(
                f"The split of {endpoint.display_name} was changed elsewhere since vxtui changed it.",
                fix="Set the split itself.",
                code="FAILED_PRECONDITION",
                exit_code=1,
            )
        try:
            return split_before(endpoint, before)
        except SplitError as error:
            raise OperationError(str(error), code="FAILED_PRECONDITION", exit_code=1) from error

    async def roll_back(self, endpoint: ServingEndpoint) -> Outcome[ServingEndpoint]:
        """Go back to the split before the last change; once more goes back one change further."""

        async def roll_back() -> ServingEndpoint:
            now = await self._backend.serving.endpoint(endpoint.name)
            made = await self._backend.serving.split(endpoint.name, await self.before(now))
            with suppress(OSError):
                await asyncio.to_thread(self._history.drop_last, endpoint.name)
            return made

        return await self._run("endpoint.roll_back", endpoint, roll_back)

    async def _remember(self, before: ServingEndpoint, after: ServingEndpoint) -> None:
        """Keep the split before a change. The change itself is made, whatever the disk says."""
        old, new = percents_of(before), percents_of(after)
        if not shares(old) or shares(old) == shares(new):
            return
        try:
            await asyncio.to_thread(self._history.add, before.name, old, new)
        except OSError as problem:
            self._runner.journal.add(
                "error", f"The split before this change can't be kept: {problem.strerror}", before.name
            )

    async def _run(self, operation_id: str, endpoint: ServingEndpoint, act: Act) -> Outcome[ServingEndpoint]:
        return await self._runner.run(
            operation_id, endpoint.name, act, _said, region=endpoint.region, context=endpoint.context,
        )  # fmt: skip


def _said(made: ServingEndpoint) -> str:
    found = ", ".join(f"{each.percent} % to {called(each, made.deployed)}" for each in made.deployed)
    return f"{plain(made.display_name)}: {found or 'nothing is deployed'}"
