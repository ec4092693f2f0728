"""The form's rows, fields, choices and values, without a screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.config.paths import shipped
from tui.domain.document.document_edit import edited
from tui.domain.document.source import read
from tui.domain.form import SECTIONS, FormRow, FormState, RowKind, build_rows, changes
from tui.domain.form.analysis import analyse
from tui.domain.form.choices import accelerators_in, choices, machines_with, pool_of, pools_path
from tui.domain.form.fields import ELEMENTS, POOL, STUDY_SECTION
from tui.domain.form.summary import accelerators, roles, totals
from tui.domain.form.values import parse
from tui.domain.profile import ProfileInvalid
from tui.domain.profile.edit import apply
from tui.domain.spec.field_table import DURATION, HEADER, INTEGER, JOB_SPEC, STRING, WORKER_POOL, FieldType
from tui.domain.tuning.fields import PARAMETER_SPEC, STUDY_SPEC, TUNING_JOB_BODY
from tui.domain.vertex.catalog import machines

A100 = (shipped("profiles") / "a100-4node-spot.yaml").read_text()
POOLS = ("jobSpec", "workerPoolSpecs")


def rows(text: str, *toggled: str, expanded: bool = False) -> list[FormRow]:
    found = analyse(text, "f.yaml", "f")
    state = FormState(
        found.value, found.value, found.spec_path, frozenset(toggled), found.problems, expanded=expanded
    )
    return build_rows(state)


def row(found: list[FormRow], key: str) -> FormRow:
    return next(r for r in found if r.key == key)


def leaves(fields: Mapping[str, FieldType], *before: str) -> Iterator[tuple[str, ...]]:
    for name, kind in fields.items():
        if kind.name == "message" and not kind.repeated:
            yield from leaves(kind.fields, *before, name)
        else:
            yield (*before, name)


def test_every_field_of_a_custom_job_is_in_the_form_with_its_help() -> None:
    header = {path for path in leaves(HEADER) if path[0] not in {"jobSpec", "parameters"}}
    spec = set(leaves(JOB_SPEC.fields)) - {("workerPoolSpecs",)}
    shown = {f.path for s in SECTIONS for f in s.fields if s.base == "top"}
    assert shown == header
    assert {f.path for s in SECTIONS for f in s.fields if s.base == "spec"} == spec
    assert {f.path for f in POOL} == set(leaves(WORKER_POOL.fields))
    study = STUDY_SECTION.fields
    assert {f.path for f in study} == set(leaves(TUNING_JOB_BODY.fields)) - set(
        leaves(JOB_SPEC.fields, "trialJobSpec")
    )
    lists = {
        **WORKER_POOL.fields, **JOB_SPEC.fields["pscInterfaceConfig"].fields, **STUDY_SPEC.fields,
        **PARAMETER_SPEC.fields,
    }  # fmt: skip
    for name, inner in ELEMENTS.items():
        kind = lists[name]
        assert {f.path for f in inner} == set(leaves(kind.fields))
    everything = [
        *POOL,
        *(f for s in (*SECTIONS, STUDY_SECTION) for f in s.fields),
        *(f for e in ELEMENTS.values() for f in e),
    ]
    assert all(f.help.endswith(".") or f.help.endswith("NAME") for f in everything), [
        f.help for f in everything if not f.help.endswith(".")
    ]


def test_unset_fields_are_folded_and_open() -> None:
    found = rows(A100)
    more = row(found, "jobSpec.workerPoolSpecs[0]:more")
    assert more.kind is RowKind.MORE and "NFS mounts" in more.note
    assert not [r for r in found if r.label == "NFS mounts"]
    opened = rows(A100, more.key)
    assert [r.label for r in opened if r.label == "NFS mounts"] == ["NFS mounts"]


def test_a_reference_shows_its_default_and_editing_changes_it() -> None:
    found = analyse(A100, "f", "f").value
    image = row(rows(A100), "jobSpec.workerPoolSpecs[0].containerSpec.imageUri")
    assert image.parameter == "image" and image.value.startswith("${image} = us-docker")
    (edit,) = changes.value_edits(found, image, "mine:1")
    assert edit.path == ("parameters", "image", "default") and edit.value == "mine:1"


def test_what_only_looks_like_a_reference_is_edited_itself() -> None:
    text = A100.replace("parameters:", "labels2:").replace("bootDiskType: pd-ssd", 'bootDiskType: "${size}"')
    root = analyse(text, "f", "f").value
    disk = row(rows(text), "jobSpec.workerPoolSpecs[0].diskSpec.bootDiskType")
    assert not disk.parameter and disk.value == "${size}"
    assert [e.path for e in changes.value_edits(root, disk, "pd-ssd")] == [disk.path]


def test_problems_stand_at_their_field_or_around_it() -> None:
    broken = A100.replace("acceleratorCount: 8", "acceleratorCount: 3")
    count = row(rows(broken), "jobSpec.workerPoolSpecs[0].machineSpec.acceleratorCount")
    assert count.problems and "3" in count.problems[0].message
    closed = rows(broken, "jobSpec.workerPoolSpecs[0]")
    assert row(closed, "jobSpec.workerPoolSpecs[0]").problems


def test_a_wrong_name_is_a_row_that_can_be_removed() -> None:
    broken = A100.replace("  scheduling:", "  schedulign:")
    found = rows(broken)
    wrong = next(r for r in found if r.kind is RowKind.UNKNOWN)
    assert wrong.label == "schedulign" and wrong.problems
    value = analyse(broken, "f", "f").value
    assert "schedulign" not in edited(value, changes.removal_edits(value, wrong))["jobSpec"]


@pytest.mark.parametrize("text", ["a: [", "a: b: c", "", "- 1", "a: 1\na: 2", "\x00"])
def test_text_that_is_no_profile_says_why(text: str) -> None:
    found = analyse(text, "f.yaml", "f")
    assert not found.readable and found.problems[0].message


def test_choices_follow_from_what_was_chosen_before() -> None:
    kinds = [c.value for c in accelerators_in("me-west1")]
    assert kinds == ["", "NVIDIA_TESLA_A100"]
    assert {c.value for c in machines_with("NVIDIA_TESLA_A100", "me-west1")} == {
        m for m in machines() if m.startswith(("a2-highgpu", "a2-megagpu"))
    }
    here = {c.value for c in machines_with("", "europe-west2")}
    assert "n1-standard-4" in here and "g2-standard-12" in here and "a2-highgpu-8g" not in here
    root = analyse(A100, "f", "f").value
    count = row(rows(A100), "jobSpec.workerPoolSpecs[0].machineSpec.acceleratorCount")
    assert [c.value for c in choices(root, count, "us-central1")] == ["8"]
    region = row(rows(A100), "region")
    assert next(c.value for c in choices(root, region, "", ["europe-west4"])) == "europe-west4"


def test_a_machine_brings_its_own_accelerators() -> None:
    root = analyse(A100, "f", "f").value
    pool = (*POOLS, 1)
    spec = edited(root, changes.machine_edits(root, pool, "g2-standard-96"))["jobSpec"]["workerPoolSpecs"][1]
    assert spec["machineSpec"] == {
        "machineType": "g2-standard-96", "acceleratorType": "NVIDIA_L4", "acceleratorCount": 8
    }  # fmt: skip
    spec = edited(root, changes.machine_edits(root, pool, "n1-standard-4"))["jobSpec"]["workerPoolSpecs"][1]
    assert spec["machineSpec"] == {"machineType": "n1-standard-4"}
    assert not changes.accepts_accelerator(root, pool, "NVIDIA_L4") and changes.accepts_accelerator(
        root, pool, "NVIDIA_TESLA_A100"
    )


def test_pools_are_added_like_the_workers_and_skipped_in_the_middle() -> None:
    root = analyse(A100, "f", "f").value
    assert pools_path(root, ("jobSpec",)) == POOLS
    more = edited(root, changes.pool_edits(root, POOLS, 3))
    pools = more["jobSpec"]["workerPoolSpecs"]
    assert pools[2] == {} and pools[3] == {**pools[1], "replicaCount": 1}
    last = FormRow("x", RowKind.POOL, "", (*POOLS, 3))
    assert edited(more, changes.removal_edits(more, last))["jobSpec"]["workerPoolSpecs"] == pools[:2]
    middle = FormRow("x", RowKind.POOL, "", (*POOLS, 1))
    assert edited(more, changes.removal_edits(more, middle))["jobSpec"]["workerPoolSpecs"][1] == {}
    with pytest.raises(changes.Refused, match="primary"):
        changes.removal_edits(root, FormRow("x", RowKind.POOL, "", (*POOLS, 0)))


def test_a_value_becomes_a_parameter_and_a_value_again() -> None:
    root = analyse(A100, "f", "f").value
    size = row(rows(A100), "jobSpec.workerPoolSpecs[0].diskSpec.bootDiskSizeGb")
    linked = edited(root, changes.parameter_edits(root, size, "disk"))
    assert linked["parameters"]["disk"]["default"] == 200
    assert linked["jobSpec"]["workerPoolSpecs"][0]["diskSpec"]["bootDiskSizeGb"] == "${disk}"
    back = next(r for r in build_rows(FormState(linked, linked)) if r.key == size.key)
    assert edited(linked, changes.inline_edits(linked, back))["jobSpec"] == root["jobSpec"]
    used = row(rows(A100), "parameters.steps")
    with pytest.raises(changes.Refused, match="is used by"):
        changes.removal_edits(root, used)


def test_a_variables_value_becomes_a_parameter_and_a_value_again() -> None:
    root = analyse(A100, "f", "f").value
    debug = row(rows(A100, expanded=True), "jobSpec.workerPoolSpecs[0].containerSpec.env[0]")
    linked = edited(root, changes.parameter_edits(root, debug, "debug"))
    env = linked["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["env"]
    assert env == [{"name": "NCCL_DEBUG", "value": "${debug}"}]
    back = next(r for r in build_rows(FormState(linked, linked, expanded=True)) if r.key == debug.key)
    assert back.parameter == "debug"
    assert edited(linked, changes.inline_edits(linked, back))["jobSpec"] == root["jobSpec"]


def test_a_container_becomes_a_package_with_its_arguments() -> None:
    root = analyse(A100, "f", "f").value
    turned = edited(root, changes.task_edits(root, (*POOLS, 0)))
    pool, old = turned["jobSpec"]["workerPoolSpecs"][0], root["jobSpec"]["workerPoolSpecs"][0]
    assert "containerSpec" not in pool and pool["pythonPackageSpec"]["args"] == old["containerSpec"]["args"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (DURATION, "2d", "172800s"), (DURATION, "1h30m", "5400s"), (DURATION, "90", "90s"),
        (DURATION, "3600s", "3600s"), (INTEGER, "7", 7), (INTEGER, "${n}", "${n}"), (STRING, " x", " x"),
    ],
)  # fmt: skip
def test_what_a_typed_text_means(kind: FieldType, text: str, value: object) -> None:
    assert parse(kind, text) == value


@pytest.mark.parametrize(("kind", "text"), [(DURATION, "soon"), (DURATION, ""), (INTEGER, "1.5")])
def test_a_text_that_does_not_fit_says_what_is_expected(kind: FieldType, text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse(kind, text)


def test_a_parameters_type_and_choices_hold() -> None:
    text = A100.replace("steps: {type: integer, default: 100000}", "steps: {default: 5, choices: [5, 6]}")
    root = analyse(text, "f", "f").value
    steps = row(rows(text), "parameters.steps")
    assert changes.value_edits(root, steps, "6")[0].value == 6
    with pytest.raises(ValueError, match="integer"):
        changes.value_edits(root, steps, "many")
    with pytest.raises(ValueError, match="one of 5, 6"):
        changes.value_edits(root, steps, "7")


def test_the_head_says_roles_and_totals() -> None:
    job = analyse(A100, "f", "f").job
    assert job is not None
    assert roles(job) == "primary 1 × a2-highgpu-8g   workers 3 × a2-highgpu-8g"
    assert totals(job) == "32 A100   4 replicas   SPOT   at most 2d"
    assert accelerators(job) == {"NVIDIA_TESLA_A100": 32}


def test_a_parameter_without_a_default_is_no_problem() -> None:
    text = A100.replace("steps: {type: integer, default: 100000}", "steps: {type: integer}")
    found = analyse(text, "f", "f")
    assert found.job is not None and not found.problems


def test_secrets_are_masked_in_rows() -> None:
    text = A100.replace("{name: NCCL_DEBUG, value: WARN}", "{name: HF_TOKEN, value: abcdef123}")
    assert "abcdef123" not in "".join(r.value for r in rows(text, expanded=True))


NAMES = ["jobSpec", "job_spec", "workerPoolSpecs", "machineSpec", "containerSpec", "pythonPackageSpec", "env",
         "args", "labels", "parameters", "default", "name", "value", "nfsMounts", "scheduling", "timeout",
         "replicaCount", "region", "pscInterfaceConfig", "dnsPeeringConfigs", "choices",
         "diskSpec"]  # fmt: skip
ANYTHING = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["", "x", "${x}", "${x} y", "a=b"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=80)
@given(
    st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=5), st.sampled_from(["7", "", "a=b", "${y}"])
)
def test_values_of_any_shape_are_shown_and_edited_or_refused(value: dict[str, object], words: str) -> None:
    text = yaml.safe_dump(value) if value else "displayName: x"
    found = analyse(text, "f.yaml", "f")
    root = found.value
    for each in build_rows(FormState(root, {}, found.spec_path, problems=found.problems, expanded=True)):
        pool = pool_of(each)
        operations = [
            lambda each=each: changes.value_edits(root, each, words),
            lambda each=each: changes.removal_edits(root, each),
            lambda each=each: changes.addition_edits(root, each, words)[0],
            lambda each=each: changes.parameter_edits(root, each, "q"),
            lambda each=each: changes.inline_edits(root, each),
            lambda each=each: choices(root, each, "us-central1") and (),
            lambda each=each: changes.pool_edits(root, pools_path(root, found.spec_path), 2),
        ]
        if pool is not None:
            operations += [
                lambda pool=pool: changes.machine_edits(root, pool, "g2-standard-4"),
                lambda pool=pool: changes.accelerator_edits(root, pool, "NVIDIA_L4"),
                lambda pool=pool: changes.task_edits(root, pool),
            ]
        for operation in operations:
            try:
                edits = operation()
            except (ValueError, changes.Refused):
                continue
            if each.key == "region":
                with suppress(ProfileInvalid):
                    read(apply(text, "f.yaml", edits), "f.yaml")


def test_a_study_is_shown_and_edited_with_the_pools_of_its_trials() -> None:
    text = (shipped("profiles") / "local-tuning.yaml").read_text()
    found = build_rows(
        FormState(read(text, "").value, spec_path=("tuningJob", "trialJobSpec"), expanded=True)
    )
    labels = [each.label for each in found if each.key.startswith("tuningJob.studySpec")]
    assert {"metrics", "metric", "goal", "search", "id", "from", "to", "scale", "categories"} <= {*labels}
    assert [each.value for each in found if each.label == "id" and each.value] == [
        "learning-rate", "batch", "schedule",
    ]  # fmt: skip
    low = row(found, "tuningJob.studySpec.parameters[0].doubleValueSpec.minValue")
    (edit,) = changes.value_edits(read(text, "").value, low, "1e-5")
    assert (edit.path[-1], edit.value) == ("minValue", 1e-5)
    with pytest.raises(ValueError, match="must be a number"):
        changes.value_edits(read(text, "").value, low, "small")
    numbers = row(found, "tuningJob.studySpec.parameters[1].discreteValueSpec.values")
    edits, path = changes.addition_edits(read(text, "").value, numbers, "32")
    assert edits[-1].value == 32 and path[-1] == 3
