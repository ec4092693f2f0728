"""`vxtui models` and `vxtui endpoints`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from tui.backends.interface import Backend, BackendError
from tui.domain.core.formatting import rfc3339
from tui.domain.core.log_entry import LogEntry
from tui.domain.core.text import sentences
from tui.domain.fields.endpoints import DEPLOYED_FIELDS, ENDPOINT_FIELDS, DeployedRow, EndpointRow, Loads
from tui.domain.fields.field import json_object
from tui.domain.fields.models import MODEL_FIELDS, ModelRow
from tui.domain.serving.log import log_lines
from tui.domain.serving.traffic import Model, ServingEndpoint
from tui.verbs.lists.found import Noun, end, errors_json, one_of
from tui.verbs.output import note, out, print_fields, print_json, print_nested
from tui.verbs.run import READS, Failure, Run, verb, yes_option
from tui.verbs.serving import changes

MODEL, ENDPOINT = Noun("model", "vxtui models"), Noun("endpoint", "vxtui endpoints")


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
    now = datetime.now(UTC)
    rows = [ModelRow(version, now) for version in shown]
    if run.json:
        print_json({"models": [json_object(MODEL_FIELDS, row) for row in rows], "errors": errors_json(found)})
    else:
        print_fields(MODEL_FIELDS, rows)
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
    now = datetime.now(UTC)
    rows = [EndpointRow(endpoint, loads, now) for endpoint in shown]
    if run.json:
        listed = [json_object(ENDPOINT_FIELDS, row) for row in rows]
        print_json({"endpoints": listed, "errors": errors_json(found)})
    else:
        print_nested(
            ENDPOINT_FIELDS,
            DEPLOYED_FIELDS,
            [(row, row.versions or [DeployedRow(row.endpoint, None, now)]) for row in rows],
        )
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


async def _loads(run: Run, backend: Backend, shown: Sequence[ServingEndpoint]) -> Loads:
    """The figures of the last minutes; why there are none is a note."""
    try:
        return await backend.serving.loads(shown)
    except BackendError as error:
        if not run.json:
            note(sentences(f"No requests, errors and latencies: {error.message}", error.fix))
        return {}
