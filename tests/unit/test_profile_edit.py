"""Edits in place: the values come out right, and what was not touched stands as it stood."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.profile_edit_support import POOLS, TASK, after, changed_lines, filled, keys, values
from tui.domain.document.document_edit import REMOVED, Edit, edited
from tui.domain.document.source import Document, read
from tui.domain.profile import ProfileInvalid, load
from tui.domain.profile.edit import apply, render_new, same

READY = Path(__file__).parents[2] / "profiles"


SHARED = """\
# Header stays.
displayName: demo   # the name
parameters:
  image: {default: a/b:1, help: Yours}
  steps: 10
jobSpec:
  # Two pools.
  workerPoolSpecs:
    - machineSpec: &machine {machineType: 'n1-standard-4'}  # small
      replicaCount: 1
      containerSpec: &task
        imageUri: ${image}
        # What it runs.
        args:
          - --steps=${steps}   # from above
          - "two words"
    - machineSpec: *machine
      replicaCount: 2
      containerSpec: *task
  # The end.
  scheduling:
    timeout: 60s
"""


def test_a_scalar_changes_only_its_own_characters() -> None:
    found = after(SHARED, Edit((*POOLS, 1, "replicaCount"), 5), Edit(("displayName",), "other"))
    assert found == SHARED.replace("replicaCount: 2", "replicaCount: 5").replace(": demo ", ": other ")


def test_quotes_and_comments_stay() -> None:
    found = after(SHARED, Edit((*POOLS, 0, "containerSpec", "args", 1), "three"))
    assert '- "three"' in found
    assert all(
        c in found for c in ("# Header stays.", "# small", "# What it runs.", "# from above", "# The end.")
    )


def test_a_pool_with_an_alias_overrides_the_changed_key() -> None:
    found = after(SHARED, Edit((*POOLS, 1, "machineSpec", "machineType"), "n1-highmem-2"))
    assert changed_lines(SHARED, found) == (
        ["    - machineSpec: *machine"],
        ["    - machineSpec: {<<: *machine, machineType: n1-highmem-2}"],
    )


def test_the_others_override_what_the_pool_with_the_anchor_had() -> None:
    found = after(SHARED, Edit((*POOLS, 0, "machineSpec", "machineType"), "n1-highmem-2"))
    assert "- machineSpec: &machine {machineType: 'n1-highmem-2'}  # small" in found
    assert "- machineSpec: {<<: *machine, machineType: n1-standard-4}" in found


def test_a_variable_for_one_of_three_pools_leaves_the_others_on_the_anchor() -> None:
    new = {"name": "B", "value": "2"}
    found = after(TASK, Edit((*POOLS, 1, "containerSpec", "env", 1), new))
    at = TASK.index("      containerSpec: *task\n")
    end = at + len("      containerSpec: *task\n")
    assert found.startswith(TASK[:at]) and found.endswith(TASK[end:])
    changed = found[at : len(found) - len(TASK[end:])].splitlines()
    assert changed[:2] == ["      containerSpec:", "        <<: *task"] and len(changed) <= 5
    # The pool with the anchor keeps its text; the two others state the list they had.
    found = after(TASK, Edit((*POOLS, 0, "containerSpec", "env", 1), new))
    old, added = changed_lines(TASK, found)
    assert set(old) <= {"      containerSpec: *task"} and found.count("<<: *task") == 2
    assert len(added) <= 5 and "# What it runs." in found


def test_a_shared_reference_is_replaced_in_one_place_only() -> None:
    found = after(SHARED, Edit((*POOLS, 1, "containerSpec", "imageUri"), "c/d:2"))
    assert "imageUri: c/d:2" in found and "imageUri: ${image}" in found and "default: a/b:1" in found


def test_a_reference_used_once_changes_its_default() -> None:
    text = SHARED.replace("      containerSpec: *task\n", "      containerSpec: {imageUri: x}\n")
    found = after(text, Edit((*POOLS, 0, "containerSpec", "imageUri"), "c/d:2"))
    assert changed_lines(text, found) == (
        ["  image: {default: a/b:1, help: Yours}"],
        ["  image: {default: c/d:2, help: Yours}"],
    )


def test_a_default_without_settings_changes_too() -> None:
    text = (
        "displayName: x\nparameters:\n  n: 3  # nodes\njobSpec:\n  workerPoolSpecs:\n  - replicaCount: ${n}\n"
    )
    assert "  n: 4  # nodes\n" in after(text, Edit((*POOLS, 0, "replicaCount"), 4))


def test_a_value_that_the_parameter_does_not_take_replaces_the_reference() -> None:
    text = "parameters:\n  s: {default: A, choices: [A, B]}\njobSpec:\n  scheduling: {strategy: '${s}'}\n"
    found = after(text, Edit(("jobSpec", "scheduling", "strategy"), "C"))
    assert "strategy: 'C'" in found and "default: A" in found


def test_a_whole_pool_set_keeps_what_is_the_same() -> None:
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": 1,
        "containerSpec": {"imageUri": "a/b:1", "args": ["--steps=10", "two words", "more"]},
    }
    found = after(SHARED, Edit((*POOLS, 0), pool))
    assert '          - "two words"\n          - more\n' in found and "# from above" in found


def test_pools_are_appended_inserted_and_removed_in_place() -> None:
    pool = {"machineSpec": {"machineType": "a2-highgpu-8g"}, "replicaCount": 3}
    found = after(SHARED, Edit((*POOLS, 2), pool))
    assert found.index("a2-highgpu-8g") < found.index("# The end.")
    found = after(SHARED, Edit((*POOLS, 1), pool, insert=True))
    assert found.index("a2-highgpu-8g") < found.index("- machineSpec: *machine")
    found = after(SHARED, Edit((*POOLS, 0), REMOVED))
    assert "# Two pools." in found and "# The end." in found


def test_a_field_is_added_where_it_belongs_and_its_parents_are_made() -> None:
    found = after(SHARED, Edit(("jobSpec", "baseOutputDirectory", "outputUriPrefix"), "gs://b/c"))
    assert found.endswith("    timeout: 60s\n  baseOutputDirectory: {outputUriPrefix: gs://b/c}\n")
    found = after(SHARED, Edit((*POOLS, 0, "machineSpec", "acceleratorCount"), 2))
    assert "{machineType: 'n1-standard-4', acceleratorCount: 2}  # small" in found
    found = after(SHARED, Edit(("region",), "us-east1"))
    assert "displayName: demo   # the name\nregion: us-east1\n" in found


def test_a_merge_key_keeps_what_the_others_take() -> None:
    text = (
        "a: &a {serviceAccount: x, scheduling: {timeout: 1s}}\n"
        "jobSpec:\n  <<: *a  # shared\n  workerPoolSpecs: []\n"
    )
    found = after(text, Edit(("jobSpec", "scheduling", "timeout"), "2s"))
    assert "<<: *a  # shared" in found and "scheduling: {<<: *scheduling, timeout: 2s}" in found
    found = after(text, Edit(("jobSpec", "serviceAccount"), REMOVED))
    assert "<<" not in found and text.splitlines()[0] in found


def test_snake_case_keys_are_found() -> None:
    text = "worker_pool_specs:\n- replica_count: 1\n  container_spec: {image_uri: x}\n"
    found = apply(text, "f", [Edit(("workerPoolSpecs", 0, "replicaCount"), 2)])
    assert found == text.replace("replica_count: 1", "replica_count: 2")


def test_a_bare_spec_gets_a_header_when_one_is_needed() -> None:
    text = "# Mine.\nworkerPoolSpecs:\n- replicaCount: 1  # one\n"
    found = apply(text, "f", [Edit(("displayName",), "x"), Edit(("workerPoolSpecs", 0, "replicaCount"), 3)])
    assert found == "# Mine.\ndisplayName: x\njobSpec:\n  workerPoolSpecs:\n  - replicaCount: 3  # one\n"


def test_json_stays_json() -> None:
    text = json.dumps({"displayName": "x", "jobSpec": {"workerPoolSpecs": [{}]}}, indent=4) + "\n"
    found = after(text, Edit((*POOLS, 0, "replicaCount"), 1))
    assert json.loads(found)["jobSpec"]["workerPoolSpecs"] == [{"replicaCount": 1}]
    assert found.startswith('{\n    "displayName"') and found.endswith("}\n")


def test_line_ends_and_the_byte_order_mark_stay() -> None:
    text = "\ufeff" + SHARED.replace("\n", "\r\n")
    found = apply(text, "f", [Edit((*POOLS, 0, "diskSpec", "bootDiskSizeGb"), 200)])
    assert found.startswith("\ufeff#") and found.count("\n") == found.count("\r\n") == SHARED.count("\n") + 1


def test_a_path_that_leads_nowhere_has_its_place() -> None:
    with pytest.raises(ProfileInvalid) as caught:
        apply(SHARED, "f.yaml", [Edit((*POOLS, 7, "replicaCount"), 1)])
    assert "f.yaml:8" in str(caught.value)


@pytest.mark.parametrize("path", sorted(READY.glob("*.yaml")), ids=lambda p: p.stem)
def test_ready_made_profiles_edit_without_losing_a_comment(path: Path) -> None:
    text = path.read_text()
    pool = {"machineSpec": {"machineType": "n1-highcpu-16"}, "replicaCount": 13}
    profile = load(text, str(path), path.stem)
    pools = (*profile.spec_path, "workerPoolSpecs")
    edits = [
        Edit((*pools, 0, "machineSpec", "machineType"), "n1-standard-8"),
        Edit((*pools, len(profile.job_spec.get("workerPoolSpecs", []))), pool),
        Edit((*profile.spec_path, "scheduling", "strategy"), "STANDARD"),
        Edit(("labels", "team"), "nlp"),
    ]
    found = after(text, *edits)
    comments = [line for line in text.splitlines() if line.lstrip().startswith("#")]
    assert [line for line in comments if line not in found] == []


class _Shuffled(yaml.SafeDumper):
    """Writes each collection in either style, with the shared ones as anchors and aliases."""

    dice = random.Random(0)

    def represent_sequence(self, tag: str, sequence: Any, flow_style: Any = None) -> Any:
        return super().represent_sequence(tag, sequence, flow_style=self.dice.random() < 0.4)

    def represent_mapping(self, tag: str, mapping: Any, flow_style: Any = None) -> Any:
        return super().represent_mapping(tag, mapping, flow_style=self.dice.random() < 0.4)


def paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        found += paths(child, (*path, key))
    return found


@settings(max_examples=100)
@given(
    shared=st.dictionaries(keys, values, min_size=1, max_size=3),
    rest=st.dictionaries(keys, values, max_size=3),
    edits=st.lists(
        st.tuples(st.integers(0), st.sampled_from(["set", "remove", "insert", "add"]), values), max_size=3
    ),
    seed=st.integers(0, 9),
)
def test_any_edit_of_any_text_gives_the_values_of_the_mechanical_edit(
    shared: Any, rest: Any, edits: Any, seed: int
) -> None:
    _Shuffled.dice = random.Random(seed)
    body = {"one": shared, "two": [shared, rest, shared], "three": {"k": shared, **rest}}
    text = yaml.dump(body, Dumper=_Shuffled, sort_keys=False, allow_unicode=True)
    text = "# first\n" + text + "# last\n"
    value = read(text, "").value
    made = []
    for number, kind, new in edits:
        places = paths(edited(value, made))
        path = places[number % len(places)]
        here = path if kind == "add" else path[:-1]
        owner = edited(value, made)
        for part in here:
            owner = owner[part]
        if kind == "add" and isinstance(owner, dict):
            made.append(Edit((*path, "new"), new))
        elif kind == "add" and isinstance(owner, list):
            made.append(Edit((*path, len(owner)), new))
        elif kind != "add":
            value_or_none = REMOVED if kind == "remove" else new
            made.append(Edit(path, value_or_none, kind == "insert" and isinstance(owner, list)))
    wanted = edited(value, made)
    found = apply(text, "f", made)
    assert same(read(found, "").value, wanted), found
    assert found.startswith("# first\n") and found.endswith("# last\n")


@settings(max_examples=100)
@given(value=st.dictionaries(keys, values, min_size=1))
def test_a_new_file_has_the_values_it_was_made_of(value: Any) -> None:
    text = render_new(value)
    assert same(read(text, "").value, value), text
    assert same(yaml.safe_load(text), json.loads(json.dumps(value))), text


odd = st.text(st.characters(codec="utf-8", categories=["Cc", "Cn", "Cf", "Zl", "Zp", "Ll"]), max_size=8)


@settings(max_examples=100)
@given(kept=odd, typed=odd, bare=st.booleans())
def test_json_takes_and_keeps_every_character(kept: str, typed: str, bare: bool) -> None:
    text = json.dumps({"displayName": kept, "labels": {"a": "b"}}, ensure_ascii=not bare)
    assert read(text, "").value["displayName"] == kept
    found = apply(text, "f", [Edit(("labels", "a"), typed)])
    wanted = {"displayName": kept, "labels": {"a": typed}}
    assert read(found, "").value == wanted and json.loads(found) == wanted


DEFAULTS = {"p": "text", "n": 3, "f": 0.5, "b": True, "unused": "x"}
referring = st.recursive(
    st.sampled_from(["${p}", "${n}", "${f}", "${b}", "--a=${n}", "plain", "$${p}"]) | st.integers(0, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=100)
@given(
    body=st.dictionaries(keys, referring, min_size=1, max_size=3),
    number=st.integers(0),
    new=st.sampled_from(["other", 7, 0.25, False, "${p}", ["x"], {"a": 1}, None]),
)
def test_any_edit_among_parameters_gives_the_filled_values(body: Any, number: int, new: Any) -> None:
    text = "# first\n" + render_new({"parameters": DEFAULTS, "one": body})
    places = paths({"one": body})
    edit = Edit(places[number % len(places)], new)
    before = read(text, "")
    changed = read(apply(text, "f", [edit]), "")
    wanted = edited(filled(before), [edit])
    if new == "${p}":
        # A reference is meant as one.
        wanted = filled(Document("", edited(before.value, [edit])))
    assert same(filled(changed), wanted), apply(text, "f", [edit])
