"""A header has exactly one body, and each body its format."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import TrainingPipeline
from google.protobuf import json_format

from tui.domain.document.document_edit import Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.form import FormState, build_rows
from tui.domain.form.analysis import analyse
from tui.domain.interchange import from_resource, from_text
from tui.domain.interchange.exports import FORMS, export
from tui.domain.profile import Problem, ProfileInvalid, inspect, load
from tui.domain.profile.autofix import apply_fixes
from tui.domain.profile.edit import apply as apply_edits
from tui.domain.profile.vertex_formats import CUSTOM_TASK
from tui.domain.spec.custom_job_spec import whole_numbers
from tui.domain.spec.spec_format import bodies, format_of, register
from tui.kinds import registry
from tui.kinds.kind import Kind, Words
from tui.kinds.registry import kind_of_body, kinds

POOL = "machineSpec: {machineType: n1-standard-4}, replicaCount: 1, containerSpec: {imageUri: a}"
SPEC = f"workerPoolSpecs: [{{{POOL}}}]"
CUSTOM = f"displayName: x\njobSpec:\n  {SPEC}\n"
PIPELINE = f"displayName: x\nlabels: {{team: nlp}}\ntrainingPipeline:\n  trainingTaskInputs:\n    {SPEC}\n"


def refused(text: str) -> Problem:
    with pytest.raises(ProfileInvalid) as caught:
        load(text, "f.yaml", "f")
    (problem,) = caught.value.problems
    return problem


def test_every_body_is_that_of_a_kind() -> None:
    assert bodies() == tuple(dict.fromkeys(kind.body for kind in kinds() if kind.body))
    for kind in kinds():
        if kind.body and not kind.objects:
            assert kind_of_body(kind.body) is kind
    with pytest.raises(KeyError):
        kind_of_body("toySpec")
    with pytest.raises(ValueError, match="jobSpec"):
        register("jobSpec", lambda: format_of("jobSpec"))


def test_kinds_share_a_body_by_the_objects_in_it() -> None:
    """One format for them all; the object that is sent says which kind it is."""
    both = {"tabs": (), "body": "shared", "spec_format": "tui.domain.profile.vertex_formats:CUSTOM_JOB_SPEC"}
    red = Kind(key="red", words=Words("red"), objects=("Red.example.com",), **both)
    plain = Kind(key="plain", words=Words("plain"), objects=("Plain",), **both)
    registry.register(red)
    try:
        for again in (red.objects, ()):
            with pytest.raises(ValueError, match="the body shared"):
                registry.register(Kind(key="other", words=Words("other"), objects=again, **both))
        registry.register(plain)
        assert registry.kind_of_body("shared", {"apiVersion": "example.com/v1", "kind": "Red"}) is red
        assert registry.kind_of_body("shared", {"apiVersion": "v1", "kind": "Plain"}) is plain
        with pytest.raises(KeyError, match=r"Blue.example.com"):
            registry.kind_of_body("shared", {"apiVersion": "example.com/v1", "kind": "Blue"})
        registry.unregister("plain")
        assert format_of("shared").body == "jobSpec"
    finally:
        registry.unregister("red")
    assert "shared" not in bodies()


def test_two_bodies_are_refused_at_the_second() -> None:
    found = refused(CUSTOM + "trainingPipeline:\n  trainingTaskInputs: {}\n")
    assert (found.id, found.file, found.line) == ("profile.body", "f.yaml", 4)
    assert found.message == "a profile must have one body, not jobSpec and trainingPipeline."
    assert found.fix == "Keep one."


def test_no_body_is_refused_and_all_are_named() -> None:
    found = refused("displayName: x\n")
    assert (found.id, found.file, found.line) == ("profile.missing", "f.yaml", 1)
    assert str(found).endswith(
        "f.yaml:1:1: the file must have a body: jobSpec or trainingPipeline or tuningJob or pipelineJob or "
        "manifest. Add jobSpec. The body has the workerPoolSpecs of the job."
    )


def test_a_body_that_holds_nothing_is_refused() -> None:
    found = refused("displayName: x\ntrainingPipeline: 7\n")
    assert (found.line, found.column) == (2, 1)
    assert found.field == "trainingPipeline"


def test_a_pipeline_wraps_the_same_custom_job() -> None:
    custom, pipeline = (load(text, "f", "f").check() for text in (CUSTOM, PIPELINE))
    assert not custom.errors
    assert not pipeline.errors
    assert pipeline.request.custom_job["jobSpec"] == custom.request.custom_job["jobSpec"]
    assert custom.request.resource == custom.request.custom_job
    assert pipeline.request.resource == {
        "displayName": "x",
        "labels": {"team": "nlp"},
        "trainingTaskDefinition": CUSTOM_TASK,
        "trainingTaskInputs": custom.request.custom_job["jobSpec"],
    }


def test_a_rule_points_into_the_body() -> None:
    text = PIPELINE.replace("replicaCount: 1", "replicaCount: 2")
    (problem,) = load(text, "f", "f").check().errors
    assert problem.path[:3] == ("trainingPipeline", "trainingTaskInputs", "workerPoolSpecs")
    assert problem.line == 5


def test_a_wrong_name_in_a_pipeline_is_found_at_its_place() -> None:
    found = refused(PIPELINE + "    netwrok: x\n")
    assert (found.id, found.line, found.column) == ("profile.unknown-field", 6, 5)
    assert "network" in found.fix


@pytest.mark.parametrize("name", ["workerPoolSpecs", "worker_pool_specs"])
def test_a_spec_directly_in_a_pipeline_belongs_to_its_inputs(name: str) -> None:
    text = f"displayName: x\ntrainingPipeline:\n  {name}: [{{{POOL}}}]\n"
    (found,) = inspect(text, "f", "f")
    assert (found.id, found.line) == ("misnomer.misplaced", 3)
    assert "belongs to trainingPipeline.trainingTaskInputs.workerPoolSpecs" in found.message
    mended = load(apply_edits(text, "f", found.edits), "f", "f").check()
    assert not mended.errors
    assert (
        mended.request
        == load(text.replace(f"{name}:", "trainingTaskInputs:\n    workerPoolSpecs:"), "f", "f")
        .check()
        .request
    )


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("    spot: true", ("trainingTaskInputs", "scheduling", "strategy")),
        ("    timeout: 60s", ("trainingTaskInputs", "scheduling", "timeout")),
        ("  timeout: 60s", ("trainingTaskInputs", "scheduling", "timeout")),
    ],
)
def test_a_fix_of_a_pipeline_stays_in_it(line: str, place: tuple[str, ...]) -> None:
    fixed = apply_fixes(f"{PIPELINE}{line}\n", "f", "f")
    assert [p for p in fixed.remaining if p.severity is ProblemSeverity.ERROR] == []
    value: Any = load(fixed.text, "f", "f").body
    for part in place:
        value = value[part]
    assert value in {"SPOT", "60s"}


@pytest.mark.parametrize("text", [CUSTOM, PIPELINE], ids=["custom job", "pipeline"])
def test_a_field_of_the_job_in_the_header_goes_into_the_body(text: str) -> None:
    fixed = apply_fixes(f"{text}timeout: 60s\nspot: true\n", "f", "f")
    assert [p for p in fixed.remaining if p.severity is ProblemSeverity.ERROR] == []
    assert load(fixed.text, "f", "f").job_spec["scheduling"] == {"timeout": "60s", "strategy": "SPOT"}


def test_what_is_given_in_the_inputs_already_is_not_moved() -> None:
    (found,) = inspect(PIPELINE + f"  {SPEC}\n", "f", "f")
    assert "already set there" in found.fix
    assert apply_edits(PIPELINE + f"  {SPEC}\n", "f", found.edits) == PIPELINE


def test_a_file_that_is_a_custom_job_spec_has_no_header() -> None:
    profile = load(SPEC + "\n", "f", "f")
    assert (profile.wrapped, profile.spec_path, profile.format.body) == (False, (), "jobSpec")
    assert profile.check().request.body == "jobSpec"


def test_an_export_says_where_the_pipeline_is_left_out() -> None:
    profile = load(PIPELINE, "f.yaml", "f")
    request = profile.check().request
    found = {
        form: export(profile, request, form, project="p", region="us-east4", file="f.yaml") for form in FORMS
    }
    assert "/locations/us-east4/trainingPipelines" in found["rest"].text
    assert '"trainingTaskInputs"' in found["rest"].text
    assert found["rest"].notes == found["python"].notes == ()
    assert "trainingPipeline" in found["gcloud"].notes[0]
    assert "custom-jobs create" in found["gcloud"].command


def test_the_python_program_sends_the_same_pipeline() -> None:
    profile = load(PIPELINE + "    scheduling: {disableRetries: true}\n", "f.yaml", "f")
    request = profile.check().request
    code = export(profile, request, "python", project="p", region="us-east4", file="f.yaml").text
    space: dict[str, Any] = {"__name__": "exported"}
    exec(compile(code, "exported.py", "exec"), space)
    sent: dict[str, Any] = {}
    client = SimpleNamespace(create_training_pipeline=lambda **call: sent.update(call))
    space["create"](client)
    assert sent["parent"] == "projects/p/locations/us-east4"
    pipeline = TrainingPipeline.pb(sent["training_pipeline"])
    assert whole_numbers(json_format.MessageToDict(pipeline)) == request.resource


REPORTED = {
    "name": "projects/p/locations/us-east4/trainingPipelines/7",
    "displayName": "bert",
    "labels": {"team": "nlp", "vxtui-launch": "abc"},
    "trainingTaskDefinition": CUSTOM_TASK,
    "trainingTaskInputs": {
        "worker_pool_specs": [
            {
                "machine_spec": {"machine_type": "n1-standard-4"},
                "replica_count": 1.0,
                "container_spec": {"image_uri": "a", "args": [5.0, 0.5]},
            }
        ]
    },
    "trainingTaskMetadata": {"backingCustomJob": "projects/p/locations/us-east4/customJobs/8"},
    "modelId": "best",
    "state": "PIPELINE_STATE_SUCCEEDED",
    "createTime": "2026-11-21T09:00:00Z",
}
"""As the service answers for a pipeline that Google's SDK made."""


def test_a_reported_pipeline_becomes_a_profile() -> None:
    for found in (from_resource(REPORTED), from_text(json.dumps(REPORTED), "f", lambda _: {})):
        assert found.name == "bert"
        assert found.notes == ("modelId was left out: a profile has no field for it",)
        profile = load(found.text, "f", "f")
        assert (profile.format.body, profile.region, profile.labels) == (
            "trainingPipeline",
            "us-east4",
            {"team": "nlp"},
        )
        (pool,) = profile.check().request.custom_job["jobSpec"]["workerPoolSpecs"]
        assert pool["replicaCount"] == 1
        assert pool["containerSpec"]["args"] == ["5", "0.5"]


def test_an_exported_pipeline_is_imported_again() -> None:
    profile = load(PIPELINE, "f.yaml", "f")
    request = profile.check().request
    text = export(profile, request, "rest", project="p", region="us-east4", file="f.yaml").text
    body = text.split("<<'JSON'\n")[1].split("\nJSON\n")[0]
    again = load(from_text(body, "f", lambda _: {}).text, "f", "f").check().request
    assert (again.body, again.resource) == (request.body, request.resource)


def test_a_pipeline_without_code_of_ones_own_is_no_profile() -> None:
    automl = {**REPORTED, "trainingTaskDefinition": "gs://x/automl_tabular_1.0.0.yaml"}
    with pytest.raises(ProfileInvalid, match="automl_tabular"):
        from_resource(automl)
    with pytest.raises(ProfileInvalid, match="of this kind"):
        from_resource({"name": "projects/p/locations/l/toys/1", "displayName": "x"})


def test_the_form_shows_and_edits_the_spec_in_the_pipeline() -> None:
    found = analyse(PIPELINE, "f.yaml", "f")
    assert found.spec_path == ("trainingPipeline", "trainingTaskInputs")
    rows = build_rows(FormState(found.value, found.value, found.spec_path, expanded=True))
    keys = {row.key for row in rows}
    count = "trainingPipeline.trainingTaskInputs.workerPoolSpecs[0].replicaCount"
    assert count in keys
    assert "jobSpec" not in keys
    assert "trainingPipeline" not in keys
    (row,) = [row for row in rows if row.key == count]
    edited = apply_edits(PIPELINE, "f.yaml", [Edit(row.path, 0)])
    assert load(edited, "f", "f").check().errors[0].path == row.path
