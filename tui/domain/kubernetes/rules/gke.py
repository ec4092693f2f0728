"""Rules about GKE's nodes: accelerators, Spot, GPU networks and topology."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from tui.domain.core.replica import INSTANCE_TYPE
from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.kubernetes.accelerators import ACCELERATORS, of_vertex, shown
from tui.domain.kubernetes.rules.base import (
    EXTENDED,
    GPUS,
    RDMA,
    SPOT_VMS,
    TCPXO,
    TOPOLOGY,
    ManifestCase,
    ManifestRule,
)
from tui.domain.kubernetes.workloads import (
    ACCELERATOR,
    GPU,
    PREFERRED_TOPOLOGY,
    QUEUE,
    REQUIRED_TOPOLOGY,
    SPOT,
    ManifestGroup,
    Path,
    accelerator,
    at,
    elements,
    fields,
    gpus,
    tolerates,
    whole,
)
from tui.domain.spec.findings import Finding
from tui.domain.vertex.catalog import machines

TOLERATION = {"key": SPOT, "operator": "Equal", "value": "true", "effect": "NoSchedule"}
INTERFACES = "networking.gke.io/interfaces"
TCPXO_DEVICES = "devices.gke.io/container.tcpxo-daemon"
LEVELS = (
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-host",
    "kubernetes.io/hostname",
)
_RDMA = ("nvidia-h200-141gb", "nvidia-b200", "nvidia-gb200")
_CLOSE = ("nvidia-h100-80gb", "nvidia-h100-mega-80gb", *_RDMA)
"""Accelerators with a GPU network, for which the location of a node matters."""


def spot_toleration(case: ManifestCase) -> Iterator[Finding]:
    for group in case.groups:
        path = (*group.pod_path, "nodeSelector", SPOT)
        if fields(group.pod, "nodeSelector").get(SPOT) is not None and not tolerates(group.pod, SPOT):
            where = (*group.pod_path, "tolerations")
            count = len(elements(group.pod, "tolerations"))
            edits = (*(() if count else (Edit(where, []),)), Edit((*where, count), TOLERATION))
            sentence = (
                f"the pods of {group.role} require Spot nodes but don't tolerate their taint: they may wait "
                "forever."
            )
            yield Finding(path, sentence, f"Add a toleration of {SPOT}.", edits)


def spot_selector(case: ManifestCase) -> Iterator[Finding]:
    for group in case.groups:
        for i, toleration in enumerate(elements(group.pod, "tolerations")):
            named = fields(toleration).get("key") == SPOT
            if named and fields(group.pod, "nodeSelector").get(SPOT) is None and not _spot_affinity(group):
                path = (*group.pod_path, "tolerations", i)
                sentence = (
                    f"the pods of {group.role} tolerate Spot nodes but don't require them: they may run on "
                    "other nodes at full price."
                )
                edits = (Edit((*group.pod_path, "nodeSelector", SPOT), "true"),)
                yield Finding(path, sentence, f'Add the nodeSelector {SPOT}: "true".', edits)


def _spot_affinity(group: ManifestGroup) -> bool:
    return SPOT in repr(fields(group.pod, "affinity", "nodeAffinity"))


def known_accelerator(case: ManifestCase) -> Iterator[Finding]:
    for group in case.groups:
        name = fields(group.pod, "nodeSelector").get(ACCELERATOR)
        if not isinstance(name, str) or "${" in name or name in ACCELERATORS:
            continue
        path = (*group.pod_path, "nodeSelector", ACCELERATOR)
        right = of_vertex(name) or next(
            iter(difflib.get_close_matches(name.lower(), ACCELERATORS, 1, 0.6)), ""
        )
        fix = f"Write {right}." if right else f"GKE has {', '.join(ACCELERATORS)}."
        edits = (Edit(path, right),) if of_vertex(name) else ()
        yield Finding(path, f"{name} is not a known accelerator of GKE nodes.", fix, edits)


def no_gpus(case: ManifestCase) -> Iterator[Finding]:
    for group in case.groups:
        if accelerator(group).startswith("nvidia") and gpus(group) == 0:
            path = (*group.container_path, "resources", "limits", GPU)
            sentence = (
                f"the nodes of {group.role} have {shown(accelerator(group))}, but its container requests no "
                "GPU and sees none."
            )
            yield Finding(path, sentence, f"Write {GPU}: 8, or the number of GPUs in a node.")


def any_gpu(case: ManifestCase) -> Iterator[Finding]:
    for group in case.groups:
        if group.template and gpus(group) and not accelerator(group) and not _any_selector(group):
            path = (*group.pod_path, "nodeSelector", ACCELERATOR)
            sentence = f"the pods of {group.role} accept GPUs of any type."
            yield Finding(path, sentence, f"Set the type with the nodeSelector {ACCELERATOR}.")


def _any_selector(group: ManifestGroup) -> bool:
    selector = fields(group.pod, "nodeSelector")
    return INSTANCE_TYPE in selector or bool(fields(group.pod, "affinity"))


def equal_gpus(case: ManifestCase) -> Iterator[Finding]:
    for group in case.groups:
        key = "resourcesPerNode" if not group.template else "resources"
        path: Path = (*group.container_path, key)
        resources = fields(group.container, key)
        requested, most = fields(resources, "requests").get(GPU), fields(resources, "limits").get(GPU)
        if requested is not None and most is None:
            edits = (Edit((*path, "limits", GPU), requested),)
            yield Finding(
                (*path, "requests", GPU),
                "GPUs must have a limit, but only a request is set.",
                f"Write limits: {{{GPU}: {requested}}}.",
                edits,
            )
        elif requested is not None and most is not None and whole(requested) != whole(most):
            edits = (Edit((*path, "requests", GPU), most),)
            sentence = (
                f"{requested} GPUs are requested with a limit of {most}; GPUs can't be overcommitted, so "
                "both must be equal."
            )
            yield Finding(
                (*path, "requests", GPU), sentence, f"Write {most}, or leave the request out.", edits
            )


def machine(case: ManifestCase) -> Iterator[Finding]:
    """Check the machine type against GKE's labels, if the type is known."""
    for group in case.groups:
        selector = fields(group.pod, "nodeSelector")
        known = machines().get(str(selector.get(INSTANCE_TYPE) or ""))
        count = gpus(group)
        if known is None or count is None:
            continue
        most = max((n for counts in dict(known.accelerators).values() for n in counts), default=0)
        if count > most:
            path = (*group.container_path, "resources", "limits", GPU)
            sentence = (
                f"a pod requests {count} GPUs, but {selector[INSTANCE_TYPE]} has {most or 'none'}: no node "
                "ever fits."
            )
            yield Finding(path, sentence, f"Write {most}." if most else "Name a machine with GPUs.")


def gpu_network(case: ManifestCase) -> Iterator[Finding]:
    """Check the annotations that enable the GPU network."""
    total = case.replicas
    for group in case.groups:
        name, count = accelerator(group), gpus(group)
        if not group.template or count != 8 or total == 1:
            continue
        notes = fields(group.metadata, "annotations")
        path = (*group.template, "metadata", "annotations")
        if name == "nvidia-h100-mega-80gb" and not {INTERFACES, TCPXO_DEVICES} <= set(notes):
            missing = " and ".join(name for name in (INTERFACES, TCPXO_DEVICES) if name not in notes)
            sentence = (
                f"the pods of {group.role} lack the annotations {missing}: NCCL uses plain TCP at a tenth "
                "of the bandwidth of GPUDirect-TCPXO on A3 Mega."
            )
            fix = (
                "Add the annotations, the tcpxo-daemon container and its mounts as GKE's page for "
                "A3 Mega shows."
            )
            yield Finding(path, sentence, fix, source=TCPXO)
        elif name in _RDMA and INTERFACES not in notes and not fields(group.pod).get("hostNetwork"):
            sentence = (
                f"the pods of {group.role} lack the annotation {INTERFACES} with the RDMA networks: NCCL "
                "uses plain TCP between nodes."
            )
            fix = (
                "Add the annotation, or a DRA claim of the network devices, as GKE's page for A3 "
                "Ultra and A4 shows."
            )
            yield Finding(path, sentence, fix, source=RDMA)


def topology_level(case: ManifestCase) -> Iterator[Finding]:
    for path, key, level in _topologies(case):
        if level not in LEVELS and not str(level).startswith("${"):
            near = next(iter(difflib.get_close_matches(str(level), LEVELS, 1, 0.5)), LEVELS[0])
            yield Finding((*path, key), f"{level} must be a level of GKE's topology.", f"Write {near}.")


def topology_alone(case: ManifestCase) -> Iterator[Finding]:
    if fields(case.job, "metadata", "labels").get(QUEUE):
        return
    for path, key, _ in _topologies(case):
        sentence = "only Kueue reads this annotation, but the job has no Kueue queue."
        yield Finding((*path, key), sentence, f"Add the label {QUEUE} to the job, or remove this annotation.")


def no_topology(case: ManifestCase) -> Iterator[Finding]:
    queue, total = fields(case.job, "metadata", "labels").get(QUEUE), case.replicas
    close = [group for group in case.groups if accelerator(group) in _CLOSE and group.template]
    if queue and close and (total or 0) > 1 and not list(_topologies(case)):
        path = (*close[0].template, "metadata", "annotations")
        sentence = "Kueue may place the nodes in different blocks, which have a slower network between them."
        yield Finding(path, sentence, f"Add {REQUIRED_TOPOLOGY}: {LEVELS[0]}.")


def _topologies(case: ManifestCase) -> Iterator[tuple[Path, str, object]]:
    for group in case.groups:
        if not group.template:
            continue
        notes = fields(group.metadata, "annotations")
        for key in (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY):
            if key in notes:
                yield (*group.template, "metadata", "annotations"), key, notes[key]


def both_topologies(case: ManifestCase) -> Iterator[Finding]:
    for group in case.groups:
        path = (*group.template, "metadata", "annotations")
        notes = fields(group.metadata, "annotations")
        if {REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY} <= set(notes):
            where = (*path, PREFERRED_TOPOLOGY)
            yield Finding(
                where, "a topology is both required and preferred.", "Keep one.", (Edit(where, REMOVED),)
            )


def no_quantity(case: ManifestCase) -> Iterator[Finding]:
    for group in case.groups:
        count = at(group.container, "resources", "limits", GPU)
        if isinstance(count, str) and "${" not in count and whole(count) is None:
            path = (*group.container_path, "resources", "limits", GPU)
            yield Finding(path, f"{count!r} must be an integer number of GPUs.", "Write an integer.")


RULES = (
    ManifestRule("gke.spot-toleration", SPOT_VMS, spot_toleration, ProblemSeverity.WARNING),
    ManifestRule("gke.spot-selector", SPOT_VMS, spot_selector, ProblemSeverity.WARNING),
    ManifestRule("gke.accelerator", GPUS, known_accelerator, ProblemSeverity.WARNING),
    ManifestRule("gke.no-gpus", GPUS, no_gpus, ProblemSeverity.WARNING),
    ManifestRule("gke.any-gpu", GPUS, any_gpu, ProblemSeverity.NOTE),
    ManifestRule("gke.gpu-request", EXTENDED, equal_gpus),
    ManifestRule("gke.gpu-number", EXTENDED, no_quantity),
    ManifestRule("gke.machine", GPUS, machine),
    ManifestRule("gke.gpu-network", TCPXO, gpu_network, ProblemSeverity.WARNING),
    ManifestRule("gke.topology-level", TOPOLOGY, topology_level, ProblemSeverity.WARNING),
    ManifestRule("gke.topology-alone", TOPOLOGY, topology_alone, ProblemSeverity.WARNING),
    ManifestRule("gke.two-topologies", TOPOLOGY, both_topologies),
    ManifestRule("gke.no-topology", TOPOLOGY, no_topology, ProblemSeverity.NOTE),
)
