"""Whether a pod fits on a node, with kube-scheduler's reasons. The functions take REST objects and do no
I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tui.domain.kubernetes.quantity import scaled
from tui.emulator.kubernetes.resources import Obj

UNSCHEDULABLE = "node(s) were unschedulable"
OTHER_NAME = "node(s) didn't match the requested node name"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
PORTS = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY = "Too many pods"
_EFFECTS = {"NoSchedule", "NoExecute"}
_LEAST = {"cpu": 100, "memory": 200 << 20}
_CORE = {"cpu", "memory", "ephemeral-storage", "pods"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reason why a node rejects a pod. `hopeless` if removing other pods would not help."""

    reasons: tuple[str, ...]
    hopeless: bool


@dataclass
class NodeRoom:
    """A node and its pods' requests, in the units of `quantity.scaled`."""

    node: Obj
    used: Counter[str] = field(default_factory=Counter)
    ports: Counter[tuple[str, int]] = field(default_factory=Counter)
    weight: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        status = self.node.get("status") or {}
        self.allocatable = {
            name: scaled(name, amount) for name, amount in (status.get("allocatable") or {}).items()
        }

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    def copy(self) -> NodeRoom:
        copy = NodeRoom.__new__(NodeRoom)
        copy.node, copy.allocatable = self.node, self.allocatable
        copy.used, copy.ports, copy.weight = self.used.copy(), self.ports.copy(), self.weight.copy()
        return copy

    def add(self, pod: Obj, sign: int = 1) -> None:
        """Add a pod, or remove it with `sign` -1."""
        for name, amount in requests(pod["spec"]).items():
            self.used[name] += sign * amount
        self.used["pods"] += sign
        for port in host_ports(pod["spec"]):
            self.ports[port] += sign
        for name, amount in _weight(pod["spec"]).items():
            self.weight[name] += sign * amount

    @property
    def load(self) -> float:
        """Mean fraction of CPU and memory in use, for spreading. Pods without requests count too."""
        shares = [self.weight[name] / self.allocatable[name] for name in _LEAST if self.allocatable.get(name)]
        return sum(shares) / len(shares) if shares else 0.0


def requests(spec: Obj) -> dict[str, int]:
    """Return a pod's requests: the sum of its containers, or more if an init container needs it."""
    total: Counter[str] = Counter()
    for container in spec.get("containers") or ():
        total.update(_container_requests(container))
    beside: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in spec.get("initContainers") or ():
        amounts = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            beside.update(amounts)
            amounts = dict(beside)
        else:
            amounts = dict(beside + Counter(amounts))
        for name, amount in amounts.items():
            peak[name] = max(peak[name], amount)
    total.update(beside)
    for name, amount in peak.items():
        total[name] = max(total[name], amount)
    total.update({name: scaled(name, amount) for name, amount in (spec.get("overhead") or {}).items()})
    return {name: amount for name, amount in total.items() if amount}


def _container_requests(container: Obj) -> dict[str, int]:
    resources = container.get("resources") or {}
    # A limit without a request is also the request.
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: scaled(name, amount) for name, amount in amounts.items()}


def _weight(spec: Obj) -> dict[str, int]:
    """Return a pod's weight for spreading; kube-scheduler counts containers without requests too."""
    total: Counter[str] = Counter()
    for container in spec.get("containers") or ():
        amounts = _container_requests(container)
        total.update({name: amounts.get(name, least) for name, least in _LEAST.items()})
    return dict(total)


def host_ports(spec: Obj) -> list[tuple[str, int]]:
    return [
        (port.get("protocol", "TCP"), int(port["hostPort"]))
        for container in spec.get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]


def tolerations(spec: Obj) -> list[Obj]:
    """Return the tolerations of the pod, and those that GKE adds for each extended resource."""
    extended = [name for name in requests(spec) if "/" in name and name not in _CORE]
    added = [{"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in extended]
    return [*(spec.get("tolerations") or ()), *added]


def tolerated(taint: Obj, tolerating: Iterable[Obj]) -> bool:
    """Return whether a toleration matches this taint."""
    return bool(_tolerating(taint, tolerating))


def tolerated_seconds(taint: Obj, tolerating: Iterable[Obj]) -> float | None:
    """Return how long in seconds a pod may stay on a node with this taint, or None if forever."""
    matching = _tolerating(taint, tolerating)
    if not matching:
        return 0.0
    limits = [
        toleration["tolerationSeconds"]
        for toleration in matching
        if toleration.get("tolerationSeconds") is not None
    ]
    return max(0.0, float(min(limits))) if limits else None


def _tolerating(taint: Obj, tolerating: Iterable[Obj]) -> list[Obj]:
    result = []
    for toleration in tolerating:
        if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
            continue
        exists = toleration.get("operator", "Equal") == "Exists"
        key = toleration.get("key") or ""
        if key and key != taint.get("key"):
            continue
        if not key and not exists:
            continue
        if exists or (toleration.get("value") or "") == (taint.get("value") or ""):
            result.append(toleration)
    return result


def refusal(pod: Obj, room: NodeRoom) -> Refusal | None:
    """Return why the node rejects this pod, or None if there is no problem. The checks have kube-scheduler's
    order."""
    spec, node = pod["spec"], room.node
    tolerating = tolerations(spec)
    node_spec = node.get("spec") or {}
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if node_spec.get("unschedulable") and not tolerated(cordon, tolerating):
        return Refusal((UNSCHEDULABLE,), True)
    for taint in node_spec.get("taints") or ():
        if taint.get("effect") in _EFFECTS and not tolerated(taint, tolerating):
            shown = f"{{{taint.get('key', '')}: {taint.get('value') or ''}}}"
            return Refusal((f"node(s) had untolerated taint {shown}",), True)
    if not matches(spec, node):
        return Refusal((AFFINITY,), True)
    if any(room.ports[port] for port in host_ports(spec)):
        return Refusal((PORTS,), False)
    return _lack(requests(spec), room)


def _lack(requested: Mapping[str, int], room: NodeRoom) -> Refusal | None:
    reasons, hopeless = [], False
    if room.used["pods"] + 1 > room.allocatable.get("pods", 110):
        reasons.append(TOO_MANY)
    for name, amount in requested.items():
        has = room.allocatable.get(name, 0)
        if amount > has - room.used[name]:
            reasons.append(f"Insufficient {name}")
            hopeless = hopeless or amount > has
    return Refusal(tuple(reasons), hopeless) if reasons else None


def matches(spec: Obj, node: Obj) -> bool:
    """Return whether the node matches the pod's node selector and required node affinity."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(term_matches(term, node) for term in required.get("nodeSelectorTerms") or ())


def term_matches(term: Obj, node: Obj) -> bool:
    """Return whether the node matches all expressions of a node selector term."""
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    expressions, by_field = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not by_field:
        return False
    return all(_holds(expression, labels) for expression in expressions) and all(
        _holds(expression, fields) for expression in by_field
    )


def _holds(expression: Obj, labels: Mapping[str, str]) -> bool:
    key, operator = expression.get("key", ""), expression.get("operator", "")
    values = [str(value) for value in expression.get("values") or ()]
    value = labels.get(key)
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator in {"Gt", "Lt"} and value is not None and len(values) == 1:
        try:
            return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
        except ValueError:
            return False
    return False


def preference(spec: Obj, node: Obj) -> int:
    """Return the weights of matching preferred node affinities, minus untolerated soft taints."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    total = sum(
        int(preferred.get("weight", 1))
        for preferred in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        if term_matches(preferred.get("preference") or {}, node)
    )
    soft = [t for t in (node.get("spec") or {}).get("taints") or () if t.get("effect") == "PreferNoSchedule"]
    return total - 100 * sum(not tolerated(taint, tolerations(spec)) for taint in soft)


def choose(pod: Obj, rooms: Sequence[NodeRoom]) -> tuple[NodeRoom | None, list[Refusal]]:
    """Choose the most preferred, then least loaded node. If none fits, return every node's refusal."""
    refusals, fitting = [], []
    named = pod["spec"].get("nodeName")
    for room in rooms:
        refused = refusal(pod, room) if not named or named == room.name else Refusal((OTHER_NAME,), True)
        if refused is None:
            fitting.append(room)
        else:
            refusals.append(refused)
    if not fitting:
        return None, refusals
    spec = pod["spec"]
    return min(fitting, key=lambda room: (-preference(spec, room.node), room.load, room.name)), []


def nowhere(nodes: int) -> list[Refusal]:
    """Return the refusals of a pod rejected before any node is considered."""
    return [Refusal((), True) for _ in range(nodes)]


def explain(refusals: Sequence[Refusal], before: str = "", after: str = "") -> str:
    """Return kube-scheduler's message. `before` replaces the nodes' reasons, as in a PreFilter refusal, and
    `after` the text about preemption."""
    total = len(refusals)
    if not total and not before:
        return "no nodes available to schedule pods"
    counts = Counter(reason for refused in refusals for reason in refused.reasons)
    reasons = before or ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    hopeless = total if before else sum(refused.hopeless for refused in refusals)
    victims: Counter[str] = Counter()
    victims["Preemption is not helpful for scheduling"] = hopeless
    victims["No preemption victims found for incoming pod"] = total - hopeless
    preemption = ", ".join(sorted(f"{count} {why}" for why, count in victims.items() if count))
    after = after or f"preemption: 0/{total} nodes are available: {preemption}."
    return f"0/{total} nodes are available: {reasons}. {after}"
