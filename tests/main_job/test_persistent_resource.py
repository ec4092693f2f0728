"""Persistent resources of the high-level SDK over REST, and a custom job that runs on one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.main_job.clients_support import by_the_sdk
from tests.main_job.experiments_support import BEGIN
from tests.shell import Home, home

pytestmark = pytest.mark.xdist_group("resources")


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    with home() as found:
        found.state.mkdir(mode=0o700, parents=True)
        (found.state / "config.yaml").write_text("provisioning_seconds: 0")
        started = found.run("emulator", "start", "--rest", "127.0.0.1:0", "--json")
        assert started.returncode == 0, started.stderr
        yield found


RESOURCES = (
    BEGIN
    + """
from google.cloud.aiplatform import persistent_resource
from google.api_core import exceptions
machine = {"machine_type": "n1-standard-4"}
disk = {"boot_disk_type": "pd-ssd", "boot_disk_size_gb": 100}
made = persistent_resource.PersistentResource.create(
    persistent_resource_id="mine", display_name="my machines", labels={"team": "nlp"},
    resource_pools=[{"machine_spec": machine, "replica_count": 2, "disk_spec": disk}])
assert made.state.name == "RUNNING" and made.start_time and made.display_name == "my machines"
found = persistent_resource.PersistentResource.list()
assert [one.name for one in found] == ["mine"]

def job(machine_type):
    pools = [{"machine_spec": {"machine_type": machine_type}, "replica_count": 1,
              "container_spec": {"image_uri": "python:3.11", "command": ["true"]}}]
    return aiplatform.CustomJob("on-it", pools, staging_bucket="gs://staging")

run = job("n1-standard-4")
run.run(persistent_resource_id="mine")
assert run.state.name == "JOB_STATE_SUCCEEDED", run.error
assert run.job_spec.persistent_resource_id == "mine"
try:
    job("n1-standard-8").submit(persistent_resource_id="mine")
    raise SystemExit("a job on other machines was taken")
except exceptions.BadRequest as error:
    assert "does not match any resource pool" in str(error), error
again = persistent_resource.PersistentResource("mine")
again.reboot()
assert again.state.name == "RUNNING"
again.delete()
assert persistent_resource.PersistentResource.list() == []
"""
)


# Seconds: the SDK is imported, and it looks at operations and jobs every few seconds.
def test_machines_of_the_high_level_sdk_run_its_jobs(place: Home) -> None:
    by_the_sdk(place, RESOURCES)
