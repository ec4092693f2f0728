"""Gangs: pods that start together or not at all, as PodGroups of scheduler-plugins and Volcano."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tui.emulator.kubernetes.node.scheduling.fit import Refusal, explain, nowhere
from tui.emulator.kubernetes.resources import Obj

COSCHEDULING, VOLCANO = "scheduling.x-k8s.io", "scheduling.volcano.sh"
LABELS = {"scheduling.x-k8s.io/pod-group": COSCHEDULING, "scheduling.volcano.sh/group-name": VOLCANO}
ANNOTATIONS = {"scheduling.k8s.io/group-name": VOLCANO, "scheduling.volcano.sh/group-name": VOLCANO}
REJECTED = "optimistic rejection in PostFilter"
"""Coscheduling's message for a pod that fits while a sibling does not."""


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Identifies a PodGroup by API group, namespace and name."""

    group: str
    namespace: str
    name: str

    @classmethod
    def of(cls, pod: Obj) -> GroupKey | None:
        """Return the group that this pod declares."""
        metadata = pod["metadata"]
        for places, known in ((metadata.get("labels"), LABELS), (metadata.get("annotations"), ANNOTATIONS)):
            for key, group in known.items():
                if name := (places or {}).get(key):
                    return cls(group, str(metadata.get("namespace", "")), str(name))
        return None


@dataclass
class GangAttempt:
    """One attempt to place a group: the numbers of existing and required pods, and the `failed` pods."""

    key: GroupKey
    minimum: int
    members: int
    pending: int
    failed: list[tuple[Obj, Sequence[Refusal], str]] = field(default_factory=list)
    """The pod, the refusal of each node, and the requirement that no node meets."""

    def too_few(self, pod: Obj, nodes: int) -> str:
        """Return the message for a pod whose siblings do not exist yet."""
        if self.key.group == VOLCANO:
            return self._unready()
        why = (
            f"pre-filter pod {pod['metadata']['name']} cannot find enough sibling pods, "
            f"current pods number: {self.members}, minMember of group: {self.minimum}"
        )
        return explain(nowhere(nodes), why)

    def held_up(self) -> str:
        """Return the message for a pod that fits but has to wait."""
        return self._unready() if self.key.group == VOLCANO else REJECTED

    def explain(self, refusals: Sequence[Refusal], lacking: str, enough: bool) -> str:
        """Return the message for a pod that does not fit. `enough` is true if enough other pods of its group
        fit."""
        if enough:
            return explain(refusals, lacking)
        if self.key.group == VOLCANO:
            return self._unready()
        first = self.failed[0][0]["metadata"]["name"]
        after = (
            f"PodGroup {self.key.namespace}/{self.key.name} gets rejected due to Pod {first} is "
            "unschedulable even after PostFilter."
        )
        return explain(refusals, lacking, after)

    def _unready(self) -> str:
        """Return Volcano's message for a waiting gang."""
        parts = {"Unschedulable": len(self.failed), "Schedulable": self.pending - len(self.failed)}
        detail = ", ".join(f"{count} {word}" for word, count in parts.items() if count)
        return (
            f"{self.pending}/{self.members} tasks in gang unschedulable: pod group is not ready, "
            f"{self.pending} Pending, {self.minimum} minAvailable; Pending: {detail}"
        )
