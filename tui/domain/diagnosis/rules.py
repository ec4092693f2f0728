"""The rules of the diagnosis: data in YAML, shipped with vxtui or from a file of the user.

A rule names what a line means: a root cause, a cascade of another replica's failure, the teardown after it,
a pointer of a launcher, noise, or an error that the program survives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from tui.domain.document.decoding import decode_yaml
from tui.domain.log.pattern import Pattern, PatternError, compile_pattern, compiled_with_groups

ROLES = ("root", "either", "cascade", "teardown", "pointer", "noise", "survived")
FAMILIES = (
    "code", "package", "data", "config-flag", "memory-host", "memory-gpu", "disk", "storage-gcs",
    "permission", "image", "quota-capacity", "preemption", "network", "nccl-desync", "hardware-gpu",
    "timeout", "checkpoint", "launcher", "dependency-service", "user-cancel", "unknown", "none",
)  # fmt: skip
RETRIES = ("yes", "node", "change", "no")
WHERES = ("line", "platform", "words")
PLACES = ("local", "vertex", "cluster")
_FOLDER = Path(__file__).parent / "data"
_TRIGGERS = (
    r"Traceback \(|\w(?:Error|Exception|Interrupt)\b|\b(?:exceptions?|errors?)\.\w"
    r"|^\[?(?:ERROR|FATAL|CRITICAL|[Ee]rror|[Ff]atal|Exception)\b|During handling of|direct cause of"
    r"|Root Cause \(|^Failures:|^\s*(?:rank|exitcode|host)\s+: "
)
"""Lines of tracebacks and of launchers' summaries, which need no rule."""
_CHUNK = 16
"""Number of lines that are searched for any rule at once."""


class RuleError(ValueError):
    """A rule is invalid; the message names the file and the rule, and gives the reason."""


@dataclass(frozen=True, slots=True)
class CauseRule:
    """One rule: the meaning of a line. In its texts, `{group}` is replaced by the named group of `match`."""

    id: str
    match: str
    role: str = "root"
    family: str = "unknown"
    cause: str = ""
    short: str = ""
    """The cause for a cell of a list; "" to use `cause`."""
    retry: str = "no"
    next: str | Mapping[str, str] = ""
    """The next step, or a step for each location of a job: `local`, `vertex`, `cluster`, `any`."""
    source: str = ""
    where: str = "line"
    """`line` of a log; `platform`: the service's message, which a user's output never matches; or `words` of
    an error that no rule for lines knows."""
    sure: bool = True
    """Whether the line alone proves the cause."""
    line: str = ""
    """A line that matches."""
    counter: str = ""
    """A line that does not match."""

    def advice(self, place: str) -> str:
        """Return the next step for the location of a job."""
        if isinstance(self.next, str):
            return self.next
        return self.next.get(place) or self.next.get("any", "") or next(iter(self.next.values()), "")


_KEYS = frozenset(key.name for key in fields(CauseRule)) - {"counter"} | {"not"}


@dataclass(frozen=True, slots=True)
class Match:
    """A rule that matches a text, with the named groups."""

    rule: CauseRule
    groups: Mapping[str, str] = field(default_factory=dict)

    def fill(self, text: str) -> str:
        """Insert the named groups into a text."""
        for name, value in self.groups.items():
            text = text.replace(f"{{{name}}}", value)
        return " ".join(text.split()).strip(" :,")


class Rules:
    """A compiled set of rules in order: the first that matches a line decides."""

    def __init__(self, rules: Sequence[CauseRule], own: Sequence[CauseRule] = ()) -> None:
        """Compile the rules; the user's `own` rules come first. Raises RuleError."""
        import re2  # noqa: PLC0415 - only a diagnosis needs it

        options = re2.Options()
        options.log_errors, options.never_capture, options.max_mem = False, True, 128 << 20
        self._rules: dict[str, list[CauseRule]] = {where: [] for where in WHERES}
        self._sets: dict[str, Any] = {}
        for where, members in self._rules.items():
            members += [rule for rule in (*own, *rules) if rule.where == where]
            self._sets[where] = re2.Set.SearchSet(options)
            for rule in members:
                self._sets[where].Add(rule.match)
            if members:
                self._sets[where].Compile()
        self._chunks = re2.Set.SearchSet(options)
        for rule in self._rules["line"]:
            self._chunks.Add(f"(?m){rule.match}")
        self._chunks.Compile()
        self._patterns: dict[str, Any] = {}
        self._trigger: Pattern = compile_pattern(_TRIGGERS)

    def suspicious(self, texts: Sequence[str]) -> set[int]:
        """Return the indexes of the lines that a rule matches, or that may belong to a traceback."""
        hits = set(self._trigger.among("\n".join(texts), texts))
        for start in range(0, len(texts), _CHUNK):
            chunk = texts[start : start + _CHUNK]
            if self._chunks.Match("\n".join(chunk).encode(errors="replace")):
                hits.update(at for at, text in enumerate(chunk, start) if self.matches(text))
        return hits

    def matches(self, text: str, where: str = "line") -> list[CauseRule]:
        """Return the rules that match a text, in order."""
        if not self._rules[where]:
            return []
        members = self._rules[where]
        return [members[at] for at in sorted(self._sets[where].Match(text.encode(errors="replace")) or ())]

    def filled(self, rule: CauseRule, text: str) -> Match:
        """Return the match of a rule with its named groups."""
        pattern = self._patterns.get(rule.id)
        if pattern is None:
            pattern = self._patterns[rule.id] = compiled_with_groups(rule.match)
        match = pattern.search(text)
        groups = {} if match is None else {k: v or "" for k, v in match.groupdict().items()}
        return Match(rule, groups)

    def first(self, text: str, where: str = "line") -> Match | None:
        """Return the first rule that matches a text."""
        rules = self.matches(text, where)
        return self.filled(rules[0], text) if rules else None


@lru_cache(maxsize=4)
def shipped_rules(own: Path | None = None) -> Rules:
    """Return the shipped rules, after those of the user's file `own`. Raises RuleError."""
    rules = [rule for path in sorted(_FOLDER.glob("*.yaml")) for rule in read_rules(path, tried=False)]
    return Rules(rules, read_rules(own) if own is not None and own.exists() else ())


def read_rules(path: Path, *, tried: bool = True) -> list[CauseRule]:
    """Read a file of rules. With `tried`, match each rule against its example lines, which takes time. Raises
    RuleError, with the file and line of the invalid rule."""
    try:
        text = path.read_text(encoding="utf-8")
        document = decode_yaml(text)
    except (OSError, ValueError) as error:
        raise RuleError(f"{path}: {error}") from error
    except Exception as error:  # YAMLError: its message names the line
        raise RuleError(f"{path}: {' '.join(str(error).split())}") from error
    if document is None:
        return []
    if not isinstance(document, list):
        raise RuleError(f"{path}:1: the file must be a list of rules, each with `id`, `match` and `cause`")
    seen: set[str] = set()
    return [_rule(entry, path, text, seen, tried) for entry in document]


def _rule(entry: Any, path: Path, text: str, seen: set[str], tried: bool) -> CauseRule:
    """Check one rule. Raises RuleError."""
    name = str(entry.get("id", "")) if isinstance(entry, dict) else ""
    where = f"{path}:{_line_of(text, name)}: rule {name or repr(entry)}"
    if not isinstance(entry, dict) or not name or not isinstance(entry.get("match"), str):
        raise RuleError(f"{where} must have an `id` and a `match`")
    unknown = entry.keys() - _KEYS
    if unknown:
        raise RuleError(
            f"{where} has the unknown key {min(map(str, unknown))}; known are {', '.join(sorted(_KEYS))}"
        )
    if name in seen:
        raise RuleError(f"{where} has the id of an earlier rule")
    seen.add(name)
    for key, allowed in (
        ("role", ROLES),
        ("family", FAMILIES),
        ("retry", RETRIES),
        ("where", WHERES),
    ):
        if key in entry and entry[key] not in allowed:
            raise RuleError(f"{where}: {key} must be one of {', '.join(allowed)}")
    line, counter = str(entry.get("line", "")), str(entry.get("not", ""))
    if tried:
        try:
            pattern = compiled_with_groups(entry["match"])
        except PatternError as error:
            raise RuleError(f"{where}: match can't be used: {error}") from error
        if line and not pattern.search(line):
            raise RuleError(f"{where}: match must match its own line: {line}")
        if counter and pattern.search(counter):
            raise RuleError(f"{where}: match must not match its counter-line: {counter}")
    values = {key: entry[key] for key in entry.keys() - {"not", "line"}}
    return CauseRule(**values, line=line, counter=counter)


def _line_of(text: str, name: str) -> int:
    """Return the line number of a rule, or 1 if it has no id."""
    at = text.find(f"id: {name}") if name else -1
    return text.count("\n", 0, at) + 1 if at >= 0 else 1
