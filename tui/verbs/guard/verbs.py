"""Implements `vxtui guard …`."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from tui.config.guard_settings import GuardSettings, guard_settings
from tui.config.paths import state_dir
from tui.domain.core.formatting import age, pieces, rfc3339
from tui.guard.channels import DeliveryFailed, alert_json, deliver
from tui.guard.process import GuardError, log_file, record_file, running_guard, start_guard, stop_guard
from tui.guard.record import AlertRecord, CancelRecord, DeliveryRecord, GuardRecord
from tui.verbs.output import out, print_json
from tui.verbs.run import READS, USAGE, Run, VerbFailure, verb

NOT_RUNNING = 5


@click.group()
def guard() -> None:
    """Watch jobs while no console is open, and send alerts (docs/GUARD.md)."""


@guard.command()
@verb(READS)
async def start(run: Run) -> None:
    """Start the guard. It runs until `vxtui guard stop`, also after this session ends."""
    settings = guard_settings(run.settings)
    if not settings.alerts:
        raise VerbFailure(
            "The settings have no alerts, so the guard would send nothing.",
            fix="Add `guard:` with channels and alerts to the settings; docs/GUARD.md has an example.",
            exit_code=USAGE,
        )
    pid = await asyncio.to_thread(running_guard, state_dir())
    started = pid is None
    if pid is None:
        try:
            pid = await asyncio.to_thread(start_guard, state_dir())
        except GuardError as error:
            raise VerbFailure(str(error), exit_code=NOT_RUNNING) from error
        except OSError as error:
            raise VerbFailure(f"The guard can't write its files: {error}.", exit_code=NOT_RUNNING) from error
    if run.json:
        print_json({"pid": pid, "started": started})
    else:
        out(f"the guard {'runs' if started else 'runs already'} (pid {pid}): {_summary(settings)}")


@guard.command()
@verb(READS)
async def stop(run: Run) -> None:
    """Stop the guard. Alerts that are not delivered yet are sent after its next start."""
    try:
        stopped = await asyncio.to_thread(stop_guard, state_dir())
    except GuardError as error:
        raise VerbFailure(str(error)) from error
    if run.json:
        print_json({"stopped": stopped})
    else:
        out("stopped" if stopped else "the guard was not running")


@guard.command()
@verb(READS)
async def status(run: Run) -> int:
    """Show what the guard reads, and which deliveries fail. Exit code 5 if it does not run."""
    pid = await asyncio.to_thread(running_guard, state_dir())
    watched, failing, started_with = await asyncio.to_thread(_stored)
    changed = bool(pid) and started_with != guard_settings(run.settings).digest
    if run.json:
        print_json(
            {
                "pid": pid,
                "settings_changed": changed,
                "contexts": watched,
                "failing": [_delivery_json(delivery) for delivery in failing],
                "log": str(log_file(state_dir())),
            }
        )
    else:
        out(f"the guard runs (pid {pid})" if pid else "the guard does not run; `vxtui guard start` starts it")
        if changed:
            out("  the settings have changed since its start; `vxtui guard stop` and `start` apply them")
        for name, context in watched.items() if pid else ():
            out(f"  {name}: {_context_words(context)}")
        for delivery in failing:
            out(f"  can't deliver “{delivery.alert.title}” by {delivery.channel}: {delivery.error}")
    return 0 if pid else NOT_RUNNING


@guard.command()
@click.option(
    "--since",
    default="24h",
    show_default=True,
    metavar="DURATION",
    help="Age of the oldest alert, e.g. 90m, 8h, 3d.",
)
@verb(READS)
async def log(run: Run, since: str) -> None:
    """Print the alerts of the last hours with their deliveries."""
    span = _duration(since)
    alerts, deliveries, cancels = await asyncio.to_thread(_alerts, datetime.now(UTC) - span)
    by_alert: dict[int, list[DeliveryRecord]] = {}
    for delivery in deliveries:
        by_alert.setdefault(delivery.alert.id, []).append(delivery)
    if run.json:
        rows = [
            {
                **alert_json(a),
                "cancel": _cancel_json(cancels.get(a.id)),
                "deliveries": [_delivery_json(d) for d in by_alert.get(a.id, [])],
            }
            for a in alerts
        ]
        print_json({"alerts": rows})
        return
    if not alerts:
        out(f"no alerts within {since}")
    for alert in alerts:
        out(f"{alert.at.astimezone():%m-%d %H:%M}  {alert.title}")
        for line in alert.body.splitlines():
            out(f"             {line}")
        if (cancel := cancels.get(alert.id)) is not None and cancel.note:
            out(f"             {cancel.note}")
        out("             " + " · ".join(map(_delivery_words, by_alert.get(alert.id, []))))


@guard.command()
@click.argument("channel")
@verb(READS)
async def test(run: Run, channel: str) -> None:
    """Send a test message by one channel of the settings."""
    channels = {own.name: own for own in guard_settings(run.settings).channels}
    if channel not in channels:
        known = f"The channels are {', '.join(channels)}." if channels else "The settings have no channels."
        raise VerbFailure(f"No channel is called {channel}. {known}", exit_code=3, code="NOT_FOUND")
    message = AlertRecord(
        0, datetime.now(UTC), run.context.name, "", "a test message", "Look: vxtui guard status"
    )
    try:
        await deliver(channels[channel], message)
    except DeliveryFailed as error:
        raise VerbFailure(
            f"The channel {channel} failed: {error}.", code="UNAVAILABLE", exit_code=5
        ) from error
    if run.json:
        print_json({"sent": True})
    else:
        out(f"sent by {channel}")


def _summary(settings: GuardSettings) -> str:
    return f"{pieces(len(settings.alerts), 'rule')}, {pieces(len(settings.channels), 'channel')}"


@contextmanager
def _opened_record() -> Iterator[GuardRecord]:
    """Open the record. Raises VerbFailure if the record can't be read."""
    file = record_file(state_dir())
    try:
        record = GuardRecord(file)
        try:
            yield record
        finally:
            record.close()
    except (sqlite3.Error, OSError) as error:
        raise VerbFailure(
            f"The guard's record {file} can't be read: {error}.",
            fix="If the file is damaged, stop the guard, move the file away, and start the guard again.",
        ) from error


def _stored() -> tuple[dict[str, Any], list[DeliveryRecord], str]:
    """Return the watched contexts by name, the failing deliveries, and the digest of the settings that the
    guard started with (blocking)."""
    if not record_file(state_dir()).exists():
        return {}, [], ""
    with _opened_record() as record:
        watched = json.loads(record.fact("status", "{}")).get("contexts", {})
        return watched, record.failing(), record.fact("settings")


def _alerts(since: datetime) -> tuple[list[AlertRecord], list[DeliveryRecord], dict[int, CancelRecord]]:
    """Return the alerts since a time, their deliveries, and their cancellations by alert (blocking)."""
    if not record_file(state_dir()).exists():
        return [], [], {}
    with _opened_record() as record:
        alerts = record.alerts(since)
        cancels = {cancel.alert: cancel for cancel in record.cancels(alerts)}
        return alerts, record.deliveries(alerts), cancels


def _context_words(context: dict[str, Any]) -> str:
    jobs = f"{pieces(context['jobs'], 'job')}, {context['active']} active"
    if context["read_at"] is None:
        return f"not read yet{': ' + context['error'] if context['error'] else ''}"
    ago = age(datetime.now(UTC) - datetime.fromisoformat(context["read_at"]))
    return f"{jobs}, read {ago} ago" + (f"; fails now: {context['error']}" if context["error"] else "")


def _cancel_json(cancel: CancelRecord | None) -> dict[str, Any] | None:
    if cancel is None:
        return None
    return {"sent": rfc3339(cancel.sent), "ended": cancel.ended, "note": cancel.note}


def _delivery_json(delivery: DeliveryRecord) -> dict[str, Any]:
    return {
        "alert": delivery.alert.id,
        "channel": delivery.channel,
        "sent": delivery.sent,
        "tries": delivery.tries,
        "error": delivery.error or None,
    }


def _delivery_words(delivery: DeliveryRecord) -> str:
    if delivery.sent:
        return f"sent by {delivery.channel}"
    return f"not sent by {delivery.channel}" + (f": {delivery.error}" if delivery.error else " yet")


def _duration(text: str) -> timedelta:
    """Parse `90m`, `8h` or `3d`. Raises VerbFailure."""
    unit = {"m": "minutes", "h": "hours", "d": "days"}.get(text[-1:])
    if unit is None or not text[:-1].isdecimal() or not text.isascii() or len(text) > 6:
        raise VerbFailure(f"--since {text}: must be a duration such as 90m, 8h or 3d.", exit_code=USAGE)
    return timedelta(**{unit: int(text[:-1])})
