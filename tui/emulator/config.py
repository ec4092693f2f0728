"""Settings of one emulator: `config.yaml` in its state directory, all optional."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tui.config.regular_file import read_regular
from tui.domain.document.decoding import decode_yaml

_MOST_BYTES = 1_000_000
Model = TypeVar("Model", bound=BaseModel)


class ConfigError(Exception):
    """The file can't be used. The message gives the location and the reason."""


class EmulatorConfig(BaseModel):
    """Settings of this emulator. Times are in seconds."""

    model_config = ConfigDict(extra="forbid")

    provisioning_seconds: float = Field(1.0, ge=0)
    """Time that a job stays PENDING, for the provisioning of machines."""

    grace_seconds: float = Field(30.0, ge=0)
    """Time between SIGTERM and SIGKILL for a Spot preemption or a timeout."""

    cancel_grace_seconds: float = Field(3.0, ge=0)
    """Time between SIGTERM and SIGKILL for a cancellation, and for the workers after the primary's end.
    Vertex does not document this time."""

    sample_period: float = Field(2.0, gt=0)
    """Time between two samples of a replica's CPU, memory, network and GPU. The period of the cloud is 60."""

    simulate_accelerators: bool = False
    """Simulate time series of the accelerators that a machine type has but this machine lacks. The series
    have the label `simulated`; a real device is never simulated."""

    restart_delay_seconds: float = Field(1.0, ge=0)
    """Time before a new attempt, and before a replica restarts on its machine. The service has 17."""

    end_delay_seconds: float = Field(0.0, ge=0)
    """Time between the end of the replicas and that of their job, up to minutes for the service."""

    images: dict[str, list[str]] = Field(default_factory=dict)
    """Image pattern (shell wildcards) → command line; overrides the built-in table."""

    quotas: dict[str, int] = Field(default_factory=dict)
    """Limit of a training quota metric (`custom_model_training_…`, with or without the service's prefix;
    `METRIC@REGION` for one region). -1 means unlimited."""

    queue_beyond_quota: bool = False
    """Whether a job that needs more than a limit stays QUEUED; the service refuses such a job."""

    denied_permissions: list[str] = Field(default_factory=list)
    """Permissions that callers don't have, with shell wildcards; they have all others."""

    log_megabytes: int = Field(2048, ge=16)
    """Size limit of the log entries of all jobs; the oldest are deleted first."""

    output_kilobytes: int = Field(1024, ge=0)
    """Size limit of the newest output of a replica that is saved in a separate file, for stdout and stderr
    each. Older output is only in the log, once it is stored there."""

    service_accounts: list[str] = Field(
        default_factory=lambda: [
            "trainer@*.iam.gserviceaccount.com",
            "*-compute@developer.gserviceaccount.com",
        ]
    )
    """Accounts that exist, with shell wildcards."""

    registry: dict[str, list[str]] = Field(default_factory=dict)
    """Image pattern without a tag → its tags, empty for an image that does not exist. Any other image exists
    with every tag."""

    persistent_resources: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Persistent resources by id, in REST form, e.g. `{resourcePools: [{machineSpec: {…}}]}`."""

    tensorboards: list[str] = Field(default_factory=lambda: ["*"])
    """TensorBoards that exist, by full name with shell wildcards."""


def load_config(path: Path) -> EmulatorConfig:
    """Read the settings of the emulator, as `read_config`."""
    return read_config(path, EmulatorConfig)


def read_config(path: Path, model: type[Model]) -> Model:
    """Read `path`; a missing file means all defaults.

    Raises ConfigError naming the file, the line or field, and the problem.
    """
    try:
        raw: Any = decode_yaml(read_regular(path, _MOST_BYTES)) if path.exists() else {}
        return model.model_validate(raw or {})
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{where}: not valid YAML: {getattr(error, 'problem', error)}") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{path}: {field}: {first['msg']}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}") from error
