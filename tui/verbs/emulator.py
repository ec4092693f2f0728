"""`vxtui emulator …`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from tui.actions.operations.emulator import ask, must_run
from tui.emulator.paths import default_state_dir
from tui.verbs.output import note, out, print_json
from tui.verbs.run import READS, Failure, Run, find_job, value_of, verb

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def _amount(
    option: str, help: str, metavar: str = "SECONDS", kind: click.ParamType | None = None, name: str = ""
) -> Callable[[Decorated], Decorated]:
    """An option with a number of at least 0; 0 turns it off."""
    names = (option, name) if name else (option,)
    return click.option(*names, metavar=metavar, type=kind or click.FloatRange(0), default=0, help=help)


@click.group()
def emulator() -> None:
    """A Vertex AI on this machine. Jobs keep running when it stops; it adopts them when it starts."""


@emulator.command()
@click.option(
    "--rest", metavar="HOST:PORT", help="Serve REST too, on a loopback address; port 0 picks a free port."
)
@click.option("--no-auth", is_flag=True, help="Accept REST clients without the token.")
@click.option(
    "--simulate-accelerators", is_flag=True, help="Simulate GPU metrics for machine types with GPUs."
)
@click.option("--foreground", is_flag=True, help="Run in this terminal until ctrl+c.")
@verb("emulator.start")
async def start(
    run: Run, rest: str | None, no_auth: bool, simulate_accelerators: bool, foreground: bool
) -> None:
    """Start the emulator."""
    operations = run.emulator_operations()
    if foreground:
        arguments = ["--rest", rest] if rest else []
        arguments += ["--no-auth"] if no_auth else []
        arguments += ["--simulate-accelerators"] if simulate_accelerators else []
        value_of(await operations.become(arguments))
    info = value_of(
        await operations.start(rest=rest, no_auth=no_auth, simulate_accelerators=simulate_accelerators)
    )
    if run.json:
        print_json(info)
    else:
        out(f"running, pid {info['pid']}, {info['socket']}")
        if info.get("rest"):
            out(f"REST on {info['rest']}" + ("" if no_auth else f", token in {default_state_dir().token}"))


@emulator.command()
@verb("emulator.stop")
async def stop(run: Run) -> None:
    """Stop the emulator. Its jobs keep running."""
    was_running = value_of(await run.emulator_operations().stop())
    if run.json:
        print_json({"stopped": was_running})
    else:
        out("stopped; its jobs keep running" if was_running else "it was not running")


@emulator.command()
@verb(READS)
async def status(run: Run) -> int:
    """Show whether it runs, where, and its number of jobs. Exit code 5 if it does not run."""
    info = await ask({"do": "status"})
    if run.json:
        print_json(info)
        return 0
    jobs = ", ".join(f"{n} {s.lower()}" for s, n in info["jobs"].items() if n)
    out(f"running, pid {info['pid']}, {jobs or 'no jobs'}")
    out(f"  socket {info['socket']}")
    out(f"  REST   {info['rest'] or 'off'}")
    out(f"  buckets {info['buckets']}")
    return 0


@emulator.command()
@click.option("--lines", "-n", default=50, show_default=True, help="Number of lines from the end.")
@verb(READS)
async def logs(run: Run, lines: int) -> None:
    """Print the emulator's own log."""
    path = default_state_dir().log
    try:
        text = await asyncio.to_thread(path.read_text, errors="replace")
    except FileNotFoundError as error:
        raise Failure(f"there is no log at {path} yet", code="NOT_FOUND", exit_code=3) from error
    found = text.splitlines()[-lines:]
    if run.json:
        print_json({"lines": found})
    else:
        for line in found:
            out(line)


@emulator.group()
def fault() -> None:
    """Inject a fault that the cloud may have."""


@fault.command()
@click.argument("job")
@click.option("--replica", metavar="R", help="Only this replica, e.g. workerpool1-0; by default all.")
@verb("emulator.fault")
async def preempt(run: Run, job: str, replica: str | None) -> None:
    """Preempt JOB's machines as Spot does: SIGTERM, SIGKILL after the grace period, then a restart."""
    # A backend starts the emulator, and one that was stopped has nothing to preempt.
    await must_run()
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
