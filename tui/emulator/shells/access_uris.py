"""`web_access_uris` of a custom job: the addresses that its replicas have while it runs.

A shell's address is no page: `vxtui shell` opens it in the terminal. A dashboard is a page of the primary
replica's own program, on a port that it is told. The keys of shells are documented (docs/facts/vertex.md
1.1); that of a dashboard, `REPLICA:PORT`, is chosen here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PORT_VARIABLE = "AIP_HTTP_HANDLER_PORT"
"""Tells the primary replica where to serve its dashboard."""
PRIMARY = "workerpool0-0"


def dashboard_ports(job: Any) -> int:
    """How many ports the dashboard of this CustomJob needs: one if it is enabled."""
    return int(job.job_spec.enable_dashboard_access)


def access_uris(job: Any, ports: Sequence[int]) -> Mapping[str, str]:
    """The addresses of this running CustomJob; the last of its ports is the dashboard's, if it has one."""
    spec, uris = job.job_spec, {}
    number = job.name.rpartition("/")[2]
    if spec.enable_web_access:
        for position, pool in enumerate(spec.worker_pool_specs):
            for index in range(int(pool.replica_count)):
                replica = f"workerpool{position}-{index}"
                uris[replica] = f"vxtui://shell/{number}/{replica}"
    if dashboard_ports(job) and ports:
        uris[f"{PRIMARY}:{ports[-1]}"] = f"http://127.0.0.1:{ports[-1]}"
    return uris
