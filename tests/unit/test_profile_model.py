"""Every form of a job's file opens unchanged; what is wrong has an id, a place and, where it can, a fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tui.domain.document.source import ProblemSeverity, decode, read
from tui.domain.profile import Problem, ProfileInvalid, inspect, load
from tui.domain.profile.edit import apply
from tui.domain.spec.field_table import HEADER
from tui.domain.vertex.field_check import Checker

READY = sorted((Path(__file__).parents[2] / "profiles").glob("*.yaml"))

SPEC: dict[str, Any] = {
    "workerPoolSpecs": [
        {
            "machineSpec": {"machineType": "n1-standard-4"},
            "replicaCount": 1,
            "containerSpec": {"imageUri": "python", "args": ["echo ${HOME}"]},
        },
        {},
    ],
    "scheduling": {"timeout": "3600s"},
}
SNAKE = """\
worker_pool_specs:
- machine_spec: {machine_type: n1-standard-4}
  replica_count: 1
  container_spec:
    image_uri: python
    args: ["echo ${HOME}"]
- {}
scheduling: {timeout: 3600s}
"""


def problems(text: str, **more: Any) -> list[Problem]:
    return inspect(text, "f.yaml", "f", **more)


def one(text: str) -> Problem:
    (found,) = [p for p in problems(text) if p.severity is ProblemSeverity.ERROR]
    return found


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(SPEC),
        json.dumps({"displayName": "f", "jobSpec": SPEC}, indent="\t"),
        SNAKE,
        "displayName: f\njob_spec:\n" + "".join(f"  {line}\n" for line in SNAKE.splitlines()),
        "\ufeff" + SNAKE.replace("\n", "\r\n"),
    ],
    ids=["config", "wrapper in JSON with tabs", "snake case", "snake case under a header", "BOM and CRLF"],
)
def test_each_form_of_a_job_opens_unchanged(text: str) -> None:
    request = load(text, "f", "f").render()
    assert request.custom_job == {"displayName": "f", "jobSpec": SPEC}


def test_numbers_of_enums_and_durations_are_understood() -> None:
    text = (
        "jobSpec:\n  workerPoolSpecs:\n"
        "  - {machineSpec: {machineType: g2-standard-12, acceleratorType: 11, acceleratorCount: '1'},"
        " replicaCount: '1', containerSpec: {imageUri: x, env: [{name: A, value: 1.10}]}}\n"
        "  scheduling: {strategy: 4, timeout: 3600, maxWaitDuration: 1.5}\n"
    )
    spec = load(text, "f", "f").check().request.custom_job["jobSpec"]
    pool = spec["workerPoolSpecs"][0]
    assert pool["machineSpec"]["acceleratorType"] == "NVIDIA_L4" and pool["replicaCount"] == 1
    assert spec["scheduling"] == {"strategy": "SPOT", "timeout": "3600s", "maxWaitDuration": "1.5s"}
    assert pool["containerSpec"]["env"] == [{"name": "A", "value": "1.10"}]


POOL = "{machineSpec: {machineType: n1-standard-4}, replicaCount: 1, containerSpec: {imageUri: x}}"
HEAD = f"displayName: x\njobSpec:\n  workerPoolSpecs: [{POOL}]\n"


@pytest.mark.parametrize(
    ("text", "rule", "place", "words"),
    [
        ("displayName: [", "profile.syntax", (1, 15), "not valid YAML"),
        ("a: 1\n\tb: 2", "profile.syntax", (2, 1), "not valid YAML"),
        ("a: \x00", "profile.syntax", (1, 4), "not valid YAML"),
        ("", "profile.syntax", (0, 0), "empty"),
        ("a: 1\n---\nb: 2", "profile.syntax", (2, 1), "second document"),
        ("a: *x", "profile.syntax", (1, 4), "must be the name of an anchor"),
        ("a: &x [*x]", "profile.syntax", (1, 8), "contain itself"),
        (HEAD + "  netwrok: y\n", "profile.unknown-field", (4, 3), "network"),
        (HEAD + "jobSpec: {}\n", "profile.syntax", (4, 1), "twice"),
        (HEAD + "state: JOB_STATE_FAILED\n", "profile.output-only", (4, 1), "can't be set"),
        (HEAD + "  scheduling: {strategy: SPOTT}\n", "profile.enum", (4, 16), "SPOT"),
        (HEAD + "  scheduling:\n    timeout: 48h\n", "profile.type", (5, 5), "172800s"),
        (HEAD + "  enableWebAccess: 'yes'\n", "profile.type", (4, 3), "true"),
        (HEAD + "  reservedIpRanges: 1\n", "profile.type", (4, 3), "list"),
        (HEAD + "parameters: {a: {type: int}}\n", "profile.parameter", (4, 14), "integer"),
        (HEAD + "parameters: {}\ndescription: '${b}'\n", "profile.parameter", (5, 1), "parameters"),
        (HEAD.replace("replicaCount: 1", "replicaCount: one"), "profile.type", (3, 65), "must be an integer"),
        ("displayName: x\n", "profile.missing", (1, 1), "must have a body"),
        ("[1]", "profile.type", (1, 1), "fields"),
    ],
)
def test_a_problem_has_its_id_and_its_place(text: str, rule: str, place: tuple[int, int], words: str) -> None:
    found = one(text)
    assert (found.id, (found.line, found.column)) == (rule, place), found
    assert words in found.message + found.fix


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("  netwrok: projects/1/global/networks/n\n", "  network: projects/1/global/networks/n\n"),
        ("state: JOB_STATE_FAILED\n", ""),
        ("  scheduling: {strategy: SPOTT}\n", "  scheduling: {strategy: SPOT}\n"),
        (
            "  scheduling:\n    timeout: 48h  # two\n",
            "  scheduling:\n    timeout: 172800s  # two\n",
        ),
        ("  enableWebAccess: 'yes'\n", "  enableWebAccess: true\n"),
    ],
)
def test_what_can_only_be_a_slip_is_mended(line: str, fixed: str) -> None:
    found = one(HEAD + line)
    assert apply(HEAD + line, "f", found.edits) == HEAD + fixed


def test_a_rules_problem_stands_at_its_place_in_a_file_of_either_spelling() -> None:
    text = SNAKE.replace("replica_count: 1", "replica_count: 4")
    (found,) = [p for p in problems(text) if p.severity is ProblemSeverity.ERROR]
    assert (found.id, found.line, found.column) == ("shape.primary", 3, 3)
    assert found.path == ("workerPoolSpecs", 0, "replicaCount")


def test_a_wrong_shape_does_not_hide_what_the_rules_find() -> None:
    text = HEAD.replace("replicaCount: 1", "replicaCount: 4") + "  netwrok: x\n"
    assert {"profile.unknown-field", "shape.primary"} <= {p.id for p in problems(text)}


@pytest.mark.parametrize(
    ("right", "slip"),
    [("machineType", "machineTyp"), ("machine_type", "machine_typ"), ("machineType: n", "x: n")],
)
def test_a_slip_does_not_also_make_its_field_missing(right: str, slip: str) -> None:
    text = SNAKE if "_" in right else HEAD
    found = problems(text.replace(right, slip))
    missing = [p for p in found if "must have" in p.message]
    assert "profile.unknown-field" in {p.id for p in found}
    # Of `x` nobody knows what it means.
    assert [p.message for p in missing] == (["the pool must have a machine type."] if slip == "x: n" else [])


def test_what_was_refused_is_not_made_up_for_the_rules() -> None:
    text = HEAD.replace("n1-standard-4}", "n1-standard-4, acceleratorType: NVIDIA_H100, acceleratorCount: x}")
    document = read(text, "f")
    checker = Checker(document, references=False)
    (pool,) = checker.message(document.value, HEADER, ())["jobSpec"]["workerPoolSpecs"]
    assert {p.path[-1] for p in checker.problems} == {"acceleratorType", "acceleratorCount"}
    assert pool["machineSpec"] == {"machineType": "n1-standard-4", "acceleratorType": "NVIDIA_H100"}


def test_text_that_looks_like_a_reference_is_kept_where_there_are_no_parameters() -> None:
    text = HEAD.replace("imageUri: x", "imageUri: x, args: ['${HOME}']")
    assert "${HOME}" in json.dumps(load(text, "f", "f").render().custom_job)
    (note,) = problems(text)
    assert note.severity is ProblemSeverity.NOTE and note.id == "profile.parameter"


def test_a_second_dollar_keeps_a_text_among_parameters() -> None:
    text = HEAD.replace("imageUri: x", "imageUri: x, args: ['$${HOME} ${a}']") + "parameters: {a: 1}\n"
    assert "${HOME} 1" in json.dumps(load(text, "f", "f").render().custom_job)


def test_a_parameter_without_a_value_is_no_problem_of_the_file() -> None:
    text = HEAD.replace("imageUri: x", "imageUri: '${image}'") + "parameters: {image: {help: Yours}}\n"
    assert not problems(text)
    with pytest.raises(ProfileInvalid, match="--set image=VALUE"):
        load(text, "f", "f").render()


def test_aliases_and_merges_are_values() -> None:
    text = (
        "displayName: x\nlabels: &l {a: b}\n"
        f"jobSpec:\n  workerPoolSpecs:\n  - &pool {POOL}\n  - {{<<: *pool, replicaCount: 2}}\n"
    )
    pools = load(text, "f", "f").render().custom_job["jobSpec"]["workerPoolSpecs"]
    assert pools[1] == {**pools[0], "replicaCount": 2}


def test_an_explosion_of_aliases_is_bounded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "must not expand to more than" in one("\n".join(lines)).message


@pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 5000, "- " * 5000 + "a", "a: " + "[" * 70 + "]" * 70])
def test_deep_nesting_is_refused(text: str) -> None:
    assert "levels deep" in one(text).message


def test_bytes_that_are_no_text_have_a_place() -> None:
    with pytest.raises(ProfileInvalid) as caught:
        decode(b"a: 1\nb: \xff", "f")
    (found,) = caught.value.problems
    assert (found.id, found.line, found.column) == ("profile.syntax", 2, 4)
    assert decode("a: é".encode("utf-16"), "f") == "a: é"


def test_json_with_half_escapes_is_read() -> None:
    assert read('{"a": "\\ud83d\\ude00"}', "f").value == {"a": "😀"}


@pytest.mark.parametrize("path", READY, ids=lambda p: p.stem)
def test_ready_made_profiles_have_no_problem(path: Path) -> None:
    assert not inspect(path.read_text(), str(path), path.stem)
