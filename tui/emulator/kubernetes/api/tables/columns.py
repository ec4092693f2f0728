"""The columns that `kubectl get` shows for each type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tui.emulator.kubernetes.api.tables import pod_cells
from tui.emulator.kubernetes.resources import ApiResource, Obj

_NONE = "<none>"
_UNKNOWN = "<unknown>"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY
_DURATIONS = (
    (1, "s", 0, 2 * _MINUTE),
    (_MINUTE, "m", 10 * _MINUTE, 3 * _HOUR),
    (_HOUR, "h", 8 * _HOUR, 2 * _DAY),
    (_DAY, "d", 8 * _DAY, 2 * _YEAR),
    (_YEAR, "y", 8 * _YEAR, float("inf")),
)
"""Unit in seconds, its letter, duration up to which a smaller unit follows, and largest duration."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column; priority 1 shows it only with `-o wide`."""

    name: str
    value: Callable[[Obj], Any]
    type: str = "string"
    priority: int = 0

    def definition(self) -> Obj:
        """Return the column's definition in a table."""
        return {
            "name": self.name,
            "type": self.type,
            "format": "name" if self.name == "Name" else "",
            "description": "",
            "priority": self.priority,
        }


def columns_of(resource: ApiResource) -> Sequence[TableColumn]:
    """Return the columns of a type; name and age by default."""
    usual = (_NAME, _CUSTOM_AGE if resource.custom else _AGE)
    return _COLUMNS.get((resource.group, resource.plural), usual)


def cells(columns: Sequence[TableColumn], obj: Obj) -> list[Any]:
    """Return the cells of one row."""
    return [column.value(obj) for column in columns]


def human_duration(seconds: float) -> str:
    """Return a duration in at most two units, like kubectl."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 0:
        return "0s"
    number = next(index for index, step in enumerate(_DURATIONS) if total < step[3])
    unit, letter, two_units_below, _ = _DURATIONS[number]
    rest = total % unit // _DURATIONS[number - 1][0] if total < two_units_below else 0
    smaller = f"{rest}{_DURATIONS[number - 1][1]}" if rest else ""
    return f"{total // unit}{letter}{smaller}"


def age(text: Any) -> str:
    """Return the time elapsed since `text`."""
    at = time_of(text)
    return _UNKNOWN if at is None else human_duration((datetime.now(UTC) - at).total_seconds())


def time_of(text: Any) -> datetime | None:
    """Parse a Kubernetes time; `None` if invalid."""
    try:
        return datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None


def _at(path: str, default: Any = "") -> Callable[[Obj], Any]:
    parts = path.split(".")

    def value(obj: Obj) -> Any:
        node: Any = obj
        for part in parts:
            node = node.get(part) if isinstance(node, dict) else None
        return default if node is None else node

    return value


def _condition(kind: str) -> Callable[[Obj], Any]:
    def value(obj: Obj) -> Any:
        conditions = (obj.get("status") or {}).get("conditions") or []
        return next(
            (condition.get("status", "") for condition in conditions if condition.get("type") == kind), ""
        )

    return value


def _last_condition(obj: Obj) -> str:
    """Return the newest condition, which these types show as their state."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return str(conditions[-1].get("type", "")) if conditions else ""


def _count(path: str) -> Callable[[Obj], Any]:
    look = _at(path, {})
    return lambda obj: len(look(obj))


def _joined(path: str) -> Callable[[Obj], Any]:
    look = _at(path, [])
    return lambda obj: ",".join(map(str, look(obj))) or _NONE


def _job_status(obj: Obj) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or []
    holds = {condition.get("type") for condition in conditions if condition.get("status") == "True"}
    for kind in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if kind in holds:
            return kind
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else "Running"


def _job_completions(obj: Obj) -> str:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    completions = spec.get("completions")
    if completions is None:
        parallelism = spec.get("parallelism") or 0
        completions = f"1 of {parallelism}" if parallelism > 1 else "1"
    return f"{status.get('succeeded') or 0}/{completions}"


def _job_duration(obj: Obj) -> str:
    status = obj.get("status") or {}
    start, end = time_of(status.get("startTime")), time_of(status.get("completionTime"))
    if start is None:
        return ""
    return human_duration(((end or datetime.now(UTC)) - start).total_seconds())


def _containers(field: str) -> Callable[[Obj], str]:
    containers = _at("spec.template.spec.containers", [])
    return lambda obj: ",".join(str(container.get(field, "")) for container in containers(obj))


def _selector(obj: Obj) -> str:
    selector = (obj.get("spec") or {}).get("selector") or {}
    labels = selector.get("matchLabels", selector) if isinstance(selector, dict) else {}
    return ",".join(f"{key}={value}" for key, value in labels.items()) or _NONE


def _node_status(obj: Obj) -> str:
    ready = _condition("Ready")(obj)
    readiness = "Ready" if ready == "True" else "NotReady" if ready else "Unknown"
    return f"{readiness},SchedulingDisabled" if (obj.get("spec") or {}).get("unschedulable") else readiness


def _node_roles(obj: Obj) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    return ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))) or _NONE


def _node_address(kind: str) -> Callable[[Obj], str]:
    addresses = _at("status.addresses", [])
    return lambda obj: next(
        (address["address"] for address in addresses(obj) if address.get("type") == kind), _NONE
    )


def _service_ports(obj: Obj) -> str:
    ports = (obj.get("spec") or {}).get("ports") or []
    return ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or _NONE


def _event_object(obj: Obj) -> str:
    involved = obj.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _event_seen(obj: Obj) -> str:
    return age(obj.get("lastTimestamp") or obj.get("eventTime") or obj["metadata"].get("creationTimestamp"))


def _quota(path: str, prefix: str) -> Callable[[Obj], str]:
    hard, used = _at("status.hard", {}), _at("status.used", {})

    def value(obj: Obj) -> str:
        rows = [(key, used(obj).get(key, "0"), limit) for key, limit in hard(obj).items()]
        chosen = [row for row in rows if row[0].startswith("limits.") == (prefix == "limits")]
        return ", ".join(f"{key}: {have}/{limit}" for key, have, limit in chosen)

    return value


def _capacity(obj: Obj) -> str:
    return str(((obj.get("status") or {}).get("capacity") or {}).get("storage", ""))


_NAME = TableColumn("Name", _at("metadata.name"))
_AGE = TableColumn("Age", lambda obj: age(obj["metadata"].get("creationTimestamp")))
_CUSTOM_AGE = TableColumn(_AGE.name, _AGE.value, "date")
"""Age column as custom types declare it."""
_STATE = (_NAME, TableColumn("State", _last_condition), _CUSTOM_AGE)
_POD_GROUP = (
    _NAME,
    TableColumn("Status", _at("status.phase")),
    TableColumn("minMember", _at("spec.minMember", None), "integer"),
    TableColumn("Runnings", _at("status.running", None), "integer"),
    _AGE,
)

_COLUMNS: dict[tuple[str, str], tuple[TableColumn, ...]] = {
    ("", "pods"): (
        _NAME,
        TableColumn("Ready", pod_cells.ready),
        TableColumn("Status", pod_cells.status),
        TableColumn("Restarts", lambda obj: pod_cells.restarts(obj, age)),
        _AGE,
        TableColumn("IP", _at("status.podIP", _NONE), priority=1),
        TableColumn("Node", _at("spec.nodeName", _NONE), priority=1),
        TableColumn("Nominated Node", _at("status.nominatedNodeName", _NONE), priority=1),
        TableColumn("Readiness Gates", lambda _: _NONE, priority=1),
    ),
    ("", "namespaces"): (_NAME, TableColumn("Status", _at("status.phase")), _AGE),
    ("", "nodes"): (
        _NAME,
        TableColumn("Status", _node_status),
        TableColumn("Roles", _node_roles),
        _AGE,
        TableColumn("Version", _at("status.nodeInfo.kubeletVersion")),
        TableColumn("Internal-IP", _node_address("InternalIP"), priority=1),
        TableColumn("External-IP", _node_address("ExternalIP"), priority=1),
        TableColumn("OS-Image", _at("status.nodeInfo.osImage", _UNKNOWN), priority=1),
        TableColumn("Kernel-Version", _at("status.nodeInfo.kernelVersion", _UNKNOWN), priority=1),
        TableColumn(
            "Container-Runtime", _at("status.nodeInfo.containerRuntimeVersion", _UNKNOWN), priority=1
        ),
    ),
    ("", "services"): (
        _NAME,
        TableColumn("Type", _at("spec.type", "ClusterIP")),
        TableColumn("Cluster-IP", _at("spec.clusterIP", _NONE)),
        TableColumn("External-IP", lambda _: _NONE),
        TableColumn("Port(s)", _service_ports),
        _AGE,
        TableColumn("Selector", _selector, priority=1),
    ),
    ("", "events"): (
        TableColumn("Last Seen", _event_seen),
        TableColumn("Type", _at("type")),
        TableColumn("Reason", _at("reason")),
        TableColumn("Object", _event_object),
        TableColumn("Subobject", _at("involvedObject.fieldPath"), priority=1),
        TableColumn("Source", _at("source.component"), priority=1),
        TableColumn("Message", _at("message")),
        TableColumn("First Seen", lambda obj: age(obj.get("firstTimestamp")), priority=1),
        TableColumn("Count", _at("count", None), priority=1),
        TableColumn("Name", _at("metadata.name"), priority=1),
    ),
    ("", "configmaps"): (_NAME, TableColumn("Data", _count("data")), _AGE),
    ("", "secrets"): (_NAME, TableColumn("Type", _at("type")), TableColumn("Data", _count("data")), _AGE),
    ("", "serviceaccounts"): (_NAME, TableColumn("Secrets", _count("secrets")), _AGE),
    ("", "persistentvolumeclaims"): (
        _NAME,
        TableColumn("Status", _at("status.phase")),
        TableColumn("Volume", _at("spec.volumeName")),
        TableColumn("Capacity", _capacity),
        TableColumn("Access Modes", _joined("spec.accessModes")),
        TableColumn("StorageClass", _at("spec.storageClassName")),
        _AGE,
    ),
    ("", "resourcequotas"): (
        _NAME,
        TableColumn("Request", _quota("", "requests")),
        TableColumn("Limit", _quota("", "limits")),
        _AGE,
    ),
    ("", "limitranges"): (_NAME, TableColumn("Created At", _at("metadata.creationTimestamp"))),
    ("batch", "jobs"): (
        _NAME,
        TableColumn("Status", _job_status),
        TableColumn("Completions", _job_completions),
        TableColumn("Duration", _job_duration),
        _AGE,
        TableColumn("Containers", _containers("name"), priority=1),
        TableColumn("Images", _containers("image"), priority=1),
        TableColumn("Selector", _selector, priority=1),
    ),
    ("apiextensions.k8s.io", "customresourcedefinitions"): (
        _NAME,
        TableColumn("Created At", _at("metadata.creationTimestamp")),
    ),
    ("coordination.k8s.io", "leases"): (_NAME, TableColumn("Holder", _at("spec.holderIdentity")), _AGE),
    ("scheduling.k8s.io", "priorityclasses"): (
        _NAME,
        TableColumn("Value", _at("value", 0), "integer"),
        TableColumn("Global-Default", _at("globalDefault", False), "boolean"),
        _AGE,
    ),
    ("kubeflow.org", "pytorchjobs"): _STATE,
    ("kubeflow.org", "tfjobs"): _STATE,
    ("kubeflow.org", "mpijobs"): _STATE,
    ("trainer.kubeflow.org", "trainjobs"): _STATE,
    ("jobset.x-k8s.io", "jobsets"): (
        _NAME,
        TableColumn("TerminalState", _at("status.terminalState")),
        TableColumn("Restarts", _at("status.restarts", None)),
        TableColumn("Completed", _condition("Completed")),
        TableColumn("Suspended", _at("spec.suspend", None)),
        _CUSTOM_AGE,
    ),
    ("kueue.x-k8s.io", "workloads"): (
        _NAME,
        TableColumn("Queue", _at("spec.queueName")),
        TableColumn("Reserved in", _at("status.admission.clusterQueue")),
        TableColumn("Admitted", _condition("Admitted")),
        TableColumn("Finished", _condition("Finished")),
        _CUSTOM_AGE,
    ),
    ("kueue.x-k8s.io", "localqueues"): (
        _NAME,
        TableColumn("ClusterQueue", _at("spec.clusterQueue")),
        TableColumn("Pending Workloads", _at("status.pendingWorkloads", None), "integer"),
        TableColumn("Admitted Workloads", _at("status.admittedWorkloads", None), "integer"),
    ),
    ("kueue.x-k8s.io", "clusterqueues"): (
        _NAME,
        TableColumn("Cohort", _at("spec.cohortName")),
        TableColumn("Strategy", _at("spec.queueingStrategy"), priority=1),
        TableColumn("Pending Workloads", _at("status.pendingWorkloads", None), "integer"),
        TableColumn("Admitted Workloads", _at("status.admittedWorkloads", None), "integer", priority=1),
    ),
    ("kueue.x-k8s.io", "workloadpriorityclasses"): (_NAME, TableColumn("Value", _at("value", 0), "integer")),
    ("scheduling.x-k8s.io", "podgroups"): _POD_GROUP,
    ("scheduling.volcano.sh", "podgroups"): (
        *_POD_GROUP[:-1],
        _AGE,
        TableColumn("Queue", _at("spec.queue"), priority=1),
    ),
}
