"""`web_access_uris` of a custom job: the addresses of its replicas while it runs.

A shell's address is not a web page: `vxtui shell` opens it in the terminal. A dashboard is a page served by
the primary replica's own program on its assigned port. The keys of shells are documented
(docs/facts/vertex.md 1.1); the key of a dashboard, `REPLICA:PORT`, is chosen here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PORT_VARIABLE = "AIP_HTTP_HANDLER_PORT"
"""Variable with the port on which the primary replica serves its dashboard."""
PRIMARY = "workerpool0-0"


def dashboard_ports(job: Any) -> int:
    """Return the number of ports that the dashboard of this CustomJob needs: one if it is enabled."""
    return int(job.job_spec.enable_dashboard_access)


def access_uris(job: Any, ports: Sequence[int]) -> Mapping[str, str]:
    """Return the addresses of this running CustomJob. The dashboard, if enabled, uses the last of its
    ports."""
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
