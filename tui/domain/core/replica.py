"""Replica groups and replicas of a job, and the naming of replicas.

A replica's name is its group's name and its index: `workerpool1-3`. Log entries, samples and errors have only
this name; only this module parses it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tui.domain.core.states import JobState

_NAME = re.compile(r"(?P<group>.*?(?P<number>\d*))-(?P<index>\d+)", re.DOTALL)
_OTHER = 1 << 30
_MOST_SHOWN = 10_000
"""Maximum number of replicas of a group that vxtui shows; a reply may name any number."""


@dataclass(frozen=True, slots=True)
class ReplicaGroup:
    """Replicas of one role and one machine type, a worker pool on Vertex AI. `name` is unique in the job.
    `replicas` is 0 for a position that the job skips."""

    name: str
    role: str = ""
    replicas: int = 0
    machine_type: str = ""
    accelerator_type: str = ""
    accelerator_count: int = 0
    """Accelerators of one replica."""
    image: str = ""
    min_replicas: int | None = None
    """Minimum number of replicas while the job runs; `None` if the service sets no bounds."""
    max_replicas: int | None = None

    @property
    def shown(self) -> range:
        """The indexes of the replicas that vxtui shows."""
        return range(min(self.replicas, _MOST_SHOWN))

    def replica(self, index: int) -> str:
        """Return the name of the replica with this index."""
        return f"{self.name}-{index}"


@dataclass(frozen=True, slots=True)
class NodeShare:
    """A job's share of identical cluster nodes, which are billed whether pods run or not. Values missing from
    a node's labels are "" or 0. `strategy` has the values of `Job.strategy`."""

    machine_type: str
    region: str
    accelerator_type: str = ""
    accelerator_count: int = 0
    """Accelerators of one node."""
    strategy: str = "STANDARD"
    nodes: int = 1
    share: float = 1.0
    """The requests of the pods as a number of these nodes."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One machine of a job. `id` is its name, e.g. `workerpool1-3`; `group` is the name of its group."""

    id: str
    group: str
    index: int
    role: str
    state: JobState = JobState.UNKNOWN
    exit_code: int | None = None
    node: str = ""
    """Name of the machine; "" if the service does not report a name."""
    restarts: int | None = None
    """Number of restarts; `None` if the service does not count them."""
    preemptions: int | None = None
    """Number of preemptions of its machine; `None` if unknown."""
    reason: str = ""
    """Reason for the replica's state, e.g. `out of memory (OOMKilled)`."""
    pod: str = ""
    """Name of the replica's pod in a cluster."""

    @property
    def short(self) -> str:
        """The `short_name` of the replica's id."""
        return short_name(self.id)


def of_task(task: str, replica: str) -> str:
    """Return the name of a task's replica in the log of the task's parent job."""
    return f"{task}/{replica}"


def is_of_task(replica: str) -> bool:
    """Return whether `of_task` built this name."""
    return "/" in replica


def short_name(replica: str) -> str:
    """Return the group number and index of a name: `1-3` for `workerpool1-3`, `7/0-0` for a replica of task
    7. A name without a group number is unchanged."""
    task, slash, own = replica.rpartition("/")
    match = _NAME.fullmatch(own)
    return f"{task}{slash}{match['number']}-{match['index']}" if match and match["number"] else replica


def group_of(replica: str) -> str:
    """Return the group in a replica's name: `workerpool1` for `workerpool1-3`; "" for a name without an
    index."""
    match = _NAME.fullmatch(replica)
    return match["group"] if match else ""


def replica_order(replica: str) -> tuple[int, str, int]:
    """Return the sort key of a replica: number and name of its group, then its index, so that `worker-2`
    precedes `worker-10`. Names without a group number come last."""
    task, _, own = replica.rpartition("/")
    match = _NAME.fullmatch(own)
    if match is None or task:
        return (_OTHER, replica, 0)
    return (int(match["number"] or _OTHER), match["group"], int(match["index"]))


REDUCER = "reducer"


PARAMETER_SERVER = "parameter server"


ACCELERATOR_COUNT = "cloud.google.com/gke-accelerator-count"


INSTANCE_TYPE = "node.kubernetes.io/instance-type"


REGION = "topology.kubernetes.io/region"
