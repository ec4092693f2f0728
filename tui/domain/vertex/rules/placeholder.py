"""Rules about template text left in a job: `<project>`, `YOUR_BUCKET`, `[REGION]`, `${X}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tui.domain.document.source import ProblemSeverity
from tui.domain.spec.custom_job_spec import task_of, within
from tui.domain.spec.findings import Case, Finding, Path, Rule
from tui.domain.vertex.sources import SPEC

NAME = "placeholder.name"

# Characters that no name of a Google Cloud resource contains.
_MARK = re.compile(
    r"<[^<>]*>|\$\{[^}]*\}|\$\([^)]*\)|\$[A-Za-z_]\w*|\{\{?[^{}]*\}?\}|\[[A-Za-z][\w ./-]*\]|%[A-Z_]+%"
)
# A part in capitals, which no name contains: PROJECT_ID, YOUR-BUCKET.
_CAPITALS = re.compile(
    r"(?<![\w-])[A-Z][A-Z0-9]*(?:[_-][A-Z0-9]+)*(?![\w-])|[A-Z_]+(?=-docker\.pkg\.dev)|\b(?:YOUR|MY)[_-][A-Z0-9_-]+"
)
_ASKED = re.compile(r"(?<![a-z0-9])your[-_][a-z]|(?<![a-z0-9])(?:my|your)[-_][a-z-]+-here(?![a-z0-9])")
_IN_VALUE = re.compile(
    r"(?:gs://|/gcs/|projects/|docker\.pkg\.dev/|gcr\.io/)(?:[\w.-]+/)*"
    r"(?:<[\w -]+>|\[[A-Z][A-Z_-]+\]|YOUR[_-]\w+)|<(?:your|my|insert|replace)[\w -]*>"
    r"|(?<![A-Za-z0-9_])YOUR_[A-Z_]+",
    re.IGNORECASE,
)

Names = Callable[[str], str]


def _whole(text: str) -> str:
    return text


def _bucket(text: str) -> str:
    return text.removeprefix("gs://").partition("/")[0]


def _network(text: str) -> str:
    """Return a network with a project number; another rule reports a project without a number."""
    return text if re.match(r"projects/\d+/", text) else ""


def _repository(text: str) -> str:
    """Return an image without tag, digest and a registry whose name is case-insensitive."""
    name = text.partition("@")[0]
    head, slash, last = name.rpartition("/")
    name = f"{head}{slash}{last.partition(':')[0]}"
    first, slash, rest = name.partition("/")
    return rest if slash and "." in first and not first.endswith("-docker.pkg.dev") else name


def _place(text: str) -> str:
    """Return `projects/P/locations/L` of a longer name, whose remaining part may have capitals."""
    return "/".join(text.split("/")[:4])


def _fields(case: Case) -> Iterator[tuple[Path, str, Names]]:
    """Yield fields with names of resources, and the part of each name that has no capital letters."""
    spec = case.spec
    texts: list[tuple[Path, object, Names]] = [
        (("jobSpec", "serviceAccount"), spec.get("serviceAccount"), _whole),
        (("jobSpec", "network"), spec.get("network"), _network),
        (("jobSpec", "persistentResourceId"), spec.get("persistentResourceId"), _whole),
        (("jobSpec", "tensorboard"), spec.get("tensorboard"), _place),
        (("jobSpec", "experiment"), spec.get("experiment"), _place),
        (("jobSpec", "experimentRun"), spec.get("experimentRun"), _place),
        (("encryptionSpec", "kmsKeyName"), within(case.job, "encryptionSpec", "kmsKeyName"), _place),
    ]
    output, attachment = (
        ("baseOutputDirectory", "outputUriPrefix"),
        ("pscInterfaceConfig", "networkAttachment"),
    )
    texts.append((("jobSpec", *output), within(spec, *output), _bucket))
    texts.append((("jobSpec", *attachment), within(spec, *attachment), _whole))
    for path, pool in case.used:
        container, package = ("containerSpec", "imageUri"), ("pythonPackageSpec", "executorImageUri")
        texts += [((*path, *inner), within(pool, *inner), _repository) for inner in (container, package)]
        for i, uri in enumerate(within(pool, "pythonPackageSpec", "packageUris") or []):
            texts.append(((*path, "pythonPackageSpec", "packageUris", i), uri, _bucket))
    for where, text, part in texts:
        if isinstance(text, str) and text:
            yield where, text, part


def name(case: Case) -> Iterator[Finding]:
    for path, text, part in _fields(case):
        match = _MARK.search(text) or _CAPITALS.search(part(text))
        if match:
            sentence = f"{match[0]} is a placeholder for a name; no resource is named {text}."
            fix = "Write the real name."
            if match[0].startswith("${"):
                fix = "Write the real name, or declare it under `parameters` of a profile."
            yield Finding(path, sentence, fix)


def asked(case: Case) -> Iterator[Finding]:
    for path, text, part in _fields(case):
        match = _ASKED.search(part(text))
        if match and not (_MARK.search(text) or _CAPITALS.search(part(text))):
            sentence = f"{text} looks like a name from an example."
            yield Finding(path, sentence, "Write your own name, unless it is correct.")


def value(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        task, spec = task_of(pool)
        texts: list[tuple[Path, str]] = [
            ((field, i), str(text))
            for field in ("command", "args")
            for i, text in enumerate(spec.get(field) or [])
        ]
        texts += [
            (("env", i, "value"), str(variable.get("value") or ""))
            for i, variable in enumerate(spec.get("env") or [])
        ]
        for inner, text in texts:
            match = _IN_VALUE.search(text)
            if match:
                sentence = f"{match[0]} looks like a placeholder; the code receives it unchanged."
                yield Finding((*path, task, *inner), sentence, "Write the real value.")


RULES = (
    Rule(NAME, "https://docs.cloud.google.com/resource-manager/docs/creating-managing-projects", name),
    Rule("placeholder.example", SPEC, asked, ProblemSeverity.WARNING),
    Rule("placeholder.value", SPEC, value, ProblemSeverity.WARNING),
)
