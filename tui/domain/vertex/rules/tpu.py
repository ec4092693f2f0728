"""Rules about TPU machines: one pool, one replica, a topology or cores (docs/facts/vertex.md 8.4)."""

from __future__ import annotations

from collections.abc import Iterator

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.spec.custom_job_spec import machine_of, whole, within
from tui.domain.spec.findings import Case, Finding, Rule
from tui.domain.vertex import catalog
from tui.domain.vertex.sources import COMPUTE, TRAINING

HOST_CHIPS = 8
"""Maximum number of chips of one host; a larger slice is a pod."""


def topology(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name, topology = machine_of(pool)[0], within(pool, "machineSpec", "tpuTopology")
        machine = catalog.machines().get(name)
        here = (*path, "machineSpec", "tpuTopology")
        if machine is None:
            continue
        offered = machine.tpu_topologies
        if offered and topology not in offered:
            complaint = f"{name} has no slice {topology}" if topology else f"{name} needs a tpuTopology"
            edits = (Edit(here, offered[0]),) if len(offered) == 1 else ()
            yield Finding(
                here,
                f"{complaint}; it has {', '.join(offered)}.",
                f"Write an existing slice, for example {offered[0]}.",
                edits,
            )
        elif topology and not offered:
            complaint = "selects its slice by the accelerator count" if name == "cloud-tpu" else "has no TPU"
            yield Finding(here, f"{name} {complaint}.", "Remove the topology.", (Edit(here, REMOVED),))


def accelerator(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name, kind, count = machine_of(pool)
        here = (*path, "machineSpec", "acceleratorType")
        here_count = (*path, "machineSpec", "acceleratorCount")
        if not catalog.is_tpu(name) or kind in {"TPU_V4_POD", "TPU_V5_LITEPOD", "NVIDIA_TESLA_K80"}:
            continue
        if name != "cloud-tpu":
            if kind or count:
                yield Finding(
                    here,
                    f"the tpuTopology sizes {name}, which must have no accelerator type or count.",
                    "Remove both.",
                    (Edit(here, REMOVED), Edit(here_count, REMOVED)),
                )
        elif kind not in {"TPU_V2", "TPU_V3"}:
            complaint = f"has no {kind}" if kind else "must name a TPU"
            yield Finding(here, f"cloud-tpu {complaint}.", "Write TPU_V2 or TPU_V3.")
        elif count != HOST_CHIPS and (count < catalog.TPU_POD_CORES or count % catalog.TPU_POD_CORES):
            yield Finding(
                here_count,
                f"{kind} comes with 8 cores, or with 32 and its multiples as a pod; {count} are requested.",
                "Write 8 or 32.",
            )


def one_pool(case: Case) -> Iterator[Finding]:
    tpus = [path for path, pool in case.used if catalog.is_tpu(machine_of(pool)[0])]
    if tpus and len(case.used) > 1:
        extra = next((path for path, _ in case.used if path != tpus[0]), tpus[0])
        yield Finding(
            extra,
            "a TPU job must have one worker pool; the slice itself spans the hosts.",
            "Remove the other pools; use a larger tpuTopology for more chips.",
        )


def one_replica(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        if catalog.is_tpu(machine_of(pool)[0]) and whole(pool.get("replicaCount")) > 1:
            where = (*path, "replicaCount")
            sentence = "a TPU pool must have one replica; the topology determines the number of hosts."
            yield Finding(where, sentence, "Write 1.", (Edit(where, 1),))


def spot(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name, _, count = machine_of(pool)
        pod = name == "cloud-tpu" and count >= catalog.TPU_POD_CORES
        if case.strategy == "SPOT" and (
            pod or chips(within(pool, "machineSpec", "tpuTopology")) > HOST_CHIPS
        ):
            yield Finding(
                ("jobSpec", "scheduling", "strategy"),
                f"TPU pods can't run on Spot, and pool {path[-1]} is a pod.",
                "Write STANDARD, or use a slice of one host.",
            )


def chips(topology: object) -> int:
    """Return the number of chips of a topology such as 4x4; 0 for other text."""
    total = 1
    for part in str(topology or "0").split("x"):
        total *= int(part) if part.isdecimal() else 0
    return total


RULES = (
    Rule("tpu.topology", COMPUTE, topology),
    Rule("tpu.accelerator", COMPUTE, accelerator),
    Rule("tpu.one-pool", COMPUTE, one_pool),
    Rule("tpu.one-replica", COMPUTE, one_replica),
    Rule("tpu.spot", f"{TRAINING}/use-spot-vms", spot),
)
