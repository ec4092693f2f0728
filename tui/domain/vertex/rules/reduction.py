"""Rules about Reduction Server: its pool, image, machine and size, and jobs without a gain."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.spec.custom_job_spec import machine_of, task_of, whole
from tui.domain.spec.findings import Case, Finding, Path, Pool, Rule
from tui.domain.vertex import catalog, reducers
from tui.domain.vertex.sources import DISTRIBUTED, UNDOCUMENTED

LEAST_VCPUS = 16
_LOOKS_LIKE = re.compile(r"reduction[-_]?server", re.IGNORECASE)
_RIGHT = re.compile(
    rf"(?:us|europe|asia)-docker\.pkg\.dev/{catalog.REDUCTION_SERVER}(?::[\w.-]+|@sha256:\w+)?"
)
_SHARDED = re.compile(r"\b(?:fsdp2?|zero-?3)\b", re.IGNORECASE)


def _image(pool: Pool) -> str:
    return str(task_of(pool)[1].get("imageUri") or "")


def _reducers(case: Case) -> list[tuple[Path, Pool]]:
    """Return the pools that run the image of the reducers."""
    return [(path, pool) for path, pool in case.used if _LOOKS_LIKE.search(_image(pool))]


def position(case: Case) -> Iterator[Finding]:
    for path, pool in _reducers(case):
        index = path[-1]
        if index == reducers.POSITION:
            continue
        others = case.pools
        free = index == 3 and not others[reducers.POSITION][1]
        spot = (*path[:-1], reducers.POSITION)
        edits = (Edit(spot, pool), Edit(path, REMOVED)) if free else ()
        yield Finding(
            path,
            f"reducers must be the third pool, index 2; here they are at index {index}.",
            "Move this pool to index 2; index 0 is the primary, and index 1 has the other workers.",
            edits,
        )


def image(case: Case) -> Iterator[Finding]:
    for path, pool in _reducers(case):
        image = _image(pool)
        if not _RIGHT.fullmatch(image):
            where = (*path, task_of(pool)[0], "imageUri")
            right = reducers.image_for(case.region)
            yield Finding(
                where,
                f"{image} must be the image of Reduction Server.",
                f"Write {right}.",
                (Edit(where, right),),
            )


def machine(case: Case) -> Iterator[Finding]:
    for path, pool in _reducers(case):
        name, kind, count = machine_of(pool)
        known = catalog.machines().get(name)
        if known is None or kind or count:
            continue
        if name.startswith(("n1-", "n2-")) and known.vcpus >= LEAST_VCPUS:
            continue
        where = (*path, "machineSpec", "machineType")
        yield Finding(
            where,
            f"reducers must run on N1 or N2 machines with at least 16 vCPUs, not on {name}.",
            f"Write {reducers.MACHINE}.",
            (Edit((*path, "machineSpec"), {"machineType": reducers.MACHINE}),),
        )


def gpu(case: Case) -> Iterator[Finding]:
    for path, pool in _reducers(case):
        name, kind, count = machine_of(pool)
        if kind or count:
            spec = (*path, "machineSpec")
            keeps = name.startswith(("n1-", "n2-"))
            edits = (
                (Edit((*spec, "acceleratorType"), REMOVED), Edit((*spec, "acceleratorCount"), REMOVED))
                if keeps
                else (Edit(spec, {"machineType": reducers.MACHINE}),)
            )
            yield Finding(
                (*spec, "acceleratorType"),
                "reducers only sum gradients from the network; a GPU in this pool is billed but idle. "
                + UNDOCUMENTED,
                "Remove the accelerator." if keeps else f"Use {reducers.MACHINE}, without an accelerator.",
                edits,
            )


def useless(case: Case) -> Iterator[Finding]:
    if not reducers.is_on(case.job) or case.strategy == "FLEX_START":
        return
    proposal = reducers.propose(case.job)
    if not proposal.helps and "not known" not in proposal.reason:
        reason = (
            proposal.reason[0].lower() + proposal.reason[1:]
            if proposal.reason[1:2].islower()
            else proposal.reason
        )
        yield Finding(
            case.pools[reducers.POSITION][0],
            f"Reduction Server can't help here: {reason}",
            "Remove the third pool.",
            reducers.edits_off(case.job),
        )


def sizing(case: Case) -> Iterator[Finding]:
    if not reducers.is_on(case.job):
        return
    proposal = reducers.propose(case.job)
    if proposal.helps and 0 < proposal.running < proposal.count:
        where = (*case.pools[reducers.POSITION][0], "replicaCount")
        doubt = "" if reducers.RECALLED not in proposal.note else " " + reducers.RECALLED
        yield Finding(
            where,
            f"{proposal.running} reducers × {reducers.GBPS} Gbps are slower than {proposal.nodes} workers "
            f"with {proposal.worker_gbps:g} Gbps together and would slow them down.{doubt}",
            f"Write {proposal.count}, which is {proposal.worker_gbps:g} / {reducers.GBPS} rounded up.",
            (Edit(where, proposal.count),),
        )


def command(case: Case) -> Iterator[Finding]:
    for path, pool in _reducers(case):
        name, task = task_of(pool)
        overridden = [field for field in ("command", "args") if task.get(field)]
        if overridden:
            yield Finding(
                (*path, name, overridden[0]),
                "Google's Reduction Server image has its own command, which your command would replace.",
                "Remove it.",
                tuple(Edit((*path, name, field), REMOVED) for field in overridden),
            )


def nccl_net(case: Case) -> Iterator[Finding]:
    if not reducers.is_on(case.job):
        return
    for path, pool in case.used[: reducers.POSITION]:
        name, task = task_of(pool)
        for i, variable in enumerate(task.get("env") or []):
            if variable.get("name") in {"NCCL_NET", "NCCL_NET_PLUGIN"}:
                where = (*path, name, "env", i)
                yield Finding(
                    where,
                    f"{variable['name']} selects NCCL's network plugin manually and may exclude the plugin "
                    "of Reduction Server.",
                    "Remove the variable; NCCL finds the package google-reduction-server by itself.",
                    (Edit(where, REMOVED),),
                )


def sharded(case: Case) -> Iterator[Finding]:
    if not reducers.is_on(case.job):
        return
    for path, pool in case.used[:1]:
        name, task = task_of(pool)
        for i, argument in enumerate(task.get("args") or []):
            match = _SHARDED.search(str(argument))
            if match:
                yield Finding(
                    (*path, name, "args", i),
                    f"{match[0]} shards gradients by reduce-scatter; Reduction Server speeds up only "
                    "all-reduce, so it probably does not help.",
                    "Use DDP, or remove the third pool; measure with and without it.",
                )


def workers(case: Case) -> Iterator[Finding]:
    for path, pool in _reducers(case):
        if path[-1] == reducers.POSITION and not whole(pool.get("replicaCount")):
            continue
        if len(case.pools) <= 1 or not case.pools[1][1]:
            yield Finding(
                path,
                "reducers need GPU workers in the second pool, which is empty.",
                "Put the other workers at index 1: a copy of the primary with their replica count.",
            )


RULES = (
    Rule("reduction.position", DISTRIBUTED, position),
    Rule("reduction.image", DISTRIBUTED, image),
    Rule("reduction.machine", DISTRIBUTED, machine, ProblemSeverity.WARNING),
    Rule("reduction.accelerator", DISTRIBUTED, gpu, ProblemSeverity.WARNING),
    Rule("reduction.workers", DISTRIBUTED, workers, ProblemSeverity.WARNING),
    Rule("reduction.useless", DISTRIBUTED, useless, ProblemSeverity.WARNING),
    Rule("reduction.sizing", DISTRIBUTED, sizing, ProblemSeverity.WARNING),
    Rule("reduction.command", DISTRIBUTED, command, ProblemSeverity.WARNING),
    Rule("reduction.nccl-net", DISTRIBUTED, nccl_net, ProblemSeverity.WARNING),
    Rule("reduction.sharded", DISTRIBUTED, sharded, ProblemSeverity.WARNING),
)
