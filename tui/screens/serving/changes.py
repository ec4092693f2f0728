"""Changes of endpoints: the questions, then the operation in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.notifications import SeverityLevel

from tui.actions.operations.runner import OperationError, Outcome
from tui.domain.core.formatting import NOT_MEASURED
from tui.domain.core.text import clip, plain
from tui.domain.serving.rollout import called, moves, split_with, split_with_new
from tui.domain.serving.traffic import Deployed, Model, ServingEndpoint, SplitError
from tui.domain.vertex import catalog
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.dialogs.pick import LONGEST, PickScreen, named_options, value_options
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.frame import FrameScreen
from tui.screens.polling import Polling
from tui.screens.serving.base import AT_ONCE
from tui.screens.workers import background
from tui.session import BackendError, Session

if TYPE_CHECKING:
    from tui.actions.operations.endpoints import EndpointOperations

FIRST_SHARE = 10
"""Percentage that the dialog proposes for a version beside other versions."""
Operation = Callable[["EndpointOperations"], Awaitable[Outcome[ServingEndpoint]]]


class EndpointChanges:
    """Asks for confirmation, then changes endpoints. A screen's keys call its methods."""

    def __init__(
        self,
        screen: FrameScreen,
        polling: Polling,
        show: Callable[[], None],
        changed: Callable[[ServingEndpoint], None] = lambda _endpoint: None,
    ) -> None:
        """Set the screen. `show` shows the list with the deployments in progress; `changed` shows a changed
        endpoint."""
        self._screen = screen
        self._polling = polling
        self._show = show
        self._changed = changed
        self.deploying: set[tuple[str, str, str]] = set()
        """Deployments in progress: endpoint, model's display name and version."""

    def _say(self, text: str, severity: SeverityLevel) -> None:
        self._screen.notify(text, severity=severity, markup=False)

    def move(self, endpoint: ServingEndpoint, deployed: Deployed, percent: int) -> None:
        """Send `percent` of the requests to a version and the remaining requests to the other versions, after
        confirmation."""
        try:
            percents = split_with(endpoint.deployed, deployed.id, percent)
        except SplitError as error:
            self._say(str(error), "warning")
            return
        question = f"Split the requests of {plain(endpoint.display_name)}: {moves(endpoint, percents)}?"
        self._confirmed(endpoint, question, lambda operations: operations.split(endpoint, percents))

    def ask_percent(self, endpoint: ServingEndpoint, deployed: Deployed | None) -> None:
        """Ask for the percentage, then split the traffic."""
        if deployed is None:
            return

        def answered(text: str | None) -> None:
            if text is not None:
                self.move(endpoint, deployed, int(text))

        which = called(deployed, endpoint.deployed)
        question = f"Percent of the requests of {plain(endpoint.display_name)} to {which}:"
        check = partial(_problem, lambda percent: split_with(endpoint.deployed, deployed.id, percent))
        self._screen.app.push_screen(PromptScreen(question, str(deployed.percent), check=check), answered)

    def roll_back(self, endpoint: ServingEndpoint) -> None:
        """Ask about restoring the earlier split, then restore it."""
        operations = self._screen.console.operations.endpoints()
        if operations is None:
            return

        async def ask() -> None:
            try:
                percents = await operations.before(endpoint)
            except OperationError as error:
                self._say(f"{error.message} {error.fix}", "warning")
                return
            question = f"Roll back {plain(endpoint.display_name)}: {moves(endpoint, percents)}?"
            self._confirmed(endpoint, question, lambda operations: operations.roll_back(endpoint))

        background(self._screen, ask, "roll back", exclusive=False)

    def undeploy(self, endpoint: ServingEndpoint, deployed: Deployed | None) -> None:
        """Remove a version from an endpoint after confirmation."""
        if deployed is None:
            return
        if deployed.percent and len(endpoint.deployed) > 1:
            self._say(
                f"Version {deployed.version} gets {deployed.percent} % of the requests. "
                "Send the requests to another version first.",
                "warning",
            )
            return
        last = [] if len(endpoint.deployed) > 1 else ["After that, no model answers the endpoint's requests."]
        name = plain(endpoint.display_name)
        question = f"Undeploy {plain(deployed.display_name)} version {plain(deployed.version)} from {name}?"
        self._confirmed(
            endpoint, question, lambda operations: operations.undeploy(endpoint, deployed), details=last
        )

    def deploy(self, endpoint: ServingEndpoint) -> None:
        """Ask for the version, the machine and the percentage; then deploy."""
        session = self._screen.session
        if session is None:
            return

        async def read() -> None:
            try:
                answer = await session.backend.serving.models()
                here = [model for model in answer.items if _beside(model, endpoint)]
                versions = [version for model in await _versions(session, here) for version in model]
            except BackendError as error:
                self._say(f"The models can't be read: {error.message}", "error")
                return
            if versions:
                self._pick_version(endpoint, versions)
            else:
                self._say(f"There are no models in {endpoint.region}.", "warning")

        background(self._screen, read, "read models", exclusive=True)

    def deploy_model(self, model: Model) -> None:
        """Ask for the endpoint, the machine and the percentage; then deploy."""
        session = self._screen.session
        if session is None:
            return

        async def read() -> None:
            try:
                endpoints = await session.backend.serving.endpoints()
            except BackendError as error:
                self._say(f"The endpoints can't be read: {error.message}", "error")
                return
            here = {endpoint.name: endpoint for endpoint in endpoints.items if _beside(model, endpoint)}
            if not here:
                self._say(f"There are no endpoints in {model.region}.", "warning")
                return
            options = named_options(
                (key, endpoint.display_name, f"{_serves(endpoint)}  ({endpoint.id})")
                for key, endpoint in here.items()
            )

            def picked(key: str | None) -> None:
                if key is not None:
                    self._pick_machine(here[key], model)

            title = f"Deploy {plain(model.display_name)} version {model.version}: to which endpoint?"
            self._screen.app.push_screen(PickScreen(title, options), picked)

        background(self._screen, read, "read endpoints", exclusive=True)

    def _pick_version(self, endpoint: ServingEndpoint, versions: list[Model]) -> None:
        there = {f"{deployed.model.partition('@')[0]}@{deployed.version}" for deployed in endpoint.deployed}
        versions = sorted(versions, key=lambda version: version.versioned in there)
        by_key = {version.versioned: version for version in versions}
        options = named_options(
            (
                key,
                f"{clip(version.display_name, LONGEST - 8)} {version.version}",
                _about(version, key in there),
            )
            for key, version in by_key.items()
        )

        def picked(key: str | None) -> None:
            if key is not None:
                self._pick_machine(endpoint, by_key[key])

        title = f"Deploy to {plain(endpoint.display_name)}: which version?"
        self._screen.app.push_screen(PickScreen(title, options), picked)

    def _pick_machine(self, endpoint: ServingEndpoint, model: Model) -> None:
        used = [deployed.machine for deployed in endpoint.deployed if deployed.machine]
        known = sorted(name for name in catalog.machines() if not catalog.is_tpu(name))
        names = dict.fromkeys([*used, "n1-standard-2", *known])
        options = value_options((name, self._an_hour(name, endpoint)) for name in names)

        def picked(machine: str | None) -> None:
            if machine is not None:
                self._ask_share(endpoint, model, machine)

        title = f"Machine for {plain(model.display_name)} version {model.version}:"
        self._screen.app.push_screen(PickScreen(title, options, free=True), picked)

    def _an_hour(self, machine: str, endpoint: ServingEndpoint) -> str:
        """Return the cost of one machine, as text."""
        kind, count = catalog.built_in_accelerator(machine)
        costs = self._screen.console.costs
        text = costs.rate_words(costs.machine_rate(machine, endpoint.region, accelerator=(kind, count)))
        with_gpus = f"  {count} {kind.removeprefix('NVIDIA_').replace('_', ' ')}" if count else ""
        return f"{text} an hour{with_gpus}" if text != NOT_MEASURED else f"price not known{with_gpus}"

    def _ask_share(self, endpoint: ServingEndpoint, model: Model, machine: str) -> None:
        title = f"{plain(model.display_name)} version {model.version}"

        def answered(text: str | None) -> None:
            if text is None:
                return
            percent = int(text)
            price = self._an_hour(machine, endpoint)
            details = [f"{machine}, 1 replica, {price} until it is undeployed"]
            self._confirmed(
                endpoint,
                f"Deploy {title} to {plain(endpoint.display_name)} with {percent} % of the requests?",
                lambda operations: operations.deploy(endpoint, model.versioned, machine, percent),
                details=details,
                begun=begun,
            )

        begun = (endpoint.name, model.display_name, model.version)
        first = str(FIRST_SHARE if endpoint.deployed else 100)
        check = partial(_problem, partial(split_with_new, endpoint.deployed))
        question = f"Percent of the requests of {plain(endpoint.display_name)} to {title}:"
        self._screen.app.push_screen(PromptScreen(question, first, check=check), answered)

    def _confirmed(
        self,
        endpoint: ServingEndpoint,
        question: str,
        operation: Operation,
        *,
        details: Any = (),
        begun: tuple[str, str, str] | None = None,
    ) -> None:
        """Run an operation after confirmation. `begun` is a row below the endpoint during the operation; see
        `deploying`."""
        operations = self._screen.console.operations.endpoints()
        if operations is None:
            return

        async def run() -> None:
            if begun is not None:
                self.deploying.add(begun)
                self._show()
            try:
                outcome = await operation(operations)
            finally:
                if begun is not None:
                    self.deploying.discard(begun)
            self._polling.read(changed=True)
            if outcome.value is not None:
                self._changed(outcome.value)
            self._screen.console.tell(outcome)

        def answered(yes: bool | None) -> None:
            if yes:
                # The app runs the operation, because leaving the screen must not stop waiting for a
                # deployment.
                background(self._screen.console, run, question, exclusive=False)

        self._screen.app.push_screen(ConfirmScreen(question, [endpoint.name, *details]), answered)


def _problem(split: Callable[[int], Mapping[str, int]], text: str) -> str:
    if not (text.isascii() and text.isdigit()):
        return "The percentage must be an integer from 0 to 100."
    try:
        split(int(text))
    except SplitError as error:
        return str(error)
    return ""


async def _versions(session: Session, models: Sequence[Model]) -> list[Sequence[Model]]:
    """Return the versions of each model. Raises BackendError."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def read(model: Model) -> Sequence[Model]:
        async with gate:
            return await session.backend.serving.versions(model.name)

    return await asyncio.gather(*(read(model) for model in models))


def _serves(endpoint: ServingEndpoint) -> str:
    """Return the deployed versions of an endpoint, as text."""
    texts = [
        f"{deployed.percent} % {deployed.display_name} version {deployed.version}"
        for deployed in endpoint.deployed
    ]
    return ", ".join(texts) or "nothing is deployed"


def _beside(model: Model, endpoint: ServingEndpoint) -> bool:
    """Return whether the model and the endpoint are in the same project and region, as a deployment
    requires."""
    return model.name.rpartition("/models/")[0] == endpoint.name.rpartition("/endpoints/")[0]


def _about(version: Model, deployed: bool) -> str:
    """Return the aliases and id of a version, which distinguish it from other versions."""
    return "  ".join([*version.aliases, *(["deployed here already"] if deployed else []), f"({version.id})"])
