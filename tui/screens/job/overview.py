"""The facts of a job: its state, its machines, and the reason for a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from time import monotonic

from textual.content import Content
from textual.widget import Widget

from tui.actions.registry import Action, bindings
from tui.domain.attempts.history import AttemptHistory
from tui.domain.core.diagnosis import Diagnosis, explain_exit
from tui.domain.core.formatting import (
    ACCELERATOR_SHORT,
    NOT_MEASURED,
    age,
    line,
    percent,
    pieces,
    silence_text,
    speed_text,
)
from tui.domain.core.job import Job, Replica
from tui.domain.core.log_entry import SERVICE, LogEntry, Severity
from tui.domain.core.states import JobState
from tui.domain.core.text import plain
from tui.domain.core.training_progress import TrainingStep
from tui.domain.diagnosis.line import LogLine
from tui.domain.diagnosis.rules import shipped_rules
from tui.domain.diagnosis.verdict import RETRY, Shown, Verdict
from tui.domain.fields.attempts import attempts_words
from tui.domain.fields.cell import SILENT
from tui.domain.jobs.diagnosis import LAST_LINES, asks_the_log, diagnosis_of, first_failed, silence_diagnosis
from tui.domain.jobs.facts import facts_of, log_line
from tui.domain.jobs.waiting import waits
from tui.domain.log.plain_line import collapsed
from tui.domain.training.training_steps import remaining
from tui.kinds.registry import kind_of, titled
from tui.screens.job.events import EventsPane
from tui.screens.job.overview_blocks import attempt_bar, curves, last_events, log_end, replica_rows
from tui.screens.job.overview_blocks import block as in_column
from tui.screens.job.pane import JobPane, Scroll
from tui.store.job.feed import Changed
from tui.store.job.log_verdict import MOST_READ, PART, LogJudge
from tui.store.jobs.causes import causes_in
from tui.store.log.filters import LineFilter
from tui.widgets.labelled_columns import Column, LabelledColumns, column_width, columns_in, height, stacked
from tui.widgets.labelled_lines import EMPTY, Labelled
from tui.widgets.log.render import line_text, short_replica
from tui.widgets.notice import Notice
from tui.widgets.state import state_content, wants_ascii

LABEL = 14
SECOND = 0.9
MARGIN = 5
"""Number of cells beside the content: its padding and the scroll bar."""
BESIDE_BAR = 46
"""Number of cells of a row beside the progress bar."""
MOST_TROUBLES = 5
"""Number of replicas that are named with their reasons. The Replicas tab lists all."""
Row = tuple[str, Content]


class OverviewPane(JobPane):
    """The Overview tab."""

    SCOPE = "overview"
    EXTRA = ("pane",)
    BINDINGS = bindings("overview")
    TITLE = "Overview"
    WORK_BESIDE = True
    """Whether the progress fits beside the state. A longer progress takes the full width."""
    NEEDS = Changed.JOB | Changed.TRAINING_STEPS | Changed.LOGS | Changed.SOURCES
    DEFAULT_CSS = """
    OverviewPane Scroll { scrollbar-gutter: stable; }
    OverviewPane #facts { height: auto; padding: 1 2 0 2; }
    """

    def __init__(self, feed: object) -> None:
        super().__init__(feed)  # type: ignore[arg-type]
        self._scroll = Scroll()
        self._facts_view = LabelledColumns("facts")
        self._paused = False
        self._shown_at = 0.0
        self._verdict: tuple[object, Verdict | None] = (None, None)
        """What the log tells, and the state of the log that was read."""
        self._judge: LogJudge | None = None
        self._read_to: tuple[int, int] = (-1, 0)
        """The revision of the log that `_judge` read, and the number of the next line."""

    def compose(self) -> Iterable[Widget]:
        with self._scroll:
            yield self._facts_view
        yield self.notice

    def default_focus(self) -> Widget:
        return self._scroll

    def pause(self, on: bool) -> None:
        self._paused = on

    def tick(self) -> None:
        self.show(Changed.JOB)

    def on_resize(self) -> None:
        self.show(Changed.JOB)

    def show(self, changed: Changed) -> None:
        job = self.feed.job
        if self._paused or (changed is Changed.LOGS and monotonic() - self._shown_at < SECOND):
            # A fast log changes the screen once a second.
            return
        self._shown_at = monotonic()
        self._scroll.display = job is not None
        if job is None:
            self._show_missing(self.notice)
            return
        self.notice.hide()
        if waits(job):
            job = self.console.wait_reasons.explained(job, self.feed.service_milestones)
        self._facts_view.show_rows(self._rows(job))

    def _rows(self, job: Job) -> list[Sequence[Column]]:
        """Return the blocks in rows of columns. Problems quote log lines and take the full width."""
        columns = columns_in(self.size.width)
        state, work, machines, facts = (
            block(job) for block in (self._state, self._training, self._machines, self._facts)
        )
        wrong: list[Sequence[Column]] = [[self._error(job)], [self._troubles(job)], [self._problem()]]
        why = self._why(job)
        # The name is long, and copied as one piece.
        name = table([("name", Content.styled(plain(job.name), "$text-muted"))])
        if columns == 1:
            return [[[*state, *why]], *wrong, [work], [machines], [[*facts, *name]]]
        wrong.insert(0, [why])
        if not self.WORK_BESIDE:
            return [[state, stacked([machines, facts])], *wrong, [work], [name]]
        ascii_only, width = wants_ascii(self), self.size.width - MARGIN
        room = column_width(width, columns)
        plots = curves(self.feed.samples(), room, ascii_only=ascii_only)
        about = stacked([machines, facts])
        rows: list[Sequence[Column]] = [[state, work], *wrong, [about, stacked(plots)]]
        if columns == 3:
            events = in_column(last_events(job, self.feed, room))
            rows = [[state, work, about], *wrong, [*plots, events]]
        rows.append([in_column(attempt_bar(self.feed, width))])
        rows += [[in_column(replica_rows(job, self.feed, width, ascii_only=ascii_only))], [name]]
        if job.error is None:
            # The end of the log fills the height.
            filled = [[column for column in row if column] for row in rows]
            used = sum(height(row, width) + 1 for row in filled if row)
            rows.append([in_column(log_end(self.feed, self.size.height - used - 2, width))])
        return rows

    def _show_missing(self, notice: Notice) -> None:
        if self.feed.gone:
            notice.show("This job no longer exists.", self.feed.job_name, "esc goes back", bad=True)
        elif not self.show_not_reached("job", alone=True):
            notice.show("Reading the job…")

    # Blocks

    def _state(self, job: Job) -> list[Labelled]:
        now = self.feed.as_of()
        words = state_content(job.state)
        native = Content.styled(f"   {plain(job.native_state)}", "$text-muted")
        rows: list[Row] = [("state", Content.assemble(words, native))]
        if job.create_time is not None:
            rows.append(("created", _moment(job.create_time, now)))
        rows += _starts(job, now)
        if job.end_time is not None:
            took = f"   ran {age(job.duration(now))}" if job.start_time else "   never ran"
            rows.append(("ended", _moment(job.end_time, now) + Content.styled(took, "$text-muted")))
        elif job.state is JobState.SUSPENDED:
            rows.append(("suspended", Content(age(job.suspension(now)))))
        elif job.waits:
            rows.append(("waiting", Content(age(job.wait(now)))))
        elif job.start_time is not None:
            rows.append(("running", Content(age(job.duration(now)))))
        cost = self._cost(job, now)
        if cost is not None:
            rows.append(("cost", cost))
            if job.in_cluster:
                rows.append(("", Content.styled(_node_words(job, self.console.unbilled(job)), "$text-muted")))
        if job.timeout is not None and not job.state.terminal:
            rows.append(("time limit", Content(age(job.timeout))))
        return table(rows)

    def _silence(self, job: Job) -> list[Row]:
        """Return the silence of a running job, and the next step."""
        silence = self.feed.silence
        if silence is None:
            return []
        text = f"{SILENT} {silence_text(silence, self.feed.as_of('logs'))}"
        return [
            ("silent", Content.styled(plain(text), "$text-warning")),
            *_helps(silence_diagnosis(job, silence)),
        ]

    def _straggler(self, job: Job) -> list[Row]:
        """Return the replica that is slower than the others, and what the others' waiting costs."""
        slow, costs = self.feed.progress.straggler, self.console.costs
        if slow is None or job.state is not JobState.RUNNING:
            return []
        cost = costs.lost_words(slow, job)
        return [("slow replica", Content.styled(plain(slow.words) + cost, "$text-warning"))]

    def _why(self, job: Job) -> list[Labelled]:
        """Return why the job is in its state or waits, in the service's words, and the remedy."""
        rows: list[Row] = [*self._silence(job), *self._straggler(job)]
        if job.reason and job.error is None:
            rows.append(("reason", Content(plain(job.reason))))
        if not job.state.terminal:
            rows += [("" if at else "waits for", Content(plain(why))) for at, why in enumerate(job.waiting)]
        if job.error is None:
            rows += _helps(diagnosis_of(job))
        return table(rows)

    def _cost(self, job: Job, now: datetime) -> Content | None:
        """Return the cost so far and per hour; None while no prices are loaded."""
        costs = self.console.costs
        if costs.prices is None:
            return None
        parts = self.console.store.own_parts(job)
        spent = costs.parts_spent_text(parts, now)
        if spent == NOT_MEASURED:
            why = costs.missing(parts) or "start time unknown"
            return Content.styled(f"not known: {plain(why)}", "$text-muted")
        rate = costs.total_text(part for part in parts if part.state.active) or costs.rate_text(job)
        hour = "" if rate == NOT_MEASURED else f"   {rate}"
        tail = f"{hour}   estimate, prices of {costs.date(job)}"
        if self.console.unbilled(job):
            return Content.styled(f"would cost {spent} in the cloud{tail}", "$text-muted")
        return Content.assemble(spent, (tail, "$text-muted"))

    def _error(self, job: Job) -> list[Labelled]:
        if job.error is None:
            return []
        if job.state is JobState.CANCELLED:
            # Nothing failed, so there is nothing to explain.
            return table([("cancelled", Content(plain(job.error.summary)))])
        failed = first_failed(job)
        self._read_why(job)
        verdict = self._verdict[1]
        rows = _helps(diagnosis_of(job, verdict), "$text-error")
        if verdict is not None and verdict.cause:
            rows.insert(1, ("where", Content.assemble(*_where(verdict))))
            rows.append(("retry", Content(RETRY[verdict.retry])))
        rows.append(("error", Content.styled(plain(job.error.summary), "" if rows else "$text-error")))
        if failed is not None and failed.exit_code is not None:
            words = str(failed.exit_code)
            if failed.exit_code != 1:
                words = f"{words}: {explain_exit(failed.exit_code)}"
            rows.append(("exit code", Content(words)))
        lines = table(rows)
        evidence = verdict.evidence if verdict is not None and verdict.line is not None else ()
        # The service's message repeats the end of the log; its lines have no index.
        evidence = [shown for shown in evidence if shown.line.index >= 0]
        if evidence:
            head = Content.styled(
                f"evidence in {plain(evidence[0].line.replica)}   enter opens the log there", "$text-muted"
            )
            return lines + [(EMPTY, line) for line in (EMPTY, head, *map(self._shown, evidence))]
        last = self._last_lines(failed)
        if failed is not None and last:
            head = Content.styled(f"last lines of {plain(failed.id)}", "$text-muted")
            lines += [(EMPTY, line) for line in (EMPTY, head, *self._lines(last))]
        return lines

    def _troubles(self, job: Job) -> list[Labelled]:
        """Return the replicas whose state has a reason from the service."""
        replicas = [replica for replica in job.replicas if replica.reason]
        rows = [
            (plain(replica.id), Content(plain(_trouble(replica)))) for replica in replicas[:MOST_TROUBLES]
        ]
        if len(replicas) > MOST_TROUBLES:
            rows.append(("", Content.styled(f"and {len(replicas) - MOST_TROUBLES} more", "$text-muted")))
        if job.restarts_note and any(replica.reason or replica.restarts for replica in job.replicas):
            rows.append(("", Content.styled(plain(job.restarts_note), "$text-muted")))
        return table(rows)

    def _problem(self) -> list[Labelled]:
        problem = self.feed.progress.problem
        return table([("problem", Content.styled(plain(problem), "$text-error"))]) if problem else []

    def _last_lines(self, replica: Replica | None) -> list[LogEntry]:
        if replica is None:
            return []
        view = self.feed.buffer.view(LineFilter(replicas=frozenset({replica.id}), gaps=False))
        view.scan_back(LAST_LINES)
        return [line for line in view if isinstance(line, LogEntry)]

    def _read_why(self, job: Job) -> None:
        """Read the log for the cause, unless it was read as it is now."""
        whole = self.feed.sources["logs"].done
        state = (job.error, len(self.feed.buffer), self.feed.buffer.revision, whole)
        if asks_the_log(job) and state != self._verdict[0]:
            self._verdict = (state, self._verdict[1])
            self.run_worker(self._find_why(job, state), exclusive=True, group="diagnosis")

    async def _find_why(self, job: Job, state: object) -> None:
        """Find the cause in the stored log, in small parts: the screen stays quick."""
        rules = await asyncio.to_thread(shipped_rules)
        buffer, whole = self.feed.buffer, self.feed.sources["logs"].done
        revision, start, end = buffer.revision, max(buffer.first, buffer.end - MOST_READ), buffer.end
        if self._judge is None or self._read_to[0] != revision or not start <= self._read_to[1] <= end:
            # The lines before have changed, or are too many.
            self._judge, self._read_to = LogJudge(rules), (revision, start)
        for at in range(self._read_to[1], end, PART):
            part = range(at, min(at + PART, end))
            # A cancelled call has read its part.
            self._read_to = (revision, part.stop)
            await self._judge.read(self._log_lines(part))
        verdict = self._judge.verdict(facts_of(job, local=self.feed.local))
        self._verdict = (state, verdict)
        self.show(Changed.JOB)
        diagnosis = diagnosis_of(job, verdict)
        if whole and diagnosis is not None:
            causes = causes_in(self.console.state_dir)
            await asyncio.to_thread(causes.save, job, diagnosis, buffer.end - start)

    def _log_lines(self, numbers: range) -> list[LogLine]:
        """Return the stored lines of the replicas among these."""
        lines = ((number, self.feed.buffer[number]) for number in numbers)
        return [
            log_line(number, line)
            for number, line in lines
            if isinstance(line, LogEntry) and line.replica != SERVICE
        ]

    def _shown(self, shown: Shown) -> Content:
        text = f"{'▸' if shown.role == 'root' else ' '} {plain(collapsed(shown.line.text))}"
        style = "$text-error" if shown.role == "root" else ""
        return Content.styled(text, style).truncate(max(20, self.size.width - 8), ellipsis=True)

    @property
    def _evidence(self) -> LogLine | None:
        """The line of the log that shows the cause."""
        verdict = self._verdict[1]
        shown = verdict.evidence if verdict is not None and verdict.line is not None else ()
        return next((evidence.line for evidence in shown if evidence.role == "root"), None)

    def unmet(self, condition: str, action: Action) -> str:
        if condition == "evidence":
            return "" if self._evidence is not None else "No line of the log shows why the job failed."
        return super().unmet(condition, action)

    def action_log(self) -> None:
        """Show the log at the line that shows the cause."""
        line, buffer = self._evidence, self.feed.buffer
        if line is not None and buffer.first <= line.index < buffer.end:
            self.post_message(EventsPane.LogLineRequested(buffer[line.index]))

    def _lines(self, entries: Sequence[LogEntry]) -> list[Content]:
        width = max(20, self.size.width - 8)
        lines = []
        for entry in entries:
            style = "$text-error" if entry.severity >= Severity.ERROR else ""
            lines.append(Content.styled("  " + line_text(entry), style).truncate(width, ellipsis=True))
        return lines

    def _training(self, job: Job) -> list[Labelled]:
        progress, now = self.feed.progress, self.feed.as_of()
        rows: list[Row] = []
        fraction, samples = progress.fraction, self.feed.samples()
        if progress.step is not None:
            total = f"/{progress.total_steps:,}" if progress.total_steps else ""
            rows.append(("step", Content(f"{progress.step:,}{total}")))
        if fraction is not None:
            room = column_width(self.size.width, columns_in(self.size.width))
            width = max(10, min(50, room - BESIDE_BAR))
            done, rest = line(fraction, width)
            colour = "$text-success" if job.state is JobState.RUNNING else "$text-muted"
            left = self._left(job, samples)
            words = f"  {percent(fraction)}" + (f"   about {age(left)} left" if left is not None else "")
            rows.append(("progress", Content.assemble((done, colour), (rest, "$text-muted"), words)))
        if progress.last_loss is not None:
            first = f"   from {progress.first_loss:.4g}" if progress.first_loss is not None else ""
            rows.append(("loss", Content.assemble(f"{progress.last_loss:.4g}", (first, "$text-muted"))))
        if progress.speed is not None:
            rows.append(("throughput", Content(speed_text(progress.speed, progress.speed_unit))))
        if progress.last_checkpoint_at is not None:
            ago = age(now - progress.last_checkpoint_at)
            step = (
                f"step {progress.last_checkpoint_step:,}, "
                if progress.last_checkpoint_step is not None
                else ""
            )
            rows.append(("checkpoint", Content(f"{step}{ago} ago")))
        elif progress.step:
            rows.append(("checkpoint", Content.styled("none yet", "$text-muted")))
        if progress.resumed_from is not None:
            rows.append(("resumed", Content(f"from step {progress.resumed_from:,}")))
        rows += _attempts(self.feed.attempts())
        undone = self.feed.history().undone
        if undone:
            rows.append(("went back", _went_back(undone, now)))
        if progress.phase and job.state.active:
            rows.append(("phase", Content(plain(progress.phase))))
        return table(rows)

    def _left(self, job: Job, samples: Sequence[TrainingStep]) -> timedelta | None:
        """Return the remaining time at the pace of the last steps, or else as the job reports it."""
        if not job.state.active or job.state is JobState.SUSPENDED or self.feed.silence is not None:
            return None
        progress = self.feed.progress
        left = remaining(samples, progress.total_steps)
        if left is None and progress.ends_at is not None:
            left = max(timedelta(0), progress.ends_at - self.feed.as_of())
        return left

    def _machines(self, job: Job) -> list[Labelled]:
        rows: list[Row] = []
        words = kind_of(job).words
        for position, pool in enumerate(job.groups):
            if not pool.replicas:
                continue
            short = ACCELERATOR_SHORT.get(pool.accelerator_type, pool.accelerator_type)
            gpus = f" + {pool.accelerator_count} {short}" if pool.accelerator_count else ""
            machines = f"{pool.replicas} × {pool.machine_type or words.machine}{gpus}   {pool.role}"
            title = f"{words.group} {position}" if words.group else plain(pool.name)
            rows.append((title, Content(plain(machines))))
            if pool.image and pool.image != (job.groups[position - 1].image if position else ""):
                rows.append(("", Content.styled(plain(self._short_image(pool.image)), "$text-muted")))
        if job.persistent_resource:
            rows.append(("runs on", Content(f"the persistent resource {plain(job.persistent_resource)}")))
        if job.groups:
            rows.append(("strategy", Content(plain(job.strategy.lower()))))
        return table(rows)

    def _short_image(self, image: str) -> str:
        """Return an image on one line, from its end, which distinguishes it."""
        room = column_width(self.size.width, columns_in(self.size.width)) - LABEL - MARGIN
        while len(image) > room and "/" in image.removeprefix("…/"):
            image = "…/" + image.removeprefix("…/").partition("/")[2]
        return image

    def _facts(self, job: Job) -> list[Labelled]:
        rows: list[Row] = [
            (kind_of(job).words.region, Content(plain(job.region))),
            ("id", Content(plain(job.id))),
        ]
        if job.parent:
            parent = self.console.store.parent_of(job)
            rows.insert(0, ("part of", Content(plain(titled(parent) if parent else job.parent))))
        if job.own_labels:
            labels = "  ".join(f"{key}={value}" for key, value in sorted(job.own_labels.items()))
            rows.append(("labels", Content(plain(labels))))
        for key, uri in sorted(job.web_access_uris.items()):
            replica, _, port = key.partition(":")
            page = "dashboard" if port else "web shell"
            rows.append((f"{page} {short_replica(replica)}", Content(plain(uri))))
        return table(rows)


def table(rows: Sequence[Row]) -> list[Labelled]:
    """Return labels at the left and facts at the right. An empty label continues the row above."""
    return [(Content.styled(f"{plain(word):<{LABEL}}", "$text-muted"), fact) for word, fact in rows]


def _attempts(history: AttemptHistory | None) -> list[Row]:
    """Return the number of attempts, the goodput and the lost work of a job that was interrupted."""
    if history is None or len(history.attempts) == 1:
        return []
    return [("attempts", Content(attempts_words(history)))]


def _went_back(undone: Sequence[Sequence[TrainingStep]], now: datetime) -> Content:
    """Return the number of rollbacks, and the steps of the last rollback."""
    last = undone[-1]
    often = f"{len(undone)} times, last " if len(undone) > 1 else ""
    words = f"{often}from step {last[-1].step:,} to {last[0].step:,}"
    return Content.assemble(words, (f"   {age(now - last[-1].timestamp)} ago", "$text-muted"))


def _helps(diagnosis: Diagnosis | None, style: str = "") -> list[Row]:
    """Return the cause of a failure or a wait, and the next step."""
    rows: list[Row] = []
    if diagnosis is not None and diagnosis.meaning:
        cause = Content.styled(plain(diagnosis.meaning), style)
        rows.append(("likely cause" if diagnosis.guess else "cause", cause))
    if diagnosis is not None and diagnosis.on_screen:
        rows.append(("next step", Content.styled(plain(diagnosis.on_screen), "$text-success")))
    return rows


def _where(verdict: Verdict) -> list[Content | str | tuple[str, str]]:
    """Return `workerpool1-0, 14:02:11, after step 20   errors of 3 other replicas followed`."""
    root = next((shown.line for shown in verdict.evidence if shown.role == "root"), None)
    words = [plain(verdict.replica)] if verdict.replica else []
    if root is not None and root.time is not None:
        words.append(f"{datetime.fromtimestamp(root.time):%H:%M:%S}")
    words.append("before the first step" if verdict.step is None else f"after step {verdict.step:,}")
    words += [plain(verdict.where)] if verdict.where else []
    others = {shown.line.replica for shown in verdict.cascade} - {verdict.replica}
    followed = pieces(verdict.cascaded, "error line")
    if len(verdict.cascade) == verdict.cascaded and others:
        followed = f"errors of {pieces(len(others), 'other replica')}"
    return [", ".join(words), (f"   {followed} followed" if verdict.cascaded else "", "$text-muted")]


def _trouble(replica: Replica) -> str:
    """Return `out of memory (OOMKilled), exit code 137, restarted 2 times, on node-3`."""
    parts = [replica.reason]
    code, again = f"exit code {replica.exit_code}", replica.reason.startswith("restarted: ")
    if replica.exit_code is not None and code not in replica.reason:
        parts.append(code)
    if replica.restarts and not (again and replica.restarts == 1):
        parts.append(f"restarted {pieces(replica.restarts, 'time')}")
    if replica.node:
        parts.append(f"on {replica.node}")
    return ", ".join(parts)


def _moment(moment: datetime, now: datetime) -> Content:
    local = moment.astimezone()
    return Content.assemble(f"{local:%Y-%m-%d %H:%M:%S}", (f"   {age(now - moment)} ago", "$text-muted"))


def _starts(job: Job, now: datetime) -> list[Row]:
    """Return the first known start, the last resume and the last restart, in order."""
    rows: list[Row] = []
    if job.start_time is not None:
        waited = "" if job.waits or not job.wait(now) else f"   waited {age(job.wait(now))}"
        rows.append(("started", _moment(job.start_time, now) + Content.styled(waited, "$text-muted")))
    if job.resume_time is not None:
        at = 0 if job.start_time is not None and job.resume_time <= job.start_time else len(rows)
        rows.insert(at, ("resumed", _moment(job.resume_time, now)))
    if job.attempt_time is not None:
        rows.append(("restarted", _moment(job.attempt_time, now)))
    return rows


def _node_words(job: Job, unbilled: bool) -> str:
    """Return the parts of a cluster that the cost includes, and the parts that it does not."""
    bill = f"Compute Engine {'would bill' if unbilled else 'bills'} nodes with or without pods"
    durations = [
        f"{n.share:.3g} of {pieces(n.nodes, 'node')} ({plain(n.machine_type) or 'of unknown type'})"
        for n in job.nodes
    ]
    return f"for {', '.join(durations)}; {bill}" if durations else bill
