"""Manifests as profiles: alone, under a header, in several documents, and what a launch sends of them."""

from __future__ import annotations

from textwrap import dedent, indent
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tui.config.settings import Context
from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.interchange import ConfigFile, export, from_resource, from_text
from tui.domain.kubernetes.objects import as_list, cleaned, dns_name, job_in, objects_of
from tui.domain.masking.structure import DECLARED
from tui.domain.profile import Profile, ProfileInvalid, inspect, load
from tui.domain.profile.edit import apply
from tui.domain.vertex.cost import estimate
from tui.store.profiles.entries import pool_lines, shape_lines, size_of
from tui.store.profiles.library import check_in

JOB = dedent("""\
    # Kept.
    apiVersion: kubeflow.org/v1
    kind: PyTorchJob
    metadata: {name: bert, namespace: team-a}
    spec:
      pytorchReplicaSpecs:
        Master:
          replicas: 1
          template: &pod
            spec:
              nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
              containers:
                - name: pytorch
                  image: repo/bert:v1
                  args: ["--steps=10"]
                  resources: {limits: {nvidia.com/gpu: 2}, requests: {memory: 8Gi}}
        Worker:
          replicas: 3
          template: *pod
    """)
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bert-config}\ndata: {a_b: c}\n"


def of(text: str, name: str = "mine") -> Profile:
    return load(text, "f.yaml", name)


def headed(text: str, head: str = "") -> str:
    return f"displayName: run\n{head}manifest:\n{indent(text, '  ')}"


def test_a_manifest_alone_is_a_profile() -> None:
    profile = of(JOB)
    assert (profile.format.body, profile.wrapped, profile.display_name) == ("manifest", False, "bert")
    request = profile.render()
    assert request.region == "team-a"
    assert request.resource["metadata"] == {"name": "bert"}
    assert request.resource["spec"] == yaml.safe_load(JOB)["spec"]
    assert not [p for p in inspect(JOB, "f.yaml", "mine") if p.severity == "error"]


@pytest.mark.parametrize(
    "text",
    [
        f"{CONFIG}---\n{JOB}",
        f"---\n{CONFIG}---\n{JOB}---\n",
        "apiVersion: v1\nkind: List\nitems:\n"
        + "".join(f"- {indent(t, '  ')[2:]}" for t in (CONFIG, JOB.removeprefix("# Kept.\n"))),
        headed(f"- {indent(CONFIG, '  ')[2:]}- {indent(JOB.removeprefix('# Kept.' + chr(10)), '  ')[2:]}"),
    ],
    ids=["documents", "marks", "List", "list"],
)
def test_a_job_comes_with_what_belongs_to_it(text: str) -> None:
    request = of(text).render()
    kinds = [each["kind"] for each in request.resource["items"]]
    assert (request.resource["kind"], kinds) == ("List", ["ConfigMap", "PyTorchJob"])
    assert job_in(request.resource)["kind"] == "PyTorchJob"
    wrong = text.replace("name: pytorch", "name: train")
    found = next(p for p in inspect(wrong, "f.yaml", "mine") if p.id == "names.container")
    assert wrong.splitlines()[found.line - 1].lstrip("- ") == "name: train"
    fixed = apply(wrong, "f.yaml", found.edits)
    # The pods of the workers are an alias of the master's: the rest of the findings is theirs.
    again = [p for p in inspect(fixed, "f.yaml", "mine") if p.id == "names.container"]
    for problem in again:
        fixed = apply(fixed, "f.yaml", problem.edits)
    assert not [p for p in inspect(fixed, "f.yaml", "mine") if p.severity == "error"]
    assert fixed.count("# Kept.") == text.count("# Kept.")


def test_other_documents_are_no_profile() -> None:
    for text in ("displayName: a\n---\ndisplayName: b\n", f"{JOB}---\na: 1\n"):
        with pytest.raises(ProfileInvalid) as found:
            of(text)
        line = text.splitlines().index("---") + 1
        assert [(p.id, p.line) for p in found.value.problems] == [("profile.syntax", line)]
    with pytest.raises(ProfileInvalid, match="appears twice"):
        of(JOB + "spec: {}\n")


def test_parameters_labels_and_name_of_a_header() -> None:
    text = JOB.replace("--steps=10", "--steps=${steps}").replace("replicas: 3", "replicas: ${nodes}")
    head = "parameters:\n  steps: {type: integer, default: 7}\n  nodes: {type: integer, default: 3}\n"
    profile = of(headed(text, head + "labels: {team: nlp}\nprogress: {pattern: 'step (?P<step>\\d+)'}\n"))
    job = profile.render({"nodes": "5"}).resource
    assert job["metadata"] == {"name": "run", "labels": {"team": "nlp"}}
    worker = job["spec"]["pytorchReplicaSpecs"]["Worker"]
    assert worker["replicas"] == 5
    container = worker["template"]["spec"]["containers"][0]
    assert container["args"] == ["--steps=7"]
    assert [each["name"] for each in container["env"]] == ["VXTUI_PROGRESS"]
    with pytest.raises(ProfileInvalid, match=r"f\.yaml:\d+.*nodes must be an integer"):
        profile.check({"nodes": "many"})


def test_a_secret_of_a_parameter_is_masked_and_marked() -> None:
    text = JOB.replace("--steps=10", "--token=${token}")
    profile = of(headed(text, "parameters:\n  token: {secret: true}\n"))
    request = profile.check({"token": "hunter2hunter2"}).request
    assert "hunter2" not in str(request.shown())
    container = request.resource["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    assert container["env"] == [{"name": DECLARED, "value": "args:0"}]


def test_what_a_launch_starts_is_said_and_its_price_is_not_guessed() -> None:
    job = of(JOB).render().custom_job
    assert size_of(job) == "4 replicas, 8 L4"
    assert pool_lines(job) == ("master  1 × 2 L4  repo/bert:v1", "worker  3 × 2 L4  repo/bert:v1")
    assert shape_lines(job) == (("nodes", "1 master + 3 worker"), ("GPUs", "8 L4"))
    price = estimate(job, "team-a")
    assert price.hour is None and price.whole is None and "nodes of a cluster are billed" in price.missing[0]


def test_each_side_refuses_the_other_and_names_the_way_over() -> None:
    vertex = Context("prod", "vertex", "p")
    [found] = check_in(of(JOB), {}, vertex).errors
    assert (found.id, found.message) == (
        "profile.context",
        "a manifest is for a Kubernetes cluster, and the context prod is Vertex AI.",
    )
    assert "`vxtui profiles convert mine --to vertex`" in found.fix


@pytest.mark.parametrize(
    ("metadata", "name"),
    [("{name: a}", "a"), ("{generateName: bert-}", "bert-{n}"), ("{}", "mine")],
)
def test_the_name_of_a_launch(metadata: str, name: str) -> None:
    text = JOB.replace("{name: bert, namespace: team-a}", metadata)
    profile = of(text)
    assert profile.display_name == name
    assert profile.check().request.resource["metadata"] == {"name": name}


def test_edits_of_several_documents_go_to_their_own() -> None:
    text = f"{CONFIG}---\n{JOB}"
    made = apply(text, "f.yaml", [Edit((0, "data", "a_b"), "d"), Edit((1, "metadata", "namespace"), REMOVED)])
    assert made == text.replace("a_b: c", "a_b: d").replace(", namespace: team-a", "")
    with pytest.raises(ProfileInvalid):
        apply(text, "f.yaml", [Edit((2, "data"), "d")])


def test_a_job_of_the_cluster_is_cleaned() -> None:
    job = yaml.safe_load(JOB)
    metadata = {
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"vxtui-launch": "x", "team": "a"},
        "managedFields": [],
    }
    served = {**job, "metadata": {**job["metadata"], **metadata}, "status": {"conditions": []}}
    made = cleaned(served)
    assert "status" not in made
    assert made["metadata"] == {"name": "bert", "namespace": "team-a", "labels": {"team": "a"}}
    assert made["spec"] == job["spec"] and served["metadata"]["uid"] == "u"


NAMES = st.text(st.characters(codec="utf-8"), max_size=80)


@given(NAMES)
def test_a_name_of_any_words_is_a_label(words: str) -> None:
    name = dns_name(words)
    assert 0 < len(name) <= 54 and name[0].isalpha() and name[-1].isalnum()
    assert dns_name(name) == name


OBJECT = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.sampled_from(["ConfigMap", "Secret"])}
)


@given(st.lists(OBJECT, min_size=1, max_size=4))
def test_a_list_of_objects_comes_back(objects: list[dict[str, Any]]) -> None:
    assert objects_of(as_list(objects)) == objects


def test_the_export_is_what_kubectl_applies() -> None:
    profile = of(headed(JOB, "labels: {team: nlp}\ndescription: A job.\n"))
    text = export(profile, profile.render(), "kubectl", project="", region="").text
    made = yaml.safe_load(text)
    metadata = {"name": "run", "namespace": "team-a", "labels": {"team": "nlp"}}
    assert made == {**yaml.safe_load(JOB), "metadata": metadata}
    assert text.startswith("# mine, exported by vxtui.\n# A job.\n")
    several = of(f"{CONFIG}---\n{JOB}")
    documents = list(
        yaml.safe_load_all(export(several, several.render(), "kubectl", project="", region="").text)
    )
    assert [each["kind"] for each in documents] == ["ConfigMap", "PyTorchJob"]
    assert {each["metadata"]["namespace"] for each in documents} == {"team-a"}
    assert "--as kubectl" in export(profile, profile.render(), "gcloud", project="", region="").problem


def test_the_import_of_a_file_keeps_it_and_drops_what_a_cluster_fills() -> None:
    text = f"{CONFIG}---\n{JOB}status: {{conditions: []}}\n"
    found = from_text(text, "f.yaml", lambda name: ConfigFile("", name))
    assert (found.name, found.text) == ("bert", f"{CONFIG}---\n{JOB}")
    assert found.notes == ("left out [1].status: only the cluster sets these fields",)
    assert from_text(JOB, "f.yaml", lambda name: ConfigFile("", name)).text == JOB


def test_the_import_of_a_job_is_a_profile_of_it() -> None:
    served = yaml.safe_load(JOB) | {"status": {}}
    served["metadata"] |= {"uid": "u", "labels": {"vxtui-launch": "x"}}
    found = from_resource(served)
    again = of(found.text, found.name)
    assert (found.name, again.display_name, again.wrapped) == ("bert", "bert", True)
    assert "region" not in again.document.fields
    job = again.render()
    assert job.region == "team-a" and job.resource["metadata"] == {"name": "bert"}
    assert job.resource["spec"] == yaml.safe_load(JOB)["spec"]
