"""`pipelineJob`: a run of a compiled pipeline, whose executors are custom jobs."""

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
from tui.domain.spec.spec_format import Attachment, BodyInput, KnownJob, SpecFormat

ReadTemplate = Callable[[str, str], Template]
"""Function that reads the file that a profile names; the first argument is the profile's file."""
_ONLY_THERE = {"jobDetail", "templateMetadata", "scheduleName"}
"""Fields of a PipelineJob that only the service fills, besides the fields common to all jobs."""


class PipelineJobFormat(SpecFormat):
    """The body `pipelineJob`. The body wraps no custom job, because the run creates the jobs of its tasks."""

    body = "pipelineJob"
    fields: FieldType = PIPELINE_JOB_BODY
    spec_path: Path = ("pipelineJob",)
    collection = "pipelineJobs"
    resource_key = "pipelineJob"
    resource_fields: Mapping[str, FieldType] = PIPELINE_JOB_RESOURCE
    python_client = "PipelineServiceClient"
    sign = "runtimeConfig"
    fix = "The body has a compiled pipeline as templatePath or templateUri, and a runtimeConfig."

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
        attached, named = dict(body), body.get("templatePath")
        if not named or "pipelineSpec" in body:
            return attached, None
        template = self._read(file, str(named))
        where = (self.body, "templatePath")
        stands_for = (self.body, "pipelineSpec")
        attachment = Attachment(where, stands_for, template.document, template.at, template.problems)
        if template.document is None:
            return attached, attachment
        del attached["templatePath"]
        attached["pipelineSpec"] = template.spec
        # Older compilers wrote a complete job into the file.
        runtime = within(template.value, "runtimeConfig")
        if isinstance(runtime, Mapping) and template.at:
            attached["runtimeConfig"] = _merged(runtime, attached.get("runtimeConfig") or {})
        return attached, attachment

    def inputs(self, body: Mapping[str, Any]) -> tuple[BodyInput, ...]:
        return body_inputs(body)

    def spec(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        return None

    def beside(self, body: Mapping[str, Any]) -> dict[str, Any]:
        result = dict(body)
        runtime = dict(result.get("runtimeConfig") or {})
        values = runtime.get("parameterValues")
        if isinstance(values, Mapping):
            # Google's SDK also omits parameters without a value.
            runtime["parameterValues"] = {name: value for name, value in values.items() if value is not None}
        spec = result.get("pipelineSpec")
        root = bare(spec).get("defaultPipelineRoot") if isinstance(spec, Mapping) else None
        if root and not runtime.get("gcsOutputDirectory"):
            runtime["gcsOutputDirectory"] = str(root)
        return {**result, "runtimeConfig": runtime} if runtime else result

    def custom_jobs(self, job: Mapping[str, Any]) -> tuple[KnownJob, ...]:
        return known_jobs(job.get(self.body) or {})

    def rules(self, case: Case) -> list[Finding]:
        return check_pipeline(case)

    def resource(self, job: Mapping[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in job.items() if name != self.body}
        own = job.get(self.body) or {}
        return {**rest, **{name: value for name, value in own.items() if name != "templatePath"}}

    def header(self, resource: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        fields = {name: value for name, value in resource.items() if name in RESOURCE}
        body = {name: value for name, value in resource.items() if name in PIPELINE_JOB_BODY.fields}
        notes = []
        if body.get("pipelineSpec") and body.pop("templateUri", ""):
            notes.append("templateUri was left out: the profile contains the specification that ran")
        runtime = body.get("runtimeConfig") or {}
        known = PIPELINE_JOB_BODY.fields["runtimeConfig"].fields
        body["runtimeConfig"] = {name: value for name, value in runtime.items() if name in known}
        fields[self.body] = whole_numbers(body)
        kept = {*self.resource_fields, *OUTPUT_ONLY, *_ONLY_THERE}
        lost = [name for name in resource if name not in kept]
        lost += [f"runtimeConfig.{name}" for name in runtime if name not in known]
        notes += [f"{name} was left out: a profile has no field for it" for name in lost]
        return fields, tuple(notes)


def _merged(theirs: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the runtimeConfig of a file with a complete job, overridden by the profile's own."""
    merged = {**theirs, **own}
    values = {**(theirs.get("parameterValues") or {}), **(own.get("parameterValues") or {})}
    return {**merged, "parameterValues": values} if values else merged
