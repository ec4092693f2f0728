"""The severity that a plain-text line states: a logging library's level, a traceback or a progress bar.

Only the beginning of a line is read, and only words in the position of a level: "INFO: no ERROR" is INFO.
"""

from __future__ import annotations

import re

from tui.domain.core.log_entry import Severity

BEGINNING = 160
"""Characters of a line that are read."""
LEVEL_WITHIN = 96
"""Characters of a line within which a level begins and ends."""
_LETTERS = {
    "I": Severity.INFO,
    "W": Severity.WARNING,
    "E": Severity.ERROR,
    "F": Severity.CRITICAL,
}
_SYNONYMS = {
    "VERBOSE": "DEBUG", "DBG": "DEBUG", "INF": "INFO", "SUCCESS": "INFO", "NOTE": "INFO", "WRN": "WARNING",
    "SEVERE": "ERROR", "FAIL": "ERROR", "FATAL ERROR": "CRITICAL", "CRIT": "CRITICAL", "PANIC": "CRITICAL",
    "EMERG": "EMERGENCY",
}  # fmt: skip
"""Levels of logging libraries that LogSeverity lacks."""
_TIME = r"\d\d:\d\d(?::\d\d)?"
_DATE = r"(?:\d{4}[-/]\d\d[-/]\d\d|\d\d[-/]\d\d[-/]\d\d(?:\d\d)?)"
_LAUNCHER = re.compile(r"\[(?:(?:rank|default)\d+|\d+,\d+)\](?:<std(?:err|out)>)?: ?")
"""The name that torchrun, a logger of ranks or mpirun puts before a line of a rank."""
_SYSLOG = re.compile(
    rf"(?:[A-Z][a-z]{{2}} [ \d]\d {_TIME}|\d{{4}}-\d\d-\d\dT\S+) \S+ [\w./@-]+(?:\[\d+\])?: "
)
_LETTER = re.compile(
    rf"([IWEF])\d{{4}}(?:\d{{4}})? {_TIME}"
    rf"|\[(?:([IWEF])(?:\d{{4}})? (?:{_DATE} )?(?:{_TIME}|\S+:\d+\])|NeMo ([IWEF]) "
    rf"|[^[]+\] (?:\[\w+\] )?\[([IWEF])\]|{_DATE} [\d:,]+ ([IWEF]) \d+ \d+\])"
    rf"|{_DATE} [\d:.]+: ([IWEF]) \S+:\d+\]"
)
"""A letter as the level: glog, klog, absl, torch's C++, Jupyter, NeMo, TensorRT, Ray, TensorFlow."""
_FIRST = frozenset("[IWEFDJMASON0123456789")
"""First characters of a line with such a letter, and of the name of a month."""
_LEVEL = re.compile(
    "TRACE|DEBUG|VERBOSE|INFO|NOTICE|SUCCESS|WARNING|WARN|ERROR|SEVERE|CRITICAL|FATAL|DBG|INF|WRN|ERR"
)
_CLOSED = re.compile(r" *[\])}>|:]| +-|,(?! )")
"""The text after a level that follows names and dates."""
_OPENED = re.compile(
    # Nothing but a date; a program's name or fields in brackets; a date and at most two names.
    r"(?:[^A-Za-z]++|T|Z|UTC|GMT|[AP]M|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat|Sun)*"
    r"|[\w./\[\]()-]+: |(?:[\[({][^\])}]*[\])}] ?)+|\S.*NCCL "
    rf"|[\[(]?{_DATE}[T ,-]+{_TIME}[^ ]*(?: +[^\s|]+){{1,2}}\s+"
)
"""The text before a level that precedes its message."""
_BRACKET = re.compile(
    r"\[(trace|debug|info|notice|warning|warn|error|critical|crit|alert|emerg|fatal) *\]", re.IGNORECASE
)
_FIELD = re.compile(r"(?:level|severity)(?:name)?[\"']?[=:] ?[\"']?([A-Za-z]{3,8})\b")
_WORD = re.compile(
    r"(?:[\w./+-]+(?:\[\d+\])?(?::\d+)*: )?"
    r"(trace|debug|info|note|notice|warning|warn|fatal error|error|fatal|critical|crit|panic|fail)"
    r"(?:\[\w+\])?: *(?![\s\d.+-])",
    re.IGNORECASE,
)
"""A level at the start, perhaps after a program's name, and before a text."""
_WARNING = re.compile(r"(?:\S[^:]*:\d+: )?(?:\w+\.)*\w*Warning: ")
"""A warning of Python's `warnings`."""
_RAISED = re.compile(r"(?:[\w$]+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|ExceptionGroup)(?:: |:?$)")
_TRACEBACK = (
    "Traceback (most recent call last):", "During handling of the above exc", "The above exception was the",
    '  File "', "Exception in thread ", "Caused by: ",
)  # fmt: skip
_ENDED = (
    "terminate called", "Fatal Python error:", "Segmentation fault", "Aborted (core", "Bus error", "Killed",
)  # fmt: skip
"""Starts of lines that report the end of a process."""
_BAR = re.compile(r".*(?:\d%\|.*\]|\d\w* \[\d\d:\d\d.*(?:/s|s/\w+)[^\]]*\])")
"""A progress bar of tqdm."""
_LAST = re.compile(
    r"(?!(?:TRACE|DEBUG|INFO|WARN|ERROR|CRITICAL))(?:[\w$]+\.)*\w+(?:: |:?$)|During |The above |Traceback "
)
"""The last line of a traceback, or the first line of the next exception."""
_SIGNS = re.compile(r"\W+")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_FAILURE = re.compile(
    r"\b(?:errors?|exceptions?|fail(?:ed|ure|s|ing)?|fatal|abort(?:ed|ing)?|killed|panic|core dumped"
    r"|cannot|can't|could not|couldn't|unable|not found|no such|denied|refused|invalid|out of memory"
    r"|timed out|unrecogni[sz]ed|assertion|usage:|crash(?:ed)?|corrupt(?:ed)?|unreachable|lost)\b",
    re.IGNORECASE,
)


def severity_of(text: str) -> Severity | None:
    """Return the severity that the line states; `None` if it states none."""
    start = last_rewrite(text)[:BEGINNING]
    if start[:1] == "\x1b":
        start = _COLOUR.sub("", start)
    first = start[:1]
    if first in _FIRST:
        prefix = _LAUNCHER.match(start) if first == "[" else _SYSLOG.match(start) if "]: " in start else None
        if prefix is not None:
            return severity_of(start[prefix.end() :])
        letter = _LETTER.match(start)
        if letter is not None:
            return _LETTERS[letter[letter.lastindex or 0]]
    match = _LEVEL.search(start, 0, LEVEL_WITHIN)
    while match is not None:
        if _is_level(start, *match.span()):
            return _named(match[0])
        match = _LEVEL.search(start, match.end(), LEVEL_WITHIN)
    return _rarely(start)


def last_rewrite(text: str) -> str:
    """Return the last text of a line that rewrites itself with carriage returns, as progress bars do."""
    return next((part for part in reversed(text.split("\r")) if part.strip()), "") if "\r" in text else text


def collapsed(text: str) -> str:
    """Apply `last_rewrite` to each line of a text."""
    return "\n".join(map(last_rewrite, text.split("\n"))) if "\r" in text else text


def _is_level(start: str, begin: int, end: int) -> bool:
    """Return whether a word is at the position of a log level. A word within a sentence is not a level."""
    before, after = start[begin - 1 : begin], start[end : end + 1]
    if before.isalnum() or after.isalnum() or "_" in {before, after}:
        return False
    if _CLOSED.match(start, end):
        return True
    return _OPENED.fullmatch(start, 0, begin) is not None and not start[:begin].strip().isdecimal()


def _rarely(start: str) -> Severity | None:
    """Return the severity of a line without a word in capitals."""
    if "[" in start:
        if (match := _BRACKET.search(start)) is not None:
            return _named(match[1])
        if (bar := _BAR.match(start)) is not None:
            return severity_of(start[bar.end() :]) or Severity.INFO
    if ": " in start or " " not in start or start[:1] == "/":
        if _WARNING.match(start):
            return Severity.WARNING
        if (match := _WORD.match(start)) is not None:
            return _named(match[1])
        if _RAISED.match(start):
            return Severity.ERROR
    if ("evel" in start or "everity" in start) and (match := _FIELD.search(start)) is not None:
        return _named(match[1])
    if start.startswith(_TRACEBACK):
        return Severity.ERROR
    return Severity.CRITICAL if start.startswith(_ENDED) else None


def _named(word: str) -> Severity | None:
    name = word.upper()
    try:
        return Severity.parse(_SYNONYMS.get(name, name))
    except ValueError:
        return None


def fails(text: str) -> bool:
    """Return whether the words of a line without a stated severity report a failure."""
    return _FAILURE.search(text) is not None


def continues(text: str, within: bool) -> bool:
    """Return whether a line continues the previous line's message; `within` is the result for that line."""
    prefix = _LAUNCHER.match(text)
    body = text[prefix.end() : BEGINNING] if prefix else text[:BEGINNING]
    if not body[:1].strip() or _SIGNS.fullmatch(body):
        return True
    return within and _LAST.match(body) is not None
