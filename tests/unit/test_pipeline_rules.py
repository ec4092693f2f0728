"""Every rule of pipelines by a job that breaks it, where it is told, and what its fix makes of the job."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.pipeline_body_support import ANYTHING, CONTAINER, INPUTS, profile, spec
from tui.domain.document.document_edit import edited
from tui.domain.document.source import ProblemSeverity
from tui.domain.pipeline.ir import BadPipeline, PipelineReader, read_pipeline
from tui.domain.pipeline.rules import RULES, check_pipeline
from tui.domain.profile import Problem, inspect
from tui.domain.spec.findings import Case

Job = dict[str, Any]
RUNTIME = {"gcsOutputDirectory": "gs://bucket/root", "parameterValues": {"name": "x"}}


def job(compiled: Any = None, values: Any = None, runtime: Any = None, **body: Any) -> Job:
    """A pipeline job in REST form in which nothing is wrong, but for what is given."""
    found = copy.deepcopy(
        {"pipelineSpec": spec() if compiled is None else compiled, "runtimeConfig": RUNTIME}
    )
    found["runtimeConfig"] |= runtime or {}
    if values is not None:
        found["runtimeConfig"]["parameterValues"] = values
    return {"displayName": "x", "pipelineJob": {k: v for k, v in {**found, **body}.items() if v is not None}}


def executor(**container: Any) -> Job:
    made = {"exec-a": {"container": {**CONTAINER, **container}}}
    return job(spec(deploymentSpec={"executors": made}))


def tasks(**found: Any) -> Job:
    return job(spec({name: {"componentRef": {"name": "comp-a"}, **more} for name, more in found.items()}))


T4, A100 = ({"type": kind, "count": "3"} for kind in ("NVIDIA_TESLA_T4", "NVIDIA_TESLA_A100"))
CASES: list[tuple[str, Job]] = [
    ("pipeline.template", job(pipelineSpec=None)),
    ("pipeline.template", job(templateUri="gs://bucket/dag.yaml")),
    ("pipeline.template-uri", job(pipelineSpec=None, templateUri="gs://bucket")),
    ("pipeline.template-uri", job(pipelineSpec=None, templateUri="https://example.com/dag.yaml")),
    ("pipeline.schema", job(spec(schemaVersion="1.0.0"))),
    ("pipeline.schema", job({k: v for k, v in spec().items() if k != "schemaVersion"})),
    ("pipeline.broken", job({**spec(), "root": {}})),
    ("pipeline.broken", job({**spec(), "components": []})),
    ("pipeline.broken", job({**spec(), "pipelineInfo": {}})),
    ("pipeline.broken", tasks(a={"dependentTasks": ["b"]})),
    ("pipeline.broken", tasks(a={"dependentTasks": ["b"]}, b={"dependentTasks": ["a"]})),
    ("pipeline.broken", executor(image="")),
    ("pipeline.broken", job(spec(deploymentSpec={}))),
    ("pipeline.broken", job(spec(components={"comp-a": {"dag": {"tasks": spec()["root"]["dag"]["tasks"]}}}))),
    ("pipeline.not-emulated", job(spec(deploymentSpec={"executors": {"exec-a": {"resolver": {}}}}))),
    ("pipeline.parameters", job(values=["x"])),
    ("pipeline.unknown-parameter", job(values={"name": "x", "stepz": 3})),
    ("pipeline.unknown-parameter", job(values={"name": "x", "nothing like it": 3})),
    ("pipeline.missing-parameter", job(values={})),
    ("pipeline.parameter-type", job(values={"name": 7})),
    ("pipeline.parameter-type", job(values={"name": "x", "steps": "8"})),
    ("pipeline.parameter-type", job(values={"name": "x", "steps": 0.5})),
    ("pipeline.parameter-type", job(values={"name": "x", "steps": 2**60})),
    ("pipeline.parameter-type", job(values={"name": "x", "rate": "1e-4"})),
    ("pipeline.parameter-type", job(values={"name": "x", "fast": "yes"})),
    ("pipeline.parameter-type", job(values={"name": "x", "sizes": {}})),
    ("pipeline.parameter-type", job(values={"name": "x", "more": []})),
    ("pipeline.secret", job(spec(inputs={"hf_token": INPUTS["name"]}), values={"hf_token": "hunter2"})),
    ("pipeline.old-schema", job(spec(schemaVersion="2.0.0"))),
    ("pipeline.root", job(runtime={"gcsOutputDirectory": ""})),
    ("pipeline.root", job(runtime={"gcsOutputDirectory": "bucket/root"})),
    ("pipeline.root", job(runtime={"gcsOutputDirectory": "gs://bucket/../x"})),
    ("pipeline.artifacts", job(runtime={"inputArtifacts": ["x"]})),
    ("pipeline.artifacts", job(runtime={"inputArtifacts": {"data": {"artifactId": "1"}}})),
    ("pipeline.resources", executor(resources={"accelerator": {"type": "abacus", "count": "1"}})),
    ("pipeline.resources", executor(resources={"cpuLimit": "many"})),
    ("pipeline.resources", executor(resources={"resourceMemoryLimit": "x"})),
    ("pipeline.image", executor(image="us-docker.pkg.dev/p/r/i::1")),
    ("pipeline.hardware", executor(resources={"accelerator": T4})),
    ("pipeline.hardware", executor(resources={"accelerator": A100})),
    ("network.form", job(network="default")),
    ("network.ranges-alone", job(reservedIpRanges=["r"])),
    ("access.service-account", job(serviceAccount="me")),
    ("placeholder.name", job(serviceAccount="runner@PROJECT_ID.iam.gserviceaccount.com")),
    ("shape.display-name", {**job(), "displayName": "x" * 129}),
    ("shape.labels", {**job(), "labels": {"Team": "nlp"}}),
    ("shape.encryption", {**job(), "encryptionSpec": {"kmsKeyName": "k"}}),
]


def check(found: Job, *, local: bool = False) -> list[Any]:
    return check_pipeline(Case(found, "us-central1", local))


def test_a_good_job_has_no_finding() -> None:
    fine: list[Job] = [
        job(),
        job(pipelineSpec=None, templateUri="https://us-central1-kfp.pkg.dev/p/r/dag/v1"),
        job(values={"name": "x", "steps": 7.0, "rate": 1, "fast": True, "sizes": [1], "more": {"a": None}}),
        executor(image="{{$.inputs.parameters['image']}}", resources={"cpuLimit": "{{$.inputs.x}}"}),
        executor(resources={"resourceCpuLimit": "4", "resourceMemoryLimit": "16Gi", "memoryLimit": 16.0}),
        {"displayName": "x", "labels": {}, "pipelineJob": job()["pipelineJob"]},
    ]
    for each in fine:
        assert [(f.rule, f.sentence) for f in check(each)] == []


@pytest.mark.parametrize(("rule", "broken"), CASES, ids=[f"{r}-{i}" for i, (r, _) in enumerate(CASES)])
def test_a_job_that_breaks_a_rule_is_told_so(rule: str, broken: Job) -> None:
    found = check(broken, local=rule == "pipeline.not-emulated")
    assert rule in {f.rule for f in found}
    for finding in found:
        assert (
            finding.sentence[0].islower() or finding.sentence[0] in "'0123456789" or " " in finding.sentence
        )
        assert finding.sentence.endswith(".") and finding.source
        if finding.edits:
            after = check(edited(broken, finding.edits))
            assert finding not in after
            assert len(after) < len(found)


def test_there_is_a_job_for_every_rule() -> None:
    assert {rule.id for rule in RULES} <= {rule for rule, _ in CASES}
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert all(rule.source.startswith("https://") for rule in RULES if rule.severity is ProblemSeverity.ERROR)


def only(found: Any) -> Problem:
    (problem,) = found
    assert isinstance(problem, Problem)
    return problem


def test_what_is_wrong_in_the_compiled_file_is_told_with_its_line_there(tmp_path: Path) -> None:
    broken = spec(deploymentSpec={"executors": {"exec-a": {"container": {**CONTAINER, "image": "a::1"}}}})
    text = yaml.safe_dump(broken)
    problem = only(profile(tmp_path, text).check().errors)
    line = next(at for at, each in enumerate(text.splitlines(), 1) if "image:" in each)
    assert (problem.file, problem.line) == (str(tmp_path / "dag.yaml"), line)
    assert problem.field == "deploymentSpec.executors.exec-a.container.image"
    assert problem.path == ("pipelineJob", "templatePath"), "the form shows it at the field of the profile"


def test_what_is_wrong_in_the_profile_is_told_with_its_line(tmp_path: Path) -> None:
    head = "labels: {team: nlp}\n"
    problem = only(profile(tmp_path, spec(), "{name: x, steps: y}", head=head).check().errors)
    assert (problem.file, problem.line) == (str(tmp_path / "p.yaml"), 7)
    assert problem.field == "pipelineJob.runtimeConfig.parameterValues.steps"


def test_a_failure_policy_and_blocks_of_custom_jobs_are_refused(tmp_path: Path) -> None:
    made = profile(tmp_path, spec())
    text = (
        (tmp_path / "p.yaml").read_text().replace("gs://bucket/root", "gs://b-1/x\n    failurePolicy: FAST")
    )
    (policy,) = inspect(text, made.document.file, "p")
    assert (policy.id, policy.line) == ("profile.enum", 6) and "FAIL_FAST" in policy.message
    head = "package: {path: ., script: a.py}\nprogress: {pattern: 'step (?P<step>\\d+)'}\n"
    found = profile(tmp_path, spec(), head=head).check().errors
    assert [(p.id, p.field) for p in found] == [
        ("profile.progress", "progress"),
        ("profile.package", "package"),
    ]
    assert all("belongs to a custom job" in p.message for p in found)


@settings(max_examples=30)
@given(ANYTHING)
def test_no_spec_makes_the_reader_fail(value: Any) -> None:
    """Every part of a spec replaced by anything: problems are told, nothing is raised."""
    for place in (
        ("root",), ("root", "dag"), ("root", "dag", "tasks"), ("root", "dag", "tasks", "a"), ("components",),
        ("components", "comp-a"), ("deploymentSpec",), ("deploymentSpec", "executors", "exec-a"),
        ("root", "inputDefinitions"), ("root", "inputDefinitions", "parameters", "name"),
        ("root", "dag", "tasks", "a", "inputs"), ("root", "dag", "tasks", "a", "retryPolicy"),
    ):  # fmt: skip
        made = copy.deepcopy(
            spec({"a": {"componentRef": {"name": "comp-a"}, "inputs": {}, "retryPolicy": {}}})
        )
        inner: Any = made
        for part in place[:-1]:
            inner = inner[part]
        inner[place[-1]] = value
        reader = PipelineReader(made)
        reader.pipeline()
        check(job(made))
        if reader.problems:
            with pytest.raises(BadPipeline, match=r"\w"):
                read_pipeline(made)


@given(st.dictionaries(st.sampled_from(sorted(spec()["root"]["inputDefinitions"]["parameters"])), ANYTHING))
def test_every_value_is_right_or_told_to_be_wrong(values: dict[str, Any]) -> None:
    found = {f.path[-1] for f in check(job(values=values)) if f.rule == "pipeline.parameter-type"}
    kinds = {
        "name": str,
        "steps": int | float,
        "rate": int | float,
        "fast": bool,
        "sizes": list,
        "more": dict,
    }
    for name, value in values.items():
        right = isinstance(value, kinds[name]) and (name == "fast" or not isinstance(value, bool))
        if not right:
            assert name in found, (name, value)
