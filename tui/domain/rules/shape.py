"""Rules about a job's outline: names, labels, pools, tasks, limits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tui.domain.rules.base import Case, Finding, Rule

MAX_POOLS = 4
MAX_ENV = 100
MAX_ARGS = 100_000
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def display_name(case: Case) -> Iterator[Finding]:
    name = str(case.job.get("displayName", ""))
    if not name:
        yield Finding(("displayName",), "a job needs a display name.")
    if len(name.encode()) > 128:
        yield Finding(("displayName",), f"it has {len(name.encode())} bytes; 128 is the most.", "Shorten it.")


def labels(case: Case) -> Iterator[Finding]:
    for key, value in case.job.get("labels", {}).items():
        for text in (key, str(value)):
            if len(text) > 64 or any(c.isupper() or not (c.isalnum() or c in "_-") for c in text):
                yield Finding(
                    ("labels", key),
                    f"{text!r} is not a label: at most 64 lowercase letters, digits, _ and -.",
                    "Use lowercase and replace other characters by a dash.",
                )


def pool_count(case: Case) -> Iterator[Finding]:
    found = case.pools
    if not found:
        yield Finding(
            ("jobSpec", "workerPoolSpecs"), "there is no worker pool.", "The first one is the primary."
        )
    if len(found) > MAX_POOLS:
        path = found[MAX_POOLS][0]
        yield Finding(path, f"there are {len(found)} worker pools; {MAX_POOLS} positions exist.")


def primary(case: Case) -> Iterator[Finding]:
    for path, pool in case.pools[:1]:
        if not pool:
            yield Finding(path, "the first pool is the primary and can't be skipped.")
        elif pool.get("replicaCount", 1) != 1:
            yield Finding(
                (*path, "replicaCount"),
                f"the primary pool has 1 replica, not {pool['replicaCount']}.",
                "Put the others into a second pool.",
            )


def replicas(case: Case) -> Iterator[Finding]:
    for path, pool in case.pools[1:]:
        if pool and int(pool.get("replicaCount", 0)) < 1:
            yield Finding((*path, "replicaCount"), "a pool has at least 1 replica.", "Write {} to skip it.")


def task(case: Case) -> Iterator[Finding]:
    for path, pool in case.pools:
        if not pool:
            continue
        container, package = pool.get("containerSpec"), pool.get("pythonPackageSpec")
        if (container is None) == (package is None):
            yield Finding(path, "a pool has either a containerSpec or a pythonPackageSpec.")
        elif container is not None and not container.get("imageUri"):
            yield Finding((*path, "containerSpec", "imageUri"), "the image is missing.")
        elif package is not None:
            for name in ("executorImageUri", "packageUris", "pythonModule"):
                if not package.get(name):
                    yield Finding((*path, "pythonPackageSpec", name), "it is required.")


def environment(case: Case) -> Iterator[Finding]:
    for path, pool in case.pools:
        for name in ("containerSpec", "pythonPackageSpec"):
            spec = pool.get(name) or {}
            env = spec.get("env", [])
            if len(env) > MAX_ENV:
                yield Finding((*path, name, "env"), f"{len(env)} variables; {MAX_ENV} is the most.")
            for i, variable in enumerate(env):
                if not _ENV_NAME.fullmatch(str(variable.get("name", ""))):
                    yield Finding(
                        (*path, name, "env", i), f"{variable.get('name', '')!r} is not a variable's name."
                    )
            size = sum(len(str(a)) for a in spec.get("args", []))
            if size > MAX_ARGS:
                yield Finding(
                    (*path, name, "args"), f"{size} characters of arguments; {MAX_ARGS} is the most."
                )


RULES = (
    Rule("shape.display-name", "vertex facts 1.1", display_name),
    Rule("shape.labels", "vertex facts 1.1", labels),
    Rule("shape.pools", "vertex facts 1.3", pool_count),
    Rule("shape.primary", "vertex facts 1.3", primary),
    Rule("shape.replicas", "vertex facts 1.3", replicas),
    Rule("shape.task", "vertex facts 1.9", task),
    Rule("shape.environment", "vertex facts 1.9", environment),
)
