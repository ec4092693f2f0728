"""Which job made a version of a model, as far as the model says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.domain.core.job import Job
from tui.domain.serving.traffic import Model


def made_by(model: Model, jobs: Mapping[str, Job], outputs: Mapping[str, str]) -> str:
    """Full resource name of the job that made it; "" where nothing says which one.

    The pipeline that the model names, else a label whose value is a job's id, else the job in whose output
    folder its weights are; `outputs` are those folders by the job's name.
    """
    if model.made_by:
        return model.made_by
    ids = set(model.labels.values())
    for job in jobs.values() if ids else ():
        if job.id in ids and job.region == model.region:
            return job.name
    if not model.artifacts:
        return ""
    # The longest is the nearest: a folder may hold the folders of several jobs.
    holding = [
        (len(folder), name) for name, folder in outputs.items() if folder and below(model.artifacts, folder)
    ]
    return max(holding)[1] if holding else ""


def candidates(model: Model, jobs: Mapping[str, Job], most: int) -> list[Job]:
    """Jobs whose output may hold its weights, the likeliest first: the last that began before it was made."""
    if not model.artifacts:
        return []
    before = [
        job
        for job in jobs.values()
        if job.region == model.region
        and not job.parent
        and (job.created is None or model.create_time is None or job.created <= model.create_time.timestamp())
    ]
    return sorted(before, key=lambda job: job.created or 0.0, reverse=True)[:most]


def output_folder(spec: Any) -> str:
    """The gs:// folder that a job's description names for its output; "" for none."""
    if isinstance(spec, Mapping):
        found = spec.get("baseOutputDirectory")
        if isinstance(found, Mapping) and found.get("outputUriPrefix"):
            return str(found["outputUriPrefix"])
        spec = list(spec.values())
    if isinstance(spec, list):
        return next((folder for each in spec if (folder := output_folder(each))), "")
    return ""


def below(uri: str, folder: str) -> bool:
    """Whether a URI is this folder or something in it."""
    folder = folder.rstrip("/")
    return bool(folder) and (uri.rstrip("/") == folder or uri.startswith(f"{folder}/"))
