"""Rules about names: the job's name with the operator's suffix, and names of images."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tui.domain.document.document_edit import Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.kubernetes.objects import containers, dns_name
from tui.domain.kubernetes.rules.base import (
    IMAGES,
    JOB_SET,
    MPI_VALIDATION,
    NAMES,
    PYTORCH_WEBHOOK,
    TF_WEBHOOK,
    TRAIN_JOB,
    ManifestCase,
    ManifestRule,
)
from tui.domain.kubernetes.workloads import Path, fields
from tui.domain.spec.findings import Finding
from tui.domain.spec.values import PLACEHOLDER

LONGEST = 63
"""Maximum number of characters in a DNS label, such as a pod's host name."""
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_REFERENCE = re.compile(r"[^/@]*(?P<tag>:[^/@]+)?(?P<digest>@.+)?$")
_SOURCES = {
    "pytorch_job": PYTORCH_WEBHOOK,
    "tf_job": TF_WEBHOOK,
    "mpi_job": MPI_VALIDATION,
    "train_job": TRAIN_JOB,
    "job_set": JOB_SET,
}
_PLACEHOLDER_ROOM = {"n": "999", "date": "20261121", "git": "0123456", "user": "user", "profile": "profile"}


def longest_suffix(case: ManifestCase) -> str:
    """Return the longest suffix that the operator appends to the job's name for a pod or a service."""
    kind = case.kind
    suffixes = [""]
    for group in case.groups:
        last = max((group.replicas or 1) - 1, 0)
        if kind in {"pytorch_job", "tf_job"}:
            suffixes.append(f"-{group.name}-{last}")
        elif kind == "mpi_job":
            suffixes.append("-launcher" if group.name == "launcher" else f"-{group.name}-{last}")
        elif kind == "train_job":
            suffixes.append(f"-node-0-{last}-xxxxx")
        elif kind == "job_set":
            suffixes.append(f"-{group.name}-0-{last}-xxxxx")
        else:
            suffixes.append(f"-{last}-xxxxx")
    return max(suffixes, key=len)


def example_name(name: str) -> str:
    """Return the name with sample text for the placeholders that a launch fills."""
    return PLACEHOLDER.sub(lambda match: _PLACEHOLDER_ROOM.get(match[1], "x"), name)


def job_name(case: ManifestCase) -> Iterator[Finding]:
    if case.workload is None or not case.name:
        return
    name = example_name(case.name)
    if _LABEL.fullmatch(name) is None:
        source = _SOURCES.get(case.workload.key, NAMES)
        sentence = (
            f"{name!r} can't be the name of a {case.workload.noun}: use lower-case letters, digits and -, "
            "starting with a letter."
        )
        yield Finding(_name_path(case), sentence, f"Write {dns_name(name)}.", source=source)


def final_name_problem(case: ManifestCase) -> tuple[str, str] | None:
    """Return the problem with a launch's final name and the fix, or None."""
    finding = next((item for rule in (job_name, job_name_length) for item in rule(case)), None)
    return (finding.sentence, finding.fix) if finding is not None else None


def job_name_length(case: ManifestCase) -> Iterator[Finding]:
    if case.workload is None or not case.name:
        return
    name, suffix = example_name(case.name), longest_suffix(case)
    room = LONGEST - len(suffix)
    if len(name) > room:
        source = _SOURCES.get(case.workload.key, NAMES)
        sentence = (
            f"the name has {len(name)} characters; with the suffix {suffix} of its pods it exceeds the "
            f"{LONGEST} characters of a host name."
        )
        yield Finding(_name_path(case), sentence, f"Use at most {room} characters.", source=source)


def _name_path(case: ManifestCase) -> Path:
    """Return the path of the launch's name, in the object or in the header."""
    own = fields(case.job, "metadata").get("name") == case.name
    return case.path("metadata", "name") if own else ("displayName",)


def group_names(case: ManifestCase) -> Iterator[Finding]:
    """Check the names of a JobSet's jobs, which are part of its pods' names."""
    if case.kind != "job_set":
        return
    seen: set[str] = set()
    for group in case.groups:
        if _LABEL.fullmatch(group.role) is None:
            yield Finding(
                (*group.path, "name"),
                f"{group.role!r} can't be part of a pod's name.",
                f"Write {dns_name(group.role)}.",
            )
        if group.role in seen:
            yield Finding(
                (*group.path, "name"), f"two jobs of the set are named {group.role}.", "Rename one."
            )
        seen.add(group.role)


def untagged(case: ManifestCase) -> Iterator[Finding]:
    for _, path, container in containers(case.job):
        image = container.get("image")
        if not isinstance(image, str) or not image or "${" in image:
            continue
        last = image.rpartition("/")[2]
        if "@" not in image and ":" not in last:
            sentence = (
                f"the image {last} has no tag: nodes pull the current latest and may run different versions."
            )
            yield Finding((*path, "image"), sentence, "Add a tag or, better, a digest.")


def no_image(case: ManifestCase) -> Iterator[Finding]:
    for group, path, container in containers(case.job):
        if group.template and not container.get("image"):
            yield Finding((*path, "image"), "the container must have an image.", "Add the image to run.")


def container_name(case: ManifestCase) -> Iterator[Finding]:
    demanded = case.workload.container if case.workload is not None else ""
    if not demanded:
        return
    assert case.workload is not None
    source = TF_WEBHOOK if case.workload.key == "tf_job" else PYTORCH_WEBHOOK
    for group in case.groups:
        containers_field = group.pod.get("containers")
        listed = containers_field if isinstance(containers_field, list) else []
        names = [str(fields(container).get("name") or "") for container in listed]
        if not listed or demanded in names:
            continue
        path = (*group.pod_path, "containers", 0, "name")
        sentence = (
            f"no container of {group.role} is named {demanded}, as the {case.workload.noun} operator "
            "requires."
        )
        edits = (Edit(path, demanded),) if len(names) == 1 else ()
        yield Finding(path, sentence, f"Name the training container {demanded}.", edits, source=source)


RULES = (
    ManifestRule("names.job", NAMES, job_name, whole=True),
    ManifestRule("names.length", NAMES, job_name_length, whole=True),
    ManifestRule("names.group", JOB_SET, group_names),
    ManifestRule("names.container", PYTORCH_WEBHOOK, container_name),
    ManifestRule("names.no-image", NAMES, no_image),
    ManifestRule("names.untagged", IMAGES, untagged, ProblemSeverity.WARNING),
)
