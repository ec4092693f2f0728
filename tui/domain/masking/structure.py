"""Secrets in a specification: a JSON value with environment variables, arguments and free texts."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tui.domain.masking.names import is_secret
from tui.domain.masking.text import MASK, SHORT, Cover, holds, mask_text, no_name

DECLARED = "VXTUI_SECRETS"
"""Variable of a job that names the arguments and variables which a profile declares as secrets."""
_FLAG = re.compile(r"^(?P<head>--?(?P<name>[\w.-]+)=)(?P<value>.+)$", re.DOTALL)
_LISTS = ("command", "args")


def masked(spec: Any, known: Iterable[str] = ()) -> tuple[Any, int]:
    """Return a copy of a JSON value with masked secrets, and their number. `known` are declared secrets.
    Masked are the `value` beside the `name` of a secret (environment variables), `--flag=value` and `--flag`,
    `value` arguments with the name of a secret, values whose names `DECLARED` lists, and secrets within
    texts."""
    return concealed(spec, known)


def concealed(spec: Any, known: Iterable[str] = (), cover: Cover = no_name) -> tuple[Any, int]:
    """Return a copy of the value with `cover` in place of each secret, and the number of secrets."""
    work = _Work(tuple(known), cover)
    return work.value(spec, ""), work.count


def mask_value(name: Any, value: str) -> str:
    """Return the masked value of a variable, flag or field with this name."""
    return MASK if is_secret(str(name), value) else mask_text(value)


def secrets_in(spec: Any) -> set[str]:
    """Return the texts that `masked` hides in part or completely, to be hidden in a file's lines."""
    secrets: set[str] = set()

    def note(raw: str, shown: str) -> None:
        if raw != shown:
            secrets.add(raw if shown == MASK else _hidden(raw, shown))

    work = _Work((), no_name, note)
    work.value(spec, "")
    # A long secret may span several lines of a file.
    lines = {line.strip() for text in secrets if "\n" in text for line in text.splitlines()}
    return {text for text in secrets | {line for line in lines if len(line) >= SHORT} if text.strip()}


def _hidden(raw: str, shown: str) -> str:
    """Return the part of `raw` that the first mask of `shown` covers; `raw` itself if the part is
    ambiguous."""
    head, _, tail = shown.partition(MASK)
    if MASK in tail or not raw.startswith(head) or not raw.endswith(tail):
        return raw
    return raw[len(head) : len(raw) - len(tail)]


@dataclass
class _Work:
    known: tuple[str, ...]
    cover: Cover
    note: Any = None
    count: int = 0
    names: dict[str, set[str]] = field(default_factory=dict)

    def value(self, spec: Any, name: str) -> Any:
        if isinstance(spec, str):
            return self._text(spec, name)
        if isinstance(spec, Mapping):
            return self._mapping(spec)
        if isinstance(spec, Sequence) and not isinstance(spec, bytes):
            return self._list(spec, name)
        if isinstance(spec, int | float) and not isinstance(spec, bool) and str(spec) in self.known:
            return self._hide(name)
        return spec

    def _hide(self, name: str) -> str:
        self.count += 1
        return self.cover(name)

    def _text(self, text: str, name: str) -> str:
        flag = _FLAG.match(text)
        if text in self.known or (name and text and is_secret(name, text)):
            shown = self._hide(name)
        elif flag and (is_secret(flag["name"], flag["value"]) or flag["value"] in self.known):
            shown = flag["head"] + self._hide(flag["name"])
        else:
            shown = mask_text(text, self.known, self.cover)
            self.count += shown != text
        if self.note is not None:
            self.note(text, shown)
        return shown

    def _mapping(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        variable = isinstance(spec.get("name"), str) and "value" in spec
        declared = _declared(spec)
        copied: dict[str, Any] = {}
        for key, value in spec.items():
            if isinstance(value, Mapping) and value.get("secret") is True:
                copied[key] = self._parameter(key, value)
            elif key == "env" and isinstance(value, list):
                copied[key] = [self._variable(v, declared) for v in value]
            elif key in _LISTS and isinstance(value, list) and declared:
                copied[key] = [
                    self._argument(v) if f"{key}:{at}" in declared else v
                    for at, v in enumerate(self._list(value, ""))
                ]
            else:
                copied[key] = self.value(value, spec["name"] if variable and key == "value" else str(key))
        return copied

    def _parameter(self, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Mask a declared parameter of a profile."""
        copied = dict(settings)
        for key in ("default", "choices"):
            values = settings.get(key)
            if values not in (None, ""):
                copied[key] = [self._declared(v, name) for v in values] if isinstance(values, list) else (
                    self._declared(values, name)
                )  # fmt: skip
        return copied

    def _declared(self, value: Any, name: str) -> str:
        shown = self._hide(name)
        if self.note is not None:
            self.note(str(value), MASK)
        return shown

    def _variable(self, variable: Any, declared: set[str]) -> Any:
        if isinstance(variable, Mapping) and variable.get("name") == DECLARED:
            return dict(variable)
        if isinstance(variable, Mapping) and f"env:{variable.get('name')}" in declared:
            return {**variable, "value": self._declared(variable.get("value", ""), str(variable["name"]))}
        return self.value(variable, "")

    def _argument(self, text: Any) -> str:
        if MASK in str(text):
            return str(text)
        flag = _FLAG.match(str(text))
        if flag:
            return flag["head"] + self._declared(flag["value"], flag["name"])
        return self._declared(text, "")

    def _list(self, spec: Sequence[Any], name: str) -> list[Any]:
        copied: list[Any] = []
        flag = ""
        for item in spec:
            value = flag if isinstance(item, str) and not item.startswith("-") else ""
            copied.append(self.value(item, value or name))
            is_flag = isinstance(item, str) and item.startswith("-") and "=" not in item
            flag = item.lstrip("-") if is_flag else ""
        return copied


def _declared(task: Mapping[str, Any]) -> set[str]:
    """Return the names in the variable `DECLARED` of a task."""
    for variable in task.get("env") or [] if isinstance(task.get("env"), list) else []:
        if isinstance(variable, Mapping) and variable.get("name") == DECLARED:
            return set(str(variable.get("value", "")).split())
    return set()


def mark_declared(job: dict[str, Any], secrets: Sequence[str]) -> dict[str, Any]:
    """List the arguments and variables with these secrets in the environment of the job's tasks. The service
    does not have the profile: without the list, the job's specification would show the secrets."""
    if not secrets:
        return job
    custom_job = copy.deepcopy(job)
    for pool in (custom_job.get("jobSpec") or {}).get("workerPoolSpecs") or []:
        for name in ("containerSpec", "pythonPackageSpec"):
            task = (pool or {}).get(name)
            if task:
                _mark(task, secrets)
    for task in _containers(custom_job.get("manifest")):
        _mark(task, secrets)
    return custom_job


def _containers(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the parts of Kubernetes objects that run a program: fields with a command, arguments or
    variables."""
    if isinstance(value, dict):
        if any(isinstance(value.get(key), list) for key in (*_LISTS, "env")):
            yield value
        else:
            for inner in value.values():
                yield from _containers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _containers(inner)


def _mark(task: dict[str, Any], secrets: Sequence[str]) -> None:
    places = [
        f"{key}:{at}"
        for key in _LISTS
        for at, text in enumerate(task.get(key) or [])
        if holds(str(text), secrets)
    ]
    places += [
        f"env:{variable['name']}"
        for variable in task.get("env") or []
        if isinstance(variable, Mapping) and holds(str(variable.get("value", "")), secrets)
    ]
    if places:
        task["env"] = [*(task.get("env") or []), {"name": DECLARED, "value": " ".join(places)}]
