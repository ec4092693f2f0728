"""Rules about the code that runs: container images and Python packages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.spec.findings import Case, Finding, Rule
from tui.domain.vertex import image_reference
from tui.domain.vertex.sources import GCLOUD_JOB, SPEC

MAX_PACKAGES = 100
_PREBUILT = re.compile(
    r"(?:us|europe|asia)-docker\.pkg\.dev/vertex-ai/training/(?P<name>[\w.-]+)(?::(?P<tag>[\w.-]+))?"
)
_OLD_PREBUILT = re.compile(r"(?:(?:us|eu|asia)\.)?gcr\.io/cloud-aiplatform/training/(?P<rest>.+)")
_GCR = re.compile(r"(?:(?:us|eu|asia)\.)?gcr\.io/")
_SCHEME = re.compile(r"^(?:https?|docker|oci|gs)://")
_FIELDS = {
    "executorImageUri": ("the executor's image", "Add a prebuilt training image of Vertex AI."),
    "packageUris": ("the list of packages", "Add the source distribution as gs://BUCKET/OBJECT."),
    "pythonModule": ("the Python module", "Add the module to run, for example trainer.task."),
}


def _images(case: Case) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for path, pool in case.used:
        container, package = pool.get("containerSpec"), pool.get("pythonPackageSpec")
        if container is not None:
            yield (*path, "containerSpec", "imageUri"), str(container.get("imageUri") or "")
        if package is not None:
            yield (*path, "pythonPackageSpec", "executorImageUri"), str(package.get("executorImageUri") or "")


def missing(case: Case) -> Iterator[Finding]:
    for path, image in _images(case):
        if path[-1] == "imageUri" and not image:
            yield Finding(path, "the container must have an image.", "Add the image of your training code.")


def image_form(case: Case) -> Iterator[Finding]:
    for path, image in _images(case):
        scheme = _SCHEME.match(image)
        if scheme:
            right = image[scheme.end() :]
            sentence = f"an image name must not start with {scheme[0]}."
            yield Finding(path, sentence, f"Write {right}.", (Edit(path, right),))
        elif re.search(r"\s", image):
            right = image.strip()
            edits = () if re.search(r"\s", right) or not right else (Edit(path, right),)
            yield Finding(path, f"the image {image!r} must not have white space.", "Remove it.", edits)


def reference(case: Case) -> Iterator[Finding]:
    for path, image in _images(case):
        if not image or _SCHEME.match(image) or re.search(r"\s", image):
            continue
        trouble = image_reference.problem(image)
        if trouble:
            subject, right = trouble
            fix = (
                f"Write {right}." if right else "Write REGISTRY/PATH/IMAGE:TAG or REGISTRY/PATH/IMAGE@DIGEST."
            )
            edits = (Edit(path, right),) if right else ()
            yield Finding(path, f"{image} {subject}.", fix, edits)


def registry(case: Case) -> Iterator[Finding]:
    for path, image in _images(case):
        if _GCR.match(image) and not _OLD_PREBUILT.match(image) and "reduction" not in image:
            yield Finding(
                path,
                "Artifact Registry now serves gcr.io; an old name works only if its image was moved.",
                "Push new images to REGION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE.",
            )


def fields(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        package = pool.get("pythonPackageSpec")
        if package is None:
            continue
        for name, (noun, fix) in _FIELDS.items():
            if not package.get(name):
                yield Finding((*path, "pythonPackageSpec", name), f"{noun} is missing.", fix)


def uris(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        uris = (pool.get("pythonPackageSpec") or {}).get("packageUris") or []
        here = (*path, "pythonPackageSpec", "packageUris")
        if len(uris) > MAX_PACKAGES:
            sentence = f"there are {len(uris)} packages; the maximum is {MAX_PACKAGES}."
            yield Finding(here, sentence, "Put the other packages into the image.")
        for i, uri in enumerate(uris):
            if not re.match(r"gs://[^/]+/.", str(uri)):
                yield Finding(
                    (*here, i),
                    f"{uri or 'an empty text'} must be a file in Cloud Storage.",
                    "Upload the file, then write gs://BUCKET/OBJECT.",
                )


def executor(case: Case) -> Iterator[Finding]:
    for path, image in _images(case):
        if path[-1] != "executorImageUri" or not image or case.local:
            continue
        old = _OLD_PREBUILT.match(image)
        if old:
            right = f"us-docker.pkg.dev/vertex-ai/training/{old['rest']}"
            sentence = "the image is in the former registry of the prebuilt images."
            yield Finding(path, sentence, f"Write {right}.", (Edit(path, right),))
        elif not _PREBUILT.fullmatch(image):
            yield Finding(
                path,
                "a Python package runs only in a prebuilt training image of Vertex AI, unlike this image.",
                "Use an image at us-docker.pkg.dev/vertex-ai/training/, or your image in a containerSpec.",
            )


def prebuilt(case: Case) -> Iterator[Finding]:
    for path, image in _images(case):
        match = _PREBUILT.fullmatch(image)
        if match and not case.local:
            yield Finding(
                path,
                "the newest prebuilt images, of PyTorch 2.4 and TensorFlow 2.17, reached their end of "
                "availability in July 2026.",
                "Use your own image in a containerSpec.",
            )
            if match["tag"] and match["tag"] != "latest":
                sentence = f"prebuilt images support only the tag latest, not {match['tag']}."
                right = image.removesuffix(match["tag"]) + "latest"
                yield Finding(path, sentence, f"Write {right}.", (Edit(path, right),))


def empty_command(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        container = pool.get("containerSpec") or {}
        command = container.get("command") or []
        if len(command) == 1 and " " in str(command[0]).strip() and not container.get("args"):
            where = (*path, "containerSpec", "command")
            words = str(command[0]).split()
            simple = not any(c in str(command[0]) for c in "\"'\\$;&|<>*`(){}")
            edits = (Edit(where, words),) if simple else ()
            yield Finding(
                (*where, 0),
                "the command is one text with spaces; without a shell it is read as a single file name.",
                "Write one element for each word." if simple else 'Write [sh, -c, "…"].',
                edits,
            )


def no_task_fields(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        container = pool.get("containerSpec") or {}
        if container.get("args") == [] and container.get("command"):
            continue
        for name in ("command", "args"):
            values = container.get(name) or []
            for i, value in enumerate(values):
                if value == "":
                    where = (*path, "containerSpec", name, i)
                    sentence = f"an empty element of {name} becomes an empty argument."
                    yield Finding(where, sentence, "Remove it.", (Edit(where, REMOVED),))


RULES = (
    Rule("image.missing", GCLOUD_JOB, missing),
    Rule("image.form", image_reference.SOURCE, image_form),
    Rule("image.reference", image_reference.SOURCE, reference),
    Rule("image.registry", "docs/facts/vertex.md 14.1", registry, ProblemSeverity.NOTE),
    Rule("image.command", SPEC, empty_command, ProblemSeverity.WARNING),
    Rule("image.empty-argument", SPEC, no_task_fields, ProblemSeverity.NOTE),
    Rule("package.fields", SPEC, fields),
    Rule("package.uris", SPEC, uris),
    Rule("package.executor", SPEC, executor, ProblemSeverity.WARNING),
    Rule("package.prebuilt", SPEC, prebuilt, ProblemSeverity.WARNING),
)
