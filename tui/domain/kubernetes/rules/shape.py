"""Rules about objects themselves: their kinds, and the fields of each kind."""

from __future__ import annotations

from collections.abc import Iterator

from tui.domain.document.document_edit import Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.kubernetes.objects import workload_scoped
from tui.domain.kubernetes.rules.base import API, HEAD, ManifestCase, ManifestRule
from tui.domain.kubernetes.rules.schema_check import violations
from tui.domain.kubernetes.workloads import WORKLOADS, fields, workload_of
from tui.domain.spec.findings import Finding

SCHEMA = "manifest.schema"


def is_object(case: ManifestCase) -> Iterator[Finding]:
    for i, obj in enumerate(case.objects):
        for name in ("apiVersion", "kind"):
            if not isinstance(fields(obj).get(name), str):
                sentence = f"the object must have {name}."
                yield Finding((*HEAD, i, name), sentence, "Add the field, which kubectl requires.")


def has_job(case: ManifestCase) -> Iterator[Finding]:
    if case.index is not None or not case.objects:
        return
    kinds = ", ".join(dict.fromkeys(str(fields(obj).get("kind") or "?") for obj in case.objects))
    near = next((w for w in WORKLOADS for obj in case.objects if fields(obj).get("kind") == w.kind), None)
    if near is not None:
        i = next(i for i, obj in enumerate(case.objects) if fields(obj).get("kind") == near.kind)
        right = near.api_versions[0]
        path = (*HEAD, i, "apiVersion")
        sentence = f"{fields(case.objects[i]).get('apiVersion')} must be the apiVersion of a {near.kind}."
        yield Finding(path, sentence, f"Write {right}.", (Edit(path, right),))
        return
    sentence = f"the objects must contain a training job ({kinds})."
    yield Finding((*HEAD, 0, "kind"), sentence, f"Add one: {', '.join(w.kind for w in WORKLOADS)}.")


def one_job(case: ManifestCase) -> Iterator[Finding]:
    jobs = [i for i, obj in enumerate(case.objects) if workload_of(obj) is not None]
    for i in jobs[:-1]:
        sentence = "a launch creates one job: the last of the objects."
        yield Finding((*HEAD, i, "kind"), sentence, "Move this job to its own profile.")


def version(case: ManifestCase) -> Iterator[Finding]:
    kind = case.workload
    if kind is not None and case.job.get("apiVersion") not in kind.api_versions:
        right = kind.api_versions[0]
        sentence = (
            f"{case.job.get('apiVersion')} must be a known version of {kind.kind}: "
            f"{' and '.join(kind.api_versions)}."
        )
        yield Finding(
            ("apiVersion",),
            sentence,
            f"Write {right} if the cluster serves it.",
            (Edit(("apiVersion",), right),),
        )


def one_namespace(case: ManifestCase) -> Iterator[Finding]:
    named: dict[str, int] = {}
    for i, obj in enumerate(case.objects):
        name = fields(obj, "metadata").get("namespace")
        if isinstance(name, str) and workload_scoped(obj):
            named.setdefault(name, i)
    for i in list(named.values())[1:]:
        sentence = f"the objects are in several namespaces: {', '.join(named)}."
        yield Finding(
            (*HEAD, i, "metadata", "namespace"), sentence, "Use one namespace: a launch has only one."
        )


def schema(case: ManifestCase) -> Iterator[Finding]:
    """Report violations of a kind's schema: unknown fields, wrong types and missing fields."""
    for i, obj in enumerate(case.objects):
        for violation in violations(obj):
            head = (*HEAD, i)
            edits = tuple(Edit((*head, *e.path), e.value, e.insert) for e in violation.edits)
            yield Finding((*head, *violation.path), violation.sentence, violation.fix, edits)


RULES = (
    ManifestRule("manifest.object", API, is_object, whole=True),
    ManifestRule("manifest.no-job", API, has_job, whole=True),
    ManifestRule("manifest.one-job", API, one_job, whole=True),
    ManifestRule("manifest.version", API, version, ProblemSeverity.WARNING),
    ManifestRule("manifest.namespace", API, one_namespace, whole=True),
    ManifestRule(SCHEMA, API, schema, whole=True),
)
