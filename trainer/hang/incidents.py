"""Turn a stall or a signal into one log line: node 0 collects the records of all nodes and reports.

The report changes nothing in the run: `--hang-timeout`, or the script's own timeout, ends it.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from trainer.hang import exchange, report
from trainer.hang.analysis import Cause, HangFinding, analyze
from trainer.hang.limits import UNKNOWN, Stall
from trainer.hang.node import NodeRanks
from trainer.hang.records import RankRecord, read_record
from trainer.hang.stacks import compiles
from trainer.structured_log import emit

NODES_SECONDS = 20.0
"""Maximum wait for the records of the other nodes."""
_POLL = 0.2
_UNCERTAIN_FACTOR = 3.0
"""Factor of the floor that is allowed for a rank in its own code while it works or has not reported a
step."""
_MAX_INCIDENTS = 20
"""Number of incidents whose files are saved."""
SIGNAL, STALL, TIMEOUT = "signal", "stall", "timeout"


class Channel(Protocol):
    """The part of the rendezvous that carries these messages."""

    def send_about_hang(self, message: dict[str, Any]) -> None:
        """Send a message: node 0 to all other nodes, another node to node 0."""

    def received_about_hang(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the messages since the last call, each with the node that sent it."""


@dataclass(slots=True)
class _Incident:
    number: int
    trigger: str
    stall: Stall
    deadline: float
    waiting: set[int]
    answers: dict[int, exchange.NodeAnswer] = field(default_factory=dict)
    dump: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    """Records with their nodes."""


class Incidents:
    """Handles incidents on one node. `poll` is called many times a second and does not block."""

    def __init__(
        self,
        node: int,
        nodes: int,
        channel: Channel,
        folder: Path,
        floor: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`folder` is for the reports; `floor` is the floor in `Limits`, in seconds."""
        self._node, self._nodes, self._channel, self._folder = node, nodes, channel, folder
        self._floor, self._clock = floor, clock
        self._ranks: NodeRanks | None = None
        self._attempt = 0
        self._asked = False
        self._next_poll = 0.0
        self._open: _Incident | None = None
        self._count = 0
        self._collects_for: int | None = None
        """The incident of node 0 for which this node collects records."""
        self._reported_at: float | None = None
        """Time at which the current stall was reported, or a report was requested from node 0."""
        self._quiet_until = 0.0

    def begin(self, ranks: NodeRanks, attempt: int) -> None:
        """Begin an attempt with these ranks."""
        self._ranks, self._attempt = ranks, attempt
        self._open, self._collects_for, self._reported_at, self._quiet_until = None, None, None, 0.0
        self._channel.received_about_hang()

    def ask(self) -> None:
        """Request a report now; safe in a signal handler."""
        self._asked = True

    def poll(self) -> None:
        """Read the heartbeats, exchange messages, report."""
        ranks, now = self._ranks, self._clock()
        if ranks is None or now < self._next_poll:
            return
        self._next_poll = now + _POLL
        for node, message in self._channel.received_about_hang():
            self._handle(node, message)
        self._check_progress(ranks, now)
        collected = ranks.collected()
        if collected is not None and self._collects_for is not None:
            for message in exchange.answers(self._collects_for, collected):
                self._channel.send_about_hang(message)
            self._collects_for = None
        elif collected is not None and self._open is not None:
            self._add(self._node, collected)
        incident = self._open
        if incident is not None and (not incident.waiting or now > incident.deadline):
            self._open = None
            self._conclude(incident, ranks)

    def _check_progress(self, ranks: NodeRanks, now: float) -> None:
        stall = ranks.stall()
        if self._reported_at is not None and ranks.moved_at() > self._reported_at:
            if self._node == 0:
                self._report_over(ranks)
            self._reported_at, self._quiet_until = None, 0.0
        if self._asked:
            self._asked = False
            seconds = max(0.0, now - ranks.moved_at())
            self._begin(SIGNAL, stall or Stall(seconds, 0.0, ""))
        elif stall is not None and self._reported_at is None and now >= self._quiet_until:
            self._begin(TIMEOUT if stall.before_timeout else STALL, stall)

    def _begin(self, trigger: str, stall: Stall) -> None:
        if self._node != 0:
            if trigger != SIGNAL:
                self._reported_at = self._clock()
            self._channel.send_about_hang(exchange.request(trigger, stall.seconds, stall.usual, stall.phase))
            return
        if self._open is not None:
            return
        self._count += 1
        everyone = set(range(self._nodes))
        self._open = _Incident(self._count, trigger, stall, self._clock() + NODES_SECONDS, everyone)
        assert self._ranks is not None
        self._ranks.begin_collecting()
        self._channel.send_about_hang(exchange.collect(self._count))

    def _handle(self, node: int, message: Mapping[str, Any]) -> None:
        """Handle a message; unknown messages have no effect."""
        assert self._ranks is not None
        with contextlib.suppress(ValueError, TypeError):
            if self._node == 0 and "request" in message:
                stall = Stall(float(message["seconds"]), float(message["usual"]), str(message["phase"])[:40])
                trigger = str(message["request"])
                moves = self._clock() - self._ranks.moved_at() < self._floor / 2
                if trigger == SIGNAL or (self._reported_at is None and not moves):
                    self._begin(trigger if trigger in (SIGNAL, TIMEOUT) else STALL, stall)
            elif self._node == 0 and "answer" in message:
                self._receive(node, message)
            elif node == 0 and isinstance(message.get("collect"), int):
                self._collects_for = message["collect"]
                self._ranks.begin_collecting()

    def _receive(self, node: int, message: Mapping[str, Any]) -> None:
        incident = self._open
        if incident is None or message["answer"] != incident.number or node not in incident.waiting:
            return
        try:
            records = incident.answers.setdefault(node, exchange.NodeAnswer()).add(message)
        except ValueError:
            incident.waiting.discard(node)
            return
        if records is not None:
            self._add(node, records)

    def _add(self, node: int, records: Sequence[dict[str, Any]]) -> None:
        assert self._open is not None
        self._open.dump += [(node, record) for record in records]
        self._open.waiting.discard(node)

    def _conclude(self, incident: _Incident, ranks: NodeRanks) -> None:
        dump, records = _readable(incident.dump)
        if not records:
            return
        finding, now = analyze(records), self._clock()
        seconds = max(incident.stall.seconds, now - ranks.moved_at())
        more = self._allowed(finding, records, incident) - seconds
        more = max(more, self._may_go_on(finding, records, incident))
        if more > 0:
            self._quiet_until = now + more
            return
        if incident.trigger != SIGNAL:
            self._reported_at = now
        self._report(incident, finding, dump, records, seconds)

    def _allowed(self, finding: HangFinding, records: Sequence[RankRecord], incident: _Incident) -> float:
        """Return the seconds without a step that are allowed for this finding and not reported."""
        if incident.trigger != STALL:
            return 0.0
        culprits = [record for record in records if record.rank in finding.ranks]
        if any(compiles(record.frames) for record in culprits):
            return UNKNOWN * self._floor
        if finding.cause not in (Cause.NOT_JOINED, Cause.OWN_CODE):
            return 0.0
        if any(record.works for record in culprits) or not incident.stall.certain:
            return _UNCERTAIN_FACTOR * self._floor
        return 0.0

    def _may_go_on(self, finding: HangFinding, records: Sequence[RankRecord], incident: _Incident) -> float:
        """Return the seconds that the awaited ranks may still need, e.g. for a save on rank 0."""
        if incident.trigger != STALL or finding.cause is not Cause.NOT_JOINED:
            return 0.0
        left = [record.seconds_left for record in records if record.rank in finding.ranks]
        # Check again after a while: the stall may have ended.
        return min(self._floor, max(left, default=0.0))

    def _report(
        self,
        incident: _Incident,
        finding: HangFinding,
        dump: Sequence[Mapping[str, Any]],
        records: Sequence[RankRecord],
        seconds: float,
    ) -> None:
        sentence, fields = report.message(finding, records), report.fields(finding, records)
        stall, requested = incident.stall, incident.trigger == SIGNAL
        usual = f" (usually {stall.usual:.3g} s)" if stall.usual else ""
        begin = f"no step for {seconds:.0f} s{usual}"
        if requested:
            begin = f"requested by a signal, {seconds:.0f} s after the last step"
        step = max(record.step for record in records)
        silent = sorted(incident.waiting)
        fields |= {
            "state": "asked" if requested else "found",
            "trigger": incident.trigger,
            "step": step,
            "seconds": seconds,
            "usual_seconds": stall.usual or None,
            "phase": stall.phase or None,
            "attempt": self._attempt,
            "silent_nodes": silent,
        }
        culprit = next((record for record in records if record.rank in finding.ranks), None)
        fields["stack"] = report.stack(culprit) if culprit else []
        heading = f"{begin}: {sentence}"
        fields["path"] = self._write(heading, fields, dump, records)
        emit("hang", heading, severity="INFO" if requested else "ERROR", **fields)

    def _write(
        self,
        heading: str,
        fields: Mapping[str, Any],
        dump: Sequence[Mapping[str, Any]],
        records: Sequence[RankRecord],
    ) -> str | None:
        """Write the incident as JSON and as text; return the path of the JSON, or None on failure."""
        name = time.strftime("hang-%Y%m%dT%H%M%SZ", time.gmtime()) + f"-{self._attempt}-{self._count}"
        path = self._folder / f"{name}.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"message": heading, **fields, "records": dump}, indent=1))
            path.with_suffix(".txt").write_text(report.text(heading, dump, records))
            for old in sorted(self._folder.glob("hang-*.json"))[:-_MAX_INCIDENTS]:
                old.unlink()
                old.with_suffix(".txt").unlink(missing_ok=True)
        except OSError:
            return None
        return str(path)

    def _report_over(self, ranks: NodeRanks) -> None:
        assert self._reported_at is not None
        seconds = max(0.0, ranks.moved_at() - self._reported_at)
        text = f"training continues at step {ranks.step()}, {seconds:.0f} s after the report of a hang"
        emit("hang", text, state="over", step=ranks.step(), seconds=seconds, attempt=self._attempt)


def _readable(dump: Sequence[tuple[int, dict[str, Any]]]) -> tuple[list[dict[str, Any]], list[RankRecord]]:
    """Return the readable part of the nodes' answers, with the node in each record."""
    shown, records = [], []
    for node, record in dump:
        with contextlib.suppress(ValueError, KeyError, TypeError, IndexError, AttributeError):
            records.append(read_record(record, node))
            shown.append({"node": node, **record})
    return shown, records
