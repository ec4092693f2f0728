"""`vxtui emulator …`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from tui.actions.operations.emulator import ask
from tui.emulator import launcher
from tui.emulator.paths import default_state_dir
from tui.verbs.output import note, out, print_json
from tui.verbs.run import READS, Failure, Run, value_of, verb

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def _amount(
    option: str, help: str, metavar: str = "SECONDS", kind: click.ParamType | None = None, name: str = ""
) -> Callable[[Decorated], Decorated]:
    """An option that takes a number from 0 up, which is none of it."""
    names = (option, name) if name else (option,)
    return click.option(*names, metavar=metavar, type=kind or click.FloatRange(0), default=0, help=help)


@click.group()
def emulator() -> None:
    """The Vertex AI that runs on this machine. Jobs go on when it stops, and are taken up when it starts."""


@emulator.command()
@click.option(
    "--rest", metavar="HOST:PORT", help="Serve REST too, on a loopback address; port 0 takes a free one."
)
@click.option("--no-auth", is_flag=True, help="Let REST clients in without the token.")
@click.option(
    "--simulate-accelerators", is_flag=True, help="Invent GPU figures where a machine type has GPUs."
)
@click.option("--foreground", is_flag=True, help="Stay in this terminal until ctrl+c.")
@verb(READS)
async def start(
    run: Run, rest: str | None, no_auth: bool, simulate_accelerators: bool, foreground: bool
) -> None:
    """Start the emulator."""
    state = default_state_dir()
    if foreground:
        argv = [sys.executable, "-m", "tui.emulator", "--state-dir", str(state.root)]
        argv += ["--rest", rest] if rest else []
        argv += ["--no-auth"] if no_auth else []
        argv += ["--simulate-accelerators"] if simulate_accelerators else []
        os.execv(sys.executable, argv)
    try:
        info = await asyncio.to_thread(
            launcher.start,
            state,
            rest=rest,
            no_auth=no_auth,
            simulate_accelerators=simulate_accelerators,
        )
    except launcher.LauncherError as error:
        raise Failure(str(error), code="UNAVAILABLE", exit_code=5) from error
    if run.json:
        print_json(info)
    else:
        out(f"running, pid {info['pid']}, {info['socket']}")
        if info.get("rest"):
            out(f"REST on {info['rest']}" + ("" if no_auth else f", token in {state.token}"))


@emulator.command()
@verb("emulator.stop")
async def stop(run: Run) -> None:
    """Stop the emulator. Its jobs go on."""
    was_running = value_of(await run.emulator_operations().stop())
    if run.json:
        print_json({"stopped": was_running})
    else:
        out("stopped; its jobs go on" if was_running else "it was not running")


@emulator.command()
@verb(READS)
async def status(run: Run) -> int:
    """Say whether it runs, where, and with how many jobs. Exit code 5 when it does not run."""
    state = default_state_dir()
    info = await asyncio.to_thread(launcher.status, state)
    if info is None:
        raise Failure(
            f"no emulator runs on {state.root}", fix="vxtui emulator start", code="UNAVAILABLE", exit_code=5
        )
    info = await ask({"do": "status"})
    if run.json:
        print_json(info)
        return 0
    jobs = ", ".join(f"{n} {s.removeprefix('JOB_STATE_').lower()}" for s, n in info["jobs"].items() if n)
    out(f"running, pid {info['pid']}, {jobs or 'no jobs'}")
    out(f"  socket {info['socket']}")
    out(f"  REST   {info['rest'] or 'off'}")
    out(f"  buckets {info['buckets']}")
    return 0


@emulator.command()
@click.option("--lines", "-n", default=50, show_default=True, help="How many of the last lines.")
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
    """Do to a job what the cloud may do to it."""


@fault.command()
@click.argument("job")
@click.option("--replica", metavar="R", help="Only this machine, e.g. workerpool1-0; all without it.")
@verb("emulator.fault")
async def preempt(run: Run, job: str, replica: str | None) -> None:
    """Take JOB's machines away as Spot does: SIGTERM, SIGKILL after the grace, and the job starts again."""
    request = {"do": "preempt", "job": job}
    if replica:
        request["replica"] = replica
    answer = await _fault(run, request)
    if run.json:
        print_json(answer)
    else:
        note("SIGTERM sent; SIGKILL follows after the grace period")
        out(f"{answer['job']}: {', '.join(answer['replicas'])}")


@fault.command()
@_amount("--cut-every", "End streams.")
@click.option("--late", metavar="SHARE:SECONDS", help="Entries that come up to so much later.")
@_amount("--double", "Entries sent twice.", "SHARE", click.FloatRange(0, 1))
@click.option("--shuffle", is_flag=True, help="Entries of one message in no order.")
@verb("emulator.fault")
async def tail(run: Run, cut_every: float, late: str | None, double: float, shuffle: bool) -> None:
    """Make log streams as bad as a network may: from now on, for all of them; without options all is well.

    SHARE is from 0 to 1. A late entry is in no list either before its time.
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
        "in no order" if shuffle else "",
    ]
    _tell(run, await _fault(run, request), "log streams", said)


@fault.command()
@click.option("--bucket", metavar="NAME", default="", help="Only this one; all of them without it.")
@click.option("--unavailable", "kind", flag_value="unavailable", help="Answer 503.")
@click.option("--denied", "kind", flag_value="denied", help="Answer 403.")
@click.option("--missing", "kind", flag_value="missing", help="Answer 404.")
@click.option("--rate", "kind", flag_value="rate", help="Answer 429.")
@_amount("--delay", "Before each answer.")
@_amount("--cut-after", "Break uploads after so much.", "BYTES", click.IntRange(0))
@_amount("--for", "Then all is well.", name="lasts")
@_amount("--times", "Only so many requests.", "INTEGER", click.IntRange(0))
@verb("emulator.fault")
async def buckets(run: Run, **asked: str | float | None) -> None:
    """Make Cloud Storage fail, slow or cut off uploads: from now on; without options all is well.

    It concerns the bucket server, not the files that a job writes below /gcs.
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
    _tell(run, answer, which, [", ".join(filter(None, said)), *(limits if any(said) else ())], " ")


@fault.command()
@click.option(
    "--deny", "denied", metavar="PERMISSION", multiple=True, help="Nobody has it; * stands for any."
)
@click.option(
    "--missing", metavar="NAME", multiple=True, help="An image, account or resource that is gone; * for any."
)
@click.option("--fail", "failing", metavar="SERVICE", multiple=True, help="It answers 503.")
@click.option("--hang", "hanging", metavar="SERVICE", multiple=True, help="It does not answer.")
@click.option("--expired", is_flag=True, help="Credentials are refused.")
@verb("emulator.fault")
async def checks(run: Run, **asked: tuple[str, ...] | bool) -> None:
    """Make the checks before a launch fail: from now on; without options all is well.

    SERVICE is projects, accounts, registry, resources, boards or quotas. Buckets have faults of their own.
    """
    request = {"do": "checks", **{k: list(v) if isinstance(v, tuple) else v for k, v in asked.items()}}
    answer = await _fault(run, request)
    said = [
        f"{name} {', '.join(value)}" for name, value in answer.items() if isinstance(value, list) and value
    ]
    said += ["credentials expired"] if answer["expired"] else []
    _tell(run, answer, "checks", said, "; ")


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
    """What the emulator answers to a fault. Raises Failure."""
    return value_of(await run.emulator_operations().fault(request))


def _tell(run: Run, answer: dict[str, Any], what: str, said: Sequence[str], joint: str = ", ") -> None:
    """The faults that are in force now: as JSON, or in words."""
    if run.json:
        print_json(answer)
    else:
        out(f"{what}: {joint.join(filter(None, said)) or 'no faults'}")
