"""Custom jobs in others' forms: what goes in comes out as the same request."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from google.cloud.aiplatform_v1.types import CustomJob
from google.protobuf import json_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tui.domain.document.source import ProblemSeverity, decode
from tui.domain.interchange import ConfigFile, Imported, export, from_resource, from_text
from tui.domain.kubernetes.export import kubectl_yaml
from tui.domain.profile import Profile, ProfileInvalid, load
from tui.domain.profile.edit import render_new

SPEC: dict[str, Any] = {
    "workerPoolSpecs": [
        {
            "machineSpec": {
                "machineType": "a2-highgpu-8g",
                "acceleratorType": "NVIDIA_TESLA_A100",
                "acceleratorCount": 8,
            },
            "replicaCount": 1,
            "containerSpec": {"imageUri": "us-docker.pkg.dev/p/r/t:1", "args": ["--lr=1e-3", "a,b", "$${X}"]},
        },
        {},
    ],
    "scheduling": {"timeout": "172800s", "strategy": "SPOT"},
    "serviceAccount": "t@p.iam.gserviceaccount.com",
}
FOR_GCLOUD = {**SPEC, "workerPoolSpecs": SPEC["workerPoolSpecs"][:1]}
"""gcloud refuses a file with an empty pool."""
JOB = {
    "displayName": "my job",
    "labels": {"team": "nlp"},
    "jobSpec": SPEC,
    "encryptionSpec": {"kmsKeyName": "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"},
}


def config_file(spec: Mapping[str, Any]) -> ConfigFile:
    return ConfigFile(yaml.safe_dump(dict(spec)), "c.yaml")


def no_file(name: str) -> ConfigFile:
    raise OSError(f"{name}: no such file")


def taken(text: str, **files: Any) -> Imported:
    return from_text(text, "given", lambda name: config_file(files[name.partition(".")[0]]))


def profile_of(found: Imported) -> Profile:
    return load(found.text, "f", found.name)


def request_of(found: Imported, **values: str) -> dict[str, Any]:
    return profile_of(found).check(values).request.custom_job


# Command lines

COMMAND = r"""
# Train it.
export REGION=europe-west4
gcloud beta ai custom-jobs create --region $REGION --project=my-project \
  --display-name="my job" --labels=team=nlp,stage=test \
  --worker-pool-spec=machine-type=a2-highgpu-8g,replica-count=1,\
accelerator-type=NVIDIA_TESLA_A100,accelerator-count=8,container-image-uri=gcr.io/p/t \
  --worker-pool-spec='^;^machine-type=n1-standard-4;replica-count=2;container-image-uri=gcr.io/p/t' \
  --worker-pool-spec= \
  --worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/eval \
  --args=--epochs=5,--name='it'\''s ${HOME}' --args '^:^--list=a,b:c' --command=python,-m,task \
  --service-account=t@p.iam --network=projects/1/global/networks/n --enable-web-access \
  --persistent-resource-id=pr1 --kms-key=k --kms-keyring=r --kms-project=p -q
"""


def test_a_command_line_is_what_gcloud_would_send() -> None:
    found = taken(COMMAND)
    task = {
        "args": ["--epochs=5", "--name=it's ${HOME}", "--list=a,b", "c"],
        "command": ["python", "-m", "task"],
    }
    a100 = {"machineType": "a2-highgpu-8g", "acceleratorType": "NVIDIA_TESLA_A100", "acceleratorCount": 8}
    n1 = {"machineType": "n1-standard-4"}
    assert request_of(found) == {
        "displayName": "my job",
        "labels": {"team": "nlp", "stage": "test"},
        "encryptionSpec": {"kmsKeyName": "projects/p/locations/europe-west4/keyRings/r/cryptoKeys/k"},
        "jobSpec": {
            "persistentResourceId": "pr1",
            "workerPoolSpecs": [
                {"machineSpec": a100, "replicaCount": 1, "containerSpec": {"imageUri": "gcr.io/p/t", **task}},
                {"machineSpec": n1, "replicaCount": 2, "containerSpec": {"imageUri": "gcr.io/p/t", **task}},
                {},
                {
                    "machineSpec": n1,
                    "replicaCount": 1,
                    "containerSpec": {"imageUri": "gcr.io/p/eval", **task},
                },
            ],
            "serviceAccount": "t@p.iam",
            "network": "projects/1/global/networks/n",
            "enableWebAccess": True,
        },
    }
    assert profile_of(found).region == "europe-west4" and found.name == "my-job"
    assert found.notes == ("--project=my-project was left out: the context determines it.",)


def test_variables_without_a_value_become_parameters() -> None:
    text = (
        "gcloud ai custom-jobs create --display-name=x --region=${REGION} --args='${KEEP}'"
        " --worker-pool-spec=machine-type=n1-standard-4,replica-count=$N,container-image-uri=$IMAGE"
    )
    found = taken(text)
    assert [p.name for p in profile_of(found).parameters] == ["REGION", "N", "IMAGE"]
    (pool,) = request_of(found, REGION="us-east1", N="1", IMAGE="a/b")["jobSpec"]["workerPoolSpecs"]
    assert pool["replicaCount"] == 1 and pool["containerSpec"] == {"imageUri": "a/b", "args": ["${KEEP}"]}


def test_a_config_file_is_the_ground_for_flags() -> None:
    text = "gcloud ai custom-jobs create --config=c.yaml --display-name=x --args=z --service-account=$SA"
    spec = request_of(taken(text, c=FOR_GCLOUD), SA="s")["jobSpec"]
    assert spec["serviceAccount"] == "s" and spec["scheduling"] == FOR_GCLOUD["scheduling"]
    assert spec["workerPoolSpecs"][0]["containerSpec"]["args"] == ["z"]
    spec = request_of(taken(text.replace(" --args=z", ""), c=FOR_GCLOUD), SA="s")["jobSpec"]
    assert spec["workerPoolSpecs"] == FOR_GCLOUD["workerPoolSpecs"]


def test_flags_for_every_pool_change_none_with_underscores_as_in_gcloud() -> None:
    text = "gcloud ai custom-jobs create --config=c.yaml --display-name=x --args=z --command=run"
    config = yaml.safe_dump(FOR_GCLOUD).replace("workerPoolSpecs", "worker_pool_specs")
    found = from_text(text, "given", lambda _: ConfigFile(config, "c.yaml"))
    assert request_of(found)["jobSpec"]["workerPoolSpecs"] == FOR_GCLOUD["workerPoolSpecs"]
    (said,) = found.notes
    assert "--args and --command of line 1 changes nothing" in said


def test_python_packages_and_folders_to_pack() -> None:
    text = (
        "gcloud ai custom-jobs create --display-name=x --python-package-uris=gs://b/a.tar.gz,gs://b/b.tar.gz "
        "--worker-pool-spec=machine-type=e2-standard-4,executor-image-uri=base,python-module=trainer.task"
    )
    (pool,) = request_of(taken(text))["jobSpec"]["workerPoolSpecs"]
    assert pool["pythonPackageSpec"] == {
        "executorImageUri": "base",
        "packageUris": ["gs://b/a.tar.gz", "gs://b/b.tar.gz"],
        "pythonModule": "trainer.task",
    }
    text = (
        "gcloud ai custom-jobs create --display-name=x --args=1 --worker-pool-spec="
        "machine-type=e2-standard-4,executor-image-uri=base,script=task.py,local-package-path=./app,requirements=a;b"
    )
    found = taken(text)
    value = yaml.safe_load(found.text)
    assert value["package"] == {"path": "app", "script": "task.py", "executorImage": "base"}
    assert value["jobSpec"]["workerPoolSpecs"][0]["containerSpec"] == {"args": ["1"]}
    assert any("requirements" in note for note in found.notes)


POOL = " --worker-pool-spec=machine-type=n1-standard-4,container-image-uri=x"


@pytest.mark.parametrize(
    ("flags", "place", "words"),
    [
        (" --displayname=x" + POOL, (1, 30), "--display-name"),
        (" --display-name=x\\\n --worker-pool-spec=machine=x", (2, 2), "no key machine"),
        (" --display-name=x --worker-pool-spec=machine-type", (1, 47), "not key=value"),
        (" --display-name x y" + POOL, (1, 47), "does not belong to a flag"),
        (" --display-name", (1, 30), "needs a value"),
        (" --display-name='x", (1, 45), "not closed"),
        (" --display-name=<(date)" + POOL, (1, 30), "can't be followed"),
        (" --display-name=x --worker-pool-spec=replica-count=two", (1, 47), "must be an integer"),
    ],
)
def test_what_a_command_line_gets_wrong_has_its_place(flags: str, place: tuple[int, int], words: str) -> None:
    with pytest.raises(ProfileInvalid) as caught:
        from_text("gcloud ai custom-jobs create" + flags, "given", no_file)
    found = caught.value.problems[0]
    assert (found.line, found.column) == place, found
    assert words in str(found)


@pytest.mark.parametrize(
    ("flag", "fix"), [("--displayname=x", "Did you mean --display-name?"), ("--bogus", "")]
)
def test_only_a_near_flag_is_suggested(flag: str, fix: str) -> None:
    with pytest.raises(ProfileInvalid) as caught:
        from_text(f"gcloud ai custom-jobs create {flag}{POOL}", "given", no_file)
    (found,) = caught.value.problems
    assert found.fix == fix


def test_another_command_is_refused() -> None:
    with pytest.raises(ProfileInvalid, match="there must be one `gcloud ai custom-jobs create`, not 0"):
        taken("gcloud ai models upload --display-name=x")


# Files and bodies


def test_a_config_file_keeps_its_comments() -> None:
    text = "# Mine.\n" + yaml.safe_dump(SPEC, sort_keys=False).replace("scheduling:", "scheduling:  # soon")
    found = from_text(text, "/some/where/config.yaml", no_file)
    assert request_of(found) == {"displayName": "config", "jobSpec": SPEC}
    assert found.text.startswith("# Mine.\ndisplayName: config\njobSpec:\n") and "# soon" in found.text


def test_a_file_whose_task_calls_gcloud_is_no_command_line() -> None:
    job = {
        **JOB,
        "jobSpec": {"workerPoolSpecs": [{"containerSpec": {"args": ["set -e\ngcloud storage ls\n"]}}]},
    }
    text = render_new(job)
    assert "\n          gcloud storage" in text or "gcloud storage" in text
    assert request_of(taken(text)) == job


def snake(value: Any) -> Any:
    if isinstance(value, dict):
        return {re.sub("[A-Z]", lambda m: "_" + m[0].lower(), k): snake(v) for k, v in value.items()}
    return [snake(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("body", [JOB, snake(JOB), {"customJob": JOB}], ids=["camel", "snake", "request"])
def test_a_rest_body_is_taken_as_it_is(body: Any) -> None:
    assert request_of(taken(json.dumps(body))) == JOB


def test_a_job_leaves_out_what_the_service_and_the_launch_added() -> None:
    message = CustomJob.pb(CustomJob())
    json_format.ParseDict(JOB, message)
    answer = json_format.MessageToDict(message) | {
        "name": "projects/1/locations/us-east4/customJobs/77",
        "state": "JOB_STATE_FAILED",
        "createTime": "2026-11-20T10:00:00Z",
        "error": {"code": 3, "message": "x"},
        "labels": {"team": "nlp", "vxtui-launch": "abc"},
        "webAccessUris": {"workerpool0-0": "https://x"},
    }
    for found in (from_resource(answer), taken(json.dumps(answer))):
        assert request_of(found) == JOB
        assert profile_of(found).region == "us-east4"


BAD = """
workerPoolSpecs:
- machineSpec: {machineType: n1-standard-4}
  replicaCount: one
"""


def indented(text: str) -> str:
    return text.replace("\n", "\n  ")


@pytest.mark.parametrize(
    ("text", "line", "path"),
    [
        (BAD, 4, ""),
        (f"state: JOB_STATE_FAILED{BAD}", 4, ""),
        (f"# Mine.\njobSpec:{indented(BAD)}", 5, "jobSpec."),
        (f"displayName: x\nname: projects/p\njobSpec:{indented(BAD)}", 6, "jobSpec."),
        (f"customJob:\n  displayName: x\n  jobSpec:{indented(indented(BAD))}", 6, "customJob.jobSpec."),
    ],
    ids=["config", "dropped", "wrapper", "resource", "request"],
)
def test_a_problem_has_its_line_in_the_file_that_is_imported(text: str, line: int, path: str) -> None:
    with pytest.raises(ProfileInvalid) as caught:
        taken(text)
    [found] = caught.value.problems
    assert (found.file, found.line, found.field) == ("given", line, f"{path}workerPoolSpecs[0].replicaCount")


# Round trips


def example(form: str, job: dict[str, Any] = JOB) -> tuple[Profile, str]:
    profile = load(render_new(job), "f", "demo")
    done = export(
        profile, profile.check().request, form, project="my-project", region="us-east4", file="demo.yaml"
    )
    return profile, done.text


def test_gcloud_and_back() -> None:
    job = {**JOB, "jobSpec": FOR_GCLOUD}
    profile = load(render_new(job), "f", "demo")
    done = export(
        profile, profile.check().request, "gcloud", project="p", region="us-east4", file="demo.yaml"
    )
    assert yaml.safe_load(done.text) == FOR_GCLOUD
    assert all(f"#   {line}\n" in done.text for line in done.command.splitlines())
    back = taken(done.command, demo=yaml.safe_load(done.text))
    assert request_of(back) == job and profile_of(back).region == "us-east4"


def test_rest_and_back() -> None:
    _, text = example("rest")
    assert "us-east4-aiplatform.googleapis.com/v1/projects/my-project/locations/us-east4/customJobs" in text
    assert json.loads(text.split("<<'JSON'\n")[1].split("\nJSON\n")[0]) == JOB


class Recorder:
    """Takes the place of a client: what the program sends is kept."""

    def create_custom_job(self, **call: Any) -> Any:
        self.call = call
        return call["custom_job"]


def sent_by(code: str) -> Any:
    space: dict[str, Any] = {"__name__": "exported"}
    exec(compile(code, "exported.py", "exec"), space)
    recorder = Recorder()
    space["create"](recorder)
    assert recorder.call["parent"] == "projects/my-project/locations/us-east4"
    return CustomJob.pb(recorder.call["custom_job"])


def test_the_python_program_sends_the_same_job() -> None:
    _, code = example("python")
    assert json_format.MessageToDict(sent_by(code)) == json_format.MessageToDict(as_message(JOB))
    assert max(map(len, code.splitlines())) <= 100


@pytest.mark.parametrize(
    "text", ["\ue000HOME\ue001", "\ue000", "x\ue000HF_TOKEN\ue000", '"]); print(1); (["', "{job}"]
)
def test_a_text_of_somebody_else_stays_a_text_in_the_python_program(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = [
        {"name": "HF_TOKEN", "value": "hf_secret1"},
        {"name": "A", "value": f"{text} --api-key=k123 {text}"},
    ]
    container = {"imageUri": "i", "args": [text], "env": env}
    spec = {"workerPoolSpecs": [{"containerSpec": container, "replicaCount": 1}]}
    job = {"displayName": "x", "labels": {"a": text}, "jobSpec": spec}
    _, code = example("python", job)
    assert "hf_secret1" not in code and "k123" not in code
    monkeypatch.setenv("HF_TOKEN", "hf_secret1")
    monkeypatch.setenv("API_KEY", "k123")
    assert sent_by(code) == as_message(job)


def test_what_is_lost_is_said() -> None:
    text = render_new({**JOB, "description": "Fast.", "parameters": {"a": 1}})
    profile = load(text, "f", "demo")
    done = export(profile, profile.check().request, "gcloud", project="p", region="r")
    assert any("parameters" in n for n in done.notes) and any("description" in n for n in done.notes)
    assert "# Fast.\n" in done.text


@pytest.mark.parametrize("form", ["gcloud", "rest", "python"])
def test_an_export_without_its_package_says_which_pools_have_no_task_and_what_to_do(form: str) -> None:
    bare, other = ({"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1} for _ in range(2))
    other = {**other, "containerSpec": {"imageUri": "a/b:1"}}
    block = {"path": "./app", "script": "task.py", "executorImage": "python"}
    text = render_new({**JOB, "package": block, "jobSpec": {"workerPoolSpecs": [bare, other, bare]}})
    profile = load(text, "f", "demo")
    done = export(profile, profile.check().request, form, project="p", region="r", file="demo.yaml")
    note = done.notes[0]
    assert note.startswith("pools 0, 2 have no task yet") and "./app" in note
    assert "`vxtui launch demo`" in note
    assert "\n# Note: pools 0, 2 have no task" in done.text
    assert max(len(line) for line in done.text.splitlines() if line.startswith(("# Note", "#   p"))) <= 100


def as_message(job: Mapping[str, Any]) -> Any:
    return json_format.ParseDict(dict(job), CustomJob.pb(CustomJob()))


def messages(descriptor: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Any content of a message, as the JSON that the official library makes of it."""
    fields = {}
    groups: dict[str, list[str]] = {}
    for field in descriptor.fields:
        one = scalars(field)
        fields[field.json_name] = st.lists(one, max_size=2) if field.is_repeated else one
        if field.containing_oneof is not None:
            groups.setdefault(field.containing_oneof.name, []).append(field.json_name)

    def once(value: dict[str, Any]) -> dict[str, Any]:
        for names in groups.values():
            for name in [n for n in names if n in value][1:]:
                del value[name]
        return value

    return st.fixed_dictionaries({}, optional=fields).map(once)


ODD = [
    "yes", "1e3", "${x}", "$${x}", "a: b", "<<", "- x", "1:30", "\x85", "😀\x07", "\ue000x\ue001", "'", '"',
    "\\", "YAML", "\nYAML\n", "\nJSON\n", "$(id)", "`id`", "{job}", "%s", "os.environ[", "--- ", "\n...\n",
    "\u2028", "\ufeff", "#", "!x", "|",
]  # fmt: skip
"""Texts that mean something to YAML, a shell, Python or an export."""


def scalars(field: Any) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        if field.message_type.full_name == "google.protobuf.Duration":
            return st.tuples(st.integers(-315_576_000_000, 315_576_000_000), st.integers(0, 999_999_999)).map(
                lambda d: f"{d[0]}.{d[1]:09d}s" if abs(d[0]) < 315_576_000_000 else f"{d[0]}s"
            )
        return messages(field.message_type)
    if field.enum_type is not None:
        return st.sampled_from([v.name for v in field.enum_type.values])
    return {
        field.TYPE_STRING: st.text(max_size=8) | st.lists(st.sampled_from(ODD), max_size=3).map("".join),
        field.TYPE_BOOL: st.booleans(),
        field.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
        field.TYPE_INT64: st.integers(-(2**63), 2**63 - 1).map(str),
    }[field.type]


SPECS = messages(CustomJob.pb(CustomJob()).DESCRIPTOR.fields_by_name["job_spec"].message_type)


SHELL = r"""
gcloud() { [ "$1" = auth ] || { printf '%s\0' "$@"; printf '\1'; cat; }; }
curl() { gcloud "$@"; }
"""
"""In place of both programs: prints the arguments and the standard input."""
WORDS_OF_ANYBODY = st.lists(st.sampled_from(ODD) | st.text(max_size=4), max_size=4).map("".join)


def sent_in_a_shell(text: str) -> tuple[list[str], str]:
    """(arguments, standard input) of the program that an exported command or script starts."""
    done = subprocess.run(["bash", "-c", SHELL + text], capture_output=True, check=True, timeout=30)
    arguments, _, body = done.stdout.decode().partition("\1")
    return arguments.split("\0")[:-1], body


@settings(max_examples=40)
@given(texts=st.lists(WORDS_OF_ANYBODY, min_size=4, max_size=4))
def test_the_texts_of_any_job_pass_through_a_shell(texts: list[str]) -> None:
    # No argument of a program can have NUL; the byte 1 ends the arguments here.
    name, label, word, value = (text.replace("\0", "").replace("\1", "") for text in texts)
    container = {"imageUri": f"i{word}", "args": [word, value], "env": [{"name": "A", "value": value}]}
    spec = {"workerPoolSpecs": [{"containerSpec": container, "replicaCount": "1"}]}
    job = {"displayName": f"x{name}", "labels": {"a": label}, "jobSpec": spec}
    first = as_message(job)
    profile = load(render_new(json_format.MessageToDict(first)), "f", "x")
    request = profile.check().request
    done = export(profile, request, "gcloud", project="p", region="r", reveal=True)
    arguments, body = sent_in_a_shell(done.text)
    assert f"--display-name={request.custom_job['displayName']}" in arguments
    assert as_message({**job, "jobSpec": yaml.safe_load(body)}) == first
    done = export(profile, request, "rest", project="p", region="r", reveal=True)
    _, body = sent_in_a_shell(done.text)
    assert as_message(json.loads(body)) == first


@given(texts=st.lists(WORDS_OF_ANYBODY, min_size=3, max_size=3))
def test_the_texts_of_any_manifest_survive_kubectl(texts: list[str]) -> None:
    name, label, word = texts
    pod = {"spec": {"containers": [{"name": "pytorch", "image": "i", "args": [word], "env": [
        {"name": "A", "value": label}]}]}}  # fmt: skip
    obj = {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
        "metadata": {"name": "x", "annotations": {"a": name}},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": pod}}},
    }  # fmt: skip
    text = kubectl_yaml({"displayName": "x", "manifest": {"objects": [obj]}}, "n", ["a remark"])
    (found,) = yaml.safe_load_all(text)
    assert found["spec"] == obj["spec"] and found["metadata"]["annotations"] == {"a": name}


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    spec=SPECS,
    labels=st.dictionaries(st.text(max_size=5) | st.sampled_from(ODD), st.text(max_size=5), max_size=3),
)
def test_any_job_of_the_official_message_survives_every_form(
    spec: dict[str, Any], labels: dict[str, str]
) -> None:
    first = as_message({"displayName": "x", "jobSpec": spec, "labels": labels})
    body = json_format.MessageToDict(first)
    profile = load(render_new(body), "f", "x")
    assert as_message(profile.check().request.custom_job) == first
    again = load(
        json.dumps(json_format.MessageToDict(as_message(profile.check().request.custom_job))), "f", "x"
    )
    done = export(again, again.check().request, "gcloud", project="p", region="r", file="x.yaml")
    if not done.problem:
        sent = {"displayName": "x", "jobSpec": yaml.safe_load(done.text) or {}, "labels": labels}
        assert as_message(sent) == first
    if body.get("jobSpec") and not done.problem:
        back = from_text(done.text, "x.yaml", no_file)
        assert as_message({**profile_of(back).check().request.custom_job, "labels": labels}) == first
    _, code = example("python", body)
    assert sent_by(code) == first


@settings(max_examples=300)
@given(
    data=st.binary(max_size=80)
    | st.text(max_size=60).map(lambda t: t.encode(errors="surrogatepass"))
    | st.text(alphabet="a: -[]{}&*|>'\"\n\r\t#,?!%0.$<\ufeff\x00é", max_size=60).map(str.encode)
    | st.text(alphabet="jobSpec: {}[]&x*\n", max_size=40).map(lambda t: ("jobSpec:\n  " + t).encode())
)
def test_any_bytes_are_a_profile_or_a_problem_with_its_place(data: bytes) -> None:
    try:
        profile = load(decode(data, "f"), "f", "f")
    except ProfileInvalid as error:
        assert error.problems
        for problem in error.problems:
            assert problem.severity is ProblemSeverity.ERROR and problem.message
            assert (problem.line >= 1 and problem.column >= 1) or "empty" in problem.message
        return
    assert profile.check().request


WORDS = [
    "gcloud ", "ai ", "custom-jobs ", "create ", "--display-name=x ", "--worker-pool-spec=", "--args=",
    "^;^", "machine-type=a,", "container-image-uri=x ", "--config c ", "'", '"', "\\", "\n", "$", "${", "}",
    "$(", "`", "#", "=", ",", "A=b\n", " ", ";", "{", "jobSpec: ", "é",
]  # fmt: skip


@settings(max_examples=300)
@given(parts=st.lists(st.sampled_from(WORDS), max_size=14))
def test_any_text_is_imported_or_refused_in_words(parts: list[str]) -> None:
    text = "gcloud ai custom-jobs create " + "".join(parts)
    try:
        found = from_text(text, "f", lambda _: config_file(SPEC))
    except ProfileInvalid as error:
        assert error.problems and all(p.message for p in error.problems)
        return
    assert load(found.text, "f", found.name)


def test_a_file_of_queues_says_that_there_is_no_job_in_it() -> None:
    kinds = [
        f"kind: {kind}\napiVersion: kueue.x-k8s.io/v1beta1\n" for kind in ("ResourceFlavor", "LocalQueue")
    ]
    text = "---\n".join(kinds)
    with pytest.raises(ProfileInvalid) as caught:
        from_text(text, "queues.yaml", {}.__getitem__)
    assert "the file contains no job, only ResourceFlavor, LocalQueue" in caught.value.problems[0].message
