"""Jobs as commands of gcloud: gcloud itself was seen to send the job, and our own reader reads it back."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.cloud.aiplatform_v1.types import CustomJob
from google.protobuf import json_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tui.config.paths import shipped
from tui.domain.interchange import Exported, export, export_job, from_text
from tui.domain.interchange.config_files import ConfigFile
from tui.domain.interchange.gcloud_command import NotExpressible, of
from tui.domain.profile import Request, load

# Each has a job, the command that we made of it, and the body that gcloud 578.0.0 sent when bash ran the
# command. The jobs are those of the ready-made profiles and some that hypothesis made.
RECORDED = json.loads(Path(__file__).with_name("gcloud_bodies.json").read_text())


def as_message(job: dict[str, Any]) -> Any:
    return json_format.ParseDict(job, CustomJob.pb(CustomJob()))


def exported(job: dict[str, Any], **more: Any) -> Exported:
    profile = load(json.dumps(job), "f", "x")
    request = profile.check().request
    return export(profile, request, "gcloud", project="my-project", region="us-central1", **more)


def read_back(command: str) -> dict[str, Any]:
    def config(name: str) -> Any:
        raise OSError(name)

    profile = load(from_text(command, "f", config).text, "f", "x")
    assert profile.region == "us-central1"
    return profile.check().request.custom_job


@pytest.mark.parametrize("pair", RECORDED, ids=[pair["name"] for pair in RECORDED])
def test_gcloud_sends_the_job_of_the_command(pair: dict[str, Any]) -> None:
    assert of(pair["job"], project="my-project", region="us-central1").with_config_inside() == pair["command"]
    assert as_message(pair["body"]) == as_message(pair["job"])


READY = [path for path in sorted(shipped("profiles").rglob("*.yaml")) if path.parent.name != "pipelines"]


@pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)
def test_every_ready_made_profile_has_a_command(path: Path) -> None:
    profile = load(path.read_text(), str(path), path.stem)
    values = {each.name: "abc" for each in profile.parameters if each.default is None}
    request = profile.check(values).request
    if request.body == "tuningJob":
        return
    if request.body == "manifest":
        done = export(profile, request, "gcloud", project="", region="us-central1", reveal=True)
        assert "kubectl" in done.problem and not done.text
        return
    done = export(profile, request, "gcloud", project="", region="us-central1", reveal=True)
    if request.body == "pipelineJob":
        assert done.problem.startswith("gcloud has no command") and not done.text
        return
    assert not done.problem
    if request.package is None:
        assert as_message(read_back(done.text)) == as_message(request.custom_job)


def test_a_tuning_job_has_a_command_of_its_own() -> None:
    path = shipped("profiles") / "local-tuning.yaml"
    request = load(path.read_text(), str(path), path.stem).check({"trials": "5"}).request
    done = export(
        load(path.read_text(), str(path), path.stem), request, "gcloud", project="p", region="us-east1"
    )
    assert done.text.startswith("gcloud ai hp-tuning-jobs create \\\n  --project=p")
    again = from_text(done.text, "again.sh", lambda name: ConfigFile("", name))
    sent = load(again.text, "again", "again").check().request.resource
    assert sent == request.resource and sent["maxTrialCount"] == 5


ODD = [
    "a,b", "^;^x", ";", "^", "1:30", "~", "null", "2001-01-01", ".inf", "0o17", "=", "yes", "'", "\\",
    "a'b", "$HOME", "${x}", "$${x}", "`x`", "\\\\", "!x", "#x", " x ", "a\nb", "a\tb", "%x", "@x", "-", "--x",
    "", ":", "\x85", "😀\x07",
]  # fmt: skip
# Our reader of scripts takes no character of a private plane.
TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=("Co", "Cs")), max_size=5
)
TEXT |= st.sampled_from(ODD)
SOME = TEXT.filter(bool)
LIST = st.lists(TEXT, max_size=3)
MACHINE = st.sampled_from(
    [
        {"machineType": "n1-standard-4"},
        {"machineType": "a2-highgpu-8g", "acceleratorType": "NVIDIA_TESLA_A100", "acceleratorCount": 8},
    ]
)


def pool(lists: tuple[list[str], ...], *, rich: bool) -> st.SearchStrategy[dict[str, Any]]:
    """A pool with a task; a `rich` one has fields for which gcloud has no flags."""
    args, command, uris = lists
    env = {"env": st.lists(st.fixed_dictionaries({"name": SOME, "value": TEXT}), max_size=2)} if rich else {}
    container = st.fixed_dictionaries({"imageUri": SOME}, optional=env).map(
        lambda task: {"containerSpec": {**task, "args": args, "command": command}}
    )
    package = st.fixed_dictionaries({"executorImageUri": SOME, "pythonModule": SOME}, optional=env).map(
        lambda task: {"pythonPackageSpec": {**task, "args": args, "packageUris": uris}}
    )
    disk = {"diskSpec": st.just({"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100})} if rich else {}
    hardware = st.fixed_dictionaries(
        {"machineSpec": MACHINE, "replicaCount": st.integers(1, 4)}, optional=disk
    )
    return st.tuples(hardware, container | package).map(lambda two: {**two[0], **two[1]})


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    lists, rich = draw(st.tuples(LIST, LIST, LIST)), draw(st.booleans())
    one = pool(lists, rich=rich)
    pools = [draw(one), *draw(st.lists(one if rich else one | st.just({}), max_size=3))]
    key = "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"
    more = {"serviceAccount": SOME, "network": SOME, "enableWebAccess": st.just(True)}
    job = {
        "displayName": draw(SOME),
        "labels": draw(st.dictionaries(st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True), st.just("1"))),
        "jobSpec": {"workerPoolSpecs": pools, **draw(st.fixed_dictionaries({}, optional=more))},
        **({"encryptionSpec": {"kmsKeyName": key}} if draw(st.booleans()) else {}),
    }
    found: dict[str, Any] = json_format.MessageToDict(as_message(job))
    return found


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(job=jobs())
def test_a_command_reads_back_as_its_job(job: dict[str, Any]) -> None:
    done = exported(job, reveal=True)
    if done.problem:
        assert {} in job["jobSpec"]["workerPoolSpecs"] and "two identical" in done.problem
        return
    assert as_message(read_back(done.text)) == as_message(job)


def test_bash_hands_gcloud_every_word_as_it_is(tmp_path: Path) -> None:
    recorder = tmp_path / "gcloud"
    recorder.write_text('#!/bin/sh\nprintf "%s\\0" "$@"\ncat\n')
    recorder.chmod(0o700)
    spec = {"workerPoolSpecs": [{"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1}]}
    spec["workerPoolSpecs"][0]["containerSpec"] = {"imageUri": "i", "args": ODD}
    name = "YAML ' $(touch x) !!\n` \\ \x1b[2J 1\x851 \u2066 \u3042 \t \r \x7f"
    text = exported({"displayName": name, "jobSpec": spec}).text
    assert text.replace("\n", "").isprintable()
    done = subprocess.run(
        ["bash", "-c", text],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    *words, config = done.stdout.split(b"\0")
    assert words[-2:] == [f"--display-name={name}".encode(), b"--config=-"]
    assert yaml.safe_load(config) == spec and not (tmp_path / "x").exists()


CONTAINER = {"imageUri": "gcr.io/p/t:1"}
N1 = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1, "containerSpec": CONTAINER}


@pytest.mark.parametrize(
    ("pools", "said"),
    [
        ([{}, N1], "first pool is empty"),
        (
            [{**N1, "containerSpec": {**CONTAINER, "env": [{"name": "A", "value": "b"}]}}, {}],
            "pool 0, which has env",
        ),
        ([N1, {}, {**N1, "diskSpec": {"bootDiskSizeGb": 200}}], "pool 2, which has diskSpec"),
        ([N1, {"machineSpec": N1["machineSpec"], "replicaCount": 1}], "pool 1, which has no image"),
        ([N1, {}, {**N1, "containerSpec": {**CONTAINER, "args": ["x"]}}], "its own args"),
        ([{**N1, "containerSpec": {**CONTAINER, "args": ["1", "1"]}}, {}], "two identical"),
        ([{**N1, "replicaCount": 0}, {}], "no replica count"),
        (
            [{**N1, "machineSpec": {"machineType": "x", "acceleratorCount": 1}}, {}],
            "accelerators without type",
        ),
    ],
)
def test_what_no_command_can_say_is_refused(pools: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(NotExpressible, match=said):
        of({"displayName": "x", "jobSpec": {"workerPoolSpecs": pools}}, project="", region="us-central1")


def test_secrets_have_placeholders_unless_they_are_asked_for() -> None:
    spec = {
        "workerPoolSpecs": [
            {**N1, "containerSpec": {**CONTAINER, "env": [{"name": "HF_TOKEN", "value": "hush"}]}}
        ]
    }
    done = exported({"displayName": "x", "jobSpec": spec})
    assert "hush" not in done.text and "REPLACE_WITH_HF_TOKEN" in done.text
    assert any("--reveal" in note for note in done.notes)
    assert "hush" in exported({"displayName": "x", "jobSpec": spec}, reveal=True).text


def test_a_job_has_the_command_that_creates_it_again() -> None:
    resource = {
        "name": "projects/123/locations/us-central1/customJobs/7",
        "displayName": "x",
        "labels": {"team": "nlp", "vxtui-launch": "abc"},
        "state": "JOB_STATE_FAILED",
        "jobSpec": {"workerPoolSpecs": [N1]},
    }
    done = export_job(resource, "gcloud", project="my-project")
    assert "--project=my-project \\\n  --region=us-central1" in done.text and "vxtui-launch" not in done.text
    sent = {"displayName": "x", "labels": {"team": "nlp"}, "jobSpec": {"workerPoolSpecs": [N1]}}
    assert as_message(read_back(done.text)) == as_message(sent)
    other = export_job(resource, "gcloud", project="", region="us-east1")
    assert "--project" not in other.text and "--region=us-east1" in other.text


def test_a_training_pipeline_has_the_command_of_its_custom_job() -> None:
    spec = {"workerPoolSpecs": [N1]}
    profile = load(
        json.dumps({"displayName": "x", "trainingPipeline": {"trainingTaskInputs": spec}}), "f", "x"
    )
    request: Request = profile.check().request
    done = export(profile, request, "gcloud", project="p", region="us-central1")
    assert any("only the custom job" in note for note in done.notes)
    assert read_back(done.text)["jobSpec"] == spec
