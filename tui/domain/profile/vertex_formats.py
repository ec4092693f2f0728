"""The bodies of Vertex AI: a CustomJobSpec, a training pipeline with one, a tuning job with many."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tui.domain.document.source import Document, Path, Problem, ProfileInvalid
from tui.domain.profile.gcloud_config import GcloudChecker, repeated_keys
from tui.domain.spec.custom_job_spec import whole_numbers
from tui.domain.spec.field_table import (
    JOB_SPEC,
    OUTPUT_ONLY,
    RESOURCE,
    STRING,
    TRAINING_PIPELINE_BODY,
    VALUE,
    FieldType,
    stands_alone,
)
from tui.domain.spec.findings import Case, Finding
from tui.domain.spec.spec_format import KnownJob, SpecFormat
from tui.domain.tuning.fields import STUDY_SPEC, TUNING_JOB_BODY
from tui.domain.vertex.rules import check_job

CUSTOM_TASK = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"
"""The training task that runs the user's own code (docs/facts/vertex.md 12.4)."""


class OneJobFormat(SpecFormat):
    """The common part of the bodies that wrap one custom job."""

    def stands_alone(self, names: Collection[str]) -> bool:
        return False

    def beside(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def custom_jobs(self, job: Mapping[str, Any]) -> tuple[KnownJob, ...]:
        return (KnownJob(job),)

    def rules(self, case: Case) -> list[Finding]:
        return check_job(case)


class CustomJobSpecFormat(OneJobFormat):
    """The body `jobSpec`: the CustomJobSpec of a custom job."""

    body = "jobSpec"
    fields: FieldType = JOB_SPEC
    spec_path: Path = ("jobSpec",)
    collection = "customJobs"
    resource_key = "customJob"
    resource_fields: Mapping[str, FieldType] = {**RESOURCE, "jobSpec": JOB_SPEC}
    python_client = "JobServiceClient"
    sign = "jobSpec"
    fix = "The body has the workerPoolSpecs of the job."

    def stands_alone(self, names: Collection[str]) -> bool:
        return stands_alone(names)

    def bare(self, document: Document) -> tuple[dict[str, Any], list[Problem], list[Problem]]:
        checker = GcloudChecker(document, references=False)
        body = checker.spec(self.fields.fields)
        return body, checker.problems, [*repeated_keys(document), *checker.warnings]

    def spec(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return dict(body)

    def resource(self, job: Mapping[str, Any]) -> dict[str, Any]:
        return dict(job)

    def header(self, resource: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        return {name: value for name, value in resource.items() if name not in OUTPUT_ONLY}, ()


class TrainingPipelineFormat(OneJobFormat):
    """The body `trainingPipeline`: a training pipeline whose custom job has its `trainingTaskInputs`."""

    body = "trainingPipeline"
    fields: FieldType = TRAINING_PIPELINE_BODY
    spec_path: Path = ("trainingPipeline", "trainingTaskInputs")
    collection = "trainingPipelines"
    resource_key = "trainingPipeline"
    resource_fields: Mapping[str, FieldType] = {
        **RESOURCE,
        "trainingTaskDefinition": STRING,
        "trainingTaskInputs": VALUE,
    }
    python_client = "PipelineServiceClient"
    sign = "trainingTaskInputs"
    fix = "The body's trainingTaskInputs have the workerPoolSpecs of the job."

    def spec(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return dict(body.get("trainingTaskInputs") or {})

    def resource(self, job: Mapping[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in job.items() if name != "jobSpec"}
        return {
            **rest,
            "trainingTaskDefinition": CUSTOM_TASK,
            "trainingTaskInputs": dict(job.get("jobSpec") or {}),
        }

    def header(self, resource: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        task = str(resource.get("trainingTaskDefinition", CUSTOM_TASK))
        if task != CUSTOM_TASK:
            message = f"the pipeline trains with {task}; a profile supports only custom code."
            raise ProfileInvalid([Problem(str(resource.get("name", "")), 0, "", message)])
        fields = {name: value for name, value in resource.items() if name in RESOURCE}
        inputs = whole_numbers(resource["trainingTaskInputs"])
        fields[self.body] = {"trainingTaskInputs": inputs}
        kept = {*RESOURCE, *OUTPUT_ONLY, *self.resource_fields, "trainingTaskMetadata"}
        notes = tuple(
            f"{name} was left out: a profile has no field for it" for name in resource if name not in kept
        )
        return fields, notes


class TuningJobFormat(OneJobFormat):
    """The body `tuningJob`: a hyperparameter tuning job, whose trials are jobs of its `trialJobSpec`."""

    body = "tuningJob"
    fields: FieldType = TUNING_JOB_BODY
    spec_path: Path = ("tuningJob", "trialJobSpec")
    collection = "hyperparameterTuningJobs"
    resource_key = "hyperparameterTuningJob"
    resource_fields: Mapping[str, FieldType] = {**RESOURCE, **TUNING_JOB_BODY.fields}
    python_client = "JobServiceClient"
    sign = "trialJobSpec"
    fix = "The body has the studySpec, the numbers of trials, and the trialJobSpec with the workerPoolSpecs."

    def spec(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return dict(body.get("trialJobSpec") or {})

    def beside(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in body.items() if name != "trialJobSpec"}

    def resource(self, job: Mapping[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in job.items() if name not in {"jobSpec", self.body}}
        return {**rest, **(job.get(self.body) or {}), "trialJobSpec": dict(job.get("jobSpec") or {})}

    def header(self, resource: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        fields = {name: value for name, value in resource.items() if name in RESOURCE}
        body = {name: value for name, value in resource.items() if name in TUNING_JOB_BODY.fields}
        study = body.get("studySpec") or {}
        # The service fills in its own defaults.
        body["studySpec"] = {name: value for name, value in study.items() if name in STUDY_SPEC.fields}
        fields[self.body] = body
        kept = {*self.resource_fields, *OUTPUT_ONLY, "trials"}
        lost = [name for name in resource if name not in kept]
        lost += [f"studySpec.{name}" for name in study if name not in STUDY_SPEC.fields]
        return fields, tuple(f"{name} was left out: a profile has no field for it" for name in lost)


CUSTOM_JOB_SPEC = CustomJobSpecFormat()
TRAINING_PIPELINE = TrainingPipelineFormat()
TUNING_JOB = TuningJobFormat()
