"""Where a job's trainer writes TensorBoard events, by the resource that the service has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LOGS = "logs"
"""Below a job's output: AIP_TENSORBOARD_LOG_DIR (docs/facts/vertex.md 3.6)."""


def event_folder(resource: Mapping[str, Any]) -> str:
    """gs:// folder of the events of a job in REST form; "" where it has no output.

    That of a tuning job is the folder of all trials, each of which has its own below it.
    """
    trials = resource.get("trialJobSpec")
    spec = trials or resource.get("jobSpec") or {}
    base = str((spec.get("baseOutputDirectory") or {}).get("outputUriPrefix") or "").rstrip("/")
    if not base:
        return ""
    return base if trials else f"{base}/{LOGS}"
