"""Rules for pipeline jobs: the compiled pipeline, its parameters, its root, and its executors' resources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.masking import mask_value
from tui.domain.pipeline.ir import AGAIN, SCHEMAS, bare, inputs_of, reading_of
from tui.domain.pipeline.machines import NoMachine, NotKnown, machine_spec, resources_of
from tui.domain.pipeline.parameters import intended, misfit
from tui.domain.pipeline.tasks import spec_at
from tui.domain.spec.custom_job_spec import within
from tui.domain.spec.field_table import JOB_SPEC
from tui.domain.spec.findings import Case, Finding, Path, Rule
from tui.domain.spec.values import describe, text
from tui.domain.vertex import image_reference
from tui.domain.vertex.field_check import suggestion
from tui.domain.vertex.rules import RULES as JOB_RULES
from tui.domain.vertex.rules import findings, machine, region
from tui.domain.vertex.sources import EMULATOR, IR, PIPELINE_JOB, PIPELINE_RUN, UNDOCUMENTED

BODY = "pipelineJob"
TEMPLATES = ("templatePath", "templateUri", "pipelineSpec")
_VALUES = (BODY, "runtimeConfig", "parameterValues")
_ROOT = (BODY, "runtimeConfig", "gcsOutputDirectory")
_ARTIFACTS = (BODY, "runtimeConfig", "inputArtifacts")
_FOLDER = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[^\s]*)?")
_URI = re.compile(r"gs://[^/\s]+/\S+|https://[a-z0-9-]+-kfp\.pkg\.dev/[^/\s]+/[^/\s]+/[^/\s]+/\S+")


def body_of(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the pipeline body of a job (REST format), or an empty mapping."""
    return job.get(BODY) or {}


def _spec(case: Case) -> Mapping[str, Any] | None:
    """Return the compiled pipeline if the profile contains it; None for a `templateUri`."""
    spec = body_of(case.job).get("pipelineSpec")
    return bare(spec) if isinstance(spec, Mapping) else None


def _at(case: Case, where: Path) -> Path:
    """Return a path in the spec, as a path of the job."""
    return (*spec_at(body_of(case.job)), *where)


def template(case: Case) -> Iterator[Finding]:
    if BODY not in case.job:
        return
    templates = [name for name in TEMPLATES if body_of(case.job).get(name)]
    if len(templates) > 1:
        sentence = f"a pipeline job must have one pipeline, not {' and '.join(templates)}."
        yield Finding((BODY, templates[1]), sentence, "Keep one.")
    elif not templates:
        fix = "Set a compiled file as templatePath, or a template's address as templateUri."
        yield Finding((BODY,), "the job must have a pipeline.", fix)


def template_uri(case: Case) -> Iterator[Finding]:
    uri = str(body_of(case.job).get("templateUri") or "")
    if uri and not _URI.fullmatch(uri):
        fix = "Write gs://BUCKET/FILE, or https://REGION-kfp.pkg.dev/PROJECT/REPOSITORY/NAME/TAG."
        yield Finding((BODY, "templateUri"), f"{uri} must be the address of a template.", fix)


def schema(case: Case) -> Iterator[Finding]:
    spec = _spec(case)
    version = None if spec is None else str(spec.get("schemaVersion") or "")
    if version is not None and version not in SCHEMAS:
        sentence = f"schemaVersion is {version or 'missing'}; supported are {' and '.join(SCHEMAS)}."
        yield Finding(_at(case, ("schemaVersion",)), sentence, "Compile the pipeline with kfp 2.")


def broken(case: Case) -> Iterator[Finding]:
    spec = _spec(case)
    if spec is None:
        return
    for where, problem in reading_of(spec).problems:
        if where != ("schemaVersion",):
            yield Finding(_at(case, where), f"the compiled pipeline is broken: it {problem}.", AGAIN)


def not_emulated(case: Case) -> Iterator[Finding]:
    spec = _spec(case) if case.local else None
    if spec is None:
        return
    for where, problem in reading_of(spec).not_emulated:
        yield Finding(_at(case, where), f"it {problem}.", "Run this pipeline in a cloud context.")


def _values(case: Case) -> Mapping[str, Any]:
    values = within(case.job, *_VALUES)
    return values if isinstance(values, Mapping) else {}


def unknown_parameter(case: Case) -> Iterator[Finding]:
    spec = _spec(case)
    known = {} if spec is None else inputs_of(spec)
    for name, value in _values(case).items() if spec is not None else ():
        if name not in known:
            fix = suggestion(name, list(known)) if known else "The pipeline has no parameters."
            correct_name = (
                fix.removeprefix("Did you mean ").removesuffix("?") if fix.startswith("Did") else ""
            )
            here = (*_VALUES, name)
            edits = (Edit((*_VALUES, correct_name), value), Edit(here, REMOVED)) if correct_name else ()
            if correct_name in _values(case):
                edits = ()
            yield Finding(here, f"the pipeline has no parameter {name}.", fix, edits)


def missing_parameter(case: Case) -> Iterator[Finding]:
    spec = _spec(case)
    for name, declared in inputs_of(spec).items() if spec is not None else ():
        if declared.required and name not in _values(case):
            fix = f"Set a value: --set {name}=VALUE, or under parameterValues."
            sentence = f"the pipeline's parameter {name} has no default and no value."
            yield Finding((*_VALUES, name), sentence, fix)


def parameter_type(case: Case) -> Iterator[Finding]:
    spec = _spec(case)
    known = {} if spec is None else inputs_of(spec)
    for name, value in _values(case).items():
        if name not in known or not (wrong := misfit(value, known[name].type)):
            continue
        right = intended(value, known[name].type)
        here = (*_VALUES, name)
        edits = (Edit(here, right),) if right is not None else ()
        fix = (
            ""
            if right is None
            else f'Write "{right}".'
            if isinstance(right, str)
            else f"Write {text(right)}."
        )
        yield Finding(here, f"{name}: {wrong}.", fix, edits)


def parameters_form(case: Case) -> Iterator[Finding]:
    values = within(case.job, *_VALUES)
    if values is not None and not isinstance(values, Mapping):
        yield Finding(
            _VALUES, f"the parameters must be a mapping of names to values, not {describe(values)}."
        )


def old_schema(case: Case) -> Iterator[Finding]:
    spec = _spec(case)
    if spec is not None and spec.get("schemaVersion") == SCHEMAS[0] and _values(case):
        sentence = f"a pipeline of schema {SCHEMAS[0]} has parameters, not parameterValues. {UNDOCUMENTED}"
        yield Finding(_VALUES, sentence, "Compile the pipeline with kfp 2, which writes schema 2.1.0.")


def root(case: Case) -> Iterator[Finding]:
    if BODY not in case.job:
        return
    folder = within(case.job, *_ROOT)
    if not folder:
        fix = "Write gs://BUCKET/FOLDER as gcsOutputDirectory: the tasks store their outputs below it."
        yield Finding(_ROOT, "the pipeline must have a root.", fix)
    elif not _FOLDER.fullmatch(str(folder)) or ".." in str(folder).split("/"):
        yield Finding(_ROOT, f"{folder} must be a folder of a bucket.", "Write gs://BUCKET/FOLDER.")


def artifacts(case: Case) -> Iterator[Finding]:
    spec, values = _spec(case), within(case.job, *_ARTIFACTS)
    if values is None:
        return
    if not isinstance(values, Mapping):
        yield Finding(
            _ARTIFACTS,
            f"the artifacts must map names to objects with an artifactId, not {describe(values)}.",
        )
        return
    known = None
    if spec is not None:
        artifacts_declared = within(spec, "root", "inputDefinitions", "artifacts")
        known = list(artifacts_declared) if isinstance(artifacts_declared, Mapping) else []
    for name, value in values.items():
        here = (*_ARTIFACTS, name)
        if known is not None and name not in known:
            fix = suggestion(name, known) if known else "The pipeline has no input artifacts."
            yield Finding(here, f"the pipeline has no input artifact {name}.", fix)
        elif not isinstance(value, Mapping) or set(value) != {"artifactId"}:
            yield Finding(here, "an artifact must have an artifactId.", "Write {artifactId: ID}.")


def secrets(case: Case) -> Iterator[Finding]:
    for name, value in _values(case).items():
        if isinstance(value, str) and len(value) > 1 and mask_value(name, value) != value:
            sentence = f"the parameter {name} looks like a secret; everyone who may see the job can read it."
            fix = (
                "Put the secret into Secret Manager and let the code fetch it as the pipeline's "
                "service account."
            )
            yield Finding((*_VALUES, name), sentence, fix)


def _containers(case: Case) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    spec = _spec(case)
    executors = within(spec, "deploymentSpec", "executors")
    for label, executor in executors.items() if isinstance(executors, Mapping) else ():
        container = within(executor, "container")
        if isinstance(container, Mapping):
            yield _at(case, ("deploymentSpec", "executors", label, "container")), container


def resources(case: Case) -> Iterator[Finding]:
    for path, container in _containers(case):
        try:
            machine_spec(resources_of(container))
        except NoMachine as error:
            fix = "Change the source of the pipeline, and compile it again."
            yield Finding((*path, "resources", *error.field), f"{error}.", fix)
        except NotKnown:
            continue


def image(case: Case) -> Iterator[Finding]:
    for path, container in _containers(case):
        uri = str(container.get("image") or "")
        problem = image_reference.problem(uri) if uri and "{{" not in uri else None
        if problem is not None:
            fix = f"Write {problem[1]}." if problem[1] else "Write REGISTRY/PATH/IMAGE:TAG."
            yield Finding((*path, "image"), f"{uri} {problem[0]}.", fix)


def hardware(case: Case) -> Iterator[Finding]:
    for path, container in _containers(case):
        try:
            pool = {"replicaCount": 1, "machineSpec": machine_spec(resources_of(container))}
        except (NoMachine, NotKnown):
            continue
        alone = Case({"jobSpec": {"workerPoolSpecs": [pool]}}, case.region, case.local)
        for check in (machine.accelerator, region.accelerator):
            for finding in check(alone):
                yield Finding((*path, "resources", "accelerator"), finding.sentence, finding.fix)


RULES = (
    Rule("pipeline.template", PIPELINE_JOB, template),
    Rule("pipeline.template-uri", PIPELINE_JOB, template_uri),
    Rule("pipeline.schema", IR, schema),
    Rule("pipeline.broken", IR, broken),
    Rule("pipeline.not-emulated", EMULATOR, not_emulated, ProblemSeverity.NOTE, emulated=True),
    Rule("pipeline.parameters", PIPELINE_JOB, parameters_form),
    Rule("pipeline.unknown-parameter", PIPELINE_RUN, unknown_parameter),
    Rule("pipeline.missing-parameter", PIPELINE_RUN, missing_parameter),
    Rule("pipeline.parameter-type", IR, parameter_type),
    Rule("pipeline.secret", "docs/facts/vertex.md 1.9", secrets, ProblemSeverity.WARNING),
    Rule("pipeline.old-schema", PIPELINE_JOB, old_schema, ProblemSeverity.WARNING),
    Rule("pipeline.root", PIPELINE_JOB, root),
    Rule("pipeline.artifacts", PIPELINE_JOB, artifacts),
    Rule("pipeline.resources", PIPELINE_RUN, resources),
    Rule("pipeline.image", image_reference.SOURCE, image),
    Rule("pipeline.hardware", PIPELINE_RUN, hardware),
)

_SHARED = ("shape.display-name", "shape.labels", "shape.label-count", "shape.encryption", "region.unknown")
"""Rules for a job's header and region."""
_OF_PIPELINES: tuple[Rule, ...] = (
    *(rule for rule in JOB_RULES if rule.id in _SHARED),
    *(rule for rule in JOB_RULES if rule.id.startswith(("placeholder.", "network.", "access."))),
    *(rule for rule in JOB_RULES if rule.id == "region.elsewhere"),
)


def check_pipeline(case: Case) -> list[Finding]:
    """Return all findings of a pipeline job, which has no worker pools but some fields of a CustomJobSpec."""
    own = {name: value for name, value in body_of(case.job).items() if name in JOB_SPEC.fields}
    alike = replace(case, job={**case.job, "jobSpec": own})
    return [*findings(_OF_PIPELINES, alike), *findings(RULES, case)]
