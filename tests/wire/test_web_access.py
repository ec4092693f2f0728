"""`web_access_uris`: there while a job runs that asks for them, and only then."""

from __future__ import annotations

import sys
import urllib.request

import pytest

from tests.waiting import until
from tests.wire.control import PARENT, Clients, custom_job, emulator, pool, python

WAITS = "import time\ntime.sleep(3600)"
SERVES = """
import http.server, os
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"a dashboard")
http.server.HTTPServer(("127.0.0.1", int(os.environ["AIP_HTTP_HANDLER_PORT"])), Page).serve_forever()
"""


async def uris(clients: Clients, name: str) -> dict[str, str]:
    return dict((await clients.get(name)).web_access_uris)


async def test_each_replica_has_an_address_while_the_job_runs() -> None:
    async with emulator(cancel_grace_seconds=1) as (_, clients):
        pools = python(WAITS), python(WAITS, replicas=2)
        plain = await clients.create(*pools)
        job = await clients.create(*pools, spec={"enable_web_access": True})
        assert not job.web_access_uris
        running = await clients.reach(job.name, "RUNNING")
        number = job.name.rpartition("/")[2]
        names = ("workerpool0-0", "workerpool1-0", "workerpool1-1")
        assert dict(running.web_access_uris) == {name: f"vxtui://shell/{number}/{name}" for name in names}
        await clients.reach(plain.name, "RUNNING")
        assert not await uris(clients, plain.name)
        await clients.jobs.cancel_custom_job(name=job.name)
        # Also while it is being cancelled.
        assert not await uris(clients, job.name)
        assert not (await clients.reach(job.name, "CANCELLED")).web_access_uris


async def test_they_are_gone_while_a_job_restarts() -> None:
    async with emulator(restart_delay_seconds=3600) as (_, clients):
        spec = {"enable_web_access": True, "scheduling": {"strategy": "SPOT"}}
        job = await clients.create(python(WAITS), spec=spec)
        await clients.reach(job.name, "RUNNING")
        await clients.admin(do="preempt", job=job.name)
        assert not (await clients.reach(job.name, "PENDING")).web_access_uris


async def test_a_dashboard_is_a_page_of_the_primary_replica() -> None:
    async with emulator() as (_, clients):
        worker = "import os, time\nassert 'AIP_HTTP_HANDLER_PORT' not in os.environ\ntime.sleep(3600)"
        both = {"enable_web_access": True, "enable_dashboard_access": True}
        job = await clients.create(python(SERVES), python(worker), spec=both)
        await clients.reach(job.name, "RUNNING")
        found = await uris(clients, job.name)
        assert set(found) >= {"workerpool0-0", "workerpool1-0"}
        (key,) = set(found) - {"workerpool0-0", "workerpool1-0"}
        assert key.startswith("workerpool0-0:") and found[key] == f"http://127.0.0.1:{key.partition(':')[2]}"

        def page() -> bytes:
            try:
                with urllib.request.urlopen(found[key], timeout=5) as reply:
                    return bytes(reply.read())
            except OSError:
                return b""

        assert await until(page, "the dashboard") == b"a dashboard"


@pytest.mark.parametrize("ends", [True, False])
async def test_a_trial_has_the_addresses_of_its_job(ends: bool) -> None:
    async with emulator() as (_, clients):
        code = "import sys; sys.exit(1)" if ends else WAITS
        trial_job = custom_job(pool(sys.executable, "-c", code), spec={"enable_web_access": True})["job_spec"]
        parameter = {"parameter_id": "x", "double_value_spec": {"min_value": 0, "max_value": 1}}
        tuning = {
            "display_name": "t",
            "study_spec": {"metrics": [{"metric_id": "m", "goal": "MAXIMIZE"}], "parameters": [parameter]},
            "max_trial_count": 1,
            "parallel_trial_count": 1,
            "trial_job_spec": trial_job,
        }
        made = await clients.jobs.create_hyperparameter_tuning_job(
            parent=PARENT, hyperparameter_tuning_job=tuning, timeout=60
        )

        async def trials() -> list[dict[str, str]]:
            found = await clients.jobs.get_hyperparameter_tuning_job(name=made.name, timeout=60)
            ready = (
                found.state.name == "JOB_STATE_FAILED"
                if ends
                else any(t.web_access_uris for t in found.trials)
            )
            return [dict(trial.web_access_uris) for trial in found.trials] if ready else []

        (found,) = await until(trials, "the trial's addresses, or its end")
        assert list(found) == ([] if ends else ["workerpool0-0"])
