"""All faults of the emulator: one function per fault. To add a fault, write its function here.

A function receives the parts that faults act on (`Targets`) and the options of the request, or `None` to read
only, and returns the fault in force. The function imports modules of the server in its body, so that the
command line can read the help of the faults without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from tui.emulator.faults.limit import Limit, limit_of
from tui.emulator.faults.registry import FOR, TIMES, Act, Answer, FaultRegistry, Option, Options

if TYPE_CHECKING:
    from tui.emulator.fault_targets import Targets

FAULTS = FaultRegistry()
fault = FAULTS.add
CHECKED_SERVICES = ("projects", "accounts", "registry", "resources", "boards", "quotas")
"""Services that launch checks read."""
CODES = (
    "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
    "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
)  # fmt: skip
_LONGEST_DELAY = 600.0
_LARGEST_OFFSET = 10 * 366 * 86400.0


def _kind(kind: str, help: str) -> Option:
    """Return the option `--KIND`, which selects the kind of the fault."""
    return Option(f"--{kind}", help, "kind", str, value=kind, says=kind)


def _listed(flag: str, help: str, field: str, metavar: str, values: tuple[str, ...] = ()) -> Option:
    """Return an option that may be given several times."""
    return Option(flag, help, field, str, metavar, several=True, values=values, says=f"{field} {{{field}}}")


_REPLICA = Option(
    "--replica", "Only this replica, e.g. workerpool1-0; by default all.", type=object, metavar="R"
)
_REPLICAS = Option(field="replicas", type=object, says="{replicas}")


def _of_job(name: str, *options: Option, doing: str, note: str) -> Callable[[Act], Act]:
    """Declare a fault that happens once, to replicas of one job."""
    options = _REPLICA, *options, _REPLICAS
    return fault(name, "{job}", *options, argument="job", once=True, doing=doing, note=note)


@_of_job("preempt", doing="Preempting", note="SIGTERM sent; SIGKILL follows after the grace period")
def preempt(targets: Targets, options: Options | None) -> Answer:
    """Preempt JOB's machines: SIGTERM, SIGKILL after the grace period, then a restart.

    Without Spot this is the maintenance of a machine.
    """
    return _command(targets, options, "preempt")


@_of_job("oom", doing="Killing for memory", note="SIGKILL sent, as after running out of memory")
def oom(targets: Targets, options: Options | None) -> Answer:
    """Kill JOB's replicas as the kernel does when memory runs out."""
    return _command(targets, options, "oom")


@_of_job(
    "pause",
    Option("--resume", "Let stopped replicas continue (SIGCONT).", type=bool),
    doing="Pausing",
    note="signal sent to every process of the replicas",
)
def pause(targets: Targets, options: Options | None) -> Answer:
    """Stop JOB's replicas with SIGSTOP, so that they hang without a message."""
    return _command(targets, options, "pause", "continue")


@_of_job(
    "cut",
    Option("--resume", "Let packets through between all replicas again.", type=bool),
    doing="Cutting",
    note="applied to all connections between the replicas",
)
def cut(targets: Targets, options: Options | None) -> Answer:
    """Drop the packets between a replica of JOB and the others, so that connections are silent.

    Connections to buckets and other services stay.
    """
    return _command(targets, options, "cut", "join")


def _command(targets: Targets, options: Options | None, do: str, resume: str = "") -> Answer:
    assert options is not None
    do = resume if options.get("resume") else do
    job = targets.active_job(options["job"])
    return {"job": job.record.name, "replicas": targets.command(job, options["replica"], do)}


@fault(
    "scarcity",
    "new jobs",
    Option(
        "--quota", "No quota of this metric, or * for any.", type=str, metavar="METRIC", says="no {quota}"
    ),
    Option("--stockout", "No machines: jobs fail, and FLEX_START waits.", type=bool, says="no machines"),
    Option("--image", "Images can't be pulled.", type=bool, says="no images"),
    Option("--delay", "Additional duration of provisioning.", most=_LONGEST_DELAY, says="{delay:g} s slower"),
    FOR,
    TIMES,
)
def scarcity(targets: Targets, options: Options | None) -> Answer:
    """Set the resources that new jobs lack from now on; without options, clear the fault. --times counts
    jobs."""
    from tui.emulator.faults.scarcity import Scarcity  # noqa: PLC0415

    active = targets.parts.running.scarcity
    if options is not None:
        from tui.domain.vertex.catalog import check_metric  # noqa: PLC0415

        if options["quota"] not in {"", "*", None}:
            check_metric(options["quota"])
        words = {name: options[name] for name in ("quota", "stockout", "image", "delay")}
        active.set(Scarcity(**words), limit_of(options))
    return active.fields()


@fault(
    "tail",
    "log streams",
    Option("--cut-every", "Cut every stream after this time.", most=3600, says="cut every {cut_every:g} s"),
    Option(
        "--late",
        "Deliver this share of entries late, by up to this number of seconds.",
        "late_share",
        metavar="SHARE:SECONDS",
        most=1,
        pair="late_seconds",
        says="{late_share:.0%} up to {late_seconds:g} s late",
    ),
    Option(field="late_seconds", most=3600),
    Option(
        "--double",
        "Send this share of entries twice.",
        "double_share",
        metavar="SHARE",
        most=1,
        says="{double_share:.0%} twice",
    ),
    Option("--shuffle", "Shuffle the entries of each message.", type=bool, says="shuffled"),
)
def tail(targets: Targets, options: Options | None) -> Answer:
    """Set the faults of all log streams, from now on; without options, clear them.

    SHARE is from 0 to 1. A late entry is missing from log listings too until its time.
    """
    from tui.emulator.logging.faults import LogFaults  # noqa: PLC0415

    if options is not None:
        targets.tail.set(LogFaults(**options))
    return asdict(targets.tail.current)


@fault(
    "buckets",
    "buckets {bucket}",
    Option("--bucket", "Only this bucket; by default all.", type=str, metavar="NAME"),
    _kind("unavailable", "Answer 503."),
    _kind("denied", "Answer 403."),
    _kind("missing", "Answer 404."),
    _kind("rate", "Answer 429."),
    Option("--delay", "Delay each answer.", most=_LONGEST_DELAY, says="{delay:g} s late"),
    Option(
        "--cut-after",
        "Cut uploads after this many bytes.",
        type=int,
        metavar="BYTES",
        most=1e15,
        says="uploads cut after {cut_after} bytes",
    ),
    FOR,
    TIMES,
)
def buckets(targets: Targets, options: Options | None) -> Answer:
    """Set the faults of Cloud Storage, from now on; without options, clear them.

    Files below /gcs are not affected.
    """
    faults = targets.buckets.faults
    if options is not None:
        bucket = options["bucket"].removeprefix("gs://").rstrip("/")
        faults.set(replace(faults.OFF, **{**options, "bucket": bucket}))
    return asdict(faults.current)


@fault(
    "checks",
    "checks",
    _listed("--deny", "Deny this permission; * for any.", "denied", "PERMISSION"),
    _listed("--missing", "Hide this image, account or resource; * for any.", "missing", "NAME"),
    _listed("--fail", "Answer 503 for this service.", "failing", "SERVICE", CHECKED_SERVICES),
    _listed("--hang", "Do not answer for this service.", "hanging", "SERVICE", CHECKED_SERVICES),
    Option("--expired", "Refuse credentials as expired.", type=bool, says="credentials expired"),
)
def checks(targets: Targets, options: Options | None) -> Answer:
    """Set the faults of the checks before a launch, from now on; without options, clear them.

    SERVICE is projects, accounts, registry, resources, boards or quotas. For buckets use `fault buckets`.
    """
    from tui.emulator.services.check_faults import CheckFaults  # noqa: PLC0415

    if options is not None:
        targets.checks.set(CheckFaults(**options))
    return targets.checks.current.fields()


@fault(
    "api",
    "{number}  {method}",
    Option(
        "--error",
        "Answer this error of gRPC, e.g. UNAVAILABLE.",
        "code",
        str,
        "CODE",
        values=CODES,
        says="{code}",
    ),
    Option("--message", "The error's message.", type=str, metavar="TEXT"),
    Option(
        "--retry-after", "RetryInfo of --error.", most=_LONGEST_DELAY, says="retry after {retry_after:g} s"
    ),
    _kind("lost", "Take effect, then break the connection."),
    _kind("malformed", "Take effect, then answer garbage."),
    _kind("silent", "Do not answer; a stream opens without messages."),
    Option(field="kind", type=str, value="error"),
    Option(
        "--applied",
        "Let the request take effect before --error or --silent.",
        type=bool,
        says="after the effect",
    ),
    Option(
        "--delay",
        "Delay each answer, and each message of a stream.",
        most=_LONGEST_DELAY,
        says="{delay:g} s late",
    ),
    FOR,
    TIMES,
    argument="method",
    exclusive=("code", "kind"),
    added=True,
)
def api(targets: Targets, options: Options | None) -> Answer:
    """Add a fault of METHOD of any service, e.g. GetCustomJob, 'LoggingServiceV2.*', storage.PUT or '*'.

    Case does not matter. Storage has the methods of HTTP. The earliest fault that matches a call applies.
    """
    from tui.emulator.faults.api import ApiFault  # noqa: PLC0415

    if options is None:
        return {"api": [active.fields() for active in targets.api.active()]}
    kind = options["kind"] or ("error" if options["code"] else "")
    if (kind == "error") != bool(options["code"]):
        raise ValueError(f"code must be an error code: one of {', '.join(CODES)}")
    arguments = {
        name: options[name] for name in ("method", "code", "message", "delay", "retry_after", "applied")
    }
    return targets.api.add(ApiFault(kind=kind, **arguments), limit_of(options)).fields()


@fault(
    "disk",
    "disk",
    Option("--full", "Refuse every write for lack of space.", type=bool, says="full"),
    FOR,
    TIMES,
)
def disk(targets: Targets, options: Options | None) -> Answer:
    """Set the fault of the emulator's disk: its databases and buckets; without options, clear it."""
    if options is not None:
        targets.disk.set(options["full"], limit_of(options))
    return targets.disk.fields()


@fault(
    "connections",
    "connections",
    Option("--half-open", "Accept connections and send no data.", type=bool, says="half-open"),
    FOR,
)
def connections(targets: Targets, options: Options | None) -> Answer:
    """Set the fault of new connections; without options, clear it.

    Open connections stay as they are: `fault api '*' --silent` silences them.
    """
    if options is not None:
        targets.connections.set(options["half_open"], Limit(options["lasts"]))
    return targets.connections.fields()


@fault(
    "clock",
    "clock",
    Option(
        "--offset",
        "Time ahead of the clock; negative: behind.",
        least=-_LARGEST_OFFSET,
        most=_LARGEST_OFFSET,
        says="{offset:+g} s",
    ),
    FOR,
)
def clock(targets: Targets, options: Options | None) -> Answer:
    """Set the clock that gives jobs and operations their times; without options, set it right."""
    from tui.emulator.faults import clock as emulated  # noqa: PLC0415

    if options is not None:
        emulated.set_offset(options["offset"], Limit(options["lasts"]))
    return emulated.fields()
