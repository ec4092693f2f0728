"""Finds the job that created a version of a model, if the model has the information."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.domain.core.job import Job
from tui.domain.serving.traffic import Model


def made_by(model: Model, jobs: Mapping[str, Job], outputs: Mapping[str, str]) -> str:
    """Return the full resource name of the job that created the model; "" if it is unknown. The result is the
    first that exists of: the pipeline that the model names, a job whose id is a label's value, and the job
    whose output folder contains the weights. `outputs` maps jobs' names to their output folders."""
    if model.made_by:
        return model.made_by
    ids = set(model.labels.values())
    for job in jobs.values() if ids else ():
        if job.id in ids and job.region == model.region:
            return job.name
    if not model.artifacts:
        return ""
    # The longest folder is the closest folder, because a folder may contain the folders of several jobs.
    holding = [
        (len(folder), name) for name, folder in outputs.items() if folder and below(model.artifacts, folder)
    ]
    return max(holding)[1] if holding else ""


def candidates(model: Model, jobs: Mapping[str, Job], most: int) -> list[Job]:
    """Return the jobs whose output may contain the model's weights, the most probable first. The most
    probable job is the last one that started before the model was created."""
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
    """Return the gs:// output folder in a job's specification; "" if there is no folder."""
    if isinstance(spec, Mapping):
        base = spec.get("baseOutputDirectory")
        if isinstance(base, Mapping) and base.get("outputUriPrefix"):
            return str(base["outputUriPrefix"])
        spec = list(spec.values())
    if isinstance(spec, list):
        return next((folder for item in spec if (folder := output_folder(item))), "")
    return ""


def below(uri: str, folder: str) -> bool:
    """Return whether a URI is this folder or a path below it."""
    folder = folder.rstrip("/")
    return bool(folder) and (uri.rstrip("/") == folder or uri.startswith(f"{folder}/"))
