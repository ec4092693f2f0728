"""Operations on endpoints: deploy and undeploy versions, split the traffic, and roll back a split."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from tui.actions.operations.runner import OperationError, OperationRunner, Outcome
from tui.backends.interface import Backend, BackendError, FailedPrecondition
from tui.backends.serving import Deployment
from tui.domain.core.text import plain
from tui.domain.serving.rollout import (
    called,
    percents_of,
    shares,
    split_before,
    split_with,
    split_with_new,
)
from tui.domain.serving.traffic import Deployed, ServingEndpoint, SplitError
from tui.domain.vertex.catalog import built_in_accelerator
from tui.store.split_history import SplitHistory

Act = Callable[[], Awaitable[ServingEndpoint]]


class EndpointOperations:
    """Operations on endpoints through one open backend."""

    def __init__(self, runner: OperationRunner, backend: Backend) -> None:
        self._runner = runner
        self._backend = backend
        self._history = SplitHistory(runner.journal.path.parent)

    async def split(self, endpoint: ServingEndpoint, percents: Mapping[str, int]) -> Outcome[ServingEndpoint]:
        """Send a percentage of the requests to each deployed model, by its id."""

        async def split() -> ServingEndpoint:
            now = await self._as_shown(endpoint)
            changed = await self._backend.serving.split(endpoint.name, percents, now.etag)
            await self._remember(now, changed)
            return changed

        return await self._run("endpoint.split", endpoint, split)

    async def deploy(
        self, endpoint: ServingEndpoint, version: str, machine: str, percent: int
    ) -> Outcome[ServingEndpoint]:
        """Deploy a version, MODEL@VERSION, on one machine; it gets `percent` of the requests.

        The operation takes minutes, and ends when the model answers. If the endpoint has other models, the
        version is deployed without requests and gets its share afterwards. A split sent with the deployment
        would undo any change of the split in the meantime, including a rollback.
        """

        async def deploy() -> ServingEndpoint:
            before = await self._backend.serving.endpoint(endpoint.name)
            try:
                percents = split_with_new(before.deployed, percent)
            except SplitError as error:
                raise OperationError(str(error)) from error
            new = str(10**9 + secrets.randbelow(9 * 10**9))
            first = {} if before.deployed else percents
            deployment = Deployment(version, machine, first, new, built_in_accelerator(machine))
            try:
                changed = await self._backend.serving.deploy(endpoint.name, deployment)
            except FailedPrecondition as error:
                error.fix = f"`L`, or `vxtui endpoints {endpoint.id} --logs`, shows the log of its server."
                raise
            return await self._give_share(changed, new, percent) if before.deployed and percent else changed

        return await self._run("endpoint.deploy", endpoint, deploy)

    async def _give_share(self, endpoint: ServingEndpoint, new: str, percent: int) -> ServingEndpoint:
        """Send requests to a model that was deployed without requests. Raises OperationError."""
        try:
            percents = split_with(endpoint.deployed, new, percent)
            changed = await self._backend.serving.split(endpoint.name, percents, endpoint.etag)
        except (SplitError, BackendError) as error:
            raise OperationError(
                f"The model is deployed and costs money, but gets no requests: {error}",
                fix="Send requests to the model, or undeploy it.",
                code="FAILED_PRECONDITION",
                exit_code=1,
            ) from error
        await self._remember(endpoint, changed)
        return changed

    async def _as_shown(self, endpoint: ServingEndpoint) -> ServingEndpoint:
        """Read the endpoint again. Raises OperationError if its split differs from the displayed split."""
        now = await self._backend.serving.endpoint(endpoint.name)
        if shares(percents_of(now)) == shares(percents_of(endpoint)):
            return now
        name = plain(endpoint.display_name)
        raise OperationError(
            f"The split of {name} was changed elsewhere meanwhile. Now: {_shares(now)}.",
            fix="Nothing was changed. Check the split, then set it again.",
            code="ABORTED",
            exit_code=1,
        )

    async def undeploy(self, endpoint: ServingEndpoint, gone: Deployed) -> Outcome[ServingEndpoint]:
        """Undeploy a version, which must have no requests unless it is the only version."""

        async def undeploy() -> ServingEndpoint:
            now = await self._backend.serving.endpoint(endpoint.name)
            share = percents_of(now).get(gone.id, 0)
            if share and len(now.deployed) > 1:
                raise OperationError(
                    f"Version {gone.version} gets {share} % of the requests.",
                    fix="Send the requests to another version first.",
                    code="FAILED_PRECONDITION",
                    exit_code=1,
                )
            return await self._backend.serving.undeploy(endpoint.name, gone.id)

        return await self._run("endpoint.undeploy", endpoint, undeploy)

    async def before(self, endpoint: ServingEndpoint) -> dict[str, int]:
        """Return the split before the last change, for the models that are deployed now. Raises
        OperationError if no change is known, or the split was changed elsewhere since."""
        changes = await asyncio.to_thread(self._history.changes, endpoint.name)
        if not changes:
            raise OperationError(
                f"No earlier split of {endpoint.display_name} is known here: vxtui has changed none, "
                "or every change was rolled back.",
                fix="Set the split explicitly.",
                code="FAILED_PRECONDITION",
                exit_code=1,
            )
        before, after = changes[-1]
        if shares(percents_of(endpoint)) != shares(after):
            raise OperationError(
                f"The split of {endpoint.display_name} was changed elsewhere since vxtui changed it.",
                fix="Set the split explicitly.",
                code="FAILED_PRECONDITION",
                exit_code=1,
            )
        try:
            return split_before(endpoint, before)
        except SplitError as error:
            raise OperationError(str(error), code="FAILED_PRECONDITION", exit_code=1) from error

    async def roll_back(self, endpoint: ServingEndpoint) -> Outcome[ServingEndpoint]:
        """Restore the split before the last change; another call restores the split before that."""

        async def roll_back() -> ServingEndpoint:
            now = await self._backend.serving.endpoint(endpoint.name)
            changed = await self._backend.serving.split(endpoint.name, await self.before(now), now.etag)
            with suppress(OSError):
                await asyncio.to_thread(self._history.drop_last, endpoint.name)
            return changed

        return await self._run("endpoint.roll_back", endpoint, roll_back)

    async def _remember(self, before: ServingEndpoint, after: ServingEndpoint) -> None:
        """Save the split before a change. A write error does not stop the change."""
        old, new = percents_of(before), percents_of(after)
        if not shares(old) or shares(old) == shares(new):
            return
        try:
            await asyncio.to_thread(self._history.add, before.name, old, new)
        except OSError as problem:
            self._runner.journal.add(
                "error", f"The split before this change can't be saved: {problem.strerror}", before.name
            )

    async def _run(self, operation_id: str, endpoint: ServingEndpoint, act: Act) -> Outcome[ServingEndpoint]:
        return await self._runner.run(
            operation_id,
            endpoint.name,
            act,
            _shares_text,
            region=endpoint.region,
            context=endpoint.context,
        )


def _shares_text(endpoint: ServingEndpoint) -> str:
    return f"{plain(endpoint.display_name)}: {_shares(endpoint)}"


def _shares(endpoint: ServingEndpoint) -> str:
    shares = ", ".join(
        f"{deployed.percent} % to {called(deployed, endpoint.deployed)}" for deployed in endpoint.deployed
    )
    return shares or "nothing is deployed"
