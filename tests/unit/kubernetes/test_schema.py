"""The tables of types, and objects checked by them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.domain.kubernetes.schema.check import (
    fill_defaults,
    forbidden_changes,
    known_fields,
    problems,
    shown,
    unknown_fields,
)
from tui.domain.kubernetes.schema.language import TableError, parse
from tui.domain.kubernetes.schema.registry import components, schema_of
from tui.emulator.kubernetes.resources import DEFINITIONS, RESOURCES


def test_every_served_type_has_a_schema_with_all_that_it_names() -> None:
    for resource in RESOURCES:
        # The older version of Kueue is converted; its definition keeps any field.
        if resource == DEFINITIONS or resource.api_version == "kueue.x-k8s.io/v1beta1":
            continue
        schema = schema_of(resource.api_version, resource.kind)
        assert schema is not None and "$ref" not in str(schema)
        assert ("status" in resource.subresources) <= ("status" in schema["properties"]), resource.kind
        found = components(resource.api_version)
        assert resource.kind in found
        named = {part.split("'")[0] for part in str(found).split("#/components/schemas/")[1:]}
        assert named <= found.keys()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A\n  x string\n", "line 2: '  x string' must be a field"),
        ("A\n  x: strin\n", "line 2: 'strin' must be a type"),
        ("A\n  x: [string\n", "line 2: '\\[string' must have an end"),
        ("A\n  x: int = y\n", "line 2"),
    ],
)
def test_a_line_that_is_not_of_the_language_is_named(text: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        parse(text)


def test_a_table_says_types_limits_defaults_and_keys() -> None:
    table = parse(
        "# A comment.\nkind K\n  a!: int >=1 <=9 = 3 # What it is.\n  b: [T] by name,port\n"
        "  c: {[string] set}\n"
        "  d: X|Y\n  e: {string} atomic\n  *: any\nT\n  name!: string\n"
    )
    fields = table.types["K"]["properties"]
    assert table.kinds == ("K",) and table.types["K"]["required"] == ["a"]
    assert fields["a"] == {
        "type": "integer", "format": "int32", "minimum": 1, "maximum": 9, "default": 3,
        "description": "What it is.",
    }  # fmt: skip
    assert fields["b"]["x-kubernetes-list-map-keys"] == ["name", "port"]
    assert fields["c"]["additionalProperties"]["x-kubernetes-list-type"] == "set"
    assert fields["d"]["enum"] == ["X", "Y"] and fields["e"]["x-kubernetes-map-type"] == "atomic"
    assert table.types["K"]["x-kubernetes-preserve-unknown-fields"] is True


def job(**spec: Any) -> dict[str, Any]:
    container = {"name": "pytorch", "image": "x", "ports": [{"containerPort": 23456}]}
    group = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "j"},
        "spec": {"pytorchReplicaSpecs": {"Worker": group}, **spec},
    }  # fmt: skip


SCHEMA = schema_of("kubeflow.org/v1", "PyTorchJob") or {}


def test_what_kubernetes_takes_has_no_problem() -> None:
    found = job(runPolicy={"schedulingPolicy": {"minResources": {"cpu": 2, "memory": "1Gi"}}})
    assert list(problems(found, SCHEMA)) == [] and list(unknown_fields(found, SCHEMA)) == []


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        ({"nprocPerNode": 2}, "spec.nprocPerNode", "FieldValueTypeInvalid"),
        ({"runPolicy": {"suspend": "yes"}}, "spec.runPolicy.suspend", "FieldValueTypeInvalid"),
        ({"runPolicy": {"backoffLimit": True}}, "spec.runPolicy.backoffLimit", "FieldValueTypeInvalid"),
        ({"pytorchReplicaSpecs": None}, "spec.pytorchReplicaSpecs", "FieldValueRequired"),
        ({"elasticPolicy": {"metrics": [{}]}}, "spec.elasticPolicy.metrics[0].type", "FieldValueRequired"),
        (
            {"runPolicy": {"schedulingPolicy": {"minResources": {"cpu": "two"}}}},
            "spec.runPolicy.schedulingPolicy.minResources.cpu", "FieldValueInvalid",
        ),
    ],
)  # fmt: skip
def test_a_problem_has_kubernetes_field_and_reason(spec: Any, field: str, reason: str) -> None:
    assert [(one.field, one.reason) for one in problems(job(**spec), SCHEMA)] == [(field, reason)]


def test_items_with_the_same_keys_are_duplicates() -> None:
    found = job()
    containers = found["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    containers.append(deepcopy(containers[0]))
    # The protocol that is not given is its default.
    containers[0]["ports"].append({"containerPort": 23456, "protocol": "TCP"})
    messages = {one.field.rpartition("spec.")[2]: one.message for one in problems(found, SCHEMA)}
    assert messages == {
        "containers[1]": 'Duplicate value: {"name":"pytorch"}',
        "containers[0].ports[1]": 'Duplicate value: {"containerPort":23456,"protocol":"TCP"}',
    }


def test_unknown_fields_are_found_at_every_depth() -> None:
    found = job(elasticPolicy={"minReplica": 1})
    found["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["imag"] = "x"
    paths = [shown(path) for path in unknown_fields(found, SCHEMA)]
    assert paths == [
        "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].imag", "spec.elasticPolicy.minReplica"
    ]  # fmt: skip
    assert "minReplicas" in known_fields(SCHEMA, ("spec", "elasticPolicy"))
    assert "image" in known_fields(
        SCHEMA, ("spec", "pytorchReplicaSpecs", "Worker", "template", "spec", "containers", 0)
    )


def test_defaults_are_filled_where_an_object_is() -> None:
    found = job(runPolicy={})
    fill_defaults(found, SCHEMA)
    assert found["spec"]["runPolicy"] == {"suspend": False}
    port = found["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["ports"][0]
    assert port == {"containerPort": 23456, "protocol": "TCP"}
    assert "elasticPolicy" not in found["spec"]


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)


@given(st.sampled_from([one for one in RESOURCES if one != DEFINITIONS]), ANY, ANY)
def test_nothing_makes_the_check_fail(resource: Any, spec: Any, status: Any) -> None:
    schema = schema_of(resource.api_version, resource.kind) or {}
    obj = {"spec": spec, "status": status, "metadata": spec}
    for problem in problems(obj, schema):
        assert problem.field and problem.message
    assert all(shown(path) for path in unknown_fields(obj, schema))
    fill_defaults(obj, schema)


def test_a_table_says_sizes_and_what_is_fixed() -> None:
    table = parse(
        'A\n  a: string length>=1 length<=3 fixed = "x"\n  b: [string] set items<=2 fixed "Stays" # B.\n'
        "B\n  c: A fixed\n"
    )
    fields = table.types["A"]["properties"]
    assert (fields["a"]["minLength"], fields["a"]["maxLength"], fields["a"]["default"]) == (1, 3, "x")
    assert fields["a"]["x-kubernetes-validations"] == [
        {"rule": "self == oldSelf", "message": "field is immutable"}
    ]
    assert (fields["b"]["maxItems"], fields["b"]["x-kubernetes-list-type"]) == (2, "set")
    assert fields["b"]["x-kubernetes-validations"][0]["message"] == "Stays"
    assert table.types["B"]["properties"]["c"]["$ref"] == "A"
    said = [
        (one.reason, one.message) for one in problems({"a": "long", "b": ["x", "y", "z"]}, table.types["A"])
    ]
    assert said == [
        ("FieldValueTooLong", "Too long: may not be more than 3 bytes"),
        ("FieldValueTooMany", "Too many: 3: must have at most 2 items"),
    ]


def test_what_is_fixed_may_be_set_and_not_changed() -> None:
    schema = schema_of("trainer.kubeflow.org/v1alpha1", "TrainJob") or {}

    def refused(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
        return [
            f"{one.field}: {one.message}" for one in forbidden_changes({"spec": new}, {"spec": old}, schema)
        ]

    runtime = {"runtimeRef": {"name": "a"}}
    assert refused({**runtime, "suspend": True}, {**runtime, "suspend": False}) == []
    assert refused({**runtime, "trainer": {"numNodes": 1}}, runtime) == []
    assert refused({"runtimeRef": {"name": "b"}, "trainer": {"numNodes": 2}}, {**runtime, "trainer": {}}) == [
        'spec.runtimeRef: Invalid value: "object": field is immutable',
        'spec.trainer: Invalid value: "object": field is immutable',
    ]
    sets = schema_of("jobset.x-k8s.io/v1alpha2", "JobSet") or {}
    new, old = (
        {"spec": {"replicatedJobs": [{"name": "b", "dependsOn": [{"name": "a", "status": status}]}]}}
        for status in ("Ready", "Complete")
    )
    (found,) = forbidden_changes(new, old, sets)
    assert found.field == "spec.replicatedJobs[0].dependsOn" and "Value is immutable" in found.message
