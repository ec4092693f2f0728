"""Pipelines in the forms that others write and read: compiled files, REST, Python."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from google.cloud.aiplatform_v1.types import PipelineJob
from google.protobuf import json_format

from tests.unit.pipeline_body_support import profile, spec
from tui.domain.interchange import from_resource, from_text
from tui.domain.interchange.exports import export, export_job
from tui.domain.pipeline.rerun import rerun_resource
from tui.domain.pipeline.template import read_template
from tui.domain.profile import Profile, ProfileInvalid, load
from tui.domain.spec.custom_job_spec import whole_numbers

NAME = "projects/p/locations/us-east4/pipelineJobs/dag-7"
REPORTED = {
    "name": NAME,
    "displayName": "dag",
    "labels": {"team": "nlp", "vxtui-launch": "abc", "vertex-ai-pipelines-run-billing-id": "1"},
    "pipelineSpec": spec(),
    "templateUri": "https://us-kfp.pkg.dev/p/r/dag/v1",
    "templateMetadata": {"version": "sha256:1"},
    "runtimeConfig": {
        "gcsOutputDirectory": "gs://bucket/root",
        "parameterValues": {"name": "x", "rate": 2.0},
    },
    "serviceAccount": "a@p.iam.gserviceaccount.com",
    "jobDetail": {"taskDetails": []},
    "state": "PIPELINE_STATE_SUCCEEDED",
    "createTime": "2026-11-21T09:00:00Z",
    "scheduleName": "projects/p/locations/us-east4/schedules/1",
}


def again(text: str) -> Profile:
    return load(text, "again.yaml", "again")


@pytest.mark.parametrize("root", ["gs://theirs/x", ""])
@pytest.mark.parametrize("dump", [yaml.safe_dump, json.dumps], ids=["yaml", "json"])
def test_a_compiled_pipeline_becomes_a_profile_that_sends_it_unchanged(dump: Any, root: str) -> None:
    compiled = spec(**({"defaultPipelineRoot": root} if root else {}))
    compiled["deploymentSpec"]["executors"]["exec-a"]["container"] = {
        "image": "us-docker.pkg.dev/p/r/i:t",
        "command": ["sh", "-c", 'gcloud ai custom-jobs create "${HOME}" $${x} 1e3 yes'],
    }
    text = dump(compiled) + ("---\nplatforms: {kubernetes: {}}\n" if dump is yaml.safe_dump else "")
    found = from_text(text, "dag.yaml", lambda _: {})
    assert found.name == "p" and len(found.notes) == (1 if root else 2)
    assert found.notes[-1].endswith("without a default: --set name=VALUE")
    given = {"name": "x"} if root else {"name": "x", "root": "gs://mine/x"}
    checked = again(found.text).check(given)
    assert not checked.errors
    assert checked.request.resource["pipelineSpec"] == compiled
    assert checked.request.resource["runtimeConfig"] == {
        "gcsOutputDirectory": root or "gs://mine/x",
        "parameterValues": {"name": "x"},
    }


def test_a_compiled_pipeline_is_told_not_to_be_a_profile() -> None:
    with pytest.raises(ProfileInvalid, match="must be a profile, not a compiled pipeline") as caught:
        load(yaml.safe_dump(spec()), "dag.yaml", "dag")
    assert len(caught.value.problems) == 1 and "profiles import" in caught.value.problems[0].fix


def test_a_compiled_pipeline_that_is_broken_is_not_imported() -> None:
    broken = spec()
    broken["root"]["dag"]["tasks"]["a"]["componentRef"]["name"] = "comp-nope"
    for text, at in (
        (yaml.safe_dump(broken), "root"),
        (json.dumps({**REPORTED, "pipelineSpec": broken}), "pipelineSpec.root"),
    ):
        with pytest.raises(ProfileInvalid) as caught:
            from_text(text, "dag.yaml", lambda _: {})
        [problem] = caught.value.problems
        assert problem.line and problem.field == f"{at}.dag.tasks.a.componentRef"
        assert "names 'comp-nope', which is not a component" in problem.message


@pytest.mark.parametrize(("api", "what"), [("argoproj.io/v1alpha1", "Argo"), ("tekton.dev/v1", "Tekton")])
def test_a_pipeline_of_another_service_says_to_compile_it_with_kfp_2(api: str, what: str) -> None:
    container = {"image": "python", "command": ["sh", "-c", "gcloud ai custom-jobs list"]}
    workflow = {"apiVersion": api, "kind": "Workflow", "spec": {"templates": [{"container": container}]}}
    text = yaml.safe_dump(workflow)
    with pytest.raises(ProfileInvalid) as caught:
        from_text(text, "old.yaml", lambda _: {})
    [problem] = caught.value.problems
    assert what in problem.message and "kfp 2" in problem.fix
    template = read_template(text.encode(), "old.yaml")
    assert [each.message for each in template.problems] == [problem.message]


def test_a_reported_pipeline_becomes_a_profile() -> None:
    for found in (from_resource(REPORTED), from_text(json.dumps(REPORTED), "f", lambda _: {})):
        assert found.name == "dag"
        assert found.notes == ("templateUri was left out: the profile contains the specification that ran",)
        made = again(found.text)
        assert (made.format.body, made.region, dict(made.labels)["team"]) == (
            "pipelineJob",
            "us-east4",
            "nlp",
        )
        request = made.check().request
        assert request.resource["pipelineSpec"] == spec()
        assert request.resource["runtimeConfig"]["parameterValues"] == {"name": "x", "rate": 2}
        assert "vxtui-launch" not in request.resource["labels"]
        assert set(rerun_resource(REPORTED)) >= set(request.resource)


def test_a_rest_body_becomes_a_profile() -> None:
    body = {k: REPORTED[k] for k in ("displayName", "templateUri", "runtimeConfig")}
    made = again(from_text(json.dumps(body), "f", lambda _: {}).text)
    assert made.check().request.resource == body


def test_what_a_profile_has_no_place_for_is_said() -> None:
    odd = {**REPORTED, "news": 1, "runtimeConfig": {**REPORTED["runtimeConfig"], "parameters": {}}}  # type: ignore[dict-item]
    notes = from_resource(odd).notes
    assert "news was left out: a profile has no field for it" in notes
    assert "runtimeConfig.parameters was left out: a profile has no field for it" in notes


def test_exports_send_what_a_launch_sends(tmp_path: Path) -> None:
    more = "  reservedIpRanges: [r]\n  network: projects/1/global/networks/n\n  preflightValidations: true\n"
    values = "{name: x, sizes: [1, {a: b}], more: {deep: [true, null]}}"
    made = profile(tmp_path, spec(), values, more)
    request = made.check().request
    rest = export(made, request, "rest", project="p", region="us-east4")
    assert "/locations/us-east4/pipelineJobs" in rest.text and not rest.notes
    body = rest.text.split("<<'JSON'\n")[1].split("\nJSON\n")[0]
    assert again(from_text(body, "f", lambda _: {}).text).check().request.resource == request.resource

    code = export(made, request, "python", project="p", region="us-east4").text
    space: dict[str, Any] = {"__name__": "exported"}
    exec(compile(code, "exported.py", "exec"), space)
    sent: dict[str, Any] = {}
    space["create"](SimpleNamespace(create_pipeline_job=lambda **call: sent.update(call)))
    assert sent["parent"] == "projects/p/locations/us-east4"
    message = PipelineJob.pb(sent["pipeline_job"])
    assert whole_numbers(json_format.MessageToDict(message)) == whole_numbers(request.resource)

    gcloud = export(made, request, "gcloud", project="p", region="us-east4")
    assert "gcloud has no command" in gcloud.problem and not gcloud.text and not gcloud.notes


def test_a_job_of_the_service_is_exported_as_the_request_that_made_it() -> None:
    done = export_job(REPORTED, "rest", project="p")
    assert "/projects/p/locations/us-east4/pipelineJobs" in done.text
    assert '"gcsOutputDirectory": "gs://bucket/root"' in done.text and "jobDetail" not in done.text
