"""The fields of a replica: the replicas' tab, `vxtui describe` and a job's `--json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tui.domain.core.job import Job, known_replicas
from tui.domain.core.replica import Replica
from tui.domain.fields.field import Field, json_object


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """A replica, and the position of its group in the job."""

    replica: Replica
    position: int | None = None


REPLICA_FIELDS: tuple[Field[ReplicaRow], ...] = (
    Field("id", json=lambda row: row.replica.id, help="Name, e.g. `workerpool0-0`; in a cluster `worker-3`"),
    Field("group", json=lambda row: row.replica.group, help="Replica group, in Vertex a worker pool"),
    Field("pool", json=lambda row: row.position, help="Position of the group in the job"),
    Field("index", json=lambda row: row.replica.index, help="Number within the group, from 0"),
    Field("role", json=lambda row: row.replica.role, help="Role, e.g. `primary`"),
    Field("state", json=lambda row: row.replica.state.value, help="State, as of a job"),
    Field("exit_code", json=lambda row: row.replica.exit_code, help="Exit code"),
    Field("node", json=lambda row: row.replica.node or None, help="Name of its machine"),
    Field("restarts", json=lambda row: row.replica.restarts, help="Restarts and replaced pods"),
    Field("reason", json=lambda row: row.replica.reason or None, help="Why it is in its state"),
    Field("pod", json=lambda row: row.replica.pod or None, help="Name of its pod in a cluster"),
)  # fmt: skip


def replicas_json(job: Job) -> list[dict[str, Any]]:
    """The replicas of a job in the documented shape."""
    positions = {group.name: position for position, group in enumerate(job.groups)}
    return [
        json_object(REPLICA_FIELDS, ReplicaRow(replica, positions.get(replica.group)))
        for replica in known_replicas(job)
    ]
