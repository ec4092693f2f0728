"""Reads a log of many replicas once, in bounded memory, into evidence.

Ordinary lines cost one search of a whole block. Only lines with a word of failure, and the lines after them,
are read closely: split at carriage returns, freed of prefixes, put together to tracebacks, matched by rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tui.domain.diagnosis.evidence import Activity, Evidence, Findings, Pointer
from tui.domain.diagnosis.line import LogLine
from tui.domain.diagnosis.rules import Rules
from tui.domain.diagnosis.stream import Stream, parts, untagged

MOST_SAME = 6
"""Number of equal errors of a replica that are saved: the first two and the last ones."""
MOST_KINDS = 150
"""Number of different errors of a replica that are saved."""
MOST_REPLICAS = 4096
ATTENTION = 16
"""Number of lines after an error that are read closely."""
MOST_WATCHED = 200
SEARCHED = 30_000
"""Number of lines that are searched for a step in vain before only few are."""
MOST_MARKS = 40
_NUMBER = r"[\"']?\s{0,2}[:=#/\[|]?\s{0,9}\[?\s{0,9}(\d{1,10})"
_STEP = re.compile(
    r"(?:^|[^A-Za-z])(?:global[_ ]?|train(?:ing)?[_ ]?)?(?:step|iter(?:ation)?|batch|update)s?"
    rf"{_NUMBER}|(?:^|[ |])(\d{{1,10}})/\d{{1,10}} \[\d",
    re.IGNORECASE,
)
_EPOCH = re.compile(rf"(?:^|[^A-Za-z])epochs?{_NUMBER}", re.IGNORECASE)
_UNTRAINED = re.compile(r"warm.?up|max_steps|total|num_|per_|every|save|load|resum|from", re.IGNORECASE)


class Reader:
    """Reads batches of lines; `findings` is the state so far."""

    def __init__(self, rules: Rules) -> None:
        self.findings = Findings()
        self._rules = rules
        self._streams: dict[tuple[str, int | None], Stream] = {}
        self._groups: dict[tuple[str, str], list[Evidence]] = {}
        self._kinds: dict[str, int] = {}
        self._watched: list[Evidence] = []
        self._searched = 0

    def read(self, lines: Sequence[LogLine]) -> None:
        """Read lines that follow those read before."""
        texts = [line.text for line in lines]
        whole = "\n".join(texts)
        if whole.count("\n") >= len(lines) > 0:
            lines = [replace(line, text=text) for line in lines for text in line.text.split("\n")]
            texts = [line.text for line in lines]
        hits = set(self._rules.trigger.among(whole, texts))
        replicas = self.findings.replicas
        self.findings.lines += len(lines)
        for at, line in enumerate(lines):
            activity = replicas.get(line.replica)
            if activity is None:
                activity = self._new(line)
            activity.count += 1
            if at in hits or activity.attention:
                self._close(activity, line)
            elif self._watched or activity.steps < 3:
                self._search_step(activity, line)
            activity.last = line
            activity.recent.append(line)

    def _new(self, line: LogLine) -> Activity:
        replicas = self.findings.replicas
        name = line.replica if len(replicas) < MOST_REPLICAS else ""
        activity = replicas.get(name) or Activity(name, len(replicas), first=line)
        replicas[name] = activity
        return activity

    def _close(self, activity: Activity, line: LogLine) -> None:
        """Read one line closely."""
        activity.attention = max(0, activity.attention - 1)
        ordinary = True
        for part in parts(line.text):
            rank, body = untagged(part)
            if rank is not None:
                activity.ranks.add(rank)
            stream = self._streams.get((activity.name, rank))
            if stream is None:
                stream = self._streams[activity.name, rank] = Stream(rank)
            evidence, busy = stream.read(body, line, self._rules)
            ordinary = ordinary and not busy and evidence is None
            activity.attention = max(activity.attention, stream.attention)
            if stream.pointer is not None and not any(
                p is stream.pointer for p in self.findings.pointers[-4:]
            ):
                self.findings.pointers.append(stream.pointer)
            if evidence is not None:
                self._add(activity, evidence)
        if ordinary:
            self._search_step(activity, line)
            for evidence in self._watched:
                if evidence.line.replica == line.replica:
                    evidence.healthy += 1
                    evidence.last_healthy = line.time
        for evidence in self._watched[-4:]:
            if (
                len(evidence.after) < 3
                and evidence.line.replica == line.replica
                and evidence.line is not line
            ):
                evidence.after.append(line)

    def _add(self, activity: Activity, evidence: Evidence) -> None:
        """Save an error, with few of those that repeat."""
        name = (
            evidence.match.rule.id
            if evidence.match is not None
            else f"{evidence.exception}:{evidence.quoted}"
        )
        key = (activity.name, f"{name}:{evidence.rank}")
        group = self._groups.get(key)
        if group is None:
            if self._kinds.get(activity.name, 0) >= MOST_KINDS:
                return
            self._kinds[activity.name] = self._kinds.get(activity.name, 0) + 1
            group = self._groups[key] = []
        evidence.before = tuple(activity.recent)[-3:]
        evidence.step = evidence.last_step = activity.step
        if len(group) >= MOST_SAME:
            dropped = group.pop(2)
            self._watched = [watched for watched in self._watched if watched is not dropped]
        group.append(evidence)
        activity.attention = max(activity.attention, ATTENTION)
        if evidence.role in {"root", "either", "cascade"}:
            self._watched.append(evidence)
            self._watched = self._watched[-MOST_WATCHED:]
            self._searched = 0

    def _search_step(self, activity: Activity, line: LogLine) -> None:
        """Read the step of a line, if it reports one: what trains on has survived its errors."""
        self._searched += 1
        if self._searched > SEARCHED and self._searched % 32:
            return
        text = line.text[-400:] if "\r" in line.text else line.text[:400]
        match = _STEP.search(text) or _EPOCH.search(text)
        if match is None or _UNTRAINED.search(text, 0, match.start() + 1):
            return
        step = int(next(filter(None, match.groups())))
        if step in activity.lately:
            return
        activity.lately.append(step)
        self._searched = 0
        activity.steps += 1
        activity.step = step
        if line.time is not None and len(activity.marks) < MOST_MARKS:
            activity.marks.setdefault(step, line.time)
        settled = False
        for evidence in self._watched:
            at, now = evidence.line.time, line.time
            if at is not None and now is not None and now < at:
                continue
            if evidence.line.replica == activity.name:
                evidence.own_steps += 1
            elif step != evidence.last_step:
                evidence.other_steps += 1
                evidence.last_step = step
            settled = settled or evidence.own_steps >= 3
        if settled:
            self._watched = [evidence for evidence in self._watched if evidence.own_steps < 3]

    def finish(self) -> Findings:
        """Return what the log tells, in the order of its lines."""
        for (_, _), stream in self._streams.items():
            evidence = stream.finish()
            if evidence is not None:
                self._add(self.findings.replicas[evidence.line.replica], evidence)
        evidences = [evidence for group in self._groups.values() for evidence in group]
        self.findings.evidence = sorted(evidences, key=lambda evidence: evidence.line.index)
        return self.findings


def read_lines(lines: Sequence[LogLine], rules: Rules) -> Findings:
    """Read a whole log."""
    reader = Reader(rules)
    reader.read(lines)
    return reader.finish()


__all__ = ["Pointer", "Reader", "read_lines"]
