"""Restarts and preemptions of each replica, from the milestones of a job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tui.domain.attempts.milestones import Milestone, MilestoneKind
from tui.domain.core.log_entry import SERVICE
from tui.domain.core.replica import Replica

_NAMED = re.compile(r"(?P<replica>[\w.-]+-\d+)(?: \(pod [^)]*\))?(?:: | ended)")
"""The replica at the start of a service's message."""
_PREEMPTED = re.compile(r"preempt|reclaim|SIGTERM|TaintManager", re.IGNORECASE)
_STARTS = frozenset({MilestoneKind.RENDEZVOUS, MilestoneKind.STARTING})


@dataclass(slots=True)
class _Life:
    """The counts of one replica."""

    restarts: int = 0
    preemptions: int = 0
    trained: bool = False
    """Whether the replica has trained or was interrupted since its last start."""
    preempted: bool = False
    """Whether the preemption of the current start was counted."""

    def add(self, event: Milestone) -> None:
        if event.kind in _STARTS:
            self.restarts += self.trained
            self.trained = self.preempted = False
        elif event.kind is MilestoneKind.INTERRUPTED:
            # A trainer also gets SIGTERM when its job ends because another machine is reclaimed.
            by_service = event.replica == SERVICE and _PREEMPTED.search(event.text) is not None
            preempted = by_service and not self.preempted
            self.preemptions += preempted
            self.preempted = self.preempted or preempted
            self.trained = True
        elif event.kind is MilestoneKind.TRAINING:
            self.trained = True


def with_interruptions(replicas: Sequence[Replica], milestones: Iterable[Milestone]) -> tuple[Replica, ...]:
    """Return the replicas with their preemptions, and with their restarts unless the service counts them.

    `milestones` are in time order. A replica without milestones keeps its unknown counts.
    """
    lives: dict[str, _Life] = {}
    for event in milestones:
        named = _NAMED.match(event.text) if event.replica == SERVICE else None
        name = named["replica"] if named is not None else event.replica
        lives.setdefault(name, _Life()).add(event)
    return tuple(_counted(replica, lives.get(replica.id)) for replica in replicas)


def _counted(replica: Replica, life: _Life | None) -> Replica:
    # A cluster reports the preemption of a node as the reason of the replica's restart.
    preempted = int("preempted" in replica.reason)
    if life is None:
        return replace(replica, preemptions=preempted) if preempted else replica
    # A count of zero says nothing, and would take a column.
    restarts = (life.restarts or None) if replica.restarts is None else replica.restarts
    return replace(replica, restarts=restarts, preemptions=max(life.preemptions, preempted) or None)
