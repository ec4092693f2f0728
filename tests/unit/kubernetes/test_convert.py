"""Conversion to the other side and back: the same job, or each difference is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.domain.convert import CannotConvert, Converted, convert, plain_values
from tui.domain.convert.pods import gibibytes, machine_with
from tui.domain.convert.to_vertex import started
from tui.domain.document.source import ProblemSeverity
from tui.domain.kubernetes.workloads import GPU, WORKLOADS, job_index, workload_of
from tui.domain.profile import Profile, inspect, load
from tui.domain.profile.edit import render_new
from tui.domain.spec.spec_format import bodies

FOLDER = Path(__file__).parents[3] / "profiles"
READY = sorted(FOLDER.glob("*.yaml"))
NO_COUNTERPART = {"tuningJob", "pipelineJob"}
Place = tuple[Any, ...]


def ready(path: Path) -> Profile:
    return load(path.read_text(), str(path), path.stem)


def other(profile: Profile) -> str:
    return "vertex" if profile.format.family == "kubernetes" else "kubernetes"


def kind_of(profile: Profile) -> str:
    objects = profile.body["objects"]
    index = job_index(objects)
    found = workload_of(objects[index]) if index is not None else None
    return found.kind if found is not None else ""


def there_and_back(profile: Profile, kind: str = "PyTorchJob") -> tuple[Profile, Converted, Converted]:
    to = other(profile)
    there = convert(profile, to, kind)
    made = load(there.text, "there.yaml", profile.name)
    back = convert(made, profile.format.family, kind)
    return load(back.text, "back.yaml", profile.name), there, back


def leaves(value: Any, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and value and not (path and path[-1] in {"env", "tolerations", "volumes"}):
        for i, inner in enumerate(value):
            yield from leaves(inner, (*path, i))
    elif value not in ({}, []):
        yield path, value


def unnamed(old: Profile, new: Profile, there: Converted, back: Converted) -> list[Place]:
    """Places that differ and that no difference names."""
    before, after = dict(leaves(plain_values(old))), dict(leaves(plain_values(new)))
    for each in (before, after):
        # What Vertex AI takes where none is given.
        each.setdefault(("jobSpec", "scheduling", "timeout"), "604800s")
        each.setdefault(("jobSpec", "scheduling", "strategy"), "STANDARD")
    assert before["displayName",] == after["displayName",]
    carried = {("manifest", 0, "metadata", "name"), ("manifest", 0, "metadata")}
    places = {*before, *after} - carried
    differing = [path for path in places if before.get(path) != after.get(path)]
    named = [each.path for each in there.differences if each.path]
    named += [each.target for each in back.differences if each.target]

    def covers(name: Place, path: Place) -> bool:
        short = min(len(name), len(path))
        return all(a in ("*", b) or b == "*" for a, b in zip(name[:short], path[:short], strict=True))

    return [path for path in differing if not any(covers(name, path) for name in named)]


@pytest.mark.parametrize("path", READY, ids=lambda p: p.stem)
def test_a_ready_made_profile_comes_back_or_each_difference_is_named(path: Path) -> None:
    profile = ready(path)
    if profile.format.body in NO_COUNTERPART:
        with pytest.raises(CannotConvert, match="no counterpart"):
            convert(profile, other(profile))
        return
    kind = kind_of(profile) if profile.format.family == "kubernetes" else "PyTorchJob"
    new, there, back = there_and_back(profile, kind)
    assert unnamed(profile, new, there, back) == []
    for each in (*there.differences, *back.differences):
        assert each.sentence.endswith(".")
        assert f"{each.sentence.split()[0]}" in there.text + back.text
    # What an image or a folder gives, a conversion can't.
    wrong = [p for p in inspect(there.text, "there.yaml", path.stem) if p.severity is ProblemSeverity.ERROR]
    assert {p.id for p in wrong} <= ({"names.no-image"} if profile.package else set())


@pytest.mark.parametrize("kind", [each.kind for each in WORKLOADS])
def test_a_vertex_job_becomes_each_kind_of_object(kind: str) -> None:
    profile = ready(FOLDER / "a100-4node-spot.yaml")
    new, there, back = there_and_back(profile, kind)
    assert unnamed(profile, new, there, back) == []
    made = load(there.text, "there.yaml", "x")
    assert kind_of(made) == kind
    assert not [p for p in inspect(there.text, "t.yaml", "x") if p.severity is ProblemSeverity.ERROR]
    assert [pool["replicaCount"] for pool in new.job_spec["workerPoolSpecs"]] == [1, 3]
    machine = {"machineType": "a2-highgpu-8g", "acceleratorType": "NVIDIA_TESLA_A100", "acceleratorCount": 8}
    assert [pool["machineSpec"] for pool in new.job_spec["workerPoolSpecs"]] == [machine, machine]
    assert new.job_spec["scheduling"] == {"timeout": "172800s", "strategy": "SPOT"}
    assert new.job_spec["baseOutputDirectory"] == {"outputUriPrefix": "${output}"}


def test_places_are_those_of_the_file() -> None:
    alone = (FOLDER / "k8s-pytorch-2node.yaml").read_text()
    manifest = yaml.safe_load(alone)["manifest"]
    found = convert(load(yaml.safe_dump(manifest), "f.yaml", "x"), "vertex").differences
    assert "spec.runPolicy.cleanPodPolicy" in {each.place for each in found}
    machine, disk = {"machineType": "n1-standard-4"}, {"bootDiskSizeGb": 200}
    pool = {"machineSpec": machine, "containerSpec": {"imageUri": "a:1"}, "diskSpec": disk}
    spec = {"workerPoolSpecs": [pool]}
    bare = convert(load(yaml.safe_dump(spec), "f.yaml", "x"), "kubernetes").differences
    assert [each.place for each in bare if each.path] == ["workerPoolSpecs[0].diskSpec"]


def test_the_same_side_is_refused() -> None:
    with pytest.raises(CannotConvert, match="is already for vertex"):
        convert(ready(FOLDER / "l4-1node.yaml"), "vertex")
    assert set(bodies()) >= NO_COUNTERPART


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (
            "mpirun -n 2 --bind-to none -mca btl ^docker0 -x A=1 python3 -m trainer.task",
            "python3 -m trainer.task",
        ),
        ("/usr/bin/mpirun --map-by=slot ./train", "./train"),
        ("python3 train.py", "python3 train.py"),
        ("mpirun", ""),
    ],
)
def test_what_mpirun_starts(words: str, left: str) -> None:
    assert " ".join(started(words.split())) == left


def test_machines() -> None:
    assert machine_with("NVIDIA_TESLA_A100", 8) == "a2-highgpu-8g"
    assert machine_with("NVIDIA_L4", 1).startswith("g2-standard-")
    assert gibibytes("2Gi") == 2 and gibibytes("1024Mi") == 1 and gibibytes("x") == 0


WORDS = st.text("abcXYZ-=/._ $(){}", max_size=12)
ENV = st.dictionaries(st.sampled_from(["A", "B_C", "AIP_X"]), WORDS, min_size=1, max_size=2).map(
    lambda found: [{"name": name, "value": value} for name, value in found.items()]
)
CONTAINER = st.fixed_dictionaries(
    {"imageUri": st.sampled_from(["a/b:1", "c:2"])},
    optional={
        "args": st.lists(WORDS, min_size=1, max_size=3),
        "command": st.lists(WORDS.map(lambda words: f"/{words}"), min_size=1, max_size=2),
        "env": ENV,
    },
)
MACHINE = st.sampled_from(
    [
        {"machineType": "n1-standard-8"},
        {"machineType": "n1-standard-4", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 2},
        {"machineType": "a2-highgpu-8g", "acceleratorType": "NVIDIA_TESLA_A100", "acceleratorCount": 8},
        {"machineType": "ct5lp-hightpu-4t", "tpuTopology": "2x2"},
        {"machineType": "e2-standard-16"},
    ]
)
POOL = st.fixed_dictionaries(
    {"machineSpec": MACHINE, "replicaCount": st.integers(1, 4), "containerSpec": CONTAINER},
    optional={"diskSpec": st.just({"bootDiskSizeGb": 200})},
)
SPEC = st.fixed_dictionaries(
    {"workerPoolSpecs": st.lists(POOL, min_size=1, max_size=4)},
    optional={
        "scheduling": st.fixed_dictionaries(
            {},
            optional={
                "timeout": st.sampled_from(["3600s", "604800s", "0.5s"]),
                "strategy": st.sampled_from(["STANDARD", "SPOT", "FLEX_START"]),
                "disableRetries": st.booleans(),
            },
        ),
        "baseOutputDirectory": st.just({"outputUriPrefix": "gs://bucket/out"}),
        "serviceAccount": st.just("a@b.iam.gserviceaccount.com"),
        "enableWebAccess": st.booleans(),
    },
)
KINDS = st.sampled_from([each.kind for each in WORKLOADS])


@settings(max_examples=60, deadline=None)
@given(SPEC, KINDS)
def test_any_custom_job_comes_back_or_each_difference_is_named(spec: dict[str, Any], kind: str) -> None:
    spec["workerPoolSpecs"][0]["replicaCount"] = 1
    text = render_new({"displayName": "x", "region": "us-central1", "jobSpec": spec})
    profile = load(text, "f.yaml", "x")
    new, there, back = there_and_back(profile, kind)
    assert unnamed(profile, new, there, back) == []


POD = st.fixed_dictionaries(
    {
        "image": st.sampled_from(["a/b:1", "c:2"]),
        "resources": st.sampled_from([{}, {"limits": {GPU: 8}}, {"requests": {"cpu": "3", "memory": "9Gi"}}]),
    },
    optional={"args": st.lists(WORDS, min_size=1, max_size=2), "env": ENV, "workingDir": st.just("/x")},
)


@settings(max_examples=60, deadline=None)
@given(POD, st.integers(1, 5), st.booleans(), st.sampled_from([{}, {"backoffLimit": 3}, {"suspend": False}]))
def test_any_pytorch_job_comes_back_or_each_difference_is_named(
    container: dict[str, Any], workers: int, master: bool, policy: dict[str, Any]
) -> None:
    group = {"replicas": workers, "template": {"spec": {"containers": [{"name": "pytorch", **container}]}}}
    replicas = {**({"Master": {**group, "replicas": 1}} if master else {}), "Worker": group}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "x"},
           "spec": {"runPolicy": policy, "pytorchReplicaSpecs": replicas}}  # fmt: skip
    profile = load(yaml.safe_dump(job), "f.yaml", "x")
    new, there, back = there_and_back(profile)
    assert unnamed(profile, new, there, back) == []
