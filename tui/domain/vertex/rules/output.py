"""Rules about a job's output: its output directory, TensorBoard and experiment."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tui.domain.document.document_edit import Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.spec.custom_job_spec import within
from tui.domain.spec.findings import Case, Finding, Rule
from tui.domain.vertex.sources import SPEC, TENSORBOARD

_TENSORBOARD = re.compile(r"projects/[^/]+/locations/[^/]+/tensorboards/[^/]+")
_CONTEXT = re.compile(r"projects/[^/]+/locations/[^/]+/metadataStores/[^/]+/contexts/[^/]+")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_PATH = ("jobSpec", "baseOutputDirectory", "outputUriPrefix")


def form(case: Case) -> Iterator[Finding]:
    directory = case.spec.get("baseOutputDirectory")
    if directory is None:
        return
    uri = str(directory.get("outputUriPrefix") or "")
    if re.match(r"gs://[^/]+", uri):
        return
    if not uri:
        yield Finding(
            _PATH, "the output directory must not be empty.", "Write gs://BUCKET/PATH, or remove the field."
        )
        return
    right = f"gs://{uri.removeprefix('/gcs/')}" if uri.startswith("/gcs/") else ""
    edits = (Edit(_PATH, right),) if right else ()
    fix = f"Write {right}." if right else "Write gs://BUCKET/PATH."
    yield Finding(_PATH, f"{uri} must be a Cloud Storage path.", fix, edits)


def bucket(case: Case) -> Iterator[Finding]:
    uri = str(within(case.spec, "baseOutputDirectory", "outputUriPrefix") or "")
    match = re.match(r"gs://([^/]+)", uri)
    if match and (not _BUCKET.fullmatch(match[1]) or _too_long(match[1])):
        yield Finding(
            _PATH,
            f"{match[1]} can't be the name of a bucket.",
            "Use 3 to 63 lowercase letters, digits, -, _ and dots; start and end with a letter or digit.",
        )


def _too_long(name: str) -> bool:
    return any(len(part) > 63 for part in name.split("."))


def tensorboard(case: Case) -> Iterator[Finding]:
    name = str(case.spec.get("tensorboard") or "")
    if name and not _TENSORBOARD.fullmatch(name):
        where = ("jobSpec", "tensorboard")
        fix = "Write projects/P/locations/L/tensorboards/ID."
        yield Finding(where, f"{name} must be the full name of a TensorBoard.", fix)


def tensorboard_account(case: Case) -> Iterator[Finding]:
    if case.spec.get("tensorboard") and not case.spec.get("serviceAccount"):
        yield Finding(
            ("jobSpec", "serviceAccount"),
            "a job with a TensorBoard must have your own service account.",
            "Set serviceAccount to an account that may write to the TensorBoard and to the output bucket.",
        )


def tensorboard_output(case: Case) -> Iterator[Finding]:
    if case.spec.get("tensorboard") and not within(case.spec, "baseOutputDirectory", "outputUriPrefix"):
        yield Finding(
            ("jobSpec", "baseOutputDirectory"),
            "without an output directory AIP_TENSORBOARD_LOG_DIR is unset and the TensorBoard stays empty.",
            "Set baseOutputDirectory.outputUriPrefix to gs://BUCKET/PATH.",
        )


def experiment(case: Case) -> Iterator[Finding]:
    for field, noun in (("experiment", "an experiment"), ("experimentRun", "an experiment's run")):
        name = str(case.spec.get(field) or "")
        if name and not _CONTEXT.fullmatch(name):
            fix = "Write projects/P/locations/L/metadataStores/default/contexts/NAME."
            yield Finding(("jobSpec", field), f"{name} must be the full name of {noun}.", fix)


RULES = (
    Rule("output.form", SPEC, form),
    Rule("output.bucket", "https://docs.cloud.google.com/storage/docs/buckets#naming", bucket),
    Rule("output.tensorboard", SPEC, tensorboard),
    Rule("output.tensorboard-account", TENSORBOARD, tensorboard_account),
    Rule(
        "output.tensorboard-output", "docs/facts/vertex.md 3.6", tensorboard_output, ProblemSeverity.WARNING
    ),
    Rule("output.experiment", SPEC, experiment),
)
