"""`vxtui models` and `vxtui endpoints`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from tui.backends.interface import Backend, BackendError, NotFound
from tui.backends.serving import Found
from tui.domain import formatting
from tui.domain.serving.traffic import Deployed, Model, ServingEndpoint, SplitError, traffic_split
from tui.domain.text import sentences
from tui.verbs.output import note, print_json, table, when
from tui.verbs.run import READS, Failure, Run, confirmed, value_of, verb

T = TypeVar("T", Model, ServingEndpoint)


@click.command()
@click.argument("model", required=False)
@verb(READS)
async def models(run: Run, model: str | None) -> int:
    """List the models of the registry; of MODEL, an id or a display name, every version."""
    async with run.backend() as backend:
        found = await backend.serving.models()
        shown: Sequence[Model] = found.items
        if model is not None:
            shown = await backend.serving.versions(_one(backend, found, model, "model").name)
    if run.json:
        print_json({"models": [_model_json(each) for each in shown], "errors": _errors_json(found)})
    else:
        _print_models(shown)
        if not shown and not found.errors:
            note("No models here yet. A training pipeline with `modelToUpload` makes one.")
    return _end(run, found)


@click.command()
@click.argument("endpoint", required=False)
@click.option(
    "--split", multiple=True, metavar="VERSION=PERCENT",
    help="Send this percent of the requests to a version, or to a deployed model by its id; repeatable. "
    "Those not named get none.",
)  # fmt: skip
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@verb("endpoint.split", split=True)
async def endpoints(run: Run, endpoint: str | None, split: tuple[str, ...], yes: bool) -> int:
    """List endpoints with what is deployed to them; split the traffic of ENDPOINT.

    ENDPOINT is an id, a resource name or a display name.
    """
    wanted = _percents(split)
    if wanted and endpoint is None:
        raise Failure("--split needs an endpoint.", fix="`vxtui endpoints` lists them.", code="USAGE")
    async with run.backend() as backend:
        found = await backend.serving.endpoints()
        shown: Sequence[ServingEndpoint] = found.items
        if endpoint is not None:
            shown = [_one(backend, found, endpoint, "endpoint")]
        if wanted:
            shown = [await _split(run, backend, shown[0], wanted, yes=yes)]
    if run.json:
        print_json({"endpoints": [_endpoint_json(each) for each in shown], "errors": _errors_json(found)})
    else:
        _print_endpoints(shown)
        if not shown and not found.errors:
            note("No endpoints here yet. The SDK's Endpoint.create makes one.")
    return _end(run, found)


async def _split(
    run: Run, backend: Backend, endpoint: ServingEndpoint, wanted: Mapping[str, int], *, yes: bool
) -> ServingEndpoint:
    try:
        percents = traffic_split(endpoint.deployed, wanted)
    except SplitError as error:
        fix = f"`vxtui endpoints {endpoint.id}` shows what is deployed."
        raise Failure(str(error), fix=fix, code="INVALID_ARGUMENT") from error
    moves = ", ".join(
        f"version {each.version} {each.percent} → {percents[each.id]} %" for each in endpoint.deployed
    )
    await confirmed(f"Split the requests of {endpoint.display_name}: {moves}?", yes=yes)
    return value_of(await run.endpoint_operations(backend).split(endpoint, percents))


def _percents(split: Sequence[str]) -> dict[str, int]:
    """Raises Failure for what is not VERSION=PERCENT."""
    found: dict[str, int] = {}
    for text in split:
        key, equals, value = text.partition("=")
        if not (key and equals and value.isascii() and value.isdigit()):
            raise Failure(f"--split {text}: write VERSION=PERCENT, e.g. 2=10.", code="USAGE")
        if key in found:
            raise Failure(f"--split {text}: {key} has {found[key]} % already.", code="USAGE")
        found[key] = int(value)
    return found


def _one(backend: Backend, found: Found[T], reference: str, noun: str) -> T:
    """The one that a person means. Raises NotFound, Failure, or why a region could not be read."""
    exact = [each for each in found.items if reference in {each.id, each.name}]
    fits = exact or [each for each in found.items if each.display_name == reference]
    if len(fits) == 1 and (exact or not found.errors):
        return fits[0]
    if len(fits) > 1:
        lines = "\n".join(f"  {each.id}  {each.region}  {each.display_name}" for each in fits[:20])
        message = f"{len(fits)} {noun}s are named {reference}:\n{lines}"
        raise Failure(message, fix="Use the id, or the full resource name.", code="AMBIGUOUS")
    # Another region may have it, or one more of this name.
    for error in found.errors.values():
        raise error
    raise NotFound(
        f"There is no {noun} {reference} in the context {backend.info.name}.",
        fix=f"`vxtui {noun}s` lists all.",
    )


def _print_models(found: Sequence[Model]) -> None:
    now = datetime.now(UTC)
    rows = [
        [
            each.display_name, each.id, each.version, " ".join(each.aliases), each.region, _age(each, now),
            " ".join(name.rpartition("/")[2] for name in each.endpoints), each.made_by.rpartition("/")[2],
        ]
        for each in found
    ]  # fmt: skip
    headers = ("NAME", "ID", "VERSION", "ALIASES", "REGION", "AGE", "ENDPOINTS", "MADE BY")
    table(headers, rows, right=(5,))


def _print_endpoints(found: Sequence[ServingEndpoint]) -> None:
    """A line for each deployed model, the endpoint's name in the first of them."""
    now = datetime.now(UTC)
    rows = []
    for each in found:
        start = [each.display_name, each.id, each.region]
        for deployed in each.deployed or (None,):
            rows.append([*start, *_deployed_cells(deployed, now)])
            start = ["", "", ""]
    headers = ("NAME", "ID", "REGION", "TRAFFIC", "MODEL", "VERSION", "DEPLOYED", "MACHINE", "REPL", "AGE")
    table(headers, rows, right=(3, 9))


def _deployed_cells(deployed: Deployed | None, now: datetime) -> list[str]:
    if deployed is None:
        return ["", "nothing deployed", "", "", "", "", ""]
    least, most = deployed.replicas or (0, 0)
    replicas = "" if not most else str(most) if least == most else f"{least}-{most}"
    return [
        f"{deployed.percent} %", deployed.display_name, deployed.version, deployed.id, deployed.machine,
        replicas, _age(deployed, now),
    ]  # fmt: skip


def _age(each: Model | Deployed, now: datetime) -> str:
    return formatting.age(now - each.create_time if each.create_time is not None else None)


def _model_json(each: Model) -> dict[str, Any]:
    return {
        "name": each.name,
        "id": each.id,
        "display_name": each.display_name,
        "context": each.context,
        "region": each.region,
        "version": each.version,
        "aliases": list(each.aliases),
        "create_time": when(each.create_time),
        "image": each.image or None,
        "artifacts": each.artifacts or None,
        "made_by": each.made_by or None,
        "endpoints": list(each.endpoints),
    }


def _endpoint_json(each: ServingEndpoint) -> dict[str, Any]:
    return {
        "name": each.name,
        "id": each.id,
        "display_name": each.display_name,
        "context": each.context,
        "region": each.region,
        "create_time": when(each.create_time),
        "deployed": [
            {
                "id": deployed.id,
                "model": deployed.model,
                "version": deployed.version,
                "display_name": deployed.display_name,
                "percent": deployed.percent,
                "machine": deployed.machine or None,
                "replicas": list(deployed.replicas) if deployed.replicas else None,
                "create_time": when(deployed.create_time),
            }
            for deployed in each.deployed
        ],
    }


def _errors_json(found: Found[Any]) -> list[dict[str, str]]:
    return [
        {"region": region, "code": error.code, "message": error.message}
        for region, error in found.errors.items()
    ]


def _end(run: Run, found: Found[Any]) -> int:
    """Say which regions could not be read; the exit code."""
    first: BackendError | None = None
    for error in found.errors.values():
        first = first or error
        if not run.json:
            note(sentences(error.message, error.fix))
    return first.exit_code if first is not None and not found.items else 0
