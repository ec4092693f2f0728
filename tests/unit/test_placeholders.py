"""Names that nobody filled in, and names of images that no registry has."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.domain.document.source import ProblemSeverity
from tui.domain.profile import Problem, inspect
from tui.domain.vertex import image_reference

HEX = "0123456789abcdef"
GOOD = "us-docker.pkg.dev/project-x/repo/train:v1"


def config(image: str = GOOD, more: str = "", args: str = "") -> str:
    return (
        "workerPoolSpecs:\n- machineSpec: {machineType: n1-standard-4}\n  replicaCount: 1\n"
        f"  containerSpec:\n    imageUri: '{image}'\n{args}{more}"
    )


def found(text: str, *, parameters: bool = False) -> list[Problem]:
    if parameters:
        text = "parameters: {P: a}\njobSpec:\n" + "".join(f"  {line}\n" for line in text.splitlines())
    return [
        p
        for p in inspect(text, "f.yaml", "f", region="us-central1")
        if p.severity is not ProblemSeverity.NOTE
    ]


def errors(text: str) -> list[tuple[str, str]]:
    return [(p.id, p.field) for p in found(text) if p.severity is ProblemSeverity.ERROR]


@pytest.mark.parametrize(
    "image",
    [
        "gcr.io/<project-id>/train:v1",
        "gcr.io/<your project>/train",
        "gcr.io/PROJECT_ID/train:v1",
        "gcr.io/PROJECT/train",
        "gcr.io/[PROJECT]/train",
        "gcr.io/[PROJECT_ID]/[IMAGE]:latest",
        "gcr.io/${PROJECT_ID}/train:v1",
        "gcr.io/$PROJECT/train",
        "gcr.io/{project}/train",
        "gcr.io/{{ project }}/train",
        "gcr.io/YOUR_PROJECT/train",
        "us-docker.pkg.dev/YOUR-PROJECT/repo/image:latest",
        "REGION-docker.pkg.dev/project-x/repo/image",
        "<image>",
        "CONTAINER_IMAGE_URI",
        "us-docker.pkg.dev/p/r/i:${TAG}",
        "us-docker.pkg.dev/p/r/i:<tag>",
        "us-docker.pkg.dev/p/r/i@sha256:<digest>",
    ],
)
def test_an_image_that_is_not_filled_in_is_one_error_at_its_place(image: str) -> None:
    problems = [p for p in found(config(image)) if p.severity is ProblemSeverity.ERROR]
    assert [(p.id, p.line) for p in problems] == [("placeholder.name", 5)]
    assert problems[0].fix


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ("serviceAccount: SA@PROJECT_ID.iam.gserviceaccount.com\n", "serviceAccount"),
        ("serviceAccount: <sa>@project-x.iam.gserviceaccount.com\n", "serviceAccount"),
        ("network: projects/<number>/global/networks/default\n", "network"),
        ("network: projects/123/global/networks/NETWORK\n", "network"),
        ("tensorboard: projects/PROJECT/locations/us-central1/tensorboards/123\nserviceAccount: a@b.c\n",
         "tensorboard"),
        ("baseOutputDirectory: {outputUriPrefix: 'gs://<bucket>/out'}\n",
         "baseOutputDirectory.outputUriPrefix"),
        ("baseOutputDirectory: {outputUriPrefix: 'gs://YOUR_BUCKET/out'}\n",
         "baseOutputDirectory.outputUriPrefix"),
        ("baseOutputDirectory: {outputUriPrefix: 'gs://[BUCKET]'}\n", "baseOutputDirectory.outputUriPrefix"),
        ("baseOutputDirectory: {outputUriPrefix: 'gs://my-data/${RUN}'}\n",
         "baseOutputDirectory.outputUriPrefix"),
        ("persistentResourceId: PERSISTENT_RESOURCE_ID\n", "persistentResourceId"),
        ("pscInterfaceConfig: {networkAttachment: projects/PROJECT_ID/regions/us-central1/"
         "networkAttachments/a}\n", "pscInterfaceConfig.networkAttachment"),
    ],
)  # fmt: skip
def test_another_name_that_is_not_filled_in_is_an_error(more: str, field: str) -> None:
    assert errors(config(more=more)) == [("placeholder.name", field)]


@pytest.mark.parametrize(
    "image",
    ["us-docker.pkg.dev/your-project/repo/train", "gcr.io/your_project/train", "my-image-name-here:1"],
)
def test_a_name_that_could_be_real_is_a_warning(image: str) -> None:
    assert errors(config(image)) == []
    assert "placeholder.example" in [p.id for p in found(config(image))]


@pytest.mark.parametrize(
    "argument",
    ["--data=gs://<bucket>/x", "/gcs/YOUR_BUCKET/data", "--project=YOUR_PROJECT_ID", "<your-token>", "gs://[BUCKET]/x"],
)  # fmt: skip
def test_an_argument_to_replace_is_a_warning_as_the_service_takes_any_text(argument: str) -> None:
    text = config(args=f"    args: ['{argument}']\n")
    assert errors(text) == []
    assert [p.id for p in found(text)] == ["placeholder.value"]


@pytest.mark.parametrize(
    "args",
    [
        "args: ['<s>', '</s>', '<pad>', '<|end|>', '${AIP_MODEL_DIR}', '$(RANK)', '{\"a\": [1]}', '[A]']",
        "env: [{name: MODE, value: PROJECT}, {name: REGION, value: YOUR}, {name: A, value: TRAIN_V1}]",
        "command: [sh, -c, 'echo ${HOME} <in >out; for i in a; do echo [B]; done']",
    ],
)
def test_what_a_program_reads_for_itself_is_no_placeholder(args: str) -> None:
    assert not [p for p in found(config(args=f"    {args}\n")) if p.id.startswith("placeholder")]


PLAUSIBLE = [
    "us-docker.pkg.dev/project-x/repo/train:v1", "gcr.io/my-project/trainer:TAG_V1", "gcr.io/p/i",
    "us-central1-docker.pkg.dev/my-project-123/my-repo/my-image:latest", "python:3.11", "GCR.IO/p/i:1",
    "gcr.io/yourcompany-ml/train", "gcr.io/acme/your.model", "gcr.io/regional-project/image-name",
    "europe-west4-docker.pkg.dev/here-maps/here/here:1.0", "nvcr.io/nvidia/pytorch:24.05-py3",
    "localhost:5000/a/b:c", "us-docker.pkg.dev/p/r/i:1@sha256:" + "0a" * 32,
    "myregistry:443/team/project__x/i--i",
]  # fmt: skip


@pytest.mark.parametrize("image", PLAUSIBLE)
def test_a_plausible_image_is_taken(image: str) -> None:
    assert found(config(image)) == []


@pytest.mark.parametrize(
    ("image", "says", "right"),
    [
        ("r/i::1", "two colons", "r/i:1"),
        ("r/i@sha256:abc", "64 of the digits", ""),
        ("r/i@sha256:" + "A" * 64, "64 of the digits", ""),
        ("gcr.io/Team/Image:1", "capital letters in 'Team'", ""),
        ("r/i:" + "t" * 129, "a tag of 129 characters", ""),
        ("r/i:", "no tag follows", ""),
        ("r/i@", "without a digest", ""),
        ("r//i", "an empty part", ""),
        ("r/i/", "an empty part", ""),
        ("r/i:a:b", "the tag 'a:b'", ""),
        ("r/i___i", "the part 'i___i'", ""),
        ("r.io:port/i", "must be a host and port", ""),
        ("r.io/" + "a" * 260, "255 is the maximum", ""),
    ],
)
def test_an_image_that_no_registry_has_is_an_error(image: str, says: str, right: str) -> None:
    problems = [p for p in found(config(image)) if p.severity is ProblemSeverity.ERROR]
    assert [p.id for p in problems] == ["image.reference"]
    assert says in problems[0].message
    assert [e.value for e in problems[0].edits] == ([right] if right else [])


# The grammar of the specification, on its own

alphanumeric = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=5)
separators = st.sampled_from([".", "_", "__", "-", "--", "---"])
parts = st.tuples(alphanumeric, st.lists(st.tuples(separators, alphanumeric), max_size=2)).map(
    lambda p: p[0] + "".join(a + b for a, b in p[1])
)
hosts = st.lists(
    st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9-]{0,4}[A-Za-z0-9])?", fullmatch=True), min_size=2, max_size=3
).map(".".join)
ports = st.just("") | st.integers(1, 65535).map(lambda n: f":{n}")
domains = st.just("") | st.tuples(hosts | st.sampled_from(["localhost", "[fe80::1]"]), ports).map(
    lambda d: "".join(d) + "/"
)
tags = st.just("") | st.from_regex(r":[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", fullmatch=True)
digests = st.just("") | st.text(HEX, min_size=64, max_size=64).map(lambda h: f"@sha256:{h}")
references = st.tuples(domains, st.lists(parts, min_size=1, max_size=3).map("/".join), tags, digests)


@given(references)
def test_every_reference_of_the_grammar_is_taken(reference: tuple[str, str, str, str]) -> None:
    assert image_reference.problem("".join(reference)) is None


NAME = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(\/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*"
"""`<name>` as the distribution specification gives it, and below it `<reference>` as a tag."""
TAG = r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}"


@given(st.text(string.ascii_letters[:2] + "AB01._-/:", max_size=12))
def test_what_has_no_registry_and_no_digest_is_judged_as_by_the_specification(text: str) -> None:
    first = text.partition("/")[0]
    if "/" in text and ("." in first or ":" in first):
        return
    taken = re.fullmatch(f"{NAME}(:{TAG})?", text) is not None
    assert (image_reference.problem(text) is None) == taken, text
