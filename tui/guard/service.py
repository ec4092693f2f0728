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

from tui.actions.operations.jobs import JobOperations
from tui.actions.operations.runner import OperationRunner
from tui.backends.interface import Backend
from tui.config.access import access_of
from tui.config.guard_settings import AlertRule, guard_settings
from tui.config.settings import Context, Settings
from tui.domain.core.formatting import rfc3339
from tui.domain.core.job import Job
from tui.domain.guard.conditions import JobReading
from tui.domain.guard.message import alert_body, alert_title
from tui.guard.cancels import CancelActs
from tui.guard.channels import FOR_PROGRAMS, DeliveryFailed, beat, deliver, summary
from tui.guard.record import CancelRecord, DeliveryRecord, GuardRecord
from tui.guard.watch import ConfirmedAlert, ContextWatch, parse_rules
from tui.store.jobs.costs import Costs
from tui.store.jobs.table import JobStore
from tui.store.journal import Journal

LOG = logging.getLogger(__name__)
DELIVERY_EVERY = 2.0
STATUS_EVERY = 5.0
CANCEL_EVERY = 10.0
HEARTBEAT_EVERY = 60.0
"""Seconds between deliveries, records of the status, steps of cancellations, and heartbeats."""
MOST_MESSAGES = 3
"""Number of due alerts of a channel above which people get one message about all of them."""
UNCONFIRMED = timedelta(hours=1)
"""Time within which the guard confirms the jobs of a list."""
FRESH = timedelta(minutes=10)
"""Maximum age of every context's last complete read for a heartbeat."""


class GuardService:
    """Watches contexts and sends alerts until cancelled."""

    def __init__(
        self,
        settings: Settings,
        backends: Mapping[str, tuple[Context, Backend]],
        record: GuardRecord,
        state_dir: Path,
        clock: Callable[[], datetime],
    ) -> None:
        """Set the contexts with their unconnected backends, by name."""
        self._settings = guard_settings(settings)
        self.state_dir = state_dir
        self._record = record
        self._clock = clock
        self._costs = Costs(state_dir)
        self._channels = {channel.name: channel for channel in self._settings.channels}
        self._delivered: set[tuple[int, str]] = set()
        """Alert and channel of the deliveries whose success is not recorded yet, e.g. on a full disk."""
        self.gather_seconds = 30.0
        """Pause of a channel after several deliveries."""
        self._sending: dict[str, asyncio.Task[None]] = {}
        """Running deliveries by channel."""
        started = rfc3339(clock()) or ""
        record.set_fact("first_start", started, replace=False)
        rules = parse_rules(self._settings.alerts)
        self.watches = [
            ContextWatch(
                backend,
                rules,
                clock,
                since=self._since(context.name),
                on_alert=self._on_alert,
                known=record.knows,
                spent=_unbilled if context.emulated else self._spent,
            )
            for context, backend in backends.values()
        ]
        journal = Journal(state_dir / "audit.jsonl", clock)

        def operations(watch: ContextWatch) -> JobOperations:
            context, backend = backends[watch.backend.info.name]
            return JobOperations(
                OperationRunner(context, access_of(settings, context), journal, "guard"), backend
            )

        by_context = {watch.backend.info.name: watch for watch in self.watches}
        self.cancels = CancelActs(
            record, by_context, operations, journal=journal, clock=clock, on_problem=self._on_problem
        )

    def _since(self, context: str) -> datetime:
        """Return the earliest end of jobs that cause alerts: the last read of an earlier process, so that
        a new rule or context does not alert about the jobs of past weeks."""
        status, now = json.loads(self._record.fact("status", "{}")), self._clock()
        if status and context not in status["contexts"]:
            return now
        since = datetime.fromisoformat(self._record.fact("first_start"))
        if status and (read_at := status["contexts"][context]["read_at"]):
            since = max(since, datetime.fromisoformat(read_at) - UNCONFIRMED)
        # The clock may have been ahead.
        return min(since, now)

    async def run(self) -> None:
        """Watch and deliver until cancelled."""
        await asyncio.to_thread(self._costs.load)
        try:
            async with asyncio.TaskGroup() as tasks:
                for watch in self.watches:
                    tasks.create_task(watch.run(), name=f"watch {watch.backend.info.name}")
                tasks.create_task(self._every(DELIVERY_EVERY, self._deliver), name="deliver")
                tasks.create_task(self._every(CANCEL_EVERY, self.cancels.advance), name="cancel")
                tasks.create_task(self._every(STATUS_EVERY, self._note_status), name="status")
                tasks.create_task(self._every(HEARTBEAT_EVERY, self._beat), name="heartbeat")
        finally:
            for task in self._sending.values():
                task.cancel()
            for watch in self.watches:
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

    async def _on_alert(self, alert: ConfirmedAlert) -> bool:
        """Record an alert, and the cancellation that its rule asks for. Return False if the record can't be
        written."""
        reading, now = alert.reading, self._clock()
        job, body, cancel = reading.job, alert_body(reading, alert.diagnosis), None
        if alert.rule.then == "cancel" and not job.state.terminal:
            refusal = await self.cancels.refusal(job, job.context in self._settings.may_cancel)
            cancel = None if refusal else alert.condition
            body += f"\n{refusal or 'The guard cancels it now.'}"
        due = {name: self._due(alert.rule, now) for name in alert.rule.to}
        title = alert_title(reading, alert.happened)
        try:
            self._record.add(
                alert.key, now, job.context, job.name, title=title, body=body, due=due, cancel=cancel
            )
        except sqlite3.Error:
            LOG.exception("the alert about %s can't be recorded", job.name)
            return False
        return True

    def _on_problem(self, cancel: CancelRecord, job: Job, why: str) -> None:
        """Record that a job can't be cancelled, for the channels of the alert about it."""
        now = self._clock()
        due = dict.fromkeys(self._record.channels(cancel.alert), now)
        reading = JobReading(job, now)
        title, body = alert_title(reading, "could not be cancelled"), alert_body(reading, None)
        key = f"cancel\n{cancel.alert}"
        self._record.add(key, now, job.context, job.name, title=title, body=f"{why}\n{body}", due=due)

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
        by_channel: dict[str, list[DeliveryRecord]] = {}
        for delivery in due:
            by_channel.setdefault(delivery.channel, []).append(delivery)
        for name, deliveries in by_channel.items():
            # One slow channel must not delay the others.
            if name not in self._sending or self._sending[name].done():
                self._sending[name] = asyncio.create_task(self._send(deliveries), name=f"deliver by {name}")

    async def _send(self, deliveries: Sequence[DeliveryRecord]) -> None:
        try:
            await self._send_each(deliveries)
        except Exception:  # The next round tries again.
            LOG.exception("deliveries by %s failed", deliveries[0].channel)
        if len(deliveries) > 1:
            # The next alerts of a flood gather meanwhile.
            await asyncio.sleep(self.gather_seconds)

    async def _send_each(self, deliveries: Sequence[DeliveryRecord]) -> None:
        channel = self._channels.get(deliveries[0].channel)
        flood = [
            delivery
            for delivery in deliveries
            if (delivery.alert.id, delivery.channel) not in self._delivered
        ]
        if channel is not None and channel.kind not in FOR_PROGRAMS and len(flood) > MOST_MESSAGES:
            try:
                await deliver(channel, summary([delivery.alert for delivery in flood]))
            except DeliveryFailed as error:
                LOG.warning("%d alerts by %s: %s", len(flood), channel.name, error)
                for delivery in flood:
                    self._record.note_failed(delivery, self._clock(), str(error))
                return
            self._delivered.update((delivery.alert.id, delivery.channel) for delivery in flood)
        for delivery in deliveries:
            key = (delivery.alert.id, delivery.channel)
            try:
                if channel is None:
                    raise DeliveryFailed("the settings no longer have this channel")
                if key not in self._delivered:
                    await deliver(channel, delivery.alert)
            except DeliveryFailed as error:
                LOG.warning("alert %s by %s: %s", delivery.alert.id, delivery.channel, error)
                self._record.note_failed(delivery, self._clock(), str(error))
                # The channel's other alerts would fail too.
                return
            self._delivered.add(key)
            self._record.note_sent(delivery, self._clock())
            self._delivered.discard(key)

    # Status

    def _note_status(self) -> None:
        contexts = {
            watch.backend.info.name: {
                "read_at": rfc3339(watch.read_at),
                "error": watch.error.message if watch.error is not None else None,
                "jobs": len(watch.store.jobs),
                "active": len(watch.store.active),
            }
            for watch in self.watches
        }
        self._record.set_fact("status", json.dumps({"at": rfc3339(self._clock()), "contexts": contexts}))

    async def _beat(self) -> None:
        now = self._clock()
        sees_all = all(
            watch.error is None and watch.read_at is not None and now - watch.read_at < FRESH
            for watch in self.watches
        )
        if self._settings.heartbeat_url and sees_all:
            try:
                await beat(self._settings.heartbeat_url)
            except DeliveryFailed as error:
                LOG.warning("heartbeat: %s", error)


def _unbilled(store: JobStore, job: Job, now: datetime) -> None:
    """Return no cost: an emulated job spends no money."""
