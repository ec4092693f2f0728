"""Reads a log of many replicas once, in bounded memory, into evidence.

Ordinary lines cost one search of a whole block. Only lines with a word of failure, and the lines after them,
are read closely: split at carriage returns, freed of prefixes, put together to tracebacks, matched by rules.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from tui.domain.diagnosis.evidence import Activity, Evidence, Findings
from tui.domain.diagnosis.line import LogLine
from tui.domain.diagnosis.rules import Rules
from tui.domain.diagnosis.stream import ProcessStream, parts, untagged

MOST_SAME = 6
"""Maximum number of equal errors of a replica that are saved: the first two and the last ones."""
MOST_KINDS = 150
"""Maximum number of different errors of a replica that are saved."""
MOST_REPLICAS = 4096
ATTENTION = 16
"""Number of lines after an error that are parsed in full."""
SEARCHED = 3_000
"""Number of lines, at the start and after an error, in which every step is read."""
BATCH_END = 500
"""Number of lines at the end of a batch in which the steps of replicas without errors are read."""
MOST_MARKS = 40
_NUMBER = r"[\"']?\s{0,2}[:=#/\[|]?\s{0,9}\[?\s{0,9}(\d{1,10})"
_STEP = re.compile(
    r"(?:^|[^A-Za-z])(?:global[_ ]?|train(?:ing)?[_ ]?)?(?:step|iter(?:ation)?|batch|update)s?"
    rf"{_NUMBER}|(?:^|[ |])(\d{{1,10}})/\d{{1,10}} \[\d",
    re.IGNORECASE,
)
_EPOCH = re.compile(rf"(?:^|[^A-Za-z])epochs?{_NUMBER}", re.IGNORECASE)
_RULED = re.compile(r"\s*(?:[=*_-]{8,}|Failures:|<NO_OTHER|\S+ FAILED\s*$|frame #|#\d+ )")
_UNTRAINED = re.compile(r"warm.?up|max_steps|total|num_|per_|every|save|load|resum|from", re.IGNORECASE)


class Reader:
    """Reads batches of lines; `findings` is the state so far."""

    def __init__(self, rules: Rules) -> None:
        self.findings = Findings()
        self._rules = rules
        self._streams: dict[tuple[str, int | None], ProcessStream] = {}
        self._groups: dict[tuple[str, str], list[Evidence]] = {}
        self._kinds: dict[str, int] = {}
        self._watched: deque[Evidence] = deque(maxlen=4)
        self._searched = 0

    def read(self, lines: Sequence[LogLine]) -> None:
        """Read the next lines of the log."""
        texts = [line.text for line in lines]
        if any("\n" in text for text in texts):
            lines = [replace(line, text=text) for line in lines for text in line.text.split("\n")]
            texts = [line.text for line in lines]
        hits = self._rules.suspicious(texts)
        replicas = self.findings.replicas
        self.findings.lines += len(lines)
        for at, line in enumerate(lines):
            activity = replicas.get(line.replica)
            if activity is None:
                activity = self._new(line)
            activity.count += 1
            if at in hits or activity.attention:
                self._close(activity, line)
            else:
                activity.last_ordinary = line
                self._searched += 1
                if self._searched < SEARCHED:
                    self._search_step(activity, line)
            activity.last = line
            activity.recent.append(line)
        for name in {line.replica for line in lines[-BATCH_END:]}:
            activity = replicas.get(name) or replicas[""]
            for line in activity.recent:
                self._search_step(activity, line)

    def _new(self, line: LogLine) -> Activity:
        replicas = self.findings.replicas
        name = line.replica if len(replicas) < MOST_REPLICAS else ""
        activity = replicas.get(name) or Activity(name, len(replicas), first=line)
        replicas[name] = activity
        return activity

    def _close(self, activity: Activity, line: LogLine) -> None:
        """Parse one line in full."""
        activity.attention = max(0, activity.attention - 1)
        ordinary = True
        for part in parts(line.text):
            rank, body = untagged(part)
            if rank is not None:
                activity.ranks.add(rank)
            stream = self._streams.get((activity.name, rank))
            if stream is None:
                stream = self._streams[activity.name, rank] = ProcessStream(rank)
            stream.before = activity.recent[-1] if activity.recent else None
            evidence, busy = stream.read(body, line, activity.count, self._rules)
            ordinary = ordinary and not busy and evidence is None
            activity.attention = max(activity.attention, stream.attention)
            if stream.pointer is not None and all(
                p is not stream.pointer for p in self.findings.pointers[-4:]
            ):
                self.findings.pointers.append(stream.pointer)
            if evidence is not None:
                self._add(activity, evidence)
        if ordinary and not _RULED.match(line.text):
            activity.last_ordinary = line
            self._search_step(activity, line)
        else:
            activity.busy += 1
            activity.attention = max(activity.attention, 1)
        for evidence in self._watched:
            if (
                len(evidence.after) < 3
                and evidence.line.replica == line.replica
                and evidence.line is not line
            ):
                evidence.after.append(line)

    def _add(self, activity: Activity, evidence: Evidence) -> None:
        """Save an error; of equal errors, only the first two and the last ones."""
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
        for line in activity.recent:
            self._search_step(activity, line)
        evidence.step = activity.step
        evidence.ordinary = activity.count - activity.busy
        if len(group) >= MOST_SAME:
            group.pop(2)
        group.append(evidence)
        if evidence.role in {"root", "either", "cascade", "pointer"}:
            activity.attention = max(activity.attention, ATTENTION)
            self._watched.append(evidence)
            self._searched = 0

    def _search_step(self, activity: Activity, line: LogLine) -> None:
        """Read the step of a line, if it reports one. An error before a later step was not fatal."""
        text = line.text[-400:] if "\r" in line.text else line.text[:400]
        match = _STEP.search(text) or _EPOCH.search(text)
        if match is None or _UNTRAINED.search(text, 0, match.start() + 1):
            return
        step = int(next(filter(None, match.groups())))
        if any(step == known for known, _ in activity.lately):
            return
        activity.lately.append((step, line))
        activity.step = step
        if line.time is not None and len(activity.marks) < MOST_MARKS:
            activity.marks.setdefault(step, line.time)

    def finish(self) -> Findings:
        """Return the findings of the whole log, in the order of its lines."""
        for (_, _), stream in self._streams.items():
            evidence = stream.finish()
            if evidence is not None:
                self._add(self.findings.replicas[evidence.line.replica], evidence)
        evidences = [evidence for group in self._groups.values() for evidence in group]
        self.findings.evidence = sorted(evidences, key=lambda evidence: evidence.line.index)
        return self.findings
