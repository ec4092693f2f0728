"""Parses `gcloud ai custom-jobs create …` into a CustomJob, with the flags of gcloud 578.0.0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tui.domain.interchange.config_files import read_config, takes_lists
from tui.domain.interchange.gcloud_flags import Config, FlagReader, GcloudCreate, number
from tui.domain.interchange.gcloud_pools import refusals
from tui.domain.interchange.gcloud_script import CUSTOM, TUNING, Surroundings, read_call
from tui.domain.interchange.gcloud_tuning import TuningReader
from tui.domain.profile import ProfileInvalid
from tui.domain.shell import Word
from tui.domain.vertex.field_check import suggestion

_POOL_KEYS = (
    "machine-type", "replica-count", "accelerator-type", "accelerator-count", "container-image-uri",
    "executor-image-uri", "output-image-uri", "python-module", "script", "local-package-path",
    "requirements", "extra-packages", "extra-dirs",
)  # fmt: skip


@dataclass(slots=True)
class CustomJobReader(FlagReader):
    """Reads the flags of a custom job."""

    pools: list[dict[str, str]] = field(default_factory=list)
    places: list[Word] = field(default_factory=list)

    COMMAND: ClassVar[str] = CUSTOM
    ONE: ClassVar[tuple[str, ...]] = (
        "display-name", "region", "config", "service-account", "network", "kms-key", "kms-keyring",
        "kms-location", "kms-project", "persistent-resource-id",
    )  # fmt: skip
    LISTS: ClassVar[tuple[str, ...]] = ("args", "command", "python-package-uris")
    OTHER: ClassVar[tuple[str, ...]] = ("labels", "worker-pool-spec")
    WHOLE: ClassVar[frozenset[str]] = frozenset({"replicaCount", "acceleratorCount", "bootDiskSizeGb"})

    def required(self) -> None:
        """Check the combinations that gcloud checks after reading all flags (`flags.py` and
        `validation.py`)."""
        here = Word("", self.call.line, 1)
        # An unreadable flag may be the missing flag.
        whole = not self.problems
        if whole and not self.single.get("display-name"):
            self.refuse(here, "display-name", "gcloud requires this flag.", "Add --display-name=NAME.")
        if whole and not self.pools and not self.single.get("config"):
            message = "gcloud requires this flag or --config."
            self.refuse(here, "worker-pool-spec", message, "Add --worker-pool-spec=machine-type=…")
        wrong = {word.line for word in self.places if any(p.line == word.line for p in self.problems)}
        for i, message, fix in refusals(self.pools):
            if self.places[i].line not in wrong:
                self.refuse(self.places[i], "worker-pool-spec", message, fix)

    def _other(self, word: Word, flag: str, value: str) -> None:
        pool: dict[str, str] = {}
        for key, inner in self._pairs(word, "worker-pool-spec", value):
            if key.strip() in _POOL_KEYS and key != key.strip():
                fix = f"Remove the space before {key.strip()}."
                self.refuse(word, "worker-pool-spec", f"the flag has no key {key!r}, with a space.", fix)
            elif key not in _POOL_KEYS:
                fix = suggestion(key, list(_POOL_KEYS))
                self.refuse(word, "worker-pool-spec", f"the flag has no key {key}.", fix)
            elif key in {"replica-count", "accelerator-count"} and not inner.isdigit() and not word.names:
                self.refuse(word, "worker-pool-spec", f"{key} must be an integer, not {inner!r}.")
            pool[key] = inner
        self.pools.append(pool)
        self.places.append(word)

    # The job

    def job(self, config: Config) -> GcloudCreate:
        """Build the job that gcloud would send."""
        values = self.single
        spec: dict[str, Any] = {}
        if "config" in values:
            spec = self.config(values["config"], config)
        if self.pools:
            spec["workerPoolSpecs"] = self._pool_specs()
        for name, key in (
            ("network", "network"),
            ("service-account", "serviceAccount"),
            ("persistent-resource-id", "persistentResourceId"),
        ):
            if name in values:
                spec[key] = values[name]
        for name, key in (
            ("enable-web-access", "enableWebAccess"),
            ("enable-dashboard-access", "enableDashboardAccess"),
        ):
            if name in self.switches:
                spec[key] = True
        self._for_every_pool(spec)
        return self.command({**self.header(), "jobSpec": spec}, self._package())

    def checked(self, text: str, file: str) -> Mapping[str, Any]:
        return read_config(text, file)

    def look_at(self, config: Any) -> None:
        """Drop `--args` and `--command` in cases in which gcloud silently ignores the flags."""
        dropped = [f"--{flag}" for flag in ("args", "command") if self.lists.get(flag)]
        if self.pools or not dropped or takes_lists(config):
            return
        for flag in dropped:
            del self.lists[flag[2:]]
        self.notes.append(
            f"{' and '.join(dropped)} of line {self.call.line} changes nothing: gcloud finds the pools of a "
            "config only under workerPoolSpecs."
        )

    def _for_every_pool(self, spec: dict[str, Any]) -> None:
        """Add `--args` and `--command` to every pool that has a task."""
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
            machine["acceleratorCount"] = number(pool.get("accelerator-count", "1"))
        spec: dict[str, Any] = {
            "machineSpec": machine,
            "replicaCount": number(pool.get("replica-count", "1")),
        }
        uris = self.lists.get("python-package-uris", [])
        if packaged:
            # A launch sets the package's task.
            spec["containerSpec"] = {}
        elif pool.get("container-image-uri"):
            spec["containerSpec"] = {"imageUri": pool["container-image-uri"]}
        elif uris or pool.get("executor-image-uri") or pool.get("python-module"):
            names = {"executorImageUri": "executor-image-uri", "pythonModule": "python-module"}
            package: dict[str, Any] = {key: pool[name] for key, name in names.items() if name in pool}
            spec["pythonPackageSpec"] = {**package, **({"packageUris": list(uris)} if uris else {})}
        return spec

    def _package(self) -> dict[str, Any] | None:
        """Return the folder that gcloud would build into an image, as a profile's `package`."""
        pool = self.pools[0] if self.pools else {}
        if "local-package-path" not in pool:
            return None
        for key in ("requirements", "extra-packages", "extra-dirs"):
            if key in pool:
                self.notes.append(f"{key}={pool[key]} was left out: a package has its requirements.txt.")
        if self.lists.get("command"):
            self.notes.append("--command was left out: the package defines the start command.")
        names = {
            "path": "local-package-path",
            "script": "script",
            "module": "python-module",
            "executorImage": "executor-image-uri",
            "image": "output-image-uri",
        }
        return {key: pool[name] for key, name in names.items() if name in pool}


_READERS: Mapping[str, type[FlagReader]] = {CUSTOM: CustomJobReader, TUNING: TuningReader}


def parse(text: str, file: str, config: Config, around: Surroundings | None = None) -> GcloudCreate:
    """Parse the `gcloud ai custom-jobs create`, or `hp-tuning-jobs create`, in a text.

    Raises:
        ProfileInvalid: with the location of every flag that can't be understood.
        OSError: if the file of `--config` can't be read.
    """
    script, call, words, command = read_call(text, file, around or Surroundings())
    reader = _READERS[command](call, script)
    reader.read(words)
    if reader.problems:
        raise ProfileInvalid(reader.problems)
    job = reader.job(config)
    if reader.problems:
        raise ProfileInvalid(reader.problems)
    return job
