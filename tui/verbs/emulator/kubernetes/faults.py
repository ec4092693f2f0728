"""Implements `vxtui emulator kubernetes fault …`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from tui.actions.operations.kubernetes_emulator import ask
from tui.verbs.emulator.kubernetes.node_faults import COMMANDS
from tui.verbs.output import out, print_json
from tui.verbs.run import READS, Run, value_of, verb

_SECONDS = click.FloatRange(0)
CODES = ("400", "401", "403", "404", "409", "410", "429", "500", "502", "503", "504")


@click.group()
def fault() -> None:
    """Inject a fault that a cluster may have."""


@fault.command()
@click.argument("resource")
@click.option("--verb", "verb_name", metavar="VERB", default="*", help="Only this verb, e.g. list or watch.")
@click.option("--error", "code", type=click.Choice(CODES), metavar="CODE", help="Answer this HTTP code.")
@click.option(
    "--retry-after", type=_SECONDS, default=0, metavar="SECONDS", help="Retry-After header of --error."
)
@click.option("--denied", "kind", flag_value="denied", help="Deny access, in access reviews too.")
@click.option("--lost", "kind", flag_value="lost", help="Take effect, then break the connection.")
@click.option("--cut", "kind", flag_value="cut", help="End watches, --after seconds from their start.")
@click.option("--expired", "kind", flag_value="expired", help="Answer watches with 410.")
@click.option(
    "--after", type=_SECONDS, default=0, metavar="SECONDS", help="Time after which --cut ends a watch."
)
@click.option("--delay", type=_SECONDS, default=0, metavar="SECONDS", help="Delay each answer.")
@click.option(
    "--for", "lasts", type=_SECONDS, default=0, metavar="SECONDS", help="Clear the fault after this time."
)
@click.option("--times", type=click.IntRange(0), default=0, help="Only for this many requests.")
@verb("emulator.fault")
async def api(
    run: Run, resource: str, verb_name: str, code: str | None, kind: str | None, **options: Any
) -> None:
    """Add a fault of RESOURCE, e.g. pods, 'pods/log', pytorchjobs.kubeflow.org or '*'.

    The earliest fault that matches a request applies.
    """
    if code and kind:
        raise click.UsageError("--error, --denied, --lost, --cut and --expired exclude each other.")
    if kind == "cut" and not options["after"]:
        raise click.UsageError("--cut needs --after.")
    request = {
        "do": "api", "resource": resource, "verb": verb_name, "kind": kind or "", "code": int(code or 0)
    }  # fmt: skip
    request |= {key: value for key, value in options.items() if value}
    answer = value_of(await run.kubernetes_operations().fault(request))
    _print(run, answer, _words(answer))


@fault.command()
@verb("emulator.fault")
async def compact(run: Run) -> None:
    """Forget the history: watches from an earlier version get 410."""
    answer = value_of(await run.kubernetes_operations().fault({"do": "compact"}))
    _print(run, answer, f"watches start from version {answer['version']}")


@fault.command(name="list")
@verb(READS)
async def list_faults(run: Run) -> None:
    """List all faults in force."""
    _print_all(run, await ask({"do": "faults"}))


@fault.command()
@click.argument("numbers", metavar="[NUMBER]...", nargs=-1, type=int)
@verb("emulator.fault")
async def clear(run: Run, numbers: tuple[int, ...]) -> None:
    """Clear the faults with these NUMBERs; without a number, all."""
    request = {"do": "clear", "numbers": list(numbers)}
    _print_all(run, value_of(await run.kubernetes_operations().fault(request)))


for _command in COMMANDS:
    fault.add_command(_command)


def _print_all(run: Run, answer: dict[str, Any]) -> None:
    _print(run, answer, *([_words(fault) for fault in answer["api"]] or ["no faults"]))


def _print(run: Run, answer: Mapping[str, Any], *lines: str) -> None:
    if run.json:
        print_json(dict(answer))
    else:
        for line in lines:
            out(line)


def _words(entry: Mapping[str, Any]) -> str:
    kind = {"error": str(entry["code"]), "cut": f"cut after {entry['after']:g} s"}.get(
        entry["kind"], entry["kind"]
    )
    parts = [
        kind,
        f"{entry['delay']:g} s late" if entry["delay"] else "",
        f"retry after {entry['retry_after']:g} s" if entry["retry_after"] else "",
        f"for {entry['left_seconds']:g} s" if entry["left_seconds"] else "",
        f"{entry['left_times']} times" if entry["left_times"] else "",
    ]
    return f"{entry['number']}  {entry['verb']} {entry['resource']}: {', '.join(filter(None, parts))}"
