"""Rules about a job's structure: names, labels, pools, tasks and limits."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.spec.custom_job_spec import task_of, whole, within
from tui.domain.spec.display_name import name_problem
from tui.domain.spec.findings import Case, Finding, Rule
from tui.domain.vertex.sources import DISTRIBUTED, GCLOUD_JOB, JOB, LABELS, REST, SPEC, TRAINING, UNDOCUMENTED

MAX_LABEL = 63
MAX_LABEL_BYTES = 127
MAX_LABELS = 64
MAX_POOLS = 4
MAX_ENV = 100
MAX_ARGS = 100_000
DOUBTFUL_REPLICAS = 1_000
POOLS = ("jobSpec", "workerPoolSpecs")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY = re.compile(r"projects/[^/]+/locations/(?P<location>[^/]+)/keyRings/[^/]+/cryptoKeys/[^/]+")


def display_name(case: Case) -> Iterator[Finding]:
    trouble = name_problem(str(case.job.get("displayName") or ""))
    if trouble is not None:
        yield Finding(("displayName",), *trouble)


def labels(case: Case) -> Iterator[Finding]:
    for key, value in (case.job.get("labels") or {}).items():
        path = ("labels", key)
        if not key:
            yield Finding(("labels",), "a label has an empty key.", "Name the label, or remove it.")
        elif not _label_start(key[0]):
            yield Finding(path, f"the label's key {key!r} must start with a letter or digit.", "Rename it.")
        for noun, text in (("key", key), ("value", str(value))):
            if len(text.encode()) > MAX_LABEL_BYTES and len(text) <= MAX_LABEL:
                sentence = (
                    f"the label's {noun} has {len(text.encode())} bytes; the maximum is {MAX_LABEL_BYTES}."
                )
                yield Finding(path, sentence, "Shorten it.")
            if len(text) > MAX_LABEL:
                sentence = f"the label's {noun} has {len(text)} characters; the maximum is {MAX_LABEL}."
                yield Finding(path, sentence, "Shorten it.")
            wrong = next((c for c in text if not _for_labels(c)), None)
            if wrong is not None:
                right = "".join(c if _for_labels(c) else "-" for c in text.lower())
                edit = Edit(path, right)
                renamed = (Edit(path, REMOVED), Edit(("labels", right), str(value)))
                yield Finding(
                    path,
                    f"the label's {noun} {text!r} contains {wrong!r}; labels use only lowercase letters, "
                    "digits, _ and -.",
                    f"Write {right}.",
                    (edit,) if noun == "value" else renamed if right not in case.job["labels"] else (),
                )


def _label_start(char: str) -> bool:
    return char.isalnum() or not _for_labels(char)


def _for_labels(char: str) -> bool:
    """Return whether labels allow the character. Labels allow international letters but no capitals."""
    kind = unicodedata.category(char)
    return char in "_-" or (kind[0] in "LMN" and kind not in {"Lu", "Lt"})


def label_count(case: Case) -> Iterator[Finding]:
    count = len(case.job.get("labels") or {})
    if count > MAX_LABELS:
        yield Finding(
            ("labels",),
            f"there are {count} labels; a resource has at most {MAX_LABELS}.",
            "Remove labels that nobody searches for.",
        )


def encryption(case: Case) -> Iterator[Finding]:
    key = within(case.job, "encryptionSpec", "kmsKeyName")
    path = ("encryptionSpec", "kmsKeyName")
    if "encryptionSpec" not in case.job:
        return
    match = _KEY.fullmatch(str(key or ""))
    if match is None:
        yield Finding(
            path,
            f"{key or 'an empty name'} must be the full name of a key.",
            "Write projects/P/locations/L/keyRings/R/cryptoKeys/K.",
        )
    elif case.region and match["location"] != case.region:
        yield Finding(
            path,
            f"the key is in {match['location']}, but the job is in {case.region}; use one region.",
            f"Use a key in {case.region}.",
        )


def pool_count(case: Case) -> Iterator[Finding]:
    pools = case.pools
    if not pools:
        yield Finding(
            POOLS, "the job must have a worker pool.", "Add a worker pool; the first pool is the primary."
        )
    if len(pools) > MAX_POOLS:
        yield Finding(
            pools[MAX_POOLS][0],
            f"there are {len(pools)} worker pools; the maximum is {MAX_POOLS}: primary, workers, "
            "parameter servers or reducers, and evaluators.",
            "Raise the second pool's replica count to get more workers.",
        )


def trailing(case: Case) -> Iterator[Finding]:
    pools = case.pools
    if len(pools) > 1 and not pools[-1][1]:
        path = pools[-1][0]
        yield Finding(path, "a skipped pool must not be the last one.", "Remove it.", (Edit(path, REMOVED),))


def primary(case: Case) -> Iterator[Finding]:
    for path, pool in case.pools[:1]:
        count = whole(pool.get("replicaCount"))
        here = (*path, "replicaCount")
        if not pool:
            yield Finding(path, "the first pool is the primary and can't be skipped.", "Move a pool here.")
        elif not pool.get("replicaCount"):
            sentence = "the primary pool must have the replica count 1."
            yield Finding(here, sentence, "Write 1.", (Edit(here, 1),))
        elif count != 1:
            alone = count > 1 and not any(other for _, other in case.pools[1:2])
            fix = "Write 1"
            fix += f", and put the other {count - 1} into a second pool." if alone else "."
            rest = {**pool, "replicaCount": count - 1}
            edits = (Edit(here, 1), Edit((*POOLS, 1), rest)) if alone else ()
            sentence = f"the primary pool has {count} replicas but must have 1, the chief."
            yield Finding(here, sentence, fix, edits)


def replicas(case: Case) -> Iterator[Finding]:
    for path, pool in case.pools[1:]:
        if pool and whole(pool.get("replicaCount")) < 1:
            count = pool.get("replicaCount") or "missing"
            sentence = f"the replica count must be at least 1, not {count}. {UNDOCUMENTED}"
            yield Finding((*path, "replicaCount"), sentence, "Write a number, or write {} to skip the pool.")


def replica_limit(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        count = whole(pool.get("replicaCount"))
        if count >= DOUBTFUL_REPLICAS:
            yield Finding(
                (*path, "replicaCount"),
                f"the maximum replica count of a pool is not documented; {count:,} may be too many.",
                "Try this count with cheap machines first.",
            )


def task(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        container, package = pool.get("containerSpec"), pool.get("pythonPackageSpec")
        if container is None and package is None:
            sentence = "the pool must have a task."
            fix = "Add a containerSpec with an imageUri, or a pythonPackageSpec."
            yield Finding((*path, "containerSpec"), sentence, fix)
        elif container is not None and package is not None:
            sentence = "the pool must have a containerSpec or a pythonPackageSpec, not both."
            yield Finding((*path, "pythonPackageSpec"), sentence, "Remove one.")


def environment(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name, spec = task_of(pool)
        env = spec.get("env") or []
        if len(env) > MAX_ENV:
            sentence = f"there are {len(env)} environment variables; the maximum is {MAX_ENV}."
            yield Finding((*path, name, "env"), sentence, "Put the other variables into a file of the image.")
        for i, variable in enumerate(env):
            key = str(variable.get("name") or "")
            if not _ENV_NAME.fullmatch(key):
                yield Finding(
                    (*path, name, "env", i, "name"),
                    f"{key!r} must be a valid variable name.",
                    "Use letters, digits and _; do not start with a digit.",
                )


def environment_twice(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name, spec = task_of(pool)
        seen: set[str] = set()
        for i, variable in enumerate(spec.get("env") or []):
            key = str(variable.get("name") or "")
            if key and key in seen:
                sentence = f"{key} is set twice; the documentation does not say which value takes precedence."
                yield Finding((*path, name, "env", i), sentence, "Keep one.")
            seen.add(key)


def arguments(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name, spec = task_of(pool)
        size = sum(len(str(a)) for a in spec.get("args") or [])
        if size > MAX_ARGS:
            sentence = f"the arguments have {size:,} characters together; the maximum is {MAX_ARGS:,}."
            yield Finding(
                (*path, name, "args"), sentence, "Put the arguments into a file that the code reads."
            )


RULES = (
    Rule("shape.display-name", JOB, display_name),
    Rule("shape.labels", JOB, labels),
    Rule("shape.label-count", LABELS, label_count),
    Rule("shape.encryption", f"{REST}/v1/EncryptionSpec", encryption),
    Rule("shape.pools", SPEC, pool_count),
    Rule("shape.trailing-pool", DISTRIBUTED, trailing, ProblemSeverity.NOTE),
    Rule("shape.primary", DISTRIBUTED, primary),
    Rule("shape.replicas", DISTRIBUTED, replicas, ProblemSeverity.WARNING, emulated=True),
    Rule("shape.replica-limit", DISTRIBUTED, replica_limit, ProblemSeverity.WARNING),
    Rule("shape.task", GCLOUD_JOB, task),
    Rule("shape.environment", f"{REST}/Shared.Types/EnvVar", environment),
    Rule("shape.environment-twice", SPEC, environment_twice, ProblemSeverity.WARNING),
    Rule("shape.arguments", f"{TRAINING}/create-custom-job", arguments),
)
