"""Full names of jobs in a cluster: clusters/CLUSTER/namespaces/NAMESPACE/PLURAL/NAME."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(
    rf"clusters/(?P<cluster>[A-Za-z0-9_.-]+)/namespaces/(?P<namespace>{_LABEL})"
    rf"/(?P<plural>[a-z0-9]+)/(?P<name>{_LABEL}(?:\.{_LABEL})*)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class JobName:
    """The parts of a job's full name."""

    cluster: str
    namespace: str
    plural: str
    name: str

    def __str__(self) -> str:
        return f"clusters/{self.cluster}/namespaces/{self.namespace}/{self.plural}/{self.name}"

    @property
    def key(self) -> str:
        """Namespace and name, unique within the cluster for one kind."""
        return f"{self.namespace}/{self.name}"


def parse_name(text: str) -> JobName | None:
    """Parse a full name; None for any other text. The parts go into a URL, so only valid Kubernetes names are
    accepted."""
    match = _NAME.fullmatch(text)
    return JobName(**match.groupdict()) if match else None
