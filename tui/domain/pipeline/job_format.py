"""`pipelineJob`: a run of a compiled pipeline, whose executors are the custom jobs. See `SpecFormat`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tui.domain.document.source import Path
from tui.domain.pipeline.fields import PIPELINE_JOB_BODY, PIPELINE_JOB_RESOURCE
from tui.domain.pipeline.imports import is_compiled
from tui.domain.pipeline.ir import bare
from tui.domain.pipeline.parameters import body_inputs
from tui.domain.pipeline.rules import check_pipeline
from tui.domain.pipeline.tasks import known_jobs
from tui.domain.pipeline.template import Template
from tui.domain.spec.custom_job_spec import whole_numbers, within
from tui.domain.spec.field_table import OUTPUT_ONLY, RESOURCE, FieldType
from tui.domain.spec.findings import Case, Finding
from tui.domain.spec.spec_format import Attachment, BodyDefaults, BodyInput, KnownJob

ReadTemplate = Callable[[str, str], Template]
"""Reads the file that a profile (its own file first) names."""
_ONLY_THERE = {"jobDetail", "templateMetadata", "scheduleName"}
"""Fields of a PipelineJob that only the service fills, beside those of every job."""


class PipelineJobFormat(BodyDefaults):
    """The body `pipelineJob`. It wraps no custom job: those of its tasks are made when it runs."""

    body = "pipelineJob"
    fields: FieldType = PIPELINE_JOB_BODY
    spec_path: Path = ("pipelineJob",)
    collection = "pipelineJobs"
    resource_key = "pipelineJob"
    resource_fields: Mapping[str, FieldType] = PIPELINE_JOB_RESOURCE
    python_client = "PipelineServiceClient"
    sign = "runtimeConfig"
    fix = "It names a compiled pipeline as templatePath or templateUri, and has a runtimeConfig."

    def __init__(self, read: ReadTemplate) -> None:
        self._read = read

    def stands_alone(self, names: Collection[str]) -> bool:
        return False

    def instead(self, names: Collection[str]) -> str:
        return "a compiled pipeline" if is_compiled(names) else ""

    def files(self, body: Mapping[str, Any]) -> tuple[str, ...]:
        named = str(body.get("templatePath") or "")
        return (named,) if named and "://" not in named and "${" not in named else ()

    def attach(self, body: Mapping[str, Any], file: str) -> tuple[dict[str, Any], Attachment | None]:
        made, named = dict(body), body.get("templatePath")
        if not named or "pipelineSpec" in body:
            return made, None
        template = self._read(file, str(named))
        where = (self.body, "templatePath")
        stands_for = (self.body, "pipelineSpec")
        found = Attachment(where, stands_for, template.document, template.at, template.problems)
        if template.document is None:
            return made, found
        del made["templatePath"]
        made["pipelineSpec"] = template.spec
        # As older compilers wrote it, the file is a whole job.
        runtime = within(template.value, "runtimeConfig")
        if isinstance(runtime, Mapping) and template.at:
            made["runtimeConfig"] = _merged(runtime, made.get("runtimeConfig") or {})
        return made, found

    def inputs(self, body: Mapping[str, Any]) -> tuple[BodyInput, ...]:
        return body_inputs(body)

    def spec(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        return None

    def beside(self, body: Mapping[str, Any]) -> dict[str, Any]:
        made = dict(body)
        runtime = dict(made.get("runtimeConfig") or {})
        values = runtime.get("parameterValues")
        if isinstance(values, Mapping):
            # As Google's SDK does it: a parameter without a value is not given.
            runtime["parameterValues"] = {name: value for name, value in values.items() if value is not None}
        spec = made.get("pipelineSpec")
        root = bare(spec).get("defaultPipelineRoot") if isinstance(spec, Mapping) else None
        if root and not runtime.get("gcsOutputDirectory"):
            runtime["gcsOutputDirectory"] = str(root)
        return {**made, "runtimeConfig": runtime} if runtime else made

    def custom_jobs(self, job: Mapping[str, Any]) -> tuple[KnownJob, ...]:
        return known_jobs(job.get(self.body) or {})

    def rules(self, case: Case) -> list[Finding]:
        return check_pipeline(case)

    def resource(self, job: Mapping[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in job.items() if name != self.body}
        own = job.get(self.body) or {}
        return {**rest, **{name: value for name, value in own.items() if name != "templatePath"}}

    def header(self, resource: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        made = {name: value for name, value in resource.items() if name in RESOURCE}
        body = {name: value for name, value in resource.items() if name in PIPELINE_JOB_BODY.fields}
        notes = []
        if body.get("pipelineSpec") and body.pop("templateUri", ""):
            notes.append("templateUri was left out: the profile has the specification that ran")
        runtime = body.get("runtimeConfig") or {}
        known = PIPELINE_JOB_BODY.fields["runtimeConfig"].fields
        body["runtimeConfig"] = {name: value for name, value in runtime.items() if name in known}
        made[self.body] = whole_numbers(body)
        kept = {*self.resource_fields, *OUTPUT_ONLY, *_ONLY_THERE}
        lost = [name for name in resource if name not in kept]
        lost += [f"runtimeConfig.{name}" for name in runtime if name not in known]
        notes += [f"{name} was left out: a profile has no place for it" for name in lost]
        return made, tuple(notes)


def _merged(theirs: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The runtimeConfig of a file that is a whole job, with the profile's own over it."""
    made = {**theirs, **own}
    values = {**(theirs.get("parameterValues") or {}), **(own.get("parameterValues") or {})}
    return {**made, "parameterValues": values} if values else made
