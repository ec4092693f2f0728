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
from tui.verbs.lists.lookup import Noun, end, errors_json, one_of
from tui.verbs.output import note, out, print_fields, print_json, print_nested
from tui.verbs.run import READS, Run, VerbFailure, verb, yes_option
from tui.verbs.serving import changes

MODEL, ENDPOINT = Noun("model", "vxtui models"), Noun("endpoint", "vxtui endpoints")


@click.command()
@click.argument("model", required=False)
@verb(READS)
async def models(run: Run, model: str | None) -> int:
    """List the models of the registry, or every version of MODEL, an id or a display name."""
    async with run.backend() as backend:
        results = await backend.serving.models()
        shown: Sequence[Model] = results.items
        if model is not None:
            shown = await backend.serving.versions(one_of(backend, results, model, MODEL).name)
    now = datetime.now(UTC)
    rows = [ModelRow(version, now) for version in shown]
    if run.json:
        print_json(
            {"models": [json_object(MODEL_FIELDS, row) for row in rows], "errors": errors_json(results)}
        )
    else:
        print_fields(MODEL_FIELDS, rows)
        if not shown and not results.errors:
            note("No models here yet. A training pipeline with `modelToUpload` creates one.")
    return end(run, results)


@click.command()
@click.argument("endpoint", required=False)
@click.option(
    "--split", multiple=True, metavar="VERSION=PERCENT",
    help="Send this percentage of requests to a version, or to a deployed model by its id; "
         "repeatable. The other versions get none.",
)  # fmt: skip
@click.option(
    "--deploy",
    metavar="MODEL@VERSION",
    default="",
    help="Deploy a version in addition to the deployed versions.",
)
@click.option("--percent", type=click.IntRange(0, 100), help="Share of the requests for --deploy.")
@click.option(
    "--machine",
    default="",
    help="Machine type for --deploy; by default the machine type of the deployed models.",
)
@click.option("--roll-back", is_flag=True, help="Restore the split before vxtui's last change.")
@click.option("--undeploy", metavar="VERSION", default="", help="Undeploy this version.")
@click.option("--logs", is_flag=True, help="Print the last log lines of the endpoint's model servers.")
@yes_option
@verb("endpoint.split", split=True)
async def endpoints(
    run: Run, endpoint: str | None, split: tuple[str, ...], logs: bool, yes: bool, **more: Any
) -> int:
    """List endpoints and their deployed models; deploy to ENDPOINT, and split its traffic.

    ENDPOINT is an id, a resource name or a display name.
    """
    requested = changes.Wanted(_percents(split), **more)
    changes.check(run, requested, endpoint)
    if logs and (requested.options or endpoint is None):
        raise VerbFailure("--logs requires an ENDPOINT and can't be combined with a change.", code="USAGE")
    async with run.backend() as backend:
        results = await backend.serving.endpoints()
        shown: Sequence[ServingEndpoint] = results.items
        if endpoint is not None:
            shown = [one_of(backend, results, endpoint, ENDPOINT)]
        if logs:
            return _print_log(run, shown[0], await backend.serving.log(shown[0].name))
        if requested.options:
            shown = [await changes.change(run, backend, shown[0], requested, yes=yes)]
        loads = await _loads(run, backend, shown)
    now = datetime.now(UTC)
    rows = [EndpointRow(endpoint, loads, now) for endpoint in shown]
    if run.json:
        listed = [json_object(ENDPOINT_FIELDS, row) for row in rows]
        print_json({"endpoints": listed, "errors": errors_json(results)})
    else:
        print_nested(
            ENDPOINT_FIELDS,
            DEPLOYED_FIELDS,
            [(row, row.versions or [DeployedRow(row.endpoint, None, now)]) for row in rows],
        )
        if not shown and not results.errors:
            note("No endpoints here yet. The SDK's Endpoint.create creates one.")
    return end(run, results)


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
    """Parse VERSION=PERCENT options. Raises VerbFailure."""
    percents: dict[str, int] = {}
    for text in split:
        key, equals, value = text.partition("=")
        if not (key and equals and value.isascii() and value.isdigit()):
            raise VerbFailure(f"--split {text}: write VERSION=PERCENT, e.g. 2=10.", code="USAGE")
        if key in percents:
            raise VerbFailure(f"--split {text}: {key} already has {percents[key]} %.", code="USAGE")
        percents[key] = int(value)
    return percents


async def _loads(run: Run, backend: Backend, shown: Sequence[ServingEndpoint]) -> Loads:
    """Return the load of the last minutes. If there is no load, a note reports the reason."""
    try:
        return await backend.serving.loads(shown)
    except BackendError as error:
        if not run.json:
            note(sentences(f"The requests, errors and latencies can't be read: {error.message}", error.fix))
        return {}
