"""Runs tuning jobs: starts their trials, reads the trials' reports, and ends the jobs.

Each decision is on disk before it takes effect, and a trial is stored together with its custom job.
Therefore, after a restart the next server continues, and neither loses nor repeats a trial.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from google.rpc import code_pb2, status_pb2

from tui.emulator.logging.ingest import LogCollector
from tui.emulator.messages import Pb, copied, current_time
from tui.emulator.paths import StateDir
from tui.emulator.rpc.methods import WireError
from tui.emulator.runner.plan import AttemptPlan
from tui.emulator.runs.environment import METRIC_FILE
from tui.emulator.runs.job_run import store_with_retry
from tui.emulator.runs.job_runs import JobRuns, first_of, request_end
from tui.emulator.runs.scheduler import CustomJobRuns
from tui.emulator.tuning import trials
from tui.emulator.tuning.measurements import Report, add_reports, is_hopeless, read_reports
from tui.emulator.tuning.search import suggest
from tui.emulator.tuning.table import TuningJob, TuningJobTable
from tui.emulator.tuning.trials import Trial
from tui.emulator.vertex.job_table import TERMINAL, CustomJob, CustomJobTable, State
from tui.emulator.vertex.operations import log_record

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""Seconds between reads of the trials' metric files."""
ENOUGH_FAILURES = 3
"""Number of failed trials, without a successful one, after which a job without its own limit fails."""


@dataclass(frozen=True, slots=True)
class TuningParts:
    """Parts of the emulator that a run uses."""

    table: TuningJobTable
    jobs: CustomJobTable
    scheduler: CustomJobRuns
    state: StateDir
    sink: LogCollector


class TuningRuns(JobRuns[TuningJob]):
    """Runs tuning jobs until `close` is called. The trials' custom jobs continue after that."""

    def __init__(self, parts: TuningParts) -> None:
        super().__init__(parts.table)
        self._parts = parts

    def resume(self, job: TuningJob) -> None:
        self.admit(job)

    def admit(self, job: TuningJob) -> None:
        """Run a new or adopted tuning job to its end."""
        run = TuningRun(job, self._parts)
        self._begin(run.run(), f"tuning job {job.record.id}")

    async def cancel(self, job: TuningJob) -> None:
        """Store CANCELLING. The trials' custom jobs are cancelled soon after.

        Raises WireError when the job has ended in the meantime, or the request could not be stored.
        """
        await request_end(job, "job", partial(self._parts.table.update, job))


class TuningRun:
    """Runs one tuning job from its current state to its end."""

    def __init__(self, job: TuningJob, parts: TuningParts) -> None:
        self.job, self._parts = job, parts
        self._exhausted = False
        """Whether the search has no more values."""
        self._failure: tuple[int, int, str] | None = None
        """The end caused by failed trials, which the subsequent cancellations don't change."""

    async def run(self) -> None:
        """Return when the job has ended."""
        try:
            while not self.job.terminal:
                await self._advance()
                if not self.job.terminal:
                    await self._wait()
        except Exception:
            log.exception("tuning job %s", self.job.record.name)
            await self._cancel_trials()
            await self._end(
                State.JOB_STATE_FAILED,
                code_pb2.INTERNAL,
                "Internal error: the emulator failed on this job; `vxtui emulator logs` shows the reason.",
            )

    async def _advance(self) -> None:
        for trial in trials.active(self.job.pb.trials):
            await self._observe(trial)
        ending = self._ending()
        if ending is None:
            await self._start_trials()
            ending = self._ending()
        if ending is not None:
            await self._cancel_trials()
            if not trials.active(self.job.pb.trials):
                await self._end(*ending)

    def _ending(self) -> tuple[int, int, str] | None:
        """Return state, code and message of the end, or `None` while more trials can start."""
        pb = self.job.pb
        if self.job.cancelled.is_set():
            return State.JOB_STATE_CANCELLED, code_pb2.CANCELLED, "The job was cancelled."
        bad = len(trials.failed(pb.trials))
        limit = pb.max_failed_trial_count
        hopeless = not trials.completed(pb.trials) and bad >= min(ENOUGH_FAILURES, pb.max_trial_count)
        if self._failure is None and (bad > limit if limit else hopeless):
            last = trials.failed(pb.trials)[-1]
            text = f"{bad} of {len(pb.trials)} trials failed. Trial {last.id}: {last.infeasible_reason}"
            self._failure = State.JOB_STATE_FAILED, code_pb2.INVALID_ARGUMENT, text
        if self._failure is not None:
            return self._failure
        started_all = self._exhausted or len(pb.trials) >= pb.max_trial_count
        if started_all and not trials.active(pb.trials):
            return State.JOB_STATE_SUCCEEDED, 0, ""
        return None

    async def _start_trials(self) -> None:
        pb = self.job.pb
        room = min(
            pb.parallel_trial_count - len(trials.active(pb.trials)), pb.max_trial_count - len(pb.trials)
        )
        for _ in range(room):
            if self.job.cancelled.is_set() or not await self._start_trial():
                return

    async def _start_trial(self) -> bool:
        """Start the next trial. Return False if the search has no more values."""
        pb = self.job.pb
        seed = zlib.crc32(self.job.record.id.encode())
        # The default search takes up to a second.
        values = await asyncio.to_thread(
            suggest, pb.study_spec, trials.past_trials(pb), seed, pb.max_trial_count
        )
        if values is None:
            self._exhausted = True
            return False
        trial_id = str(len(pb.trials) + 1)

        def change(pb: Pb, job_name: str) -> None:
            trials.add_trial(pb, trial_id, values, job_name)
            if pb.state == State.JOB_STATE_PENDING:
                pb.state = State.JOB_STATE_RUNNING
                pb.start_time.CopyFrom(current_time())

        trial_jobs: list[CustomJob] = []

        async def store() -> None:
            job = trials.custom_job(pb, trial_id, values)
            trial_jobs.append(await self._parts.table.add_trial(self.job, job, change))

        await store_with_retry(store, self.job.record.name)
        self._parts.scheduler.admit(trial_jobs[-1])
        trial = self.job.pb.trials[-1]
        await self._log(f"Trial {trial_id} started: {trials.summary(trial)}. Its job is {trial.custom_job}.")
        return True

    async def _observe(self, trial: Pb) -> None:
        """Store a trial's new reports, and its end."""
        job = self._parts.jobs.get(trial.custom_job.rsplit("/", 1)[1])
        # Read the state first, so that the file contains everything reported before the end.
        state = job.pb.state if job is not None else State.JOB_STATE_FAILED
        error = job.pb.error.message if job is not None else "The trial's custom job was deleted."
        reports = await asyncio.to_thread(self._reports, job) if job is not None else []
        study, known = self.job.pb.study_spec, trials.completed(self.job.pb.trials)
        now = copied(trial)
        changed = add_reports(now, reports)
        if state in TERMINAL:
            stopped = trial.state == Trial.STOPPING and not self.job.cancelled.is_set()
            succeeded = state == State.JOB_STATE_SUCCEEDED or stopped
            trials.end_trial(now, study, "" if succeeded else error or "Its custom job did not succeed.")
        elif (
            trial.state == Trial.ACTIVE
            and changed
            and await asyncio.to_thread(is_hopeless, now, known, study)
        ):
            now.state = Trial.STOPPING
        reached = trials.update_access(now, job.pb if job is not None else None)
        if changed or reached or now.state != trial.state:
            await self._store(
                lambda pb: next(other for other in pb.trials if other.id == trial.id).CopyFrom(now)
            )
        if now.state == Trial.STOPPING and job is not None:
            await self._cancel(job)
        if now.state not in trials.RUNNING:
            await self._log_end(now)

    def _reports(self, job: CustomJob) -> list[Report]:
        """Return the reports of the replicas of a trial's last attempt."""
        attempt = self._parts.state.attempt(job.record.id, job.control.attempt)
        try:
            plan = AttemptPlan.load(attempt.plan)
        except (OSError, ValueError, KeyError, TypeError):
            return []
        ids = [metric.metric_id for metric in self.job.pb.study_spec.metrics]
        files = [Path(replica.env[METRIC_FILE]) for replica in plan.replicas if METRIC_FILE in replica.env]
        return sorted((report for file in files for report in read_reports(file, ids)), key=lambda r: r.time)

    async def _cancel_trials(self) -> None:
        for trial in trials.active(self.job.pb.trials):
            job = self._parts.jobs.get(trial.custom_job.rsplit("/", 1)[1])
            if job is not None:
                await self._cancel(job)

    async def _cancel(self, job: CustomJob) -> None:
        if not job.terminal and not job.cancelled.is_set():
            # The job may end in the meantime, or the disk may be full: the next round tries again.
            with contextlib.suppress(WireError):
                await self._parts.scheduler.cancel(job)

    async def _wait(self) -> None:
        """Wait until a trial's job changes, the job is cancelled, or the metrics are due."""
        jobs = [
            self._parts.jobs.get(trial.custom_job.rsplit("/", 1)[1])
            for trial in trials.active(self.job.pb.trials)
        ]
        events = [job.changed for job in jobs if job is not None]
        if not self.job.cancelled.is_set():
            events.append(self.job.cancelled)
        if events:
            await first_of(*(event.wait() for event in events), within=POLL_SECONDS)
        else:
            await asyncio.sleep(POLL_SECONDS)

    async def _end(self, state: int, code: int, message: str) -> None:
        severity = "ERROR" if state == State.JOB_STATE_FAILED else "INFO"
        await self._log(message or "Job completed successfully.", severity)

        def change(pb: Pb) -> None:
            pb.state = state
            pb.end_time.CopyFrom(current_time())
            if code:
                pb.error.CopyFrom(status_pb2.Status(code=code, message=message))

        await self._store(change)

    async def _log_end(self, trial: Pb) -> None:
        if trial.state == Trial.INFEASIBLE:
            await self._log(f"Trial {trial.id} is infeasible: {trial.infeasible_reason}", "ERROR")
            return
        metrics = ", ".join(
            f"{metric.metric_id}={metric.value:g}" for metric in trial.final_measurement.metrics
        )
        step = trial.final_measurement.step_count
        await self._log(f"Trial {trial.id} completed: {metrics} at step {step}.")

    async def _log(self, text: str, severity: str = "INFO") -> None:
        try:
            await self._parts.sink.service_message(log_record(self.job.record), text, severity)
        except (OSError, sqlite3.Error, WireError) as error:
            log.error("the log of %s could not be written: %s", self.job.record.name, error)

    async def _store(self, change: Callable[[Pb], None]) -> None:
        await store_with_retry(lambda: self._parts.table.update(self.job, change), self.job.record.name)
