"""The filter of the jobs list: `state:running,failed team:nlp gpu:a100 age<2d text`.

Terms are joined by "and"; a comma inside a value is "or"; `-` or `!` before a term negates it; double quotes
keep blanks together. A word without a key is searched in the name, the id, the region and the labels. A key
outside `FIELDS` is a label; `label.KEY:value` is the explicit form.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from fnmatch import fnmatchcase

from tui.domain.core.formatting import ACCELERATOR_SHORT
from tui.domain.core.job import Job
from tui.domain.core.states import JobState

_TEXT_FIELDS: dict[str, Callable[[Job], list[str]]] = {
    "state": lambda job: [job.state.value, *_life(job)],
    "name": lambda job: [job.display_name],
    "id": lambda job: [job.id],
    "kind": lambda job: [
        job.kind.removesuffix("_job"),
        job.kind,
        *(job.kind.replace("_", by) for by in (" ", "")),
    ],
    "region": lambda job: [job.region],
    "namespace": lambda job: [job.region] if job.in_cluster else [],
    "context": lambda job: [job.context],
    "strategy": lambda job: [job.strategy],
    "gpu": lambda job: [x for kind in job.accelerators for x in (kind, ACCELERATOR_SHORT.get(kind, kind))],
    "machine": lambda job: [group.machine_type for group in job.groups],
}
_SPANS: dict[str, Callable[[Job, datetime], timedelta | None]] = {
    "age": lambda job, now: job.age(now),
    "duration": lambda job, now: job.duration(now),
}
_NUMBERS: dict[str, Callable[[Job], float | None]] = {
    "replicas": lambda job: float(job.replica_count),
    "gpus": lambda job: float(sum(job.accelerators.values())),
    "step": lambda job: job.progress.step,
    "loss": lambda job: job.progress.last_loss,
}
FIELDS = (*_TEXT_FIELDS, *_SPANS, *_NUMBERS)
"""Keys with a special meaning."""

_PARTLY = {
    "name": "inside",
    "kind": "start",
    "gpu": "inside",
    "machine": "inside",
    "region": "inside",
    "namespace": "inside",
    "state": "start",
}
"""Fields whose value may match a part of the text: anywhere, or at its start."""

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "=": lambda a, b: a == b,
}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_WORD = re.compile(r'(?:"[^"]*"|[^\s"])+')
_TERM = re.compile(r"(?P<key>[A-Za-z_][\w.-]*)(?P<op>:|<=|>=|<|>|=)(?P<value>.*)", re.DOTALL)
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
_SPAN_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


class QueryError(ValueError):
    """The filter can't be parsed. `position` is an offset in the text, from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


@dataclass(frozen=True, slots=True)
class Term:
    """One condition; `operator` is empty for a plain word."""

    key: str
    operator: str
    values: tuple[str, ...]
    negated: bool = False

    def matches(self, job: Job, now: datetime) -> bool:
        """Return whether the job meets the condition; an unknown value meets no comparison."""
        return self._matches(job, now) != self.negated

    def _matches(self, job: Job, now: datetime) -> bool:
        if not self.operator:
            labels = [text for pair in job.own_labels.items() for text in pair]
            where = [job.display_name, job.id, job.region, *labels]
            return any(self.values[0] in text.casefold() for text in where)
        if self.key in _SPANS:
            span = _SPANS[self.key](job, now)
            return span is not None and _COMPARE[self.operator](
                span.total_seconds(), _seconds(self.values[0])
            )
        if self.key in _NUMBERS:
            number = _NUMBERS[self.key](job)
            return number is not None and _COMPARE[self.operator](number, float(self.values[0]))
        if self.key in _TEXT_FIELDS:
            texts = _TEXT_FIELDS[self.key](job)
        else:
            label = job.labels.get(self.key.removeprefix("label."))
            texts = [] if label is None else [label]
        return any(_same(value, text, _PARTLY.get(self.key, "")) for text in texts for value in self.values)


@dataclass(frozen=True, slots=True)
class JobQuery:
    """A parsed filter; an empty filter matches every job."""

    text: str = ""
    terms: tuple[Term, ...] = ()

    def matches(self, job: Job, now: datetime) -> bool:
        """Return whether the job meets every term at the time `now`."""
        return all(term.matches(job, now) for term in self.terms)

    def missing_label(self, jobs: Iterable[Job]) -> str:
        """Return the first label that a term requests and that none of these jobs has; "" if every requested
        label occurs."""
        requested = [t.key.removeprefix("label.") for t in self.terms if t.operator and t.key not in FIELDS]
        known = {key for job in jobs for key in job.labels} if requested else set()
        return next((key for key in requested if key not in known), "")


def parse(text: str) -> JobQuery:
    """Parse a filter. Raises QueryError with a sentence and the position of the problem."""
    if text.count('"') % 2:
        raise QueryError("a quote is open: add the closing one", text.rindex('"'))
    return JobQuery(text.strip(), tuple(_term(m[0], m.start()) for m in _WORD.finditer(text)))


def without_unfinished(text: str) -> str:
    """Return the text without an unfinished last term, such as `state:` or `age<`."""
    last = list(_WORD.finditer(text))[-1:]
    if not last or last[0].end() != len(text):
        return text
    match = _TERM.fullmatch(last[0][0].lstrip("-!"))
    return text[: last[0].start()] if match is not None and not match["value"].strip(",") else text


def completions(text: str, jobs: Iterable[Job], limit: int = 12) -> tuple[str, list[str]]:
    """Return the completions of the last word: the text before it, and the possible words. A word without a
    key is completed to a field; after the key of a text field or label the completions are the jobs' values,
    the most frequent first."""
    start = max((m.start() for m in _WORD.finditer(text) if m.end() == len(text)), default=len(text))
    word = text[start:]
    sign = word[:1] if word[:1] in ("-", "!") else ""
    match = _TERM.fullmatch(word[len(sign) :])
    if match is None:
        typed = word[len(sign) :].casefold()
        fields = [f"{field}{'<' if field in _SPANS or field in _NUMBERS else ':'}" for field in FIELDS]
        return text[: start + len(sign)], [f for f in fields if typed and f.startswith(typed)][:limit]
    before, comma, typed = match["value"].rpartition(",")
    head = text[: len(text) - len(typed)]
    used = set(before.casefold().split(",")) if comma else set()
    values = Counter(value for job in jobs for value in _values(match["key"].lower(), job))
    if match["key"].lower() == "state":
        values.update(dict.fromkeys((state.value.casefold() for state in JobState), 0))
    words = [word for word, _ in values.most_common() if word.casefold() not in used]
    fitting = [word for word in words if word.casefold().startswith(typed.casefold())]
    return head, [f'"{word}"' if " " in word else word for word in fitting][:limit]


def _values(key: str, job: Job) -> Iterable[str]:
    if key in {"state", "gpu"}:
        # The second name of an accelerator is the short one.
        texts = _TEXT_FIELDS[key](job)
        return {value.casefold() for value in (texts if key == "state" else texts[1::2])}
    if key in _TEXT_FIELDS:
        return {value for value in _TEXT_FIELDS[key](job)[:1] if value}
    label = job.labels.get(key.removeprefix("label."))
    return () if label is None else (label,)


def _term(word: str, position: int) -> Term:
    negated = len(word) > 1 and word[0] in "-!"
    body = word[1:] if negated else word
    match = _TERM.fullmatch(body)
    if match is None or body.startswith('"'):
        return Term("", "", (body.replace('"', "").casefold(),), negated)
    key, operator, value = match["key"].lower(), match["op"], match["value"]
    values = tuple(v.replace('"', "").strip().casefold() for v in value.split(","))
    values = tuple(v for v in values if v)
    if not values:
        raise QueryError(f"{key}{operator} needs a value, e.g. {_example(key)}", position + len(word))
    return _checked(Term(key, operator, values, negated), position)


def _checked(term: Term, position: int) -> Term:
    key, operator, values = term.key, term.operator, term.values
    if key in _SPANS or key in _NUMBERS:
        if operator == ":":
            term = Term(key, "=", values, term.negated)
        valid = _SPAN.fullmatch(values[0]) if key in _SPANS else _is_number(values[0])
        if not valid or len(values) > 1:
            kind = "a duration" if key in _SPANS else "a number"
            raise QueryError(f"compare {key} with {kind}, e.g. {_example(key)}", position)
        return term
    if operator not in {":", "="}:
        raise QueryError(f"{key} has no order: write {key}:{values[0]}", position)
    if key == "state":
        known = {state.value.casefold() for state in JobState} | {"active", "ended"}
        wrong = next((v for v in values if not any(_same(v, k, "start") for k in known)), None)
        if wrong is not None:
            raise QueryError(f"unknown state {wrong!r}; use {', '.join(sorted(known))}", position)
    elif key not in FIELDS and not key.startswith("label."):
        near = get_close_matches(key, FIELDS, 1, 0.83)
        if near:
            raise QueryError(
                f"did you mean {near[0]}:? For a label with that name, write label.{key}:", position
            )
    return term


def _example(key: str) -> str:
    if key in _SPANS:
        return f"{key}<2d or {key}>1h30m"
    return (
        f"{key}>2"
        if key in _NUMBERS
        else {"state": "state:running", "gpu": "gpu:a100", "kind": "kind:tuning"}.get(key, f"{key}:x")
    )


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?(e-?\d{1,2})?", text) is not None


def _seconds(text: str) -> float:
    return sum(float(number) * _SECONDS[unit] for number, unit in _SPAN_PART.findall(text))


def _same(pattern: str, text: str, partly: str) -> bool:
    text = text.casefold()
    if "*" in pattern:
        return fnmatchcase(text, pattern.replace("[", "[[]").replace("?", "[?]"))
    if partly == "start":
        return text.startswith(pattern)
    return pattern in text if partly else pattern == text


def _life(job: Job) -> list[str]:
    return [word for word, true in (("ACTIVE", job.state.active), ("ENDED", job.state.terminal)) if true]
