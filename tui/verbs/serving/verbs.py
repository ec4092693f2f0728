"""`vxtui models` and `vxtui endpoints`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from tui.backends.interface import Backend, BackendError
from tui.domain.core import formatting
from tui.domain.core.formatting import rfc3339
from tui.domain.core.log_entry import LogEntry
from tui.domain.core.text import sentences
from tui.domain.serving.load import Load, latency_text, rate_text
from tui.domain.serving.log import log_lines
from tui.domain.serving.traffic import Deployed, Model, ServingEndpoint
from tui.verbs.lists.found import Noun, end, errors_json, one_of
from tui.verbs.output import note, out, print_json, table
from tui.verbs.run import READS, Failure, Run, verb, yes_option
from tui.verbs.serving import changes

MODEL, ENDPOINT = Noun("model", "vxtui models"), Noun("endpoint", "vxtui endpoints")
Loads = Mapping[tuple[str, str], Load]


@click.command()
@click.argument("model", required=False)
@verb(READS)
async def models(run: Run, model: str | None) -> int:
    """List the models of the registry; of MODEL, an id or a display name, every version."""
    async with run.backend() as backend:
        found = await backend.serving.models()
        shown: Sequence[Model] = found.items
        if model is not None:
            shown = await backend.serving.versions(one_of(backend, found, model, MODEL).name)
    if run.json:
        print_json({"models": [_model_json(each) for each in shown], "errors": errors_json(found)})
    else:
        _print_models(shown)
        if not shown and not found.errors:
            note("No models here yet. A training pipeline with `modelToUpload` makes one.")
    return end(run, found)


@click.command()
@click.argument("endpoint", required=False)
@click.option(
    "--split", multiple=True, metavar="VERSION=PERCENT",
    help="Send this percent of the requests to a version, or to a deployed model by its id; repeatable. "
    "Those not named get none.",
)  # fmt: skip
@click.option(
    "--deploy", metavar="MODEL@VERSION", default="", help="Deploy a version, beside what is deployed already."
)
@click.option("--percent", type=click.IntRange(0, 100), help="Share of the requests for --deploy.")
@click.option("--machine", default="", help="Machine type for --deploy; by default that of the others.")
@click.option("--roll-back", is_flag=True, help="Go back to the split before the last change by vxtui.")
@click.option("--undeploy", metavar="VERSION", default="", help="Take a deployed version off it.")
@click.option("--logs", is_flag=True, help="Print the last lines of its model servers.")
@yes_option
@verb("endpoint.split", split=True)
async def endpoints(
    run: Run, endpoint: str | None, split: tuple[str, ...], logs: bool, yes: bool, **more: Any
) -> int:
    """List endpoints with what is deployed to them; deploy to ENDPOINT, and split its traffic.

    ENDPOINT is an id, a resource name or a display name.
    """
    wanted = changes.Wanted(_percents(split), **more)
    changes.check(run, wanted, endpoint)
    if logs and (wanted.options or endpoint is None):
        raise Failure("--logs needs an endpoint, and no change.", code="USAGE")
    async with run.backend() as backend:
        found = await backend.serving.endpoints()
        shown: Sequence[ServingEndpoint] = found.items
        if endpoint is not None:
            shown = [one_of(backend, found, endpoint, ENDPOINT)]
        if logs:
            return _print_log(run, shown[0], await backend.serving.log(shown[0].name))
        if wanted.options:
            shown = [await changes.change(run, backend, shown[0], wanted, yes=yes)]
        loads = await _loads(run, backend, shown)
    if run.json:
        print_json(
            {"endpoints": [_endpoint_json(each, loads) for each in shown], "errors": errors_json(found)}
        )
    else:
        _print_endpoints(shown, loads)
        if not shown and not found.errors:
            note("No endpoints here yet. The SDK's Endpoint.create makes one.")
    return end(run, found)


def _print_log(run: Run, endpoint: ServingEndpoint, entries: Sequence[LogEntry]) -> int:
    if run.json:
        lines = [
            {
                "time": rfc3339(entry.timestamp), "deployed_model": entry.replica,
                "severity": entry.severity.name, "message": entry.message,
            }
            for entry in entries
        ]  # fmt: skip
        print_json({"endpoint": endpoint.name, "entries": lines})
        return 0
    for line in log_lines(entries, endpoint.deployed):
        out(line)
    if not entries:
        note("Nothing was written in the last day.")
    return 0


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


async def _loads(run: Run, backend: Backend, shown: Sequence[ServingEndpoint]) -> Loads:
    """The figures of the last minutes; why there are none is a note."""
    try:
        return await backend.serving.loads(shown)
    except BackendError as error:
        if not run.json:
            note(sentences(f"No requests, errors and latencies: {error.message}", error.fix))
        return {}


def _print_endpoints(found: Sequence[ServingEndpoint], loads: Loads) -> None:
    """A line for each deployed model, the endpoint's name in the first of them."""
    now = datetime.now(UTC)
    rows = []
    for each in found:
        start = [each.display_name, each.id, each.region]
        for deployed in each.deployed or (None,):
            load = loads.get((each.name, deployed.id)) if deployed is not None else None
            rows.append([*start, *_deployed_cells(deployed, now), *_load_cells(load)])
            start = ["", "", ""]
    headers = (
        "NAME",
        "ID",
        "REGION",
        "TRAFFIC",
        "MODEL",
        "VERSION",
        "DEPLOYED",
        "MACHINE",
        "REPL",
        "AGE",
        "REQ/S",
        "ERRORS",
        "P50",
        "P95",
    )
    table(headers, rows, right=(3, 9, 10, 11, 12, 13))


def _load_cells(load: Load | None) -> list[str]:
    if load is None:
        return ["", "", "", ""]
    return [rate_text(load), load.error_text, latency_text(load.p50), latency_text(load.p95)]


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
        "create_time": rfc3339(each.create_time),
        "image": each.image or None,
        "artifacts": each.artifacts or None,
        "made_by": each.made_by or None,
        "endpoints": list(each.endpoints),
        "labels": dict(each.labels),
    }


def _endpoint_json(each: ServingEndpoint, loads: Loads) -> dict[str, Any]:
    return {
        "name": each.name,
        "id": each.id,
        "display_name": each.display_name,
        "context": each.context,
        "region": each.region,
        "create_time": rfc3339(each.create_time),
        "deployed": [
            {
                "id": deployed.id,
                "model": deployed.model,
                "version": deployed.version,
                "display_name": deployed.display_name,
                "percent": deployed.percent,
                "machine": deployed.machine or None,
                "replicas": list(deployed.replicas) if deployed.replicas else None,
                "create_time": rfc3339(deployed.create_time),
                "load": _load_json(loads.get((each.name, deployed.id))),
            }
            for deployed in each.deployed
        ],
    }


def _load_json(load: Load | None) -> dict[str, Any] | None:
    if load is None:
        return None
    return {
        "requests": load.requests,
        "seconds": load.seconds,
        "errors": dict(load.errors),
        "p50_ms": load.p50,
        "p95_ms": load.p95,
    }
