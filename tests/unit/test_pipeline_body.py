"""The body `pipelineJob`: its file, its parameters by type, and what is sent."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.pipeline_body_support import ANYTHING, CONTAINER, profile, spec
from tui.config.settings import Context
from tui.domain.pipeline.parameters import LARGEST, intended, misfit, parse, shown
from tui.domain.profile import Checked, ProfileInvalid, inspect, load
from tui.domain.spec.spec_format import custom_jobs
from tui.domain.vertex.cost import estimate
from tui.domain.vertex.dry_run import price_json, price_words, task_lines
from tui.domain.vertex.quota_fit import needs
from tui.store.profiles.draft import Draft
from tui.store.profiles.entries import ProfileError, size_of
from tui.store.profiles.files import copy_profile
from tui.store.profiles.library import entries, entry, read_profile

CONTEXT = Context("test", project="p")
READY = Path(__file__).parents[2] / "profiles"


def said(checked: Checked) -> list[tuple[str, str]]:
    return [(p.id, p.field) for p in checked.problems]


def test_the_file_is_read_at_the_launch_and_sent(tmp_path: Path) -> None:
    found = profile(tmp_path, spec(), more="  network: projects/1/global/networks/n\n")
    assert said(checked := found.check()) == []
    assert checked.request.resource == {
        "displayName": "x",
        "pipelineSpec": spec(),
        "runtimeConfig": {"gcsOutputDirectory": "gs://bucket/root", "parameterValues": {"name": "x"}},
        "network": "projects/1/global/networks/n",
    }
    (tmp_path / "dag.yaml").write_text(yaml.safe_dump(spec(sdkVersion="kfp-2.17.0")))
    assert found.check().request.resource["pipelineSpec"]["sdkVersion"] == "kfp-2.17.0"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\n b: 2\n", 2, "mapping"),
        ("- 1\n", 0, "must be a compiled pipeline"),
        ("", 0, "empty"),
        (b"a: \xff\n", 1, "UTF-8"),
    ],
)
def test_a_file_that_is_no_pipeline_is_told_with_its_line(
    tmp_path: Path, text: str | bytes, line: int, words: str
) -> None:
    found = profile(tmp_path, spec())
    (tmp_path / "dag.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    (problem,) = found.check().errors
    assert (problem.file, problem.line) == (str(tmp_path / "dag.yaml"), line)
    assert problem.id == "pipeline.file" and words in str(problem)


def test_a_compiled_pipeline_beside_its_profile_is_no_profile(tmp_path: Path) -> None:
    profile(tmp_path, spec())
    (tmp_path / "broken.yaml").write_text("nope: 1\n")
    assert {each.name for each in entries(tmp_path) if each.mine} == {"broken", "p"}


def test_a_copy_of_a_profile_brings_its_compiled_file(tmp_path: Path) -> None:
    ready, mine = READY / "local-pipeline.yaml", tmp_path / "mine"
    made = copy_profile(ready, mine, "again")
    compiled = mine / "pipelines/local-pipeline.yaml"
    assert compiled.read_bytes() == (READY / "pipelines/local-pipeline.yaml").read_bytes()
    assert read_profile(made).check().errors == []
    compiled.write_text("mine: 1")
    copy_profile(ready, mine, "once-more")
    assert compiled.read_text() == "mine: 1", "what is there stays"

    other = tmp_path / "other/x.yaml"
    Draft(ready, ready.read_text(), tmp_path / "drafts").save_as(other)
    assert read_profile(other).check().errors == []


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    found = profile(tmp_path, spec())
    (tmp_path / "dag.yaml").unlink()
    (problem,) = found.check().errors
    assert str(problem).startswith(f"{tmp_path}/dag.yaml: there is no such file.")
    assert problem.path == ()


def test_the_settings_of_a_platform_after_the_pipeline_are_passed_over(tmp_path: Path) -> None:
    text = f"{yaml.safe_dump(spec())}---\nplatforms:\n  kubernetes:\n    deploymentSpec: {{}}\n"
    assert profile(tmp_path, text).check().request.resource["pipelineSpec"] == spec()


def test_a_file_that_is_a_whole_job_gives_what_the_profile_does_not(tmp_path: Path) -> None:
    whole = {
        "pipelineSpec": spec(),
        "runtimeConfig": {
            "gcsOutputDirectory": "gs://theirs",
            "parameterValues": {"name": "theirs", "steps": 3},
            "failurePolicy": "PIPELINE_FAILURE_POLICY_FAIL_FAST",
        },
    }
    found = profile(tmp_path, json.dumps(whole)).check()
    assert said(found) == []
    assert found.request.resource["pipelineSpec"] == spec()
    assert found.request.resource["runtimeConfig"] == {
        "gcsOutputDirectory": "gs://bucket/root",
        "parameterValues": {"name": "x", "steps": 3},
        "failurePolicy": "PIPELINE_FAILURE_POLICY_FAIL_FAST",
    }


def test_the_default_root_of_the_pipeline_is_taken_where_the_profile_has_none(tmp_path: Path) -> None:
    (tmp_path / "dag.yaml").write_text(yaml.safe_dump(spec(inputs={}, defaultPipelineRoot="gs://theirs/x")))
    text = "displayName: x\npipelineJob: {templatePath: dag.yaml}\n"
    found = load(text, str(tmp_path / "p.yaml"), "p").check()
    assert said(found) == []
    assert found.request.resource["runtimeConfig"] == {"gcsOutputDirectory": "gs://theirs/x"}


# Parameters


def test_a_parameter_of_the_header_keeps_its_type(tmp_path: Path) -> None:
    head = "parameters: {n: 7, r: 0.5, b: true, s: y, l: 3}\n"
    values = "{name: 'a ${s}', steps: '${n}', rate: '${r}', fast: '${b}', sizes: ['${l}'], more: {k: '${n}'}}"
    found = profile(tmp_path, spec(), values, head=head)
    assert found.inputs == ()
    assert found.check({"n": "9"}).request.resource["runtimeConfig"]["parameterValues"] == {
        "name": "a y",
        "steps": 9,
        "rate": 0.5,
        "fast": True,
        "sizes": [3],
        "more": {"k": 9},
    }


def test_a_launch_sets_the_parameters_that_no_other_fills(tmp_path: Path) -> None:
    found = profile(tmp_path, spec(), "{name: x, rate: '${r}'}", head="parameters: {r: 0.5, fast: 1}\n")
    assert [(i.name, i.type, i.default, i.help, i.required) for i in found.inputs] == [
        ("fast", "boolean", "", "", False),
        ("more", "struct", "", "", False),
        ("name", "string", "x", "", False),
        ("sizes", "list", "[1, 2]", "", False),
        ("steps", "integer", "5", "How many.", False),
    ]
    given = {
        "steps": "6",
        "fast": "3",
        "pipelineJob.fast": "true",
        "sizes": "[3]",
        "more": "",
        "name": "x",
    }
    values = found.check(given).request.resource["runtimeConfig"]["parameterValues"]
    assert values == {"name": "x", "rate": 0.5, "steps": 6, "fast": True, "sizes": [3]}


def test_of_a_template_a_launch_sets_the_parameters_that_have_a_value(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "displayName: x\npipelineJob:\n  templateUri: gs://b-1/dag.yaml\n  runtimeConfig:\n"
        "    gcsOutputDirectory: gs://b-1/x\n    parameterValues: {n: 4, s: a, l: [1], b: true}\n"
    )
    found = read_profile(tmp_path / "p.yaml")
    assert [(each.name, each.type) for each in found.inputs] == [
        ("n", "number"), ("s", "string"), ("l", "list"), ("b", "boolean"),
    ]  # fmt: skip
    checked = found.check({"n": "0.5", "l": "[2, 3]", "b": "no"})
    assert not checked.problems
    assert checked.request.resource["runtimeConfig"]["parameterValues"] == {
        "n": 0.5, "s": "a", "l": [2, 3], "b": False,
    }  # fmt: skip
    assert estimate(checked.request.custom_job, "us-central1").tasks == ()
    assert needs(checked.request.custom_job) == {}


def test_a_wrong_text_is_told_at_its_parameter(tmp_path: Path) -> None:
    found = profile(tmp_path, spec())
    with pytest.raises(ProfileInvalid) as caught:
        found.check({"steps": "x", "sizes": "{}", "fast": "perhaps"})
    assert [str(p).partition("parameterValues.")[2] for p in caught.value.problems] == [
        "fast: the value must be true or false, not 'perhaps'.",
        "sizes: the value must be a list in JSON, such as [1, 2], not fields.",
        "steps: the value must be an integer, not 'x'.",
    ]
    with pytest.raises(ProfileInvalid, match="no parameter nope"):
        found.check({"nope": "1"})


KINDS = {
    "STRING": st.text(),
    "NUMBER_INTEGER": st.integers(-LARGEST, LARGEST),
    "NUMBER_DOUBLE": st.floats(allow_nan=False, allow_infinity=False),
    "BOOLEAN": st.booleans(),
    "LIST": st.lists(st.integers() | st.text() | st.none(), max_size=3),
    "STRUCT": st.dictionaries(st.text(), st.booleans() | st.text(), max_size=3),
}


@given(st.sampled_from(sorted(KINDS)).flatmap(lambda kind: st.tuples(st.just(kind), KINDS[kind])))
def test_what_is_shown_of_a_value_means_it_again(case: tuple[str, Any]) -> None:
    kind, value = case
    assert misfit(value, kind) == ""
    again = parse(shown(value), kind)
    assert again == value and misfit(again, kind) == ""


@given(st.sampled_from(sorted(KINDS)), st.text())
def test_any_text_is_a_value_of_the_type_or_refused(kind: str, text: str) -> None:
    try:
        value = parse(text, kind)
    except ValueError as error:
        assert str(error).startswith(("the value must be ", text.strip()))
    else:
        assert misfit(value, kind) == ""


@given(st.sampled_from(sorted(KINDS)), ANYTHING)
def test_what_a_wrong_value_can_only_mean_is_right(kind: str, value: Any) -> None:
    if misfit(value, kind):
        right = intended(value, kind)
        assert right is None or misfit(right, kind) == ""
        assert not isinstance(right, float) or math.isfinite(right)


# Price, quota, shape


def test_each_task_has_a_price_and_only_what_is_known_is_counted(tmp_path: Path) -> None:
    loop = {"componentRef": {"name": "comp-a"}, "parameterIterator": {"items": {"raw": "[1, 2, 3]"}}}
    over = {
        "componentRef": {"name": "comp-a"},
        "inputs": {"parameters": {"in": {"componentInputParameter": "sizes"}}},
        "parameterIterator": {"items": {"inputParameter": "in"}},
    }
    made = {
        "componentRef": {"name": "comp-a"},
        "inputs": {"parameters": {"in": {"taskOutputParameter": {"producerTask": "once"}}}},
        "parameterIterator": {"items": {"inputParameter": "in"}},
    }
    tasks = {
        "once": {"componentRef": {"name": "comp-gpu"}},
        "fixed": loop,
        "given": over,
        "made": made,
        "perhaps": {"componentRef": {"name": "comp-a"}, "triggerPolicy": {"condition": "x"}},
    }
    gpu = {
        **CONTAINER,
        "resources": {"accelerator": {"type": "NVIDIA_TESLA_T4", "count": "2"}, "cpuLimit": 16},
    }
    compiled = spec(
        tasks,
        components={"comp-a": {"executorLabel": "exec-a"}, "comp-gpu": {"executorLabel": "exec-gpu"}},
        deploymentSpec={"executors": {"exec-a": {"container": CONTAINER}, "exec-gpu": {"container": gpu}}},
    )
    job = profile(tmp_path, compiled, "{name: x, sizes: [1, 2]}").check().request.custom_job
    assert {each.title: each.runs for each in custom_jobs(job)} == {
        "once": 1, "fixed": 3, "given": 2, "made": None, "perhaps": None,
    }  # fmt: skip
    price = estimate(job, "us-central1")
    assert price.hour is None and price.whole is None
    by_name = {each["name"]: each for each in price_json(price)["tasks"]}
    assert by_name["once"]["machine"] == "n1-standard-16 with 2 T4"
    assert by_name["once"]["hour"]["low"] > by_name["made"]["hour"]["low"] > 0
    assert by_name["made"]["runs"] is None and "only at run time" in by_name["made"]["note"]
    assert "unknown before it runs" in price_words(price)
    assert any("3 times" in line for line in task_lines(price))
    assert needs(job) == {
        "custom_model_training_nvidia_t4_gpus": 2,
        "custom_model_training_cpus": 16,
        "custom_model_training_pd_ssd": 100,
    }
    assert size_of(job).startswith("5 tasks, ")


def test_the_job_of_googles_component_is_priced_where_its_pools_are_known(tmp_path: Path) -> None:
    launcher = "google_cloud_pipeline_components.container.v1.custom_job.launcher"
    container = {"image": "g", "command": ["python3", "-u", "-m", launcher]}
    machine = {
        "machine_type": "a2-highgpu-1g",
        "accelerator_type": "NVIDIA_TESLA_A100",
        "accelerator_count": 1,
    }
    pools = [{"machine_spec": machine, "replica_count": 2.0, "container_spec": {"image_uri": "i"}}]
    given = {"runtimeValue": {"constant": pools}}
    made = {"taskOutputParameter": {"producerTask": "known", "outputParameterKey": "x"}}
    tasks = {
        name: {
            "componentRef": {"name": "comp-a"},
            "inputs": {"parameters": {"worker_pool_specs": source}},
        }
        for name, source in (("known", given), ("made", made))
    }
    compiled = spec(tasks, deploymentSpec={"executors": {"exec-a": {"container": container}}})
    job = profile(tmp_path, compiled).check().request.custom_job
    known, later = price_json(estimate(job, "us-central1"))["tasks"]
    assert known["machine"] == "a2-highgpu-1g with 1 A100" and known["hour"]["low"] > 4
    assert later["hour"] is None and "known only at run time" in later["note"]
    assert needs(job)["custom_model_training_nvidia_a100_gpus"] == 2


def test_the_ready_made_one_says_what_it_runs() -> None:
    found = entry(READY / "local-pipeline.yaml", mine=False)
    assert not found.problem
    assert found.runs_here


def test_a_parameter_that_only_a_launch_gives_is_no_problem_of_the_profile(tmp_path: Path) -> None:
    text = profile(tmp_path, spec(), "{rate: 0.5}", head="region: us-east4\n").document
    source = (tmp_path / "p.yaml").read_text()
    assert inspect(source, text.file, "p") == []
    found = entry(tmp_path / "p.yaml", mine=True)
    assert found.check_rules(CONTEXT) == ((), ())
    with pytest.raises(ProfileError) as refused:
        found.prepare({}, context=CONTEXT, region="")
    assert "no default and no value" in refused.value.at["pipelineJob.name"]
    (tmp_path / "p.yaml").write_text(source.replace("rate: 0.5", "name: 5"))
    (wrong,) = inspect((tmp_path / "p.yaml").read_text(), text.file, "p")
    assert wrong.id == "pipeline.parameter-type", "a value that stands there is checked"


def test_an_empty_parameter_of_the_header_is_told_at_its_field(tmp_path: Path) -> None:
    head = "parameters: {root: {help: The root}}\nregion: us-east4\n"
    made = profile(tmp_path, spec(), head=head)
    path = tmp_path / "p.yaml"
    path.write_text(path.read_text().replace("gs://bucket/root", "${root}"))
    assert made.document.file == str(path) and "${root}" in path.read_text()
    with pytest.raises(ProfileError) as refused:
        entry(path, mine=True).prepare({"root": ""}, context=CONTEXT, region="")
    assert "must have a root" in refused.value.at["root"] and not refused.value.others
