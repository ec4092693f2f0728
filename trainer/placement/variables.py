"""Read environment variables; an error names the wrong variable and the expected value."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from trainer.placement.topology import TopologyError

_POD = re.compile(r"(?P<job>.+)-(?P<role>worker|master|launcher)-(?P<index>\d+)")


def read_json(env: Mapping[str, str], name: str) -> dict[str, Any]:
    """Return the JSON object in this variable. Raises TopologyError."""
    try:
        value = json.loads(env[name])
    except json.JSONDecodeError as error:
        raise TopologyError(f"{name} must be JSON: {error}") from error
    if not isinstance(value, dict):
        raise TopologyError(f"{name} must be a JSON object")
    return value


def read_integer(env: Mapping[str, str], name: str, default: int | None = None) -> int:
    """Return the integer in this variable. Raises TopologyError."""
    text = env.get(name, "")
    if not text and default is not None:
        return default
    try:
        return int(text)
    except ValueError:
        raise TopologyError(f"{name}={text!r} must be an integer") from None


def read_first(env: Mapping[str, str], *names: str) -> tuple[str, str]:
    """Return the name and value of the first of these variables that is set; the first name and "" if none
    is."""
    return next(((name, env[name]) for name in names if env.get(name)), (names[0], ""))


def check_rank(name: str, rank: int, nodes: int, of: str) -> None:
    """Raise TopologyError for a rank outside `nodes`, whose number comes from `of`."""
    if not 0 <= rank < nodes:
        raise TopologyError(f"{name}={rank} must be within {of}")


def job_id(env: Mapping[str, str], *shared: object) -> str:
    """Return the id of the job from Vertex AI or the launcher, with a hash of the values that all nodes
    share. The id does not depend on MASTER_ADDR: node 0 may have another name for itself."""
    ids = [env.get(name, "") for name in ("CLOUD_ML_JOB_ID", "CLOUD_ML_TRIAL_ID", "PET_RDZV_ID")]
    digest = hashlib.sha256(json.dumps([ids, shared]).encode()).hexdigest()[:12]
    return "-".join([*filter(None, ids), digest])


def pod_index(hostname: str) -> tuple[str, str, int] | None:
    """Return the job, replica type and index from the name of an operator's pod, which is also its host
    name."""
    match = _POD.fullmatch(hostname.partition(".")[0])
    return (match["job"], match["role"], int(match["index"])) if match else None
