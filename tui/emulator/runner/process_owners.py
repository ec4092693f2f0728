"""Owners of an attempt's processes: the replica of each. The module uses only the standard library.

The runner adopts orphans (`process_tree.become_subreaper`), so every process that a replica starts stays its
descendant. An orphan's owner follows from the last scan, from its session, or from the variable in its
inherited environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from tui.emulator.runner import process_tree
from tui.emulator.runner.process_tree import Proc

REPLICA_VARIABLE = "VXTUI_REPLICA"
"""Variable of every replica that holds the replica's id."""
ATTEMPT_VARIABLE = "VXTUI_ATTEMPT"
"""Variable of every replica that holds the attempt's directory, which is unique among all emulators."""
UNKNOWN = ""
"""Owner of a process of unknown origin."""


class ProcessOwners:
    """Assigns the runner's descendants to replicas, with one scan of /proc at a time."""

    def __init__(self, replicas: list[str], reaper: int = 0) -> None:
        """`reaper` is the pid of the runner's parent, which has the processes of earlier runners."""
        self._replicas, self._reaper = replicas, reaper
        self._owner: dict[tuple[int, int], str] = {}

    def scan(self, roots: Mapping[int, str]) -> dict[str, list[Proc]]:
        """Return the processes by replica, including zombies. `roots` names the replicas' first processes by
        pid."""
        me = os.getpid()
        top = self._reaper if self._reaper == os.getppid() else me
        # Parents come before their children, so the owner of a parent is known before the owners of its
        # children.
        family = [p for p in process_tree.descendants(process_tree.scan(), [top]) if p.pid not in {me, top}]
        owner: dict[int, str] = {}
        orphans = []
        for proc in family:
            known = roots.get(proc.pid) or self._owner.get(proc.key) or owner.get(proc.ppid)
            if known:
                owner[proc.pid] = known
            else:
                orphans.append(proc)
        sessions = {proc.session: owner[proc.pid] for proc in family if proc.pid in owner} | dict(roots)
        for proc in orphans:
            inherited = owner.get(proc.ppid) or sessions.get(proc.session)
            owner[proc.pid] = inherited or self._marked(proc)
        families: dict[str, list[Proc]] = {replica: [] for replica in self._replicas}
        for proc in family:
            families.setdefault(owner[proc.pid], []).append(proc)
        self._owner = {p.key: owner[p.pid] for p in family if owner[p.pid] != UNKNOWN}
        return families

    def owner(self, pid: int) -> str:
        """Return the owner of this process at the last scan, or UNKNOWN if the scan did not find it."""
        return next((name for (seen, _), name in self._owner.items() if seen == pid), UNKNOWN)

    def _marked(self, proc: Proc) -> str:
        for replica in self._replicas:
            if process_tree.environment_has(proc.pid, REPLICA_VARIABLE, replica):
                return replica
        return self._replicas[0] if len(self._replicas) == 1 else UNKNOWN
