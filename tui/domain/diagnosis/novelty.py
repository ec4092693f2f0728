"""What is new in a log, without rules: the lines that neither a good run nor the other replicas print.

A line's key is its text without digits, taken from a whole batch at once. Only a line whose key is rare is
read closely: its template masks every word with a digit, and counts per replica.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tui.domain.core.log_entry import SERVICE
from tui.domain.diagnosis.inputs import BATCH
from tui.domain.diagnosis.line import LogLine
from tui.domain.diagnosis.stream import parts, untagged
from tui.domain.diagnosis.verdict import NewLine, Verdict

MOST_SHOWN = 5
"""Maximum number of new lines in a ranking."""
COMMON = 100
"""Number of lines from which a key is common, so that none of its lines is new."""
FIRST_CLOSE, MOST_CLOSE = 10_000, 100
"""Number of rare lines that are masked at the start, and then of the last lines of each batch."""
MOST_KEYS = 50_000
"""Maximum number of keys with a known template."""
MOST_TEMPLATES, MOST_OF_REPLICA = 40_000, 3_000
"""Maximum number of templates of all replicas, and of each replica (the newest ones)."""
LONGEST = 400
"""Number of characters at each end of a line that form the line's key."""
NEAR = 4
"""Maximum number of a replica's lines between two new lines of one block."""
_MASKED = re.compile(r"[^\s\"'(),=\[\]]*\d[^\s\"'(),=\[\]]*|\b[a-f]{8,}\b")
_EXCEPTION = re.compile(
    r"(?:^|[\s:])(?:[a-z_][\w.]*\.)?(?:[A-Z]\w*)?(?:Error|Exception|Exit|Interrupt|Exhausted|Fault|Failure)"
    r"(?:: |:?$)"
    r"|^(?:[a-z_]\w*\.)+[A-Z]\w+(?:: |$)|^\w+: error: |\bOut of memory\b|\bCheck failed\b|\bKilled\b"
    r"|\b(?:panic(?:ked)?|terminate called|core dumped|Segmentation fault|Bus error|FATAL|fatal error)\b"
)
_ERROR = re.compile(
    r"error|fail|fatal|abort|kill|denied|refused|time[d ]?-?out|cannot|can't|unable|not found|no such|invalid"
    r"|exceed|corrupt|lost|full|missing|exit|Xid|terminat|unrecognized|unexpected|undefined",
    re.IGNORECASE,
)
_TEARDOWN = re.compile(
    r"\bpeer\b|ChildFailedError|CalledProcessError|shut down|SIGTERM|closing signal|Broken pipe"
    r"|Connection (?:reset|closed|refused)"
)
_HANDLED = re.compile(r"\bcaught\b|\bskip|retr(?:y|i)|\bignor|\bWARN", re.IGNORECASE)


@dataclass(slots=True)
class _Template:
    """The lines of a replica that differ in masked words only."""

    masked: str
    last: LogLine
    indented: bool
    order: int = 0
    """Number of the replica's lines before the last one."""
    ordinary: int = 0
    """Number of the replica's lines before the last one whose template was not new."""
    count: int = 0


class Novelty:
    """Reads batches of lines; `new` ranks the new lines."""

    def __init__(self) -> None:
        self._close = FIRST_CLOSE
        self._common: set[bytes] = set()
        self._keys: dict[tuple[str, bytes], _Template] = {}
        self._replicas: defaultdict[str, dict[str, _Template]] = defaultdict(dict)
        self._templates = 0
        self._lines: Counter[str] = Counter()
        self._new: Counter[str] = Counter()
        """Number of each replica's lines whose template was new."""

    def read(self, lines: Sequence[LogLine]) -> None:
        """Read the next lines of the log."""
        for begin in range(0, len(lines), BATCH):
            self._read(lines[begin : begin + BATCH])

    def _read(self, lines: Sequence[LogLine]) -> None:
        if any("\n" in line.text for line in lines):
            lines = [part for line in lines for part in _split(line)]
        half = LONGEST // 2
        texts = [
            text if len(text := line.text) <= LONGEST else f"{text[:half]}{text[-half:]}" for line in lines
        ]
        names = [line.replica for line in lines]
        keys = "\n".join(texts).encode("utf-8", "replace").translate(None, b"0123456789").split(b"\n")
        common = self._common
        rare = [at for at, key in enumerate(keys) if key not in common]
        self._close += MOST_CLOSE
        begin = 0
        for at in rare[-self._close :]:
            self._lines.update(names[begin:at])
            begin = at
            self._count(lines[at], keys[at])
        self._lines.update(names[begin:])
        self._close = max(0, self._close - len(rare))

    def _count(self, line: LogLine, key: bytes) -> None:
        """Process a line with a rare key."""
        name = line.replica
        template = self._keys.get((name, key))
        if template is None:
            template = self._template(line)
            if len(self._keys) >= MOST_KEYS:
                self._keys.clear()
            self._keys[name, key] = template
        template.count += 1
        template.last, template.order = line, self._lines[name]
        template.ordinary = template.order - self._new[name]
        if template.count >= COMMON:
            self._common.add(key)

    def _template(self, line: LogLine) -> _Template:
        """Return the template of a line, a new one if the replica has not printed it before."""
        templates = self._replicas[line.replica]
        body = _telling(line.text)
        masked = _MASKED.sub("#", body[:LONGEST]).strip()
        template = templates.get(masked)
        if template is None:
            self._new[line.replica] += 1
            template = templates[masked] = _Template(masked, line, body[:1] in " \t")
            if len(templates) > MOST_OF_REPLICA or self._templates >= MOST_TEMPLATES:
                del templates[next(iter(templates))]
            else:
                self._templates += 1
        return template

    def templates(self) -> set[str]:
        """Return the templates of all replicas."""
        return {masked for templates in self._replicas.values() for masked in templates}

    def new(self, good: Collection[str] = ()) -> list[NewLine]:
        """Return the most informative new lines, best first. `good` has the templates of a good run."""
        blocks = self._blocks(good)
        tops = [max(block, key=lambda pair: pair[0]) for block in blocks]
        ranked: list[tuple[float, _Template]] = []
        known: set[str] = set()
        # Of the errors that nothing follows, the first ones are the likely cause of the others.
        bonus = 1.5
        for score, template in sorted(tops, key=lambda pair: pair[1].last.index):
            if template.masked in known:
                continue
            known.add(template.masked)
            if score > 0:
                early = bonus if score > 2 else 0.0
                bonus = max(0.0, bonus - 0.5) if score > 2 else bonus
                ranked.append((score + early, template))
        if ranked:
            # The other lines of the best line's block tell more than the best ones of weak blocks.
            best = max(ranked, key=lambda pair: pair[0])[1]
            block = next(block for block in blocks if any(template is best for _, template in block))
            ranked += [
                (score, template)
                for score, template in block
                if score >= 1 and template.masked not in known and not template.indented
            ]
        ranked = sorted(ranked, key=lambda pair: -pair[0])[:MOST_SHOWN]
        return [NewLine(template.last, score) for score, template in ranked]

    def _blocks(self, good: Collection[str]) -> list[list[tuple[float, _Template]]]:
        """Return the new templates with their scores, in blocks of neighbouring lines."""
        holders: Counter[str] = Counter()
        for templates in self._replicas.values():
            holders.update(templates.keys())
        blocks: list[list[tuple[float, _Template]]] = []
        # The platform's own lines repeat what the replicas print.
        for name in [name for name in self._replicas if name != SERVICE] or list(self._replicas):
            order = -NEAR - 1
            for template in sorted(self._replicas[name].values(), key=lambda other: other.order):
                if template.masked in good or not template.masked or template.count >= COMMON:
                    continue
                if template.order - order > NEAR:
                    blocks.append([])
                order = template.order
                blocks[-1].append((self._score(template, holders[template.masked]), template))
        return blocks

    def _score(self, template: _Template, holders: int) -> float:
        """Return the score of a new template; the highest is that of an error in one replica that then prints
        nothing ordinary."""
        score = 2 - math.log2(holders)
        if _EXCEPTION.search(template.masked):
            score += 3
        elif _ERROR.search(template.masked):
            score += 1.5
        score -= 2 * (_TEARDOWN.search(template.masked) is not None) + 2 * template.indented
        score -= 1.5 * (_HANDLED.search(template.masked) is not None)
        score += 0.5 * (template.last.severity >= 500)
        name = template.last.replica
        after = self._lines[name] - self._new[name] - template.ordinary
        return score - 0.5 * math.log2(1 + max(0, after))


def with_new(verdict: Verdict, novelty: Novelty, good: Collection[str] = ()) -> Verdict:
    """Return the verdict with the new lines. `good` has the templates of a successful run."""
    return verdict if verdict.family == "none" else replace(verdict, new=novelty.new(good))


def _split(line: LogLine) -> list[LogLine]:
    return [
        LogLine(line.index, line.time, line.replica, line.severity, text) for text in line.text.split("\n")
    ]


def _telling(text: str) -> str:
    """Return the most informative part of a line between carriage returns, without the prefix of its rank."""
    bodies = [untagged(part)[1] for part in parts(text)] or [text]
    return next((body for body in bodies if _EXCEPTION.search(body)), bodies[-1])
