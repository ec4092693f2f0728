"""Messages into domain objects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from google.cloud.aiplatform_v1.types import CustomJob
from google.cloud.cloudquotas_v1.types import resources

from tui.backends.interface import InvalidRequest
from tui.backends.vertex.jobs import convert
from tui.backends.vertex.jobs.custom_jobs import CustomJobs
from tui.backends.vertex.quotas import limit_of
from tui.domain.core.job import JobError
from tui.domain.core.quota import UNLIMITED
from tui.domain.core.states import JobState
from tui.screens.dialogs.link import access_pages

NAME = "projects/123/locations/europe-west4/customJobs/42"
JOB = {
    "name": NAME,
    "displayName": "big",
    "state": "JOB_STATE_FAILED",
    "createTime": "2026-11-21T10:00:00.250Z",
    "startTime": "2026-11-21T10:05:00Z",
    "endTime": "2026-11-21T10:06:00Z",
    "labels": {"team": "nlp"},
    "error": {"code": 9, "message": "The replica workerpool1-0 exited with a non-zero status of 137."},
    "jobSpec": {
        "workerPoolSpecs": [
            {
                "machineSpec": {
                    "machineType": "g2-standard-12", "acceleratorType": "NVIDIA_L4", "acceleratorCount": 1,
                },
                "replicaCount": "1",
                "containerSpec": {"imageUri": "eu-docker.pkg.dev/p/r/i:1"},
            },
            {"replicaCount": "2", "pythonPackageSpec": {"executorImageUri": "prebuilt"}},
            {
                "replicaCount": "1",
                "containerSpec": {
                    "imageUri": "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
                },
            },
            {},
        ],
        "scheduling": {"timeout": "86400s", "strategy": "SPOT"},
    },
}  # fmt: skip


def test_a_job_keeps_all_that_the_service_says() -> None:
    job = convert.job(CustomJobs.resource.parse(JOB), "prod")
    assert (job.name, job.id, job.region, job.context) == (NAME, "42", "europe-west4", "prod")
    assert (job.state, job.native_state) == (JobState.FAILED, "JOB_STATE_FAILED")
    assert job.create_time == datetime(2026, 11, 21, 10, 0, 0, 250_000, tzinfo=UTC)
    assert job.error == JobError(9, "The replica workerpool1-0 exited with a non-zero status of 137.")
    assert [pool.replicas for pool in job.groups] == [1, 2, 1, 0]
    assert [pool.image for pool in job.groups[:2]] == ["eu-docker.pkg.dev/p/r/i:1", "prebuilt"]
    assert [pool.role == "reducer" for pool in job.groups] == [False, False, True, False]
    assert job.accelerators == {"NVIDIA_L4": 1}
    assert (job.strategy, job.timeout, job.labels) == ("SPOT", timedelta(days=1), {"team": "nlp"})
    dead = next(replica for replica in job.replicas if replica.id == "workerpool1-0")
    assert (dead.state, dead.exit_code) == (JobState.FAILED, 137)


def test_a_web_shell_without_a_scheme_is_offered_as_https() -> None:
    host = "cb68-dot-us-central1.aiplatform-training.googleusercontent.com"
    uris = {
        "workerpool0-0": host,
        "workerpool0-0:8888": f"https://{host}",
        "workerpool1-0": "vxtui://shell/1",
    }
    shown = convert.job(CustomJob.pb(CustomJob(name=NAME, web_access_uris=uris)), "c")
    assert shown.web_access_uris == {**uris, "workerpool0-0": f"https://{host}"}
    assert access_pages(shown)[0] == ("web shell workerpool0-0", f"https://{host}")


def test_what_is_not_said_is_none() -> None:
    job = convert.job(CustomJob.pb()(), "c")
    assert (job.create_time, job.start_time, job.end_time, job.error, job.timeout) == (None,) * 5
    assert (job.state, job.strategy, job.groups) == (JobState.UNKNOWN, "STANDARD", ())


def test_values_from_the_future_are_kept_as_numbers() -> None:
    pb = CustomJobs.resource.parse(JOB)
    pb.state = 99
    pb.job_spec.worker_pool_specs[0].machine_spec.accelerator_type = 77
    job = convert.job(pb, "c")
    assert (job.state, job.native_state) == (JobState.UNKNOWN, "99")
    assert job.groups[0].accelerator_type == "77"


def test_the_rest_form_survives_both_ways() -> None:
    assert convert.job_dict(CustomJobs.resource.parse(JOB)) == JOB


def test_a_field_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="replicaCounts"):
        CustomJobs.resource.parse({"jobSpec": {"workerPoolSpecs": [{"replicaCounts": 1}]}})


def test_the_limit_of_a_region() -> None:
    pb = resources.QuotaInfo.pb()()
    assert limit_of(pb, "us-central1") == UNLIMITED
    special = pb.dimensions_infos.add(applicable_locations=["us-central1"])
    special.details.value = 8
    general = pb.dimensions_infos.add(applicable_locations=["us-central1", "us-east1"])
    general.details.value = 2
    assert [limit_of(pb, region) for region in ("us-central1", "us-east1", "asia-east1")] == [8, 2, 0]
