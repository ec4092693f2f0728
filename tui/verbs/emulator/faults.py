"""`vxtui emulator fault …`: a verb for each fault in the emulator's registry, and `list` and `clear`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from tui.actions.operations.emulator import EMULATOR, ask
from tui.emulator.client import FAULTS, FaultEntry, Option
from tui.verbs.output import note, out, print_json
from tui.verbs.run import READS, Run, find_job, value_of, verb

NO_FAULTS = "no faults"


@click.group()
def fault() -> None:
    """Inject a fault that the cloud may have."""


@fault.command(name="list")
@verb(READS)
async def list_faults(run: Run) -> None:
    """List all faults in force."""
    answer = await ask({"do": "faults"})
    _print(run, answer, *_all_words(answer))


@fault.command()
@click.argument("numbers", metavar="[NUMBER]...", nargs=-1, type=int)
@verb("emulator.fault")
async def clear(run: Run, numbers: tuple[int, ...]) -> None:
    """Clear the API faults with these NUMBERs; without a number, all faults of every kind."""
    request = {"do": "clear", "numbers": list(numbers)}
    answer = value_of(await run.emulator_operations().fault(request))
    _print(run, answer, *_all_words(answer))


def _command(entry: FaultEntry) -> click.Command:

    @verb("emulator.fault")
    async def inject(run: Run, **options: Any) -> None:
        request = _request(entry, options)
        job = request.pop("job", "")
        if entry.argument == "job":
            answer = await _inject_into_job(run, job, request)
        else:
            answer = value_of(await run.emulator_operations().fault(request))
        if entry.note and not run.json:
            note(entry.note)
        _print(run, answer, entry.words(answer))

    command: click.Command = click.command(entry.name, help=entry.help)(inject)
    own: list[click.Parameter] = [click.Argument([entry.argument])] if entry.argument else []
    own += [_parameter(option) for option in entry.options if option.flag]
    command.params = [*own, *command.params]
    return command


def _parameter(option: Option) -> click.Parameter:
    """Create the option of the verb; several flags of one choice share a parameter."""
    name = option.name
    if option.value:
        return click.Option([option.flag, name], flag_value=option.value, default=None, help=option.help)
    if option.type is bool:
        return click.Option([option.flag, name], is_flag=True, help=option.help)
    kind: Any = None
    if option.values and not option.several:
        kind = click.Choice(option.values, case_sensitive=False)
    elif option.type is int:
        kind = click.IntRange(0)
    elif option.type is float and not option.pair:
        kind = click.FloatRange(0, 1) if option.most == 1 else click.FloatRange(0)
        kind = float if option.least < 0 else kind
    names = [option.flag, name]
    return click.Option(names, metavar=option.metavar, type=kind, multiple=option.several, help=option.help)


def _request(entry: FaultEntry, options: Mapping[str, Any]) -> dict[str, Any]:
    """Build the request from the options that are set. Raises UsageError."""
    values: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value for name, value in options.items() if value
    }
    if sum(name in values for name in entry.exclusive) > 1:
        flags = [option.flag for option in entry.options if option.name in entry.exclusive and option.flag]
        raise click.UsageError(f"{', '.join(flags[:-1])} and {flags[-1]} exclude each other.")
    for option in entry.options:
        if option.pair and option.name in values:
            values |= _pair(option, values[option.name])
    return {"do": entry.name, **values}


def _pair(option: Option, text: str) -> dict[str, float]:
    """Parse the two fields of an option such as SHARE:SECONDS. Raises BadParameter."""
    first, _, second = text.partition(":")
    try:
        fields = {option.name: float(first), option.pair: float(second)}
    except ValueError:
        fields = {}
    if not fields or not option.least <= fields[option.name] <= option.most or fields[option.pair] <= 0:
        raise click.BadParameter(f"{text!r}: write {option.metavar}, e.g. 0.1:5", param_hint=option.flag)
    return fields


async def _inject_into_job(run: Run, reference: str, request: dict[str, Any]) -> dict[str, Any]:
    # A backend starts the emulator, and a stopped emulator has no job to inject a fault into.
    await EMULATOR.must_run()
    where = run.emulator_jobs
    async with run.backend(where) as backend:
        job = await find_job(backend, reference)
        return value_of(await run.emulator_operations(where).fault_of_job(job, request))


def _all_words(answer: Mapping[str, Any]) -> list[str]:
    lines = [
        entry.words(fields)
        for name, entry in FAULTS.items()
        if name in answer
        for fields in (answer[name] if entry.added else [answer[name]])
    ]
    return [line for line in lines if not line.endswith(f": {NO_FAULTS}")] or [NO_FAULTS]


def _print(run: Run, answer: dict[str, Any], *lines: str) -> None:
    if run.json:
        print_json(answer)
    else:
        for line in lines:
            out(line)


for _entry in FAULTS.values():
    fault.add_command(_command(_entry))
