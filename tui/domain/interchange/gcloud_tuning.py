"""Parses `gcloud ai hp-tuning-jobs create …`, with the flags of gcloud 578.0.0. The result is a
HyperparameterTuningJob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tui.domain.document.source import read
from tui.domain.interchange.gcloud_flags import Config, FlagReader, GcloudCreate
from tui.domain.interchange.gcloud_script import TUNING
from tui.domain.profile import ProfileInvalid
from tui.domain.profile.gcloud_config import GcloudChecker
from tui.domain.shell import Word
from tui.domain.spec.field_table import RESOURCE
from tui.domain.spec.values import describe
from tui.domain.tuning.fields import TUNING_JOB_BODY

_COUNTS = {"max-trial-count": "maxTrialCount", "parallel-trial-count": "parallelTrialCount"}
_ALGORITHMS = {
    "algorithm-unspecified": "ALGORITHM_UNSPECIFIED",
    "grid-search": "GRID_SEARCH",
    "random-search": "RANDOM_SEARCH",
}


@dataclass(slots=True)
class TuningReader(FlagReader):
    """Reads the flags of a tuning job. Values of its config take precedence over the flags' defaults."""

    COMMAND: ClassVar[str] = TUNING
    ONE: ClassVar[tuple[str, ...]] = (
        "display-name", "region", "config", "service-account", "network", "kms-key", "kms-keyring",
        "kms-location", "kms-project", "algorithm", *_COUNTS,
    )  # fmt: skip
    WHOLE: ClassVar[frozenset[str]] = frozenset(
        {"replicaCount", "acceleratorCount", "bootDiskSizeGb", "maxFailedTrialCount", *_COUNTS.values()}
    )

    def required(self) -> None:
        here = Word("", self.call.line, 1)
        if self.problems:
            return
        for flag in ("display-name", "config"):
            if not self.single.get(flag):
                self.refuse(here, flag, "gcloud requires this flag.", f"Add --{flag}=…")
        algorithm = self.single.get("algorithm", "grid-search")
        if algorithm.lower() not in _ALGORITHMS and "${" not in algorithm:
            self.refuse(
                here, "algorithm", f"{algorithm!r} is unknown.", f"Use one of {', '.join(_ALGORITHMS)}."
            )
        for flag in _COUNTS:
            count = self.single.get(flag, "1")
            if not count.isdigit() and "${" not in count:
                self.refuse(here, flag, f"the value must be an integer, not {count!r}.")

    def checked(self, text: str, file: str) -> Mapping[str, Any]:
        document = read(text, file, repeated=True)
        if not isinstance(document.value, Mapping):
            message = f"the config must have the fields of a tuning job, not {describe(document.value)}."
            raise ProfileInvalid([document.problem((), message)])
        checker = GcloudChecker(document, references=False)
        body = checker.message(document.value, {**RESOURCE, **TUNING_JOB_BODY.fields}, ())
        if checker.problems:
            raise ProfileInvalid(checker.problems)
        return body

    def job(self, config: Config) -> GcloudCreate:
        values = self.single
        body = self.config(values["config"], config)
        header = {name: body.pop(name) for name in list(body) if name in RESOURCE}
        for flag, name in _COUNTS.items():
            count = values.get(flag)
            body[name] = (int(count) if count.isdigit() else count) if count else body.get(name) or 1
        trial = dict(body.get("trialJobSpec") or {})
        for flag, name in (("network", "network"), ("service-account", "serviceAccount")):
            if values.get(flag):
                trial[name] = values[flag]
        for flag, name in (
            ("enable-web-access", "enableWebAccess"),
            ("enable-dashboard-access", "enableDashboardAccess"),
        ):
            if flag in self.switches:
                trial[name] = True
        body["trialJobSpec"] = trial
        if "algorithm" in values and body.get("studySpec"):
            named = _ALGORITHMS.get(values["algorithm"].lower(), values["algorithm"])
            body["studySpec"] = {**body["studySpec"], "algorithm": named}
        return self.command({**header, **self.header(), "tuningJob": body})
