"""Every rule of manifests: it says what is wrong, its fix helps, and a good job has no word against it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.kubernetes.manifest_rules_support import (
    GOOD,
    pytorch,
    template,
    train,
)
from tui.domain.document.document_edit import Edit, edited
from tui.domain.document.source import ProblemSeverity
from tui.domain.kubernetes.rules import RULES, check_manifest
from tui.domain.kubernetes.workloads import GPU, QUEUE, SPOT
from tui.domain.spec.findings import Case, Finding


def case(*objects: Any, name: str = "bert", local: bool = False) -> Case:
    return Case({"displayName": name, "manifest": {"objects": list(objects)}}, "team-a", local)


def found(*objects: Any, name: str = "bert") -> list[Finding]:
    return check_manifest(case(*objects, name=name))


@pytest.mark.parametrize("kind", GOOD)
def test_a_good_job_has_no_word_against_it(kind: str) -> None:
    assert found(GOOD[kind]()) == []


MASTER = ("spec", "pytorchReplicaSpecs", "Master")
WORKER = ("spec", "pytorchReplicaSpecs", "Worker")
POD = (*WORKER, "template", "spec")
LIMITS = (*POD, "containers", 0, "resources", "limits")
NOTES = (*WORKER, "template", "metadata", "annotations")
SELECTOR = (*POD, "nodeSelector")
RUN = ("spec", "runPolicy")
ONE = ("spec", "replicatedJobs", 0)
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
BLOCK = "cloud.google.com/gce-topology-block"
SPOT_TAINT = {"key": SPOT, "operator": "Exists", "effect": "NoSchedule"}

# Rule, the kind of job, what is changed in it.
BROKEN: list[tuple[str, str, dict[tuple[str | int, ...], Any]]] = [
    ("manifest.no-job", "pytorch", {("apiVersion",): "kubeflow.com/v1"}),
    ("manifest.no-job", "pytorch", {("kind",): "Deployment"}),
    ("manifest.version", "pytorch", {("apiVersion",): "kubeflow.org/v1beta2"}),
    ("names.group", "jobset", {(*ONE, "name"): "Node"}),
    ("names.container", "pytorch", {(*POD, "containers", 0, "name"): "train"}),
    ("names.container", "tf", {("spec", "tfReplicaSpecs", "Chief", "template"): template("tf")}),
    ("names.no-image", "pytorch", {(*POD, "containers", 0, "image"): ""}),
    ("names.untagged", "pytorch", {(*POD, "containers", 0, "image"): "host:5000/bert"}),
    ("labels.syntax", "pytorch", {("metadata", "labels"): {"team": "Ünï [x]"}}),
    ("labels.syntax", "pytorch", {("metadata", "labels"): {"team": "a" * 64}}),
    ("labels.syntax", "pytorch", {("metadata", "labels"): {"Team X/a": "b"}}),
    ("labels.syntax", "pytorch", {("metadata", "labels"): {"team/": "b"}}),
    ("labels.syntax", "pytorch", {(*WORKER, "template", "metadata", "labels"): {"team": "-a"}}),
    ("labels.syntax", "jobset",
     {(*ONE, "template", "spec", "template", "metadata", "labels"): {"team": "[]"}}),
    ("replicas.role", "pytorch", {(*WORKER[:-1], "worker"): {"template": template()}}),
    ("replicas.role", "mpi", {("spec", "mpiReplicaSpecs"): {"Worker": {"template": template("w")}}}),
    ("replicas.role", "tf", {("spec", "tfReplicaSpecs", "Master"): {"template": template("tensorflow")}}),
    ("replicas.number", "pytorch", {(*MASTER, "replicas"): 2}),
    ("replicas.number", "pytorch", {(*WORKER, "replicas"): 0}),
    ("replicas.containers", "pytorch", {(*POD, "containers"): []}),
    ("replicas.processes", "pytorch", {("spec", "nprocPerNode"): "16"}),
    ("replicas.processes", "pytorch", {("spec", "nprocPerNode"): "all"}),
    ("replicas.processes", "train", {("spec", "trainer", "numProcPerNode"): 9}),
    ("replicas.processes", "mpi", {("spec", "slotsPerWorker"): 9}),
    ("replicas.idle-gpus", "pytorch", {("spec", "nprocPerNode"): "4"}),
    ("replicas.elastic", "elastic", {("spec", "elasticPolicy", "minReplicas"): 5}),
    ("replicas.elastic", "elastic", {(*WORKER, "replicas"): 9}),
    ("replicas.elastic", "elastic", {("spec", "elasticPolicy"): {"minReplicas": 4, "maxReplicas": 5}}),
    ("replicas.elastic", "elastic", {("spec", "elasticPolicy", "nProcPerNode"): 8}),
    ("replicas.elastic-master", "elastic", {MASTER: {"replicas": 1, "template": template()}}),
    ("replicas.gang", "pytorch", {(*RUN, "schedulingPolicy", "minAvailable"): 5}),
    ("replicas.loose-gang", "pytorch", {(*RUN, "schedulingPolicy", "minAvailable"): 2}),
    ("replicas.runtime", "train", {("spec", "runtimeRef"): {}}),
    ("replicas.index", "batch", {("spec", "completionMode"): "NonIndexed"}),
    ("replicas.index", "batch", {("spec", "completions"): 5}),
    ("policy.restart", "pytorch", {(*WORKER, "restartPolicy"): "onFailure"}),
    ("policy.restart", "batch", {("spec", "template", "spec", "restartPolicy"): "Always"}),
    ("policy.no-restart", "batch", {("spec", "template", "spec", "restartPolicy"): None}),
    ("policy.kept-pods", "pytorch", {RUN: {"cleanPodPolicy": "None", "backoffLimit": 0}}),
    ("policy.lost-logs", "pytorch", {RUN: {"cleanPodPolicy": "All"}}),
    ("policy.spot-restart", "pytorch", {(*SELECTOR, SPOT): "true", (*WORKER, "restartPolicy"): "Never"}),
    ("policy.spot-restart", "pytorch", {(*SELECTOR, SPOT): "true", (*RUN, "backoffLimit"): 0}),
    ("policy.spot-checkpoint", "pytorch", {(*SELECTOR, SPOT): "true"}),
    ("policy.suspended", "pytorch", {(*RUN, "suspend"): True}),
    ("policy.suspended", "train", {("spec", "suspend"): True}),
    ("policy.queue-on-pods", "pytorch", {(*WORKER, "template", "metadata", "labels"): {QUEUE: "q"}}),
    ("policy.two-queues", "pytorch",
     {("metadata", "labels"): {QUEUE: "q"}, (*RUN, "schedulingPolicy", "queue"): "volcano"}),
    ("policy.queue-awake", "pytorch", {("metadata", "labels"): {QUEUE: "q"}, (*RUN, "suspend"): False}),
    ("gke.spot-toleration", "pytorch", {(*SELECTOR, SPOT): "true"}),
    ("gke.spot-selector", "pytorch", {(*POD, "tolerations"): [SPOT_TAINT]}),
    ("gke.accelerator", "pytorch", {(*SELECTOR, "cloud.google.com/gke-accelerator"): "NVIDIA_L4"}),
    ("gke.no-gpus", "pytorch", {LIMITS: {GPU: 0}, ("spec", "nprocPerNode"): "auto"}),
    ("gke.any-gpu", "pytorch", {SELECTOR: {}}),
    ("gke.gpu-request", "pytorch", {(*LIMITS[:-1], "requests", GPU): 4}),
    ("gke.gpu-request", "train", {("spec", "trainer", "resourcesPerNode"): {"requests": {GPU: 8}}}),
    ("gke.gpu-number", "pytorch", {(*LIMITS, GPU): "half"}),
    ("gke.machine", "pytorch", {(*SELECTOR, "node.kubernetes.io/instance-type"): "a2-highgpu-4g"}),
    ("gke.gpu-network", "pytorch", {(*WORKER, "template"): template(accelerator="nvidia-h100-mega-80gb")}),
    ("gke.gpu-network", "pytorch", {(*WORKER, "template"): template(accelerator="nvidia-h200-141gb")}),
    ("gke.topology-level", "pytorch", {("metadata", "labels"): {QUEUE: "q"}, NOTES: {REQUIRED: "block"}}),
    ("gke.topology-alone", "pytorch", {NOTES: {REQUIRED: BLOCK}}),
    ("gke.two-topologies", "pytorch",
     {("metadata", "labels"): {QUEUE: "q"}, NOTES: {REQUIRED: BLOCK, PREFERRED: BLOCK}}),
    ("gke.no-topology", "pytorch",
     {("metadata", "labels"): {QUEUE: "q"}, (*WORKER, "template"): template(accelerator="nvidia-h100-80gb")}),
    ("runtime.shm", "pytorch", {(*POD, "containers", 0, "args"): ["--workers=4"]}),
    ("runtime.shm", "pytorch", {(*POD, "containers", 0, "args"): ["--num_workers", "2"]}),
    ("runtime.memory", "pytorch", {(*POD, "containers", 0, "resources", "requests"): {}}),
    ("runtime.variable-twice", "pytorch", {(*POD, "containers", 0, "env"): [{"name": "A"}, {"name": "A"}]}),
    ("runtime.operators-variable", "pytorch", {(*POD, "containers", 0, "env"): [{"name": "RANK"}]}),
]  # fmt: skip
WHOLE = {"manifest.object", "manifest.one-job", "manifest.namespace", "replicas.elastic-runtime"}
"""Rules about several objects, or the name, which have tests of their own."""


@pytest.mark.parametrize(
    ("rule", "kind", "changes"), BROKEN, ids=[f"{i}-{each[0]}" for i, each in enumerate(BROKEN)]
)
def test_a_rule_says_what_is_wrong_and_its_fix_helps(
    rule: str, kind: str, changes: dict[tuple[str | int, ...], Any]
) -> None:
    job = edited(GOOD[kind](), [Edit(path, value) for path, value in changes.items()])
    broken = [each for each in found(job) if each.rule == rule]
    assert broken, [each.rule for each in found(job)]
    for each in broken:
        assert each.sentence.endswith((".", "?")) and each.fix.endswith(".")
        assert each.source.startswith("https://") and each.path[:2] == ("manifest", "objects")
    edits = [edit for each in broken for edit in each.edits]
    if edits:
        fixed = edited(case(job).job, broken[0].edits)
        left = [each for each in check_manifest(Case(fixed)) if each.rule == rule]
        assert len(left) < len(broken)
        assert not [
            e
            for e in check_manifest(Case(fixed))
            if e.severity == ProblemSeverity.ERROR and e not in found(job)
        ]


@pytest.mark.parametrize(
    ("kind", "path", "value", "words"),
    [
        ("pytorch", (*WORKER, "replica"), 3, "the field does not exist"),
        ("pytorch", (*POD, "containers", 0, "imagePullPolic"), "Always", "the field does not exist"),
        ("pytorch", (*POD, "node_selector"), {}, "the field does not exist"),
        ("pytorch", (*WORKER, "replicas"), "3", "the value must be an integer, not '3'"),
        (
            "pytorch",
            (*POD, "containers", 0, "env"),
            [{"name": "A", "value": 7}],
            "the value must be text, not 7",
        ),
        ("pytorch", (*POD, "hostNetwork"), "true", "the value must be true or false"),
        ("pytorch", (*POD, "containers", 0, "args"), "--x", "the value must be a list"),
        ("train", ("spec", "trainer", "numNodes"), "two", "the value must be an integer"),
        ("jobset", (*ONE, "template", "spec", "paralelism"), 2, "the field does not exist"),
    ],
)
def test_the_schema_is_applied(kind: str, path: tuple[str | int, ...], value: Any, words: str) -> None:
    [broken] = [
        each for each in found(edited(GOOD[kind](), [Edit(path, value)])) if each.rule == "manifest.schema"
    ]
    assert broken.sentence.startswith(words) and broken.severity is ProblemSeverity.ERROR
    if broken.edits:
        job = edited(case(edited(GOOD[kind](), [Edit(path, value)])).job, broken.edits)
        assert not [each for each in check_manifest(Case(job)) if each.rule == "manifest.schema"]


def test_every_rule_has_a_test() -> None:
    ids = [rule.id for rule in RULES]
    assert len(set(ids)) == len(ids)
    named = {"manifest.schema", "names.job", "names.length"}
    assert set(ids) == {each[0] for each in BROKEN} | WHOLE | named


def test_rules_about_several_objects() -> None:
    def ids(*objects: Any) -> set[str]:
        return {each.rule for each in found(*objects)}

    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    assert ids(config, pytorch()) == set()
    assert ids({"kind": "ConfigMap"}, pytorch()) == {"manifest.object"}
    assert ids(pytorch(), pytorch()) == {"manifest.one-job"}
    apart = [
        {**each, "metadata": {"name": "x", "namespace": n}} for each, n in ((config, "a"), (pytorch(), "b"))
    ]
    assert ids(*apart) == {"manifest.namespace"}
    old = {"torch": {"elasticPolicy": {"minNodes": 1}}}
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime",
        "metadata": {"name": "torch-distributed"}, "spec": {"mlPolicy": old},
    }  # fmt: skip
    assert ids(runtime, train()) == {"replicas.elastic-runtime", "replicas.runtime"}


@pytest.mark.parametrize(
    ("name", "kind", "rule"),
    [
        ("Bert", "pytorch", "names.job"),
        ("1bert", "pytorch", "names.job"),
        ("a" * 54, "pytorch", ""),
        ("a" * 55, "pytorch", "names.length"),
        ("a" * 49, "train", "names.length"),
        ("{profile}-{n}", "pytorch", ""),
        ("{user}_{n}", "pytorch", "names.job"),
    ],
)
def test_the_name_fits_its_pods(name: str, kind: str, rule: str) -> None:
    assert [each.rule for each in found(GOOD[kind](), name=name)] == ([rule] if rule else [])


def test_labels_of_the_header_and_of_other_objects_are_looked_at() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": {"a": "b c"}}}
    good = {"team": "", "app.kubernetes.io/name": "Bert_2.0", "n": "1"}
    job = case(other, pytorch() | {"metadata": {"labels": good}}).job | {"labels": {"team": "x y"}}
    said = {each.path: each for each in check_manifest(Case(job)) if each.rule == "labels.syntax"}
    assert set(said) == {("labels", "team"), ("manifest", "objects", 0, "metadata", "labels", "a")}
    assert (
        said["labels", "team"].fix == "Write x-y."
        and said["labels", "team"].severity is ProblemSeverity.ERROR
    )


@pytest.mark.parametrize("value", [None, 7, "x", [], [7], {"a": 7}])
@pytest.mark.parametrize("kind", GOOD)
def test_no_shape_breaks_a_rule(kind: str, value: Any) -> None:
    """Any value at any place: rules find something or nothing, and never fail."""

    def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
        items = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        return [path, *(deeper for key, inner in items for deeper in places(inner, (*path, key)))]

    for path in places(GOOD[kind]()):
        if path:
            check_manifest(case(edited(GOOD[kind](), [Edit(path, value)])))
