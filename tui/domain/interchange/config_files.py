"""Files of `gcloud ai custom-jobs create --config`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tui.domain.document.source import camel, read
from tui.domain.profile import ProfileInvalid, load
from tui.domain.profile.gcloud_config import task_problems
from tui.domain.spec.spec_format import standing_alone


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file: its text, and its name for messages."""

    text: str
    file: str


def takes_lists(config: Any) -> bool:
    """Return whether gcloud adds `--args` and `--command` to the pools of a config. gcloud sends snake_case
    names unchanged, but recognises its pools only by the camelCase name."""
    return isinstance(config, Mapping) and "workerPoolSpecs" in config


def read_config(text: str, file: str) -> Mapping[str, Any]:
    """Read the CustomJobSpec (REST format) of a file that `--config` names. Raises ProfileInvalid if gcloud
    or the service refuses the file."""
    document = read(text, file, repeated=True)
    names = set(map(camel, document.value)) if isinstance(document.value, Mapping) else set()
    if names and not standing_alone(names):
        message = (
            f"--config must have the fields of a jobSpec. gcloud sends {', '.join(sorted(names))} as fields "
            "of the jobSpec, which has no such fields."
        )
        fix = "Write the fields below jobSpec at the top level, and set name and labels by flags."
        raise ProfileInvalid([document.problem((next(iter(document.value)),), message, fix, "gcloud.config")])
    profile = load(text, file, stem(file))
    if problems := task_problems(profile.job_spec, document):
        raise ProfileInvalid(problems)
    return profile.job_spec


def slug(name: str) -> str:
    """Convert `name` to a valid file name."""
    cleaned = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-.")
    return cleaned[:80] or "imported"


def stem(file: str) -> str:
    """Derive a profile's name from a file's name."""
    return slug(re.sub(r"\.\w+$", "", file.rsplit("/", 1)[-1]))
