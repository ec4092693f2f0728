"""Reads the flags and the config of a `gcloud ai … create` command, as gcloud 578.0.0 does."""

from __future__ import annotations

import posixpath
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from tui.domain.document.source import read
from tui.domain.interchange.config_files import ConfigFile
from tui.domain.masking.names import looks_secret
from tui.domain.profile import Problem, ProfileInvalid
from tui.domain.profile.launch_command import of_shell
from tui.domain.profile.parameters import fill
from tui.domain.shell import Call, Script, Word
from tui.domain.spec.values import literal
from tui.domain.vertex.field_check import suggestion

_NOT_THE_JOB = (
    "project", "account", "configuration", "format", "verbosity", "billing-project", "flatten",
    "access-token-file", "impersonate-service-account", "trace-token", "flags-file",
)  # fmt: skip
_NOT_THE_JOB_SWITCHES = ("quiet", "log-http", "user-output-enabled", "no-user-output-enabled")
_DELIMITER = re.compile(r"\^([^^]*)\^", re.DOTALL)

Config = Callable[[str], ConfigFile]
"""Function that reads the file of `--config`; raises ProfileInvalid if it is not text, or OSError."""


@dataclass(slots=True)
class GcloudCreate:
    """The job (a profile's fields), the region and the folder to package in a command line. `parameters` are
    values from outside the script; each is `${NAME}` in the job. `notes` name omitted parts."""

    job: dict[str, Any]
    region: str = ""
    package: dict[str, Any] | None = None
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class FlagReader(ABC):
    """Parser of one gcloud command; a subclass for each command has its flags."""

    COMMAND: ClassVar[str] = ""
    ONE: ClassVar[tuple[str, ...]] = ()
    """Flags with one value."""
    LISTS: ClassVar[tuple[str, ...]] = ()
    SWITCHES: ClassVar[tuple[str, ...]] = ("enable-web-access", "enable-dashboard-access")
    OTHER: ClassVar[tuple[str, ...]] = ("labels",)
    WHOLE: ClassVar[frozenset[str]] = frozenset()
    """Fields whose value is an integer."""

    call: Call
    script: Script
    problems: list[Problem] = field(default_factory=list)
    single: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)
    switches: set[str] = field(default_factory=set)
    labels: dict[str, str] = field(default_factory=dict)
    variables: dict[str, None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def refuse(self, word: Word, flag: str, message: str, fix: str = "") -> None:
        name = f"--{flag}" if flag else ""
        self.problems.append(
            Problem(self.call.file, word.line, name, message, fix, "gcloud.flag", column=word.column)
        )

    def read(self, words: list[Word]) -> None:
        """Read every flag, even after an invalid flag."""
        for word, flag, value in self._flags(words):
            if word.problem and flag not in _NOT_THE_JOB:
                self.refuse(word, flag, f"{word.problem}.", "Write the value.")
                continue
            if flag in self.ONE:
                self.single[flag] = value
            elif flag in self.LISTS:
                self._list(word, flag, split(value))
            elif flag == "labels":
                self.labels |= dict(self._pairs(word, flag, value))
            elif flag in self.OTHER:
                self._other(word, flag, value)
            elif flag in {"project", "impersonate-service-account"}:
                self.notes.append(f"--{flag}={value} was left out: the context determines it.")
            if flag not in _NOT_THE_JOB and flag != "config":
                self.variables |= dict.fromkeys(word.names)
        self.required()

    @abstractmethod
    def required(self) -> None:
        """Check the combinations that gcloud checks after reading all flags."""

    @abstractmethod
    def job(self, config: Config) -> GcloudCreate:
        """Build the job that gcloud would send."""

    @abstractmethod
    def checked(self, text: str, file: str) -> Mapping[str, Any]:
        """Check a config; return its value (REST format). Raises ProfileInvalid if gcloud refuses it."""

    def look_at(self, config: Any) -> None:  # noqa: B027 - only one command needs it
        """Inspect an unchecked config."""

    def _other(self, word: Word, flag: str, value: str) -> None:  # noqa: B027 - only one command needs it
        """Read a flag that is neither a single value nor a list."""

    def command(self, job: dict[str, Any], package: dict[str, Any] | None = None) -> GcloudCreate:
        """Return the command of a job (REST format) whose flags and config have been read."""
        fields = {**job, "region": self.single.get("region", ""), "package": package}
        if not self.variables:
            fields = mapped(fields, unescaped)
        region, package = fields.pop("region"), fields.pop("package")
        return GcloudCreate(
            fields, region, package, self.parameters(fields), (*self.script.notes, *self.notes)
        )

    def header(self) -> dict[str, Any]:
        """Return the common fields of every kind of job."""
        job: dict[str, Any] = {"displayName": self.single.get("display-name", "")}
        if self.labels:
            job["labels"] = dict(self.labels)
        if "kms-key" in self.single:
            job["encryptionSpec"] = {"kmsKeyName": self.key()}
        return job

    def _flags(self, words: list[Word]) -> Iterator[tuple[Word, str, str]]:
        rest = iter(words)
        known = (*self.ONE, *self.LISTS, *self.SWITCHES, *self.OTHER, *_NOT_THE_JOB, *_NOT_THE_JOB_SWITCHES)
        for word in rest:
            name, equals, value = word.text.removeprefix("--").partition("=")
            if word.text == "-q":
                continue
            if not word.text.startswith("--"):
                self._no_flag(word)
            elif name in self.SWITCHES or name in _NOT_THE_JOB_SWITCHES:
                if value.lower() not in {"false", "no"} and name in self.SWITCHES:
                    self.switches.add(name)
            elif name.startswith("no-") and name[3:] in self.SWITCHES:
                self.switches.discard(name[3:])
            elif name not in known:
                self.refuse(
                    word,
                    name,
                    f"gcloud ai {self.COMMAND} create has no such flag.",
                    suggestion(name, known, "--"),
                )
            elif equals:
                yield word, name, value
            else:
                following = next(rest, None)
                if following is None or following.text.startswith("--"):
                    self.refuse(word, name, "the flag needs a value.", f"Write --{name}=VALUE.")
                else:
                    yield replace(following, line=word.line, column=word.column), name, following.text

    def _no_flag(self, word: Word) -> None:
        """Report a word that is neither a flag nor the value of a flag."""
        alone = word.names and re.fullmatch(r"(\$\{\w+\})+", word.text)
        if word.problem:
            self.refuse(word, "", f"{word.problem}.", "Write the value.")
        elif alone and all(self.script.values[name].now == "" for name in word.names):
            # bash drops the word of an unset variable.
            self.notes.append(f"{word.text} of line {word.line} was left out: it has no value here.")
        else:
            fix = "Quote values that contain spaces."
            self.refuse(word, "", f"{word.text!r} does not belong to a flag.", fix)

    def _list(self, word: Word, flag: str, parts: list[str]) -> None:
        """Read a list: gcloud joins repeated `--args` and `--command`, and uses the last of other flags."""
        known = self.lists.setdefault(flag, [])
        if flag == "python-package-uris":
            known.clear()
        else:
            twice = next((part for part, n in Counter([*known, *parts]).items() if n > 1), None)
            if twice is not None:
                fix = "Join an argument with its value, --name=value, or write the list into a config."
                self.refuse(word, flag, f"{twice!r} occurs twice, which gcloud refuses.", fix)
        known.extend(parts)

    def _pairs(self, word: Word, flag: str, value: str) -> Iterator[tuple[str, str]]:
        for part in split(value):
            key, equals, inner = part.partition("=")
            if not equals:
                fix = "A value that contains commas needs another delimiter: ^;^key=value;key=value."
                self.refuse(word, flag, f"{part!r} is not key=value.", fix)
            else:
                yield key, inner

    def config(self, name: str, config: Config) -> dict[str, Any]:
        """Read the file of `--config`: a file that the script writes, its standard input, or a file beside
        it."""
        call = self.call
        written = call.stdin if name in {"-", "/dev/stdin"} else call.files.get(
            posixpath.normpath(posixpath.join(call.place, name)))  # fmt: skip
        here = Word("", call.line, 1)
        if written is None:
            if name in {"-", "/dev/stdin"}:
                self.refuse(here, "config", "the script gives the command no standard input.")
                return {}
            file = config(name if call.place == "." else posixpath.join(call.place, name))
            self.look_at(read(file.text, file.file, repeated=True).value)
            # `${…}` in the file is not a shell variable.
            return dict(mapped(dict(self.checked(file.text, file.file)), literal))
        if written.problem:
            self.refuse(here, "config", f"{written.problem}.", "Write the file by hand.")
            return {}
        try:
            value = self._written(written, name)
        except ProfileInvalid as error:
            message = f"{name}, which the script writes: "
            self.problems += [
                replace(p, file=call.file, line=call.line, column=0, message=message + p.message)
                for p in error.problems
            ]
            return {}
        if not isinstance(value, Mapping):
            self.refuse(here, "config", f"{name}, which the script writes, has no fields of a job.")
            return {}
        return dict(value)

    def _written(self, written: Word, name: str) -> Any:
        """Parse a config that the script writes; a variable without a value becomes `${…}`."""
        self.variables |= dict.fromkeys(written.names)
        current = ((variable, self.script.values[variable].now) for variable in written.names)
        now = {variable: value for variable, value in current if value is not None}
        checked = None
        if len(now) == len(written.names):
            checked = self.checked(str(fill(written.text, now)), name)
        value = read(written.text, name, repeated=True).value
        self.look_at(value)
        # The imported profile declares its parameters; its fields are checked there.
        return value if checked is None or written.names else mapped(dict(checked), literal)

    def parameters(self, job: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the parameters of the profile; the default of a count is an integer."""
        counts = set(_counts(job, self.WHOLE))
        parameters: dict[str, dict[str, Any]] = {}
        for name in self.variables:
            value = self.script.values[name]
            parameters[name] = {"help": value.help}
            if looks_secret(name):
                parameters[name]["secret"] = True
            elif value.default is not None:
                whole = name in counts and re.fullmatch(r"[1-9]\d{0,8}|0", value.default)
                parameters[name]["default"] = int(value.default) if whole else value.default
            elif command := of_shell(value.command):
                parameters[name]["at_launch"] = command
        return parameters

    def key(self) -> str:
        """Return the full name of the key, built from the flags with its parts."""
        key = self.single["kms-key"]
        if key.startswith("projects/"):
            return key
        ring, where = (
            self.single.get("kms-keyring"),
            self.single.get("kms-location") or self.single.get("region"),
        )
        project = self.single.get("kms-project")
        if not (ring and where and project):
            message = "the keyring, location or project is unknown."
            fix = "Write projects/P/locations/L/keyRings/R/cryptoKeys/K."
            self.refuse(Word("", self.call.line, 1), "kms-key", message, fix)
        return f"projects/{project}/locations/{where}/keyRings/{ring}/cryptoKeys/{key}"


def split(value: str) -> list[str]:
    """Split a list at commas, or at the delimiter that a leading `^;^` sets."""
    match = _DELIMITER.match(value)
    delimiter, rest = (match[1] or ",", value[match.end() :]) if match else (",", value)
    # A trailing delimiter begins no further part.
    return rest.removesuffix(delimiter).split(delimiter) if rest else []


def _counts(value: Any, whole: frozenset[str], key: str = "") -> Iterator[str]:
    """Yield the parameters that are the entire value of a number."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _counts(inner, whole, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _counts(inner, whole)
    elif key in whole and isinstance(value, str):
        yield value.removeprefix("${").removesuffix("}")


def number(text: str) -> int | str:
    return int(text) if text.isdigit() else text


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Copy plain values with `change` applied to every text."""
    if isinstance(value, Mapping):
        return {k: mapped(v, change) for k, v in value.items()}
    if isinstance(value, list):
        return [mapped(v, change) for v in value]
    return change(value) if isinstance(value, str) else value


def unescaped(text: str) -> str:
    """Remove the escapes of a word, because `${` needs no escape in a job without parameters."""
    return text.replace("$${", "${")
