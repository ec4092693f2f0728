"""`vxtui emulator fault …`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from tui.actions.operations.emulator import EMULATOR, ask
from tui.verbs.output import note, out, print_json
from tui.verbs.run import READS, Run, find_job, value_of, verb

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
CODES = (
    "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
    "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
)  # fmt: skip


def _amount(
    option: str, help: str, metavar: str = "SECONDS", kind: click.ParamType | None = None, name: str = ""
) -> Callable[[Decorated], Decorated]:
    """An option with a number of at least 0; 0 turns it off."""
    names = (option, name) if name else (option,)
    return click.option(*names, metavar=metavar, type=kind or click.FloatRange(0), default=0, help=help)


_for = _amount("--for", "Clear the fault after this time.", name="lasts")
_times = _amount("--times", "Only for this many calls.", "INTEGER", click.IntRange(0))


@click.group()
def fault() -> None:
    """Inject a fault that the cloud may have."""


@fault.command()
@click.argument("job")
@click.option("--replica", metavar="R", help="Only this replica, e.g. workerpool1-0; by default all.")
@verb("emulator.fault")
async def preempt(run: Run, job: str, replica: str | None) -> None:
    """Preempt JOB's machines as Spot does: SIGTERM, SIGKILL after the grace period, then a restart."""
    # A backend starts the emulator, and one that was stopped has nothing to preempt.
    await EMULATOR.must_run()
    where = run.emulator_jobs
    async with run.backend(where) as backend:
        found = await find_job(backend, job)
        answer = value_of(await run.emulator_operations(where).preempt(found, replica or ""))
    if run.json:
        print_json(answer)
    else:
        note("SIGTERM sent; SIGKILL follows after the grace period")
        out(f"{answer['job']}: {', '.join(answer['replicas'])}")


@fault.command()
@_amount("--cut-every", "Cut every stream after this time.")
@click.option("--late", metavar="SHARE:SECONDS", help="Deliver this share of entries up to so much later.")
@_amount("--double", "Send this share of entries twice.", "SHARE", click.FloatRange(0, 1))
@click.option("--shuffle", is_flag=True, help="Shuffle the entries of each message.")
@verb("emulator.fault")
async def tail(run: Run, cut_every: float, late: str | None, double: float, shuffle: bool) -> None:
    """Set the faults of all log streams, from now on; without options, clear them.

    SHARE is from 0 to 1. A late entry is missing from log listings too until its time.
    """
    share, seconds = _late(late)
    request = {
        "do": "tail",
        "cut_every": cut_every,
        "late_share": share,
        "late_seconds": seconds,
        "double_share": double,
        "shuffle": shuffle,
    }
    said = [
        f"cut every {cut_every:g} s" if cut_every else "",
        f"{share:.0%} up to {seconds:g} s late" if share else "",
        f"{double:.0%} twice" if double else "",
        "shuffled" if shuffle else "",
    ]
    _print_faults(run, await _fault(run, request), "log streams", said)


@fault.command()
@click.option("--bucket", metavar="NAME", default="", help="Only this bucket; by default all.")
@click.option("--unavailable", "kind", flag_value="unavailable", help="Answer 503.")
@click.option("--denied", "kind", flag_value="denied", help="Answer 403.")
@click.option("--missing", "kind", flag_value="missing", help="Answer 404.")
@click.option("--rate", "kind", flag_value="rate", help="Answer 429.")
@_amount("--delay", "Delay each answer.")
@_amount("--cut-after", "Cut uploads after this many bytes.", "BYTES", click.IntRange(0))
@_amount("--for", "Clear the fault after this time.", name="lasts")
@_amount("--times", "Fail only this many requests.", "INTEGER", click.IntRange(0))
@verb("emulator.fault")
async def buckets(run: Run, **asked: str | float | None) -> None:
    """Set the faults of Cloud Storage, from now on; without options, clear them.

    Files below /gcs are not affected.
    """
    request = {"do": "buckets", **{key: value for key, value in asked.items() if value}}
    answer = await _fault(run, request)
    said = [
        answer["kind"],
        f"{answer['delay']:g} s late" if answer["delay"] else "",
        f"uploads cut after {answer['cut_after']} bytes" if answer["cut_after"] else "",
    ]
    which = f"buckets {answer['bucket'] or '(all)'}" if any(said) else "buckets"
    limits = [
        f"for {answer['lasts']:g} s" if answer["lasts"] else "",
        f"{answer['times']} times" if answer["times"] else "",
    ]
    _print_faults(run, answer, which, [", ".join(filter(None, said)), *(limits if any(said) else ())], " ")


@fault.command()
@click.option(
    "--deny",
    "denied",
    metavar="PERMISSION",
    multiple=True,
    help="Deny this permission; * for any.",
)
@click.option(
    "--missing",
    metavar="NAME",
    multiple=True,
    help="Hide this image, account or resource; * for any.",
)
@click.option("--fail", "failing", metavar="SERVICE", multiple=True, help="Answer 503 for this service.")
@click.option("--hang", "hanging", metavar="SERVICE", multiple=True, help="Do not answer for this service.")
@click.option("--expired", is_flag=True, help="Refuse credentials as expired.")
@verb("emulator.fault")
async def checks(run: Run, **asked: tuple[str, ...] | bool) -> None:
    """Set the faults of the checks before a launch, from now on; without options, clear them.

    SERVICE is projects, accounts, registry, resources, boards or quotas. For buckets use `fault buckets`.
    """
    request = {"do": "checks", **{k: list(v) if isinstance(v, tuple) else v for k, v in asked.items()}}
    answer = await _fault(run, request)
    said = [
        f"{name} {', '.join(value)}" for name, value in answer.items() if isinstance(value, list) and value
    ]
    said += ["credentials expired"] if answer["expired"] else []
    _print_faults(run, answer, "checks", said, "; ")


@fault.command()
@click.argument("method")
@click.option(
    "--error", "code", type=click.Choice(CODES, case_sensitive=False), metavar="CODE",
    help="Answer this error of gRPC, e.g. UNAVAILABLE.",
)  # fmt: skip
@click.option("--message", metavar="TEXT", default="", help="The error's message.")
@click.option("--lost", "kind", flag_value="lost", help="Take effect, then break the connection.")
@click.option("--malformed", "kind", flag_value="malformed", help="Take effect, then answer garbage.")
@click.option("--silent", "kind", flag_value="silent", help="Do not answer; a stream opens without messages.")
@click.option("--applied", is_flag=True, help="Let the request take effect before --error or --silent.")
@_amount("--delay", "Delay each answer, and each message of a stream.")
@_for
@_times
@verb("emulator.fault")
async def api(run: Run, method: str, code: str | None, kind: str | None, **asked: Any) -> None:
    """Add a fault of METHOD of any service, e.g. GetCustomJob, 'LoggingServiceV2.*', storage.PUT or '*'.

    Case does not matter. Storage has the methods of HTTP. The earliest fault that matches a call applies.
    """
    if code and kind:
        raise click.UsageError("--error, --lost, --malformed and --silent exclude each other.")
    request = {"do": "api", "method": method, "kind": "error" if code else kind or "", "code": code or ""}
    request |= {key: value for key, value in asked.items() if value}
    answer = await _fault(run, request)
    _print(run, answer, _api_words(answer))


@fault.command()
@click.option("--full", is_flag=True, help="Refuse every write for lack of space.")
@_for
@_times
@verb("emulator.fault")
async def disk(run: Run, **asked: Any) -> None:
    """Set the fault of the emulator's disk: its databases and buckets; without options, clear it."""
    answer = await _fault(run, {"do": "disk", **asked})
    _print(run, answer, f"disk: {_disk_words(answer)}")


@fault.command()
@click.option("--half-open", is_flag=True, help="Accept connections and say nothing.")
@_for
@verb("emulator.fault")
async def connections(run: Run, **asked: Any) -> None:
    """Set the fault of new connections; without options, clear it.

    Open connections stay as they are: `fault api '*' --silent` silences them.
    """
    answer = await _fault(run, {"do": "connections", **asked})
    _print(run, answer, f"connections: {_connection_words(answer)}")


@fault.command()
@click.option("--offset", metavar="SECONDS", type=float, default=0.0, help="Ahead; negative: behind.")
@_for
@verb("emulator.fault")
async def clock(run: Run, **asked: Any) -> None:
    """Set the clock that gives jobs and operations their times; without options, set it right."""
    answer = await _fault(run, {"do": "clock", **asked})
    _print(run, answer, f"clock: {_clock_words(answer)}")


@fault.command(name="list")
@verb(READS)
async def list_faults(run: Run) -> None:
    """List all faults in force."""
    answer = await ask({"do": "faults"})
    _print(run, answer, *(_all_words(answer) or ["no faults"]))


@fault.command()
@click.argument("numbers", metavar="[NUMBER]...", nargs=-1, type=int)
@verb("emulator.fault")
async def clear(run: Run, numbers: tuple[int, ...]) -> None:
    """Clear the API faults with these NUMBERs; without a number, all faults of every kind."""
    answer = await _fault(run, {"do": "clear", "numbers": list(numbers)})
    _print(run, answer, *(_all_words(answer) or ["no faults"]))


def _print(run: Run, answer: dict[str, Any], *lines: str) -> None:
    if run.json:
        print_json(answer)
    else:
        for line in lines:
            out(line)


def _api_words(fault: Mapping[str, Any]) -> str:
    kind = fault["code"] if fault["kind"] == "error" else fault["kind"]
    said = [
        f"{kind} after the effect" if fault["applied"] and kind else kind,
        f"{fault['delay']:g} s late" if fault["delay"] else "",
        *_limit_words(fault),
    ]
    return f"{fault['number']}  {fault['method']}: {', '.join(filter(None, said))}"


def _disk_words(fault: Mapping[str, Any]) -> str:
    return ", ".join(filter(None, ["full", *_limit_words(fault)])) if fault["full"] else "no faults"


def _connection_words(fault: Mapping[str, Any]) -> str:
    return ", ".join(["half-open", *_limit_words(fault)]) if fault["half_open"] else "no faults"


def _clock_words(fault: Mapping[str, Any]) -> str:
    return ", ".join([f"{fault['offset']:+g} s", *_limit_words(fault)]) if fault["offset"] else "no faults"


def _limit_words(fault: Mapping[str, Any]) -> list[str]:
    return [
        text for text in (
            f"for {fault['left_seconds']:g} s" if fault.get("left_seconds") else "",
            f"{fault['left_times']} times" if fault.get("left_times") else "",
        ) if text
    ]  # fmt: skip


def _all_words(faults: Mapping[str, Any]) -> list[str]:
    found = [_api_words(one) for one in faults["api"]]
    found += [f"disk: {_disk_words(faults['disk'])}"] if faults["disk"]["full"] else []
    found += (
        [f"connections: {_connection_words(faults['connections'])}"]
        if faults["connections"]["half_open"]
        else []
    )
    found += [f"clock: {_clock_words(faults['clock'])}"] if faults["clock"]["offset"] else []
    for name in ("tail", "buckets", "checks"):
        given = {key: value for key, value in faults[name].items() if value}
        found += [f"{name}: " + ", ".join(f"{k} {_value(v)}" for k, v in given.items())] if given else []
    return found


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return "on" if value is True else f"{value:g}" if isinstance(value, float) else str(value)


def _late(text: str | None) -> tuple[float, float]:
    if text is None:
        return 0.0, 0.0
    share, _, seconds = text.partition(":")
    try:
        found = float(share), float(seconds)
    except ValueError:
        found = -1.0, 0.0
    if not (0 <= found[0] <= 1 and 0 < found[1] <= 3600):
        raise click.BadParameter(f"{text!r}: write SHARE:SECONDS, e.g. 0.1:5", param_hint="--late")
    return found


async def _fault(run: Run, request: dict[str, Any]) -> dict[str, Any]:
    """The emulator's answer to a fault. Raises Failure."""
    return value_of(await run.emulator_operations().fault(request))


def _print_faults(
    run: Run, answer: dict[str, Any], what: str, faults: Sequence[str], joint: str = ", "
) -> None:
    """Print the current faults."""
    if run.json:
        print_json(answer)
    else:
        out(f"{what}: {joint.join(filter(None, faults)) or 'no faults'}")
