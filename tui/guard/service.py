"""The guard's service: one watch for each context, the alerts' record, and their delivery."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from tui.backends.interface import Backend
from tui.config.guard_settings import AlertRule, GuardSettings
from tui.config.settings import Context
from tui.domain.core.formatting import rfc3339
from tui.domain.core.job import Job
from tui.domain.guard.message import alert_body, alert_title
from tui.guard.channels import DeliveryFailed, beat, deliver
from tui.guard.record import DeliveryRecord, GuardRecord
from tui.guard.watch import ConfirmedAlert, ContextWatch, parse_rules
from tui.store.jobs.costs import Costs
from tui.store.jobs.table import JobStore

LOG = logging.getLogger(__name__)
DELIVERY_EVERY = 2.0
STATUS_EVERY = 5.0
HEARTBEAT_EVERY = 60.0
"""Seconds between deliveries, records of the status, and heartbeats."""
FRESH = timedelta(minutes=10)
"""Maximum age of every context's last complete read for a heartbeat."""


class GuardService:
    """Watches contexts and sends alerts until cancelled."""

    def __init__(
        self,
        settings: GuardSettings,
        backends: Mapping[str, tuple[Context, Backend]],
        record: GuardRecord,
        state_dir: Path,
        clock: Callable[[], datetime],
    ) -> None:
        """Set the contexts with their unconnected backends, by name."""
        self._settings = settings
        self._record = record
        self._clock = clock
        self._costs = Costs(state_dir)
        self._channels = {channel.name: channel for channel in settings.channels}
        started = rfc3339(clock()) or ""
        record.set_fact("first_start", started, replace=False)
        record.set_fact("started", started)
        since = datetime.fromisoformat(record.fact("first_start"))
        rules = parse_rules(settings.alerts)
        self._watches = [
            ContextWatch(
                backend,
                rules,
                clock,
                since=since,
                on_alert=self._on_alert,
                known=record.knows,
                spent=_unbilled if context.emulated else self._spent,
            )
            for context, backend in backends.values()
        ]

    async def run(self) -> None:
        """Watch and deliver until cancelled."""
        await asyncio.to_thread(self._costs.load)
        try:
            async with asyncio.TaskGroup() as tasks:
                for watch in self._watches:
                    tasks.create_task(watch.run(), name=f"watch {watch.backend.info.name}")
                tasks.create_task(self._every(DELIVERY_EVERY, self._deliver), name="deliver")
                tasks.create_task(self._every(STATUS_EVERY, self._note_status), name="status")
                tasks.create_task(self._every(HEARTBEAT_EVERY, self._beat), name="heartbeat")
        finally:
            for watch in self._watches:
                with contextlib.suppress(Exception):
                    await watch.backend.aclose()

    async def _every(self, seconds: float, work: Callable[[], object]) -> None:
        while True:
            try:
                result = work()
                if asyncio.iscoroutine(result):
                    await result
            except Exception:
                # Neither a full disk nor a bug in one part may end the watch.
                LOG.exception("the guard's %s failed", getattr(work, "__name__", "work"))
            await asyncio.sleep(seconds)

    # Alerts

    def _on_alert(self, alert: ConfirmedAlert) -> None:
        reading, now = alert.reading, self._clock()
        due = {name: self._due(alert.rule, now) for name in alert.rule.to}
        try:
            self._record.add(
                alert.key,
                now,
                reading.job.context,
                reading.job.name,
                title=alert_title(reading, alert.happened),
                body=alert_body(reading, alert.diagnosis),
                due=due,
            )
        except sqlite3.Error:
            LOG.exception("the alert about %s can't be recorded", reading.job.name)

    def _due(self, rule: AlertRule, now: datetime) -> datetime:
        """Return when to send an alert: now, or at the end of the rule's quiet hours."""
        moment = now
        while rule.quiet_at(moment.astimezone()) and moment < now + timedelta(days=1):
            moment = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        return moment

    def _spent(self, store: JobStore, job: Job, now: datetime) -> float | None:
        """Return the upper bound of a job's cost in USD, with its parts; `None` if unknown."""
        known, _ = self._costs.parts_spent(store.own_parts(job), now)
        return None if known is None else known.high

    # Deliveries

    async def _deliver(self) -> None:
        due = self._record.due(self._clock())
        # One slow channel must not delay the others.
        by_channel: dict[str, list[DeliveryRecord]] = {}
        for delivery in due:
            by_channel.setdefault(delivery.channel, []).append(delivery)
        await asyncio.gather(*(self._send(deliveries) for deliveries in by_channel.values()))

    async def _send(self, deliveries: Sequence[DeliveryRecord]) -> None:
        for delivery in deliveries:
            channel = self._channels.get(delivery.channel)
            try:
                if channel is None:
                    raise DeliveryFailed("the settings have no such channel any more")
                await deliver(channel, delivery.alert)
            except DeliveryFailed as error:
                LOG.warning("alert %s by %s: %s", delivery.alert.id, delivery.channel, error)
                self._record.note_failed(delivery, self._clock(), str(error))
                # The channel's other alerts would fail too.
                return
            self._record.note_sent(delivery, self._clock())

    # Status

    def _note_status(self) -> None:
        contexts = {
            watch.backend.info.name: {
                "read_at": rfc3339(watch.read_at),
                "error": watch.error.message if watch.error is not None else None,
                "jobs": len(watch.store.jobs),
                "active": len(watch.store.active),
            }
            for watch in self._watches
        }
        self._record.set_fact("status", json.dumps({"at": rfc3339(self._clock()), "contexts": contexts}))

    async def _beat(self) -> None:
        now = self._clock()
        sees_all = all(
            watch.error is None and watch.read_at is not None and now - watch.read_at < FRESH
            for watch in self._watches
        )
        if self._settings.heartbeat_url and sees_all:
            try:
                await beat(self._settings.heartbeat_url)
            except DeliveryFailed as error:
                LOG.warning("heartbeat: %s", error)


def _unbilled(store: JobStore, job: Job, now: datetime) -> None:
    """Return no cost: an emulated job spends no money."""
