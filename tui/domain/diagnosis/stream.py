"""The line stream of one process: assembles tracebacks and launchers' summaries."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tui.domain.diagnosis.evidence import Evidence, Pointer, TracebackFrame
from tui.domain.diagnosis.fallback import CERTAIN
from tui.domain.diagnosis.line import LogLine
from tui.domain.diagnosis.rules import CauseRule, Match, Rules

MOST_PARTS = 40
"""Maximum number of parts between carriage returns that are read, from the end."""
MOST_CHARACTERS = 4_000
MOST_FRAMES = 80
MOST_OPEN = 64
"""Maximum number of open tracebacks of one stream. Lines of processes without prefixes interleave."""
PATIENCE = 150
"""Number of lines after which an open traceback is discarded."""
MOST_NAMED = 4
"""Number of innermost frames whose functions may tell the family of an exception."""
CONTINUED = 8
"""Maximum number of lines after an exception that may belong to its message."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]|[\x00-\x08\x0b\x0c\x0e-\x1f]+")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\s(?:(?:stdout|stderr) [FP] )?(?=\S|\s{2})")
_TAG = re.compile(
    r"\s{0,4}(?:\[(?:rank|default|Rank |RANK |rank |rank:|GPU ?)(?P<a>\d{1,6})\](?::(?! )|: ?| )"
    r"|\[\d+,(?P<b>\d{1,6})\](?:<std(?:out|err)>)?: ?"
    r"|(?P<c>\d{1,6}): (?=\S|\s{2})"
    r"|[Rr]ank[ -]?(?P<d>\d{1,6}) ?[:|] ?"
    r"|\([A-Za-z_]\w*(?:\[[^\]]*\])?(?: \w+)? ?pid=(?P<e>\d+)(?:, ip=[\w.:]+)?\) ?)"
)
_HEAD = "Traceback (most recent call last)"
_FRAME = re.compile(
    r"File \"(?P<file>[^\"]{1,400})\",? line (?P<line>\d{1,9})(?:, in (?P<function>\S{1,200}))?"
)
_PATH_FRAME = re.compile(r"File \"?(?P<file>\S+) line (?P<line>\d{1,9}), in (?P<function>\S{1,200})")
_NAMED = (
    r"(?:Error|Exception|Interrupt|Exit|Iteration|Timeout|Failure|Fault|Group|Empty|Abort(?:ed)?|Denied|Forbidden"
    r"|NotFound|Unavailable|Exceeded|Exhausted|TooManyRequests|Invalid|Conflict|Unauthenticated|Cancelled|Required"
    r"|BadRequest|ServerError)"
)
_WORDED = re.compile(rf"{_NAMED}$|[Ee]rror|[Ee]xception")
_ENDS = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w*\.)*_?[A-Z]\w*|(?:[A-Za-z_]\w*\.)+(?:\w*error|timeout|exception))(?:\[[^\]]*\])?"
    r"(?:: ?(?P<message>.*))?$"
)
_ALONE = re.compile(
    rf"(?P<type>(?:[A-Za-z_]\w*\.)+_?[A-Z]\w*|(?:[A-Za-z_]\w*\.)*[A-Z]?\w*?{_NAMED})(?:: (?P<message>.*)|:?$)"
)
_QUOTED = re.compile(
    r"(?:^|[\s\[\](>:'\"|])(?P<type>(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt))"
    r"(?:: |\(['\"])(?P<message>.*)"
)
_SAID = re.compile(r"\[?(?:ERROR|FATAL|CRITICAL|[Ee]rror|[Ff]atal)\b")
_CAMEL = re.compile(r"[A-Z][a-z]+[A-Z]\w*$")
"""A name that is an exception only at the end of a traceback."""
_LEVELS = frozenset(
    {"ERROR", "WARNING", "INFO", "DEBUG", "CRITICAL", "FATAL", "NOTE", "WARN", "TRACE", "FAILED"}
)
_MILD = re.compile(
    r"(?<!NCCL )\bWARN(?:ING)?\b|\b(?:INFO|DEBUG)\b|^\[?(?:W|[IWVD]\d{3,4}) "
    r"|^\d{4}-\d\d-\d\d [\d:.,]+: [IWD] "
    r"|[Oo]ptional|disabl(?:ed|ing)|[Uu]sing default"
)
_RECORD = re.compile(
    r"[\[(]?(?:\d[\d:., TZ-]{7,30}[\])]?\s*(?:[-|]\s*)?)?\[?(?:ERROR|CRITICAL)\]?\s*[:|-]\s*\S"
)
_HANDLED = re.compile(
    r"[Rr]etrying|[Ww]ill retry|[Rr]etry (?:in|after|\d)|re-try|[Ss]kipp(?:ed|ing)"
    r"|[Ii]gnor(?:ed|ing)|[Ff]all(?:ing|s)? ?back|[Cc]ontinuing|non-fatal"
    r"|(?:^|[^g] )[Cc]aught\b|was disabled\b|could not be imported|will not be (?:enabled|used|available)"
    r"|is unavailable"
    r"|[Rr]ecover(?:ed|ing)|Exception ignored|[Aa]ttempt \d+ ?(?:/|of) ?\d+"
)
GIVEN_UP = re.compile(
    r"giv(?:ing|en) up|retries exhausted|max(?:imum)? retries|after \d+ (?:attempts|retries|tries)"
    r"|retry (?:count|limit|budget)|exceeded .{0,20}\bretr|(?:out of|no more) retries",
    re.IGNORECASE,
)
_CHAINS = {
    "The above exception was the direct cause of the following exception": "direct",
    "During handling of the above exception, another exception occurred": "during",
}
_GROUP = re.compile(r"^\s*[|+](?:-[-+ ]*| |$)(?:Exception Group (?=Traceback))?")
_ROOT = re.compile(r"Root Cause \(first observed failure\)")
_FIELD = re.compile(r"\s*(?P<key>time|host|rank|exitcode|error_file|traceback)\s+: (?P<value>.*)")
_RANK = re.compile(r"\[Rank (\d{1,6})\]")
_NUMBER = re.compile(r"-?\d{1,10}")


def parts(text: str) -> list[str]:
    """Return the last parts of a line between carriage returns, without control sequences."""
    pieces = text.split("\r")[-MOST_PARTS:] if "\r" in text else [text]
    pieces = [part[:MOST_CHARACTERS] for part in pieces if part]
    return [part if part.isprintable() else _ESCAPES.sub("", part) for part in pieces]


def untagged(text: str) -> tuple[int | None, str]:
    """Return the rank in the prefix of a line, or `None`, and the line without rank and time."""
    if text[:2] == "20" and (time := _TIME.match(text)) is not None:
        text = text[time.end() :]
    if text[:1] not in "[(0123456789rR \t":
        return None, text
    match = _TAG.match(text)
    if match is None:
        return None, text
    rank = next((int(value) for value in match.groups() if value is not None), None)
    return rank, text[match.end() :]


@dataclass(slots=True)
class _Traceback:
    """A traceback before its exception line."""

    first: LogLine
    prefix: str
    chain: str
    handled: bool
    announced: bool
    frames: list[TracebackFrame] = field(default_factory=list)
    age: int = 0


class ProcessStream:
    """The lines of one rank of a replica, or of all its processes that write without a prefix."""

    def __init__(self, rank: int | None) -> None:
        self.rank = rank
        self.pointer: Pointer | None = None
        """The newest report of a launcher."""
        self._open: list[_Traceback] = []
        self._last: Evidence | None = None
        self._number = self._raised_at = 0
        self._chain = ""
        self._handled_time: float | None = None
        self._handled_at = -2
        """Number of the last line that says that an error is handled."""
        self._ignored = False
        """Whether that line is the interpreter's `Exception ignored in`."""
        self.before: LogLine | None = None
        """The replica's last line."""
        self._root = False

    @property
    def attention(self) -> int:
        """Number of following lines to parse in full."""
        return PATIENCE if self._open else 0

    def read(self, body: str, line: LogLine, number: int, rules: Rules) -> tuple[Evidence | None, bool]:
        """Read the replica's line with this number. Return the error that the line completes, and whether the
        line belongs to an error."""
        self._number = number
        if _GROUP.match(body) and (self._open or _HEAD in body):
            body = _GROUP.sub("", body, count=1)
        at = body.find(_HEAD)
        if at >= 0:
            self._begin(body[:at], line)
            return None, True
        if self._open:
            evidence, busy = self._within(body, line, rules)
            if busy:
                return evidence, True
        for text, chain in _CHAINS.items():
            if text in body:
                self._chain = chain
                return None, True
        if self._summary(body, line):
            return None, True
        return self._judge(body, line, rules)

    def _begin(self, prefix: str, line: LogLine) -> None:
        if len(self._open) >= MOST_OPEN:
            self._open.pop(0)
        announced = self._handled_before(line) or self._announced_before(line)
        handled = _mild(prefix) or (announced and self._ignored)
        self._open.append(_Traceback(line, prefix.strip(" +|"), self._chain, handled, announced))
        self._chain = ""

    def _handled_before(self, line: LogLine) -> bool:
        """Return whether the previous line says that the error is handled."""
        if line.time is not None and self._handled_time is not None and line.time - self._handled_time > 1:
            return False
        return self._number - self._handled_at < 2

    def _announced_before(self, line: LogLine) -> bool:
        """Return whether the replica's last line is a logger's record of an error, or says that the error is
        handled."""
        before = self.before
        if before is None or ((line.time or 0) - (before.time or 0)) > 1:
            return False
        return _RECORD.match(before.text) is not None or _HANDLED.search(before.text) is not None

    def _within(self, body: str, line: LogLine, rules: Rules) -> tuple[Evidence | None, bool]:
        """Read a line that may belong to an open traceback."""
        newest = self._open[-1]
        for traceback in self._open:
            traceback.age += 1
        if newest.prefix and len(body) > len(newest.prefix) and body[:4] == newest.prefix[:4]:
            rest = body[len(newest.prefix) :]
            body = rest[1:] if rest[:1] == " " and not rest.startswith("  F") else rest
        frame = _FRAME.search(body) or _PATH_FRAME.search(body)
        if frame is not None:
            # Processes that interleave write equal frames in turn: the shortest traceback lacks this one.
            shortest = min(self._open, key=lambda traceback: len(traceback.frames))
            if len(shortest.frames) < MOST_FRAMES:
                shortest.frames.append(
                    TracebackFrame(frame["file"], int(frame["line"]), frame["function"] or "")
                )
            return None, True
        if body[:1] in " \t" or not body or set(body) <= set("^~ "):
            return None, True
        match = _ENDS.fullmatch(body)
        if match is not None and (_is_exception(match["type"]) or _CAMEL.match(match["type"])):
            longest = max(reversed(self._open), key=lambda traceback: len(traceback.frames))
            self._open.remove(longest)
            return self._raised(match, line, rules, longest), True
        self._open = [traceback for traceback in self._open if traceback.age < PATIENCE]
        return None, False

    def _raised(
        self, match: re.Match[str], line: LogLine, rules: Rules, traceback: _Traceback | None
    ) -> Evidence:
        name, message, body = match["type"], match["message"] or "", match.string
        # Advice within the message of an exception is no reason to ignore the exception.
        rule = next((rule for rule in rules.matches(body) if rule.role not in {"noise", "survived"}), None)
        fitting = rules.filled(rule, body) if rule is not None else None
        kind = name.rpartition(".")[2]
        if fitting is None and kind not in CERTAIN and kind != "ImportError":
            # Then the functions that raised it.
            frames = traceback.frames[-MOST_NAMED:] if traceback is not None else ()
            fitting = rules.first(body, "words") or rules.first(
                " ".join(f"{frame.file} {frame.function}" for frame in frames if not frame.package), "words"
            )
        evidence = Evidence(line, body, self.rank, fitting, kind, message)
        if traceback is not None:
            evidence.frames = tuple(traceback.frames)
            evidence.logged, evidence.announced = traceback.handled, traceback.announced
            if traceback.chain and self._last is not None and self._last.exception:
                evidence.chain, evidence.cause = traceback.chain, self._last
        self._last, self._raised_at = evidence, self._number
        return evidence

    def _judge(self, body: str, line: LogLine, rules: Rules) -> tuple[Evidence | None, bool]:
        """Read a line outside of a traceback."""
        handled = self._handled_before(line)
        if _HANDLED.search(body):
            self._handled_at, self._handled_time = self._number, line.time
            self._ignored = "ignored in" in body
        saying = _mild(body)
        match = _ALONE.match(body) if body[:1].isalpha() else None
        # `Error: worker 3 exited` names no exception.
        raised = match is not None and match["type"] != "Error" and _is_exception(match["type"])
        if match is not None and raised and _WORDED.search(match["type"]):
            evidence = self._raised(match, line, rules, None)
            evidence.logged = handled or saying
            return evidence, True
        fitting = rules.matches(body)
        last = self._last
        if last is not None and self._continues(last.line, line) and last.exception:
            same = last.match is not None and last.match.rule in fitting
            if same and last.match is not None and not any(last.match.groups.values()):
                last.match = rules.filled(last.match.rule, body)
            noise = bool(fitting) and fitting[0].role in {"noise", "survived"}
            refined = None if noise else next((r for r in fitting if _proof(r) > _proof(last.match)), None)
            if refined is not None and not saying:
                if last.match is not None or last.message.endswith("error:"):
                    last.line = line
                last.match = rules.filled(refined, body)
                last.message = f"{last.message} {body.strip()}"[:MOST_CHARACTERS]
                return None, True
        if fitting:
            rule = fitting[0]
            named = _RANK.search(body) if self.rank is None else None
            rank = int(named[1]) if named is not None else self.rank
            evidence = Evidence(line, body, rank, rules.filled(rule, body), logged=saying)
            quoted = _QUOTED.search(body)
            if quoted is not None:
                evidence.exception, evidence.message = quoted["type"].rpartition(".")[2], quoted["message"]
            if rule.role == "pointer":
                self._point(evidence.match, line)
            return evidence, True
        quoted = _QUOTED.search(body) if "Error" in body or "Exception" in body else None
        if quoted is not None:
            name = quoted["type"].rpartition(".")[2]
            return Evidence(
                line,
                body,
                self.rank,
                rules.first(body, "words"),
                name,
                quoted["message"],
                quoted=True,
                logged=saying,
            ), True
        if _SAID.match(body) and (vague := rules.first(body, "words")) is not None:
            return Evidence(line, body, self.rank, vague, logged=saying), True
        return None, False

    def _continues(self, raised: LogLine, line: LogLine) -> bool:
        """Return whether a line may belong to the message of the last exception."""
        if raised.time is not None and line.time is not None and line.time - raised.time > 1:
            return False
        return self._number - self._raised_at <= CONTINUED

    def _point(self, match: Match | None, line: LogLine) -> None:
        """Read the rank and exit code that a launcher names."""
        groups = match.groups if match is not None else {}
        if not groups:
            return
        rank, code = (
            int(groups[key]) if groups.get(key, "").lstrip("-").isdecimal() else None
            for key in ("rank", "code")
        )
        if code is None and groups.get("signal", "").isdecimal():
            code = -int(groups["signal"])
        self.pointer = Pointer(line, rank, code, first=self._root)

    def _summary(self, body: str, line: LogLine) -> bool:
        """Read a line of torchrun's table."""
        if _ROOT.search(body):
            self._root, self.pointer = True, None
            return True
        if body.startswith("Failures:"):
            self._root, self.pointer = False, None
            return True
        match = _FIELD.match(body)
        if match is None:
            return False
        key, value = match["key"], match["value"]
        if key == "time" or self.pointer is None:
            self.pointer = Pointer(line, first=self._root)
        pointer, number = self.pointer, _NUMBER.match(value)
        if key == "rank" and number:
            pointer.rank, pointer.line = int(number[0]), line
        elif key == "exitcode" and number:
            pointer.code, pointer.line = int(number[0]), line
        return True

    def finish(self) -> Evidence | None:
        """Return the traceback that is cut off at the end of the log."""
        if not self._open or not self._open[-1].frames:
            return None
        traceback = self._open[-1]
        evidence = Evidence(traceback.first, _HEAD, self.rank, frames=tuple(traceback.frames))
        evidence.logged, evidence.announced = traceback.handled, traceback.announced
        return evidence


def _proof(fitting: Match | CauseRule | None) -> int:
    """Return the strength of a rule as proof: 3 for a sure root cause, 2 for a likely one, 1 for a
    consequence, 0 otherwise."""
    rule = fitting.rule if isinstance(fitting, Match) else fitting
    if rule is None or rule.role not in {"cascade", "either", "root"}:
        return 0
    return 1 if rule.role == "cascade" else 2 if rule.role == "either" or not rule.sure else 3


def _mild(text: str) -> bool:
    """Return whether a line says that its error is handled, or has a severity below that of an error."""
    if GIVEN_UP.search(text):
        return False
    return _HANDLED.search(text) is not None or _MILD.search(text) is not None


def _is_exception(name: str) -> bool:
    """Return whether the name before a colon is an exception's name."""
    last = name.rpartition(".")[2].lstrip("_")
    if "." in name and last in {"error", "timeout", "gaierror", "herror", "exception"}:
        return True
    if last in _LEVELS or (not last[:1].isupper() and not last.endswith(("Error", "Exception"))):
        return False
    return "." in name or re.search(_NAMED, last) is not None
