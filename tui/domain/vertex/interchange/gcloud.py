"""`gcloud ai custom-jobs create …` as a CustomJob; the flags are those of gcloud 578.0.0."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tui.domain.masking.names import looks_secret
from tui.domain.profile import Problem, ProfileInvalid
from tui.domain.profile.launch_command import of_shell
from tui.domain.profile.parameters import fill, literal
from tui.domain.profile.source import read
from tui.domain.shell import Call, Script, Word
from tui.domain.vertex.field_check import suggestion
from tui.domain.vertex.interchange.config_files import ConfigFile, read_config, takes_lists
from tui.domain.vertex.interchange.gcloud_pools import refusals
from tui.domain.vertex.interchange.gcloud_script import Surroundings, read_call

_ONE = (
    "display-name", "region", "config", "service-account", "network", "kms-key", "kms-keyring",
    "kms-location", "kms-project", "persistent-resource-id",
)  # fmt: skip
_LISTS = ("args", "command", "python-package-uris")
_SWITCHES = ("enable-web-access", "enable-dashboard-access")
_NOT_THE_JOB = (
    "project", "account", "configuration", "format", "verbosity", "billing-project", "flatten",
    "access-token-file", "impersonate-service-account", "trace-token", "flags-file",
)  # fmt: skip
_NOT_THE_JOB_SWITCHES = ("quiet", "log-http", "user-output-enabled", "no-user-output-enabled")
FLAGS = (*_ONE, *_LISTS, *_SWITCHES, *_NOT_THE_JOB, *_NOT_THE_JOB_SWITCHES, "worker-pool-spec", "labels")

_POOL_KEYS = (
    "machine-type", "replica-count", "accelerator-type", "accelerator-count", "container-image-uri",
    "executor-image-uri", "output-image-uri", "python-module", "script", "local-package-path",
    "requirements", "extra-packages", "extra-dirs",
)  # fmt: skip
_DELIMITER = re.compile(r"\^([^^]*)\^", re.DOTALL)

Config = Callable[[str], ConfigFile]
"""Reads the file of `--config`; raises ProfileInvalid where it is no text, or OSError."""


@dataclass(slots=True)
class Command:
    """The CustomJob (REST form), the region and the folder to package that a command line names.

    `parameters` are what a script takes from outside; each is `${NAME}` in the job. `notes` say what was
    left out or could not be followed.
    """

    job: dict[str, Any]
    region: str = ""
    package: dict[str, Any] | None = None
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def parse(text: str, file: str, config: Config, around: Surroundings | None = None) -> Command:
    """The `gcloud ai custom-jobs create` in a text.

    Raises:
        ProfileInvalid: with the place of every flag that can't be understood.
        OSError: when the file of `--config` can't be read.
    """
    script, call, words = read_call(text, file, around or Surroundings())
    reader = _Reader(call, script)
    reader.read(words)
    if reader.problems:
        raise ProfileInvalid(reader.problems)
    job = reader.job(config)
    if reader.problems:
        raise ProfileInvalid(reader.problems)
    return job


@dataclass(slots=True)
class _Reader:
    call: Call
    script: Script
    problems: list[Problem] = field(default_factory=list)
    one: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)
    switches: set[str] = field(default_factory=set)
    labels: dict[str, str] = field(default_factory=dict)
    pools: list[dict[str, str]] = field(default_factory=list)
    places: list[Word] = field(default_factory=list)
    variables: dict[str, None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def refuse(self, word: Word, flag: str, message: str, fix: str = "") -> None:
        name = f"--{flag}" if flag else ""
        self.problems.append(
            Problem(self.call.file, word.line, name, message, fix, "gcloud.flag", column=word.column)
        )

    def read(self, words: list[Word]) -> None:
        """Read every flag; a wrong one does not stop the reading."""
        for word, flag, value in self._flags(words):
            if word.problem and flag not in _NOT_THE_JOB:
                self.refuse(word, flag, f"{word.problem}.", "Write the value.")
                continue
            if flag in _ONE:
                self.one[flag] = value
            elif flag in _LISTS:
                self._list(word, flag, _split(value))
            elif flag == "labels":
                self.labels |= dict(self._pairs(word, flag, value))
            elif flag == "worker-pool-spec":
                self._pool(word, value)
            elif flag in {"project", "impersonate-service-account"}:
                self.notes.append(f"--{flag}={value} was left out: the context decides it.")
            if flag not in _NOT_THE_JOB and flag != "config":
                self.variables |= dict.fromkeys(word.names)
        self._required()

    def _required(self) -> None:
        """What gcloud refuses once all flags are read (`flags.py` and `validation.py`)."""
        here = Word("", self.call.line, 1)
        # A flag that could not be read may be the one that is missing.
        whole = not self.problems
        if whole and not self.one.get("display-name"):
            self.refuse(here, "display-name", "gcloud requires it.", "Add --display-name=NAME.")
        if whole and not self.pools and not self.one.get("config"):
            message = "gcloud requires it, or --config."
            self.refuse(here, "worker-pool-spec", message, "Add --worker-pool-spec=machine-type=…")
        wrong = {word.line for word in self.places if any(p.line == word.line for p in self.problems)}
        for i, message, fix in refusals(self.pools):
            if self.places[i].line not in wrong:
                self.refuse(self.places[i], "worker-pool-spec", message, fix)

    def _flags(self, words: list[Word]) -> Iterator[tuple[Word, str, str]]:
        rest = iter(words)
        for word in rest:
            name, equals, value = word.text.removeprefix("--").partition("=")
            if word.text == "-q":
                continue
            if not word.text.startswith("--"):
                self._no_flag(word)
            elif name in _SWITCHES or name in _NOT_THE_JOB_SWITCHES:
                if value.lower() not in {"false", "no"} and name in _SWITCHES:
                    self.switches.add(name)
            elif name.startswith("no-") and name[3:] in _SWITCHES:
                self.switches.discard(name[3:])
            elif name not in FLAGS:
                self.refuse(
                    word,
                    name,
                    "gcloud ai custom-jobs create has no such flag.",
                    suggestion(name, FLAGS, "--"),
                )
            elif equals:
                yield word, name, value
            else:
                following = next(rest, None)
                if following is None or following.text.startswith("--"):
                    self.refuse(word, name, "it needs a value.", f"Write --{name}=VALUE.")
                else:
                    yield replace(following, line=word.line, column=word.column), name, following.text

    def _no_flag(self, word: Word) -> None:
        """A word that is neither a flag nor the value of one."""
        alone = word.names and re.fullmatch(r"(\$\{\w+\})+", word.text)
        if word.problem:
            self.refuse(word, "", f"{word.problem}.", "Write the value.")
        elif alone and all(self.script.values[name].now == "" for name in word.names):
            # bash makes no word of a variable without a value.
            self.notes.append(f"{word.text} of line {word.line} was left out: it has no value here.")
        else:
            fix = "Quote values that contain spaces."
            self.refuse(word, "", f"{word.text!r} belongs to no flag.", fix)

    def _list(self, word: Word, flag: str, parts: list[str]) -> None:
        """gcloud joins repeated `--args` and `--command`, and takes the last of another flag."""
        known = self.lists.setdefault(flag, [])
        if flag == "python-package-uris":
            known.clear()
        else:
            twice = next((part for part, n in Counter([*known, *parts]).items() if n > 1), None)
            if twice is not None:
                fix = "Join an argument with its value, --name=value, or write the list into a config."
                self.refuse(word, flag, f"{twice!r} stands in it twice, and gcloud refuses that.", fix)
        known.extend(parts)

    def _pairs(self, word: Word, flag: str, value: str) -> Iterator[tuple[str, str]]:
        for part in _split(value):
            key, equals, inner = part.partition("=")
            if not equals:
                fix = "A value that contains commas needs another delimiter: ^;^key=value;key=value."
                self.refuse(word, flag, f"{part!r} is not key=value.", fix)
            else:
                yield key, inner

    def _pool(self, word: Word, value: str) -> None:
        pool: dict[str, str] = {}
        for key, inner in self._pairs(word, "worker-pool-spec", value):
            if key.strip() in _POOL_KEYS and key != key.strip():
                fix = f"Remove the space before {key.strip()}."
                self.refuse(word, "worker-pool-spec", f"it has no key {key!r}, with a space.", fix)
            elif key not in _POOL_KEYS:
                fix = suggestion(key, list(_POOL_KEYS))
                self.refuse(word, "worker-pool-spec", f"it has no key {key}.", fix)
            elif key in {"replica-count", "accelerator-count"} and not inner.isdigit() and not word.names:
                self.refuse(word, "worker-pool-spec", f"{key} is a whole number, not {inner!r}.")
            pool[key] = inner
        self.pools.append(pool)
        self.places.append(word)

    # The job

    def job(self, config: Config) -> Command:
        """What gcloud would send."""
        one = self.one
        spec: dict[str, Any] = {}
        if "config" in one:
            spec = self._config(one["config"], config)
        if self.pools:
            spec["workerPoolSpecs"] = self._pool_specs()
        for name, key in (
            ("network", "network"),
            ("service-account", "serviceAccount"),
            ("persistent-resource-id", "persistentResourceId"),
        ):
            if name in one:
                spec[key] = one[name]
        for name, key in (
            ("enable-web-access", "enableWebAccess"),
            ("enable-dashboard-access", "enableDashboardAccess"),
        ):
            if name in self.switches:
                spec[key] = True
        self._for_every_pool(spec)
        job: dict[str, Any] = {"displayName": one.get("display-name", ""), "jobSpec": spec}
        if self.labels:
            job["labels"] = dict(self.labels)
        if "kms-key" in one:
            job["encryptionSpec"] = {"kmsKeyName": self._key()}
        found = {**job, "region": one.get("region", ""), "package": self._package()}
        if not self.variables:
            found = _mapped(found, _unescaped)
        region, package = found.pop("region"), found.pop("package")
        notes = (*self.script.notes, *self.notes)
        return Command(found, region, package, self._parameters(found), notes)

    def _config(self, name: str, config: Config) -> dict[str, Any]:
        """The file of `--config`: one that the script writes, its standard input, or one beside it."""
        call = self.call
        written = call.stdin if name in {"-", "/dev/stdin"} else call.files.get(
            posixpath.normpath(posixpath.join(call.place, name)))  # fmt: skip
        here = Word("", call.line, 1)
        if written is None:
            if name in {"-", "/dev/stdin"}:
                self.refuse(here, "config", "the script gives the command no standard input.")
                return {}
            file = config(name if call.place == "." else posixpath.join(call.place, name))
            self._takes_lists(read(file.text, file.file, repeated=True).value)
            # `${…}` in the file is not a shell variable.
            return dict(_mapped(dict(read_config(file.text, file.file)), literal))
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
        """The value of a config that the script writes; a variable without a value is `${…}` in it."""
        self.variables |= dict.fromkeys(written.names)
        given = ((variable, self.script.values[variable].now) for variable in written.names)
        now = {variable: value for variable, value in given if value is not None}
        checked = None
        if len(now) == len(written.names):
            checked = read_config(str(fill(written.text, now)), name)
        value = read(written.text, name, repeated=True).value
        self._takes_lists(value)
        # The profile that is made of it declares its parameters; its fields are checked there.
        return value if checked is None or written.names else _mapped(dict(checked), literal)

    def _takes_lists(self, config: Any) -> None:
        """Drop `--args` and `--command` where gcloud does, without a word from it."""
        dropped = [f"--{flag}" for flag in ("args", "command") if self.lists.get(flag)]
        if self.pools or not dropped or takes_lists(config):
            return
        for flag in dropped:
            del self.lists[flag[2:]]
        self.notes.append(
            f"{' and '.join(dropped)} of line {self.call.line} changes nothing: gcloud finds the pools of a "
            "config only under workerPoolSpecs."
        )

    def _parameters(self, job: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """The parameters of the profile; a count has a whole number."""
        counts = set(_counts(job))
        found: dict[str, dict[str, Any]] = {}
        for name in self.variables:
            value = self.script.values[name]
            found[name] = {"help": value.help}
            if looks_secret(name):
                found[name]["secret"] = True
            elif value.default is not None:
                whole = name in counts and re.fullmatch(r"[1-9]\d{0,8}|0", value.default)
                found[name]["default"] = int(value.default) if whole else value.default
            elif command := of_shell(value.command):
                found[name]["at_launch"] = command
        return found

    def _for_every_pool(self, spec: dict[str, Any]) -> None:
        """Add `--args` and `--command` to every pool with a task."""
        packaged = "local-package-path" in (self.pools[0] if self.pools else {})
        for pool in spec.get("workerPoolSpecs") or []:
            for task in ("containerSpec", "pythonPackageSpec"):
                if pool.get(task) is not None and self.lists.get("args"):
                    pool[task] = {**pool[task], "args": list(self.lists["args"])}
            if pool.get("containerSpec") and self.lists.get("command") and not packaged:
                pool["containerSpec"] = {**pool["containerSpec"], "command": list(self.lists["command"])}

    def _pool_specs(self) -> list[dict[str, Any]]:
        packaged = "local-package-path" in self.pools[0]
        return [self._pool_spec(pool, packaged) if pool else {} for pool in self.pools]

    def _pool_spec(self, pool: dict[str, str], packaged: bool) -> dict[str, Any]:
        machine: dict[str, Any] = {}
        if "machine-type" in pool:
            machine["machineType"] = pool["machine-type"]
        if pool.get("accelerator-type"):
            kind = pool["accelerator-type"]
            machine["acceleratorType"] = kind
            machine["acceleratorCount"] = _number(pool.get("accelerator-count", "1"))
        found: dict[str, Any] = {
            "machineSpec": machine,
            "replicaCount": _number(pool.get("replica-count", "1")),
        }
        uris = self.lists.get("python-package-uris", [])
        if packaged:
            # A launch fills in the package's task.
            found["containerSpec"] = {}
        elif pool.get("container-image-uri"):
            found["containerSpec"] = {"imageUri": pool["container-image-uri"]}
        elif uris or pool.get("executor-image-uri") or pool.get("python-module"):
            names = {"executorImageUri": "executor-image-uri", "pythonModule": "python-module"}
            package: dict[str, Any] = {key: pool[name] for key, name in names.items() if name in pool}
            found["pythonPackageSpec"] = {**package, **({"packageUris": list(uris)} if uris else {})}
        return found

    def _package(self) -> dict[str, Any] | None:
        """The folder of which gcloud would build an image, as a profile's `package`."""
        pool = self.pools[0] if self.pools else {}
        if "local-package-path" not in pool:
            return None
        for key in ("requirements", "extra-packages", "extra-dirs"):
            if key in pool:
                self.notes.append(f"{key}={pool[key]} was left out: a package has its requirements.txt.")
        if self.lists.get("command"):
            self.notes.append("--command was left out: the package says what runs.")
        names = {
            "path": "local-package-path",
            "script": "script",
            "module": "python-module",
            "executorImage": "executor-image-uri",
            "image": "output-image-uri",
        }
        return {key: pool[name] for key, name in names.items() if name in pool}

    def _key(self) -> str:
        """The full name of the key, from the flags with its parts."""
        key = self.one["kms-key"]
        if key.startswith("projects/"):
            return key
        ring, where = self.one.get("kms-keyring"), self.one.get("kms-location") or self.one.get("region")
        project = self.one.get("kms-project")
        if not (ring and where and project):
            message = "its keyring, location or project is unknown."
            fix = "Write projects/P/locations/L/keyRings/R/cryptoKeys/K."
            self.refuse(Word("", self.call.line, 1), "kms-key", message, fix)
        return f"projects/{project}/locations/{where}/keyRings/{ring}/cryptoKeys/{key}"


def _split(value: str) -> list[str]:
    """The parts of a list, separated by commas or by the delimiter that a leading `^;^` sets."""
    match = _DELIMITER.match(value)
    delimiter, rest = (match[1] or ",", value[match.end() :]) if match else (",", value)
    # A delimiter at the end begins no further part.
    return rest.removesuffix(delimiter).split(delimiter) if rest else []


def _counts(value: Any, key: str = "") -> Iterator[str]:
    """The parameters that are the whole value of a number."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _counts(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _counts(inner)
    elif key in {"replicaCount", "acceleratorCount", "bootDiskSizeGb"} and isinstance(value, str):
        yield value.removeprefix("${").removesuffix("}")


def _number(text: str) -> int | str:
    return int(text) if text.isdigit() else text


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A copy of plain values with `change` applied to every text."""
    if isinstance(value, Mapping):
        return {k: _mapped(v, change) for k, v in value.items()}
    if isinstance(value, list):
        return [_mapped(v, change) for v in value]
    return change(value) if isinstance(value, str) else value


def _unescaped(text: str) -> str:
    """A word without escapes; in a job without parameters `${` needs none."""
    return text.replace("$${", "${")
