"""Log lines as columns: the content of a batch, of a block on disk and of a block in memory.

A line's key is (time in nanoseconds, insert id, replica). The key orders a merged log; two lines with the
same key are the same line. Objects are created only for visible lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from operator import lt

from tui.domain.core.log_entry import LogEntry, LogGap, Severity

Line = LogEntry | LogGap
Key = tuple[int, str, str]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
GAP = 255
"""The severity code of a gap. An entry's code is its severity divided by 100. If the service's label differs,
the upper four bits are the label's code plus one."""
_LEVELS = bytes(code if code == GAP else code & 0xF for code in range(256))
_SEVERITIES = {int(severity) // 100: severity for severity in Severity}
_json_text = json.JSONEncoder(ensure_ascii=False, default=str).encode
_MICROSECOND = timedelta(microseconds=1)


def nanoseconds(moment: datetime) -> int:
    """Return a time as nanoseconds since the epoch."""
    return (moment - EPOCH) // _MICROSECOND * 1000


def line_key(line: Line) -> Key:
    """Return the sort key of a line. A gap precedes the entries of the same time."""
    if isinstance(line, LogEntry):
        return (nanoseconds(line.timestamp) + line.nanos, line.insert_id, line.replica)
    return (nanoseconds(line.timestamp), "", f"\0{_digits(line.count)} {line.reason}")


def _digits(count: int | None) -> str:
    """Return a count as text that sorts by the number."""
    return "unknown" if count is None else f"{count:012}"


def _labelled(severity: Severity, label: Severity) -> int:
    return severity // 100 | (label // 100 + 1 << 4)


class Lines:
    """Lines as columns of equal length; `payloads` holds the JSON text by line index. Immutable."""

    __slots__ = ("ids", "payloads", "replicas", "severities", "texts", "times")

    def __init__(  # noqa: PLR0917 - one for each column
        self,
        times: Sequence[int],
        ids: Sequence[str],
        replicas: Sequence[str],
        severities: bytes,
        texts: Sequence[str],
        payloads: dict[int, str] | None = None,
    ) -> None:
        self.times = times
        self.ids = ids
        self.replicas = replicas
        self.severities = severities
        self.texts = texts
        self.payloads = payloads or {}

    @classmethod
    def of(cls, entries: Sequence[LogEntry], gaps: Iterable[LogGap] = ()) -> Lines:
        """Convert lines to columns in the given order, the gaps last."""
        times = [nanoseconds(entry.timestamp) + entry.nanos for entry in entries]
        ids = [entry.insert_id for entry in entries]
        replicas = [entry.replica for entry in entries]
        severities = bytearray(
            [
                entry.severity // 100 if entry.label is None else _labelled(entry.severity, entry.label)
                for entry in entries
            ]
        )
        texts = [entry.message for entry in entries]
        payloads = {at: _json_text(entry.json) for at, entry in enumerate(entries) if entry.json is not None}
        for gap in gaps:
            time, name, replica = line_key(gap)
            payloads[len(times)] = json.dumps(
                {
                    "count": gap.count,
                    "until": gap.until.isoformat() if gap.until else None,
                    "filled": gap.filled,
                }
            )
            times.append(time)
            ids.append(name)
            replicas.append(replica)
            severities.append(GAP)
            texts.append(gap.reason)
        return cls(times, ids, replicas, bytes(severities), texts, payloads)

    def __len__(self) -> int:
        return len(self.times)

    def key(self, at: int) -> Key:
        """Return the key of line `at`."""
        return (self.times[at], self.ids[at], self.replicas[at])

    def keys(self) -> Iterator[Key]:
        """Yield every line's key."""
        return zip(self.times, self.ids, self.replicas, strict=True)

    def line(self, at: int) -> Line:
        """Return line `at` as an object."""
        time, payload, code = self.times[at], self.payloads.get(at), self.severities[at]
        moment = EPOCH + timedelta(microseconds=time // 1000)
        if code == GAP:
            fields = json.loads(payload or "{}")
            until = fields.get("until")
            return LogGap(
                moment,
                fields.get("count", 0),
                self.texts[at],
                datetime.fromisoformat(until) if until else None,
                fields.get("filled", 0),
            )
        return LogEntry(
            moment,
            self.ids[at],
            self.replicas[at],
            _SEVERITIES[code & 0xF],
            self.texts[at],
            None if payload is None else json.loads(payload),
            nanos=time % 1000,
            label=_SEVERITIES[(code >> 4) - 1] if code >> 4 else None,
        )

    @property
    def levels(self) -> bytes:
        """The severity codes without the service's labels."""
        return self.severities.translate(_LEVELS)

    @property
    def ordered(self) -> bool:
        """Whether the keys are strictly increasing."""
        if all(map(lt, self.times, islice(self.times, 1, None))):
            return True
        keys = list(self.keys())
        return all(map(lt, keys, islice(keys, 1, None)))

    def cut(self, start: int, stop: int) -> Lines:
        """Return the lines from `start` up to, but excluding, `stop`."""
        if start == 0 and stop >= len(self):
            return self
        return Lines(
            self.times[start:stop],
            self.ids[start:stop],
            self.replicas[start:stop],
            self.severities[start:stop],
            self.texts[start:stop],
            {at - start: text for at, text in self.payloads.items() if start <= at < stop},
        )

    def pick(self, indexes: Sequence[int]) -> Lines:
        """Return these lines, in this order."""
        payloads = self.payloads
        return Lines(
            [self.times[at] for at in indexes],
            [self.ids[at] for at in indexes],
            [self.replicas[at] for at in indexes],
            bytes([self.severities[at] for at in indexes]),
            [self.texts[at] for at in indexes],
            {new: payloads[at] for new, at in enumerate(indexes) if at in payloads} if payloads else {},
        )

    def counts(self) -> tuple[int, int, int, int]:
        """Return the number of lines below WARNING, of WARNING, of ERROR and above, and of gaps."""
        codes = self.levels
        warnings, gaps = codes.count(4), codes.count(GAP)
        fine = sum(map(codes.count, range(4)))
        return (fine, warnings, len(codes) - fine - warnings - gaps, gaps)


EMPTY = Lines([], [], [], b"", [])


def join(parts: Sequence[Lines]) -> Lines:
    """Return all lines of the parts, concatenated."""
    if len(parts) == 1:
        return parts[0]
    times: list[int] = []
    ids: list[str] = []
    replicas: list[str] = []
    texts: list[str] = []
    payloads: dict[int, str] = {}
    for part in parts:
        if part.payloads:
            start = len(times)
            payloads.update((start + at, text) for at, text in part.payloads.items())
        times += part.times
        ids += part.ids
        replicas += part.replicas
        texts += part.texts
    return Lines(times, ids, replicas, b"".join(part.severities for part in parts), texts, payloads)


def merge(parts: Sequence[Lines]) -> Lines:
    """Return all lines of the parts in key order, the first line of each key."""
    lines = join(parts)
    if lines.ordered:
        return lines
    keys = list(lines.keys())
    # The sort is stable: among equal keys, the first line remains first.
    order = sorted(range(len(keys)), key=keys.__getitem__)
    kept = [at for last, at in zip([-1, *order], order, strict=False) if last < 0 or keys[at] != keys[last]]
    return lines.pick(kept)
