"""Split the traffic of an endpoint."""

from __future__ import annotations

from collections.abc import Mapping

from tui.actions.operations.runner import OperationRunner, Outcome
from tui.backends.interface import Backend
from tui.domain.serving.traffic import ServingEndpoint
from tui.domain.text import plain


class EndpointOperations:
    """What changes endpoints, through one open backend."""

    def __init__(self, runner: OperationRunner, backend: Backend) -> None:
        self._runner = runner
        self._backend = backend

    async def split(self, endpoint: ServingEndpoint, percents: Mapping[str, int]) -> Outcome[ServingEndpoint]:
        """Send that percent of the requests to each deployed model, by its id."""

        def said(made: ServingEndpoint) -> str:
            shares = ", ".join(f"{each.percent} % to version {each.version}" for each in made.deployed)
            return f"{plain(made.display_name)}: {shares}"

        return await self._runner.run(
            "endpoint.split", endpoint.name, lambda: self._backend.serving.split(endpoint.name, percents),
            said, region=endpoint.region, context=endpoint.context,
        )  # fmt: skip
