"""Changes of `vxtui endpoints`: the split, a deployment, and a rollback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tui.backends.errors import NotFound
from tui.backends.interface import Backend
from tui.config.paths import state_dir
from tui.domain.core.resource_name import same_resource
from tui.domain.serving.rollout import called, moves, split_with_new
from tui.domain.serving.traffic import Deployed, Model, ServingEndpoint, SplitError, traffic_split
from tui.domain.vertex.catalog import built_in_accelerator
from tui.domain.vertex.cost import an_hour, machine_hour
from tui.store.jobs.costs import read_prices
from tui.verbs.run import Declared, Run, VerbFailure, confirmed, value_of

MACHINE = "n1-standard-2"
"""Machine type if --machine is missing and the endpoint has no machine yet."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of `vxtui endpoints` that change an endpoint."""

    split: Mapping[str, int]
    deploy: str = ""
    percent: int | None = None
    machine: str = ""
    roll_back: bool = False
    undeploy: str = ""

    @property
    def options(self) -> list[str]:
        """The requested changes, of which only one is allowed."""
        values = {
            "--split": self.split, "--deploy": self.deploy, "--roll-back": self.roll_back,
            "--undeploy": self.undeploy,
        }  # fmt: skip
        return [name for name, value in values.items() if value]


def check(run: Run, requested: Wanted, endpoint: str | None) -> None:
    """Raise VerbFailure for incompatible options, or in a read-only context."""
    options = requested.options
    if len(options) > 1:
        raise VerbFailure(
            f"{' and '.join(options)} can't be combined.", fix="Run one command per change.", code="USAGE"
        )
    if (requested.percent is not None or requested.machine) and not requested.deploy:
        raise VerbFailure("--percent and --machine require --deploy.", code="USAGE")
    if requested.deploy and requested.percent is None:
        raise VerbFailure(
            "--deploy requires --percent, the version's percentage of the requests.", code="USAGE"
        )
    if options and endpoint is None:
        raise VerbFailure(
            f"{options[0]} needs an endpoint.", fix="`vxtui endpoints` lists the endpoints.", code="USAGE"
        )
    for option in options:
        operation = f"endpoint.{option.removeprefix('--').replace('-', '_')}"
        run.must_be_writable(Declared(operation, {}), {})


async def change(
    run: Run, backend: Backend, endpoint: ServingEndpoint, requested: Wanted, *, yes: bool
) -> ServingEndpoint:
    """Make the change after confirmation. Return the updated endpoint. Raises VerbFailure or BackendError."""
    if requested.split:
        return await _split(run, backend, endpoint, requested.split, yes=yes)
    if requested.deploy:
        return await _deploy(run, backend, endpoint, requested, yes=yes)
    if requested.roll_back:
        return await _roll_back(run, backend, endpoint, yes=yes)
    return await _undeploy(run, backend, endpoint, requested.undeploy, yes=yes)


async def _split(
    run: Run, backend: Backend, endpoint: ServingEndpoint, split: Mapping[str, int], *, yes: bool
) -> ServingEndpoint:
    try:
        percents = traffic_split(endpoint.deployed, split)
    except SplitError as error:
        raise _refused(error, endpoint) from error
    await confirmed(f"Split the requests of {endpoint.display_name}: {moves(endpoint, percents)}?", yes=yes)
    return value_of(await run.endpoint_operations(backend).split(endpoint, percents))


async def _roll_back(run: Run, backend: Backend, endpoint: ServingEndpoint, *, yes: bool) -> ServingEndpoint:
    operations = run.endpoint_operations(backend)
    percents = await operations.before(endpoint)
    await confirmed(f"Roll back {endpoint.display_name}: {moves(endpoint, percents)}?", yes=yes)
    return value_of(await operations.roll_back(endpoint))


async def _deploy(
    run: Run, backend: Backend, endpoint: ServingEndpoint, requested: Wanted, *, yes: bool
) -> ServingEndpoint:
    percent = requested.percent or 0
    try:
        split_with_new(endpoint.deployed, percent)
    except SplitError as error:
        raise _refused(error, endpoint) from error
    version = await _version(backend, endpoint, requested.deploy)
    used = next((model.machine for model in endpoint.deployed if model.machine), MACHINE)
    machine = requested.machine or used
    hour = machine_hour(
        machine, built_in_accelerator(machine), 1, endpoint.region, read_prices(state_dir())[0]
    )
    await confirmed(
        f"Deploy {version.display_name} version {version.version} to {endpoint.display_name} on 1 {machine} "
        f"({an_hour(hour)} until it is undeployed) with {percent} % of the requests?",
        yes=yes,
    )
    return value_of(
        await run.endpoint_operations(backend).deploy(endpoint, version.versioned, machine, percent)
    )


async def _undeploy(
    run: Run, backend: Backend, endpoint: ServingEndpoint, reference: str, *, yes: bool
) -> ServingEndpoint:
    gone = _deployed(endpoint, reference)
    await confirmed(f"Undeploy {called(gone, endpoint.deployed)} from {endpoint.display_name}?", yes=yes)
    return value_of(await run.endpoint_operations(backend).undeploy(endpoint, gone))


def _deployed(endpoint: ServingEndpoint, reference: str) -> Deployed:
    """Return the deployed model with this id or version. Raises VerbFailure."""
    fits = [model for model in endpoint.deployed if model.id == reference] or [
        model for model in endpoint.deployed if model.version == reference
    ]
    if len(fits) == 1:
        return fits[0]
    known = ", ".join(f"{model.id} (version {model.version})" for model in endpoint.deployed) or "none"
    how = "Several deployed models have" if fits else "No deployed model has"
    raise VerbFailure(
        f"{how} the id or the version {reference}. Deployed: {known}.",
        fix="Use the id." if fits else "", code="AMBIGUOUS" if fits else "NOT_FOUND",
        exit_code=2 if fits else NotFound.exit_code,
    )  # fmt: skip


async def _version(backend: Backend, endpoint: ServingEndpoint, reference: str) -> Model:
    """Return the version for MODEL@VERSION or MODEL@ALIAS; MODEL alone means the default version.

    Raises:
        NotFound: the version does not exist.
        VerbFailure: several models share the name.
    """
    name, _, version = reference.partition("@")
    place = endpoint.name.rpartition("/endpoints/")[0]
    results = await backend.serving.models()
    here = [model for model in results.items if model.name.rpartition("/models/")[0] == place]
    named = [model for model in here if name == model.id or same_resource(name, model.name)]
    fits = named or [model for model in here if model.display_name == name]
    if len(fits) > 1:
        lines = "\n".join(f"  {model.id}  {model.display_name}" for model in fits[:20])
        raise VerbFailure(
            f"{len(fits)} models are named {name}:\n{lines}", fix="Use the id.", code="AMBIGUOUS"
        )
    if not fits:
        raise NotFound(f"The model {name} does not exist in {place}.", fix="`vxtui models` lists all.")
    if not version:
        return fits[0]
    versions = await backend.serving.versions(fits[0].name)
    for candidate in versions:
        if version == candidate.version or version in candidate.aliases:
            return candidate
    known = ", ".join(" ".join((model.version, *model.aliases)) for model in versions)
    raise NotFound(f"{fits[0].display_name} has no version {version}.", fix=f"Available: {known}.")


def _refused(error: SplitError, endpoint: ServingEndpoint) -> VerbFailure:
    fix = f"`vxtui endpoints {endpoint.id}` shows the deployed models."
    return VerbFailure(str(error), fix=fix, code="INVALID_ARGUMENT")
