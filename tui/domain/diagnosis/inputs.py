"""Lines of a log from any text: plain, JSON lines, or the array of `gcloud logging read --format=json`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from tui.domain.core.replica import short_name
from tui.domain.diagnosis.line import JobFacts, LogLine, ReplicaEnd
from tui.domain.document.decoding import decode_json
from tui.domain.log.json_line import severity_number

BATCH = 2_000
MOST_ENTRIES = 2_000_000
"""Maximum number of entries of an array. All entries are in memory, because an array comes newest first."""
MOST_TEXT = 64 * 1024
"""Maximum number of characters that are read of one entry."""
SHORT = 4_000
"""Number of characters below which a line is decoded without a check of its depth."""
_SCAN = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_TIMES = ("timestamp", "time", "t", "ts", "@timestamp", "asctime", "receiveTimestamp")
_REPLICAS = ("replica", "pod", "task", "replica_id", "pod_name", "task_name", "host", "hostname", "node")
_TEXTS = ("text", "message", "msg", "textPayload", "log", "line", "event")
_STACKS = ("exc_info", "stack_trace", "stacktrace", "exception", "traceback", "exc_text", "error", "stack")
_SIMPLE = ("t", "replica", "severity", "text")
_NAME = (
    r"(?:workerpool\d+-\d+|[a-z][a-z0-9.-]{0,80}-(?:worker|master|launcher|chief|ps|node|replica|server)-?\d{1,5}"
    r"|(?:worker|master|node|chief|replica|pod|host|launcher)-?\d{1,5}(?:-\d{1,5})?)"
)
_STAMP = r"(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_PREFIX = re.compile(
    rf"(?:\[?(?P<t1>{_STAMP})\]?\s+)?"
    rf"(?:\[(?:pod/)?(?P<r1>[\w.-]*{_NAME}[\w.-]*)(?:/[\w.-]+)?\]:?|(?P<r2>{_NAME})\s*(?:\||:(?=\s)|\s))\s?"
    rf"(?:\[?(?P<t2>{_STAMP})\]?\s+(?=\S))?"
)
_GCLOUD = re.compile(
    rf"(?P<severity>[A-Z]{{4,9}})\t(?P<t1>{_STAMP}(?: [+-]\d{{4}})?)\t(?P<r1>[\w.-]{{1,100}})\t"
)
"""A line that `gcloud ai custom-jobs stream-logs` prints."""
_SHORT = re.compile(r"(?P<t1>\d\d:\d\d:\d\d\.\d{3}) (?P<r1>\d+-\d+|service) +[!▲ ] ")
_LEADING = re.compile(r"\[?(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(Z|[+-]\d\d:?\d\d)?")


class NoLog(ValueError):
    """The text is not a log; the message gives the reason."""


def text_lines(texts: Iterable[str], names: Collection[str] = ()) -> Iterator[LogLine]:
    """Yield the lines of a plain text, or of JSON lines within it. `names` are the replicas of the job."""
    known = {short_name(name): name for name in names} | {name: name for name in names}
    only = next(iter(names)) if len(names) == 1 else ""
    for index, text in enumerate(texts):
        if text[:1] == "{" and (line := json_line(index, text, only)) is not None:
            yield line
        else:
            yield _plain(index, text[:MOST_TEXT], known, only)


def _plain(index: int, text: str, known: Mapping[str, str], only: str) -> LogLine:
    """Read a line with the replica and the time in its prefix, if it has them."""
    first = text[:1]
    if first.isdigit() or first == "[" or (first.isalpha() and "-" in text[:90]):
        streamed = _GCLOUD.match(text)
        if streamed is not None:
            severity, name = severity_number(streamed["severity"]) or 0, streamed["r1"]
            name = known.get(name, name)
            return LogLine(index, seconds(streamed["t1"]), name, severity, text[streamed.end() :])
        match = _PREFIX.match(text) or _SHORT.match(text)
        if match is not None:
            groups = match.groupdict()
            name = groups["r1"] or groups.get("r2") or ""
            stamp = groups.get("t1") or groups.get("t2") or ""
            replica = known.get(name, name)
            return LogLine(index, seconds(stamp) if stamp else None, replica, 0, text[match.end() :])
        stamped = _LEADING.match(text) if first.isdigit() or first == "[" else None
        if stamped is not None:
            return LogLine(index, seconds(stamped[0].strip("[")), only, 0, text)
    if known and ":" in text[:80]:
        name, _, rest = text.partition(":")
        if name in known:
            return LogLine(index, None, known[name], 0, rest.removeprefix(" "))
    return LogLine(index, None, only, 0, text)


def json_line(index: int, text: str, only: str = "") -> LogLine | None:
    """Return the line in a JSON object; `None` if `text` is not an object or has no text."""
    try:
        if len(text) < SHORT and "\\u" not in text:
            # json.loads costs twice as much for a short line.
            value, end = _SCAN(text, 0)
            if end < len(text) and not text[end:].isspace():
                return None
        else:
            value = decode_json(text)
    except (ValueError, StopIteration, RecursionError):
        return None
    return entry_line(index, value, only) if isinstance(value, dict) else None


def entry_line(index: int, entry: Mapping[str, Any], only: str = "") -> LogLine | None:
    """Read an entry of any logger or of Cloud Logging; `None` if it has no text."""
    if tuple(entry) == _SIMPLE:
        # The documented form: most lines of a large log pass here.
        at, name, severity, simple = entry.values()
        if type(simple) is str and simple and type(name) is str and (type(at) is float or type(at) is int):
            return LogLine(index, at, name or only, severity_number(severity) or 0, simple[:MOST_TEXT])
    replica = _first(entry, _REPLICAS)
    payload = entry.get("jsonPayload")
    fields = payload if isinstance(payload, dict) else entry
    text = _first(fields, _TEXTS) or _first(entry, _TEXTS)
    resource = entry.get("resource")
    if isinstance(resource, dict) and isinstance(labels := resource.get("labels"), dict):
        replica = str(labels.get("task_name") or labels.get("pod_name") or replica)
    proto = entry.get("protoPayload")
    if not text and isinstance(proto, dict) and isinstance(status := proto.get("status"), dict):
        text = str(status.get("message") or "")
    stack = "\n".join(str(fields[key]) for key in _STACKS if isinstance(fields.get(key), str) and fields[key])
    if stack and stack not in text:
        text = f"{text}\n{stack}"
    if not text and not any(isinstance(fields.get(key), str) for key in _TEXTS):
        if fields is entry and not replica and "timestamp" not in entry:
            return None
        text = " ".join(
            f"{key}={value}" for key, value in fields.items() if isinstance(value, str | int | float)
        )
    severity = severity_number(entry.get("severity") or fields.get("severity") or fields.get("level")) or 0
    at = next((entry[key] for key in _TIMES if entry.get(key) is not None), None)
    time = float(at) if isinstance(at, int | float) else seconds(at) if isinstance(at, str) else None
    return LogLine(index, time, replica or only, severity, text[:MOST_TEXT])


def _first(fields: Mapping[str, Any], keys: Iterable[str]) -> str:
    return next((fields[key] for key in keys if isinstance(fields.get(key), str) and fields[key]), "")


def seconds(stamp: str) -> float | None:
    """Return the time of a stamp in seconds since 1970, or since midnight for a stamp without a date; `None`
    for other text."""
    text = stamp.strip().replace(",", ".")
    if text[4:5] != "-":
        try:
            hours, minutes, rest = text[:8].split(":")
            return int(hours) * 3600 + int(minutes) * 60 + float(f"{rest}{text[8:].rstrip('Z')}")
        except ValueError:
            return None
    fraction = re.search(r"\.(\d{1,9})", text)
    if fraction is not None and len(fraction[1]) > 6:
        text = text.replace(fraction[0], fraction[0][:7])
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def array_lines(text: str) -> list[LogLine]:
    """Read a JSON array of entries. Raises NoLog."""
    try:
        entries = decode_json(text)
    except ValueError as error:
        raise NoLog(f"the text begins as a JSON array, but {error}") from error
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise NoLog("a JSON array must have entries of a log, each an object")
    if len(entries) > MOST_ENTRIES:
        raise NoLog(f"the array has more than {MOST_ENTRIES:,} entries; JSON lines may have any number")
    return [line for index, entry in enumerate(entries) if (line := entry_line(index, entry)) is not None]


def in_time(lines: list[LogLine]) -> list[LogLine]:
    """Return the lines in order of time; a line without a time stays behind its predecessor."""
    steps = [(b.time or 0) - (a.time or 0) for a, b in pairwise(lines)]
    if sum(step < 0 for step in steps) > sum(step > 0 for step in steps):
        lines = lines[::-1]
    latest, keyed = 0.0, []
    for line in lines:
        latest = line.time if line.time is not None else latest
        keyed.append((latest, line))
    return [line for _, line in sorted(keyed, key=lambda pair: pair[0])]


def job_facts(document: object) -> JobFacts:
    """Read a job's file: {state, error, error_code, replicas: [{name, state, exit_code}]}. Raises NoLog if
    the file has another structure."""
    if not isinstance(document, dict):
        raise NoLog("the file of a job must be one JSON object with `state`, `error` and `replicas`")
    error = document.get("error")
    code = document.get("error_code")
    if isinstance(error, dict):
        code, error = error.get("code", code), error.get("message", "")
    words, traceback = split_message(str(error or ""))
    ends = {}
    replicas = document.get("replicas") or []
    if not isinstance(replicas, list):
        raise NoLog("`replicas` must be a list of objects with `name`, `state` and `exit_code`")
    for replica in replicas:
        if not isinstance(replica, dict) or not isinstance(replica.get("name"), str):
            raise NoLog("each of `replicas` must be an object with `name`")
        exit_code = replica.get("exit_code")
        state = _state(replica.get("state"))
        ends[replica["name"]] = ReplicaEnd(
            state, exit_code if isinstance(exit_code, int) else None, str(replica.get("reason") or "")
        )
    return JobFacts(
        _state(document.get("state")),
        words,
        traceback,
        code if isinstance(code, int) else None,
        ends,
        str(document.get("place") or ""),
    )


def _state(value: object) -> str:
    return str(value or "").upper().removeprefix("JOB_STATE_").replace("CANCELED", "CANCELLED")


def split_message(message: str) -> tuple[str, str]:
    """Split a service's message into the service's own text and the user's traceback."""
    words, mark, traceback = message.partition("Traceback (most recent call last):")
    words, traceback = (_LINK.split(part)[0] for part in (words, traceback))
    return words.strip(), f"{mark}{traceback}".strip() if mark else ""


_LINK = re.compile(r"\s*To find out more about why your job exited")
