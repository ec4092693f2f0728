"""Checks before a launch: the backend, Google's clients and a real emulator that makes each of them fail."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.ui.double import job as numbered_job
from tests.wire.control import emulator
from tests.wire.fake_vertex import FixedEndpoint
from tests.wire.preflight_support import ACCOUNT, REGION, TRAINER, checking, looked
from tui.backends.interface import ContextInfo
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.preflight import checks
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.domain.core.states import JobState
from tui.domain.document.document_edit import edited
from tui.domain.vertex.preflight import Check, CheckStatus
from tui.domain.vertex.quota_fit import fit, with_running
from tui.domain.vertex.worker_pools import worker_pool
from tui.emulator.runs.images import CannotRun, ProgramTable
from tui.store.jobs.checks import preflight

METRIC = "custom_model_training_preemptible_nvidia_a100_gpus"


def job(**spec: Any) -> dict[str, Any]:
    machine = {"machineType": "a2-highgpu-8g", "acceleratorType": "NVIDIA_TESLA_A100", "acceleratorCount": 8}
    pool = {
        "machineSpec": machine,
        "replicaCount": 4,
        "containerSpec": {"imageUri": spec.pop("image", TRAINER)},
    }
    return {
        "displayName": "x",
        "jobSpec": {"workerPoolSpecs": [pool], "scheduling": {"strategy": "SPOT"}, **spec},
    }


def output(name: str) -> dict[str, Any]:
    return {"baseOutputDirectory": {"outputUriPrefix": f"gs://{name}/run"}}


async def test_a_project_in_which_all_is_well() -> None:
    board = f"projects/p/locations/{REGION}/tensorboards/1"
    async with checking() as (_, _clients, backend):
        await backend.storage.create_bucket("near", REGION)
        whole = job(serviceAccount=ACCOUNT, tensorboard=board, **output("near"))
        found = await looked(backend, whole)
    assert set(found) == {
        "credentials", "permissions", "quota", f"image:{TRAINER}", "bucket:near", "account", "board",
    }  # fmt: skip
    assert {check.status for check in found.values()} == {CheckStatus.OK}, found
    assert "amd64" in found[f"image:{TRAINER}"].sentence
    assert all(0 < check.seconds < 8 for check in found.values())


async def test_permissions_accounts_and_credentials_that_are_lacking() -> None:
    async with checking(denied_permissions=["logging.*"]) as (_, clients, backend):
        found = await looked(backend, job())
        assert found["permissions"].status is CheckStatus.PROBLEM and not found["permissions"].fatal
        assert "logging.logEntries.list" in found["permissions"].sentence
        await clients.admin(do="checks", denied=["aiplatform.*.create", "iam.*"])
        found = await looked(backend, job(serviceAccount=ACCOUNT))
        assert found["permissions"].fatal and "roles/aiplatform.user" in found["permissions"].fix
        assert found["account"].fatal and "actAs" in found["account"].sentence
        await clients.admin(do="checks")
        found = await looked(backend, job(serviceAccount="nobody@p.iam.gserviceaccount.com"))
        assert found["account"].fatal and "the service account nobody@" in found["account"].sentence
        await clients.admin(do="checks", expired=True)
        found = await looked(backend, job(serviceAccount=ACCOUNT))
    assert found.pop("credentials").fatal
    found.pop("quota")  # limits that were read stand for a while
    assert {check.status for check in found.values()} == {CheckStatus.UNKNOWN}
    assert "credentials" in found["account"].sentence


async def test_images_that_are_not_there_and_those_that_nobody_can_ask_for() -> None:
    mine = "us-docker.pkg.dev/p/r/deep/mine"
    async with checking(registry={mine: ["1.4.2", "1.3"]}) as (_, clients, backend):
        near = (await looked(backend, job(image=f"{mine}:1.4.1")))[f"image:{mine}:1.4.1"]
        assert near.fatal and "1.4.2, 1.3" in near.sentence
        mended = edited(job(image=f"{mine}:1.4.1"), near.edits)
        assert (await looked(backend, mended))[f"image:{mine}:1.4.2"].status is CheckStatus.OK
        await clients.admin(do="checks", missing=["*/trainer:latest"])
        assert (await looked(backend, job()))[f"image:{TRAINER}"].fatal
        for uri in ("python:3.11", "docker.io/me/x", "quay.io/a/b:c"):
            other = (await looked(backend, job(image=uri)))[f"image:{uri}"]
            assert other.status is CheckStatus.UNKNOWN and "can't be checked" in other.sentence
        for uri in ("gcr.io/p/x", f"{mine}@sha256:{'0' * 64}", "us-docker.pkg.dev/example.com/p/r/x:1"):
            assert (await looked(backend, job(image=uri)))[f"image:{uri}"].status is CheckStatus.OK


async def test_buckets_that_are_far_cold_or_not_there() -> None:
    async with checking() as (running, clients, backend):
        await backend.storage.create_bucket("arr-coc-eu", "europe-west4")
        await backend.storage.create_bucket("arr-coc-us", REGION)
        await backend.storage.create_bucket("wide", "us")
        missing = (await looked(backend, job(**output("nothing-here"))))["bucket:nothing-here"]
        assert missing.fatal and f"--location={REGION}" in missing.fix
        wide = (await looked(backend, job(**output("wide"))))["bucket:wide"]
        assert wide.status is CheckStatus.PROBLEM and not wide.fatal
        far = (await looked(backend, job(**output("arr-coc-eu"))))["bucket:arr-coc-eu"]
        assert far.status is CheckStatus.PROBLEM and "europe-west4" in far.sentence
        mended = edited(job(**output("arr-coc-eu")), far.edits)
        assert mended["jobSpec"]["baseOutputDirectory"] == {"outputUriPrefix": "gs://arr-coc-us/run"}
        assert (await looked(backend, mended))["bucket:arr-coc-us"].status is CheckStatus.OK
        await clients.admin(do="buckets", kind="denied")
        denied = (await looked(backend, job(**output("wide"))))["bucket:wide"]
        assert denied.status is CheckStatus.UNKNOWN and "is not permitted" in denied.sentence
        await clients.admin(do="buckets")
        info = ContextInfo("local", "p", (REGION,))
        async with VertexBackend(info, LocalEndpoint(running.state)) as local:
            made = (await looked(local, job(**output("nothing-here"))))["bucket:nothing-here"]
            assert made.status is CheckStatus.OK and "created when the job starts" in made.sentence


async def test_a_quota_that_is_short_says_by_how_much_and_where_it_would_fit() -> None:
    limits = {METRIC: 0, f"{METRIC}@{REGION}": 16, f"{METRIC}@us-east1": 32}
    async with checking(quotas=limits) as (_, _c, backend):
        quota = (await looked(backend, job()))["quota"]
    assert quota.fatal and quota.region == "us-east1"
    assert METRIC in quota.sentence and "16" in quota.sentence and "us-east1" in quota.fix


async def test_jobs_that_run_count_before_the_service_reports_them() -> None:
    machines = (worker_pool(0, 4, "a2-highgpu-8g", "NVIDIA_TESLA_A100", 8),)
    one = numbered_job(1, "one", groups=machines, strategy="SPOT", state=JobState.RUNNING)
    async with checking(quotas={METRIC: 48}) as (_, _c, backend):
        assert (await looked(backend, job()))["quota"].status is CheckStatus.OK
        quota = (await looked(backend, job(), [one]))["quota"]
        limits = with_running(await backend.quotas.read([REGION]), [one], datetime.now(UTC))
    # The quota screen's word on the same region.
    assert quota.status is CheckStatus.PROBLEM
    assert quota.sentence.startswith(fit(job(), REGION, limits).sentence)
    assert "16 free of 48 (usage estimated from running jobs), short 16" in quota.sentence


async def test_persistent_resources_and_boards() -> None:
    machine = {"machineType": "a2-highgpu-8g", "acceleratorType": "NVIDIA_TESLA_A100", "acceleratorCount": 8}
    pools = [{"machineSpec": machine, "replicaCount": "4"}]
    held = {
        "fits": {"resourcePools": pools},
        "small": {"resourcePools": [{**pools[0], "replicaCount": "2"}]},
        "other": {"resourcePools": [{"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "9"}]},
        "boots": {"state": "PROVISIONING", "resourcePools": pools},
    }
    async with checking(persistent_resources=held, tensorboards=["*/tensorboards/7"]) as (_, _c, backend):

        async def resource(id: str) -> Check:
            return (await looked(backend, job(persistentResourceId=id)))["resource"]

        assert (await resource("fits")).status is CheckStatus.OK
        assert "pool 0 needs 4" in (await resource("small")).sentence
        assert "no pool of a2-highgpu-8g" in (await resource("other")).sentence
        assert "PROVISIONING" in (await resource("boots")).sentence
        assert "the persistent resource gone does not exist" in (await resource("gone")).sentence
        for board, words in (
            (f"projects/p/locations/{REGION}/tensorboards/7", ""),
            (f"projects/p/locations/{REGION}/tensorboards/8", "does not exist"),
            ("projects/p/locations/europe-west4/tensorboards/7", "europe-west4"),
            ("seven", "must be the resource name"),
        ):
            found = (await looked(backend, job(tensorboard=board)))["board"]
            assert found.fatal == bool(words) and words in found.sentence, found
        network = (await looked(backend, job(network="projects/1/global/networks/n")))["network"]
        assert network.status is CheckStatus.UNKNOWN and "describe n" in network.fix


async def test_a_service_that_hangs_or_fails_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks.PreflightChecks.run, "__defaults__", (4.0,))
    async with checking() as (_, clients, backend):
        await clients.admin(do="checks", hanging=["registry", "projects"], failing=["quotas"])
        order: list[str] = []
        came: dict[str, float] = {}
        async for check in preflight(backend, REGION, job(serviceAccount=ACCOUNT), ()):
            order.append(check.id)
            came[check.id] = time.monotonic()
            if check.id == "account":
                assert check.status is CheckStatus.OK
            else:
                assert check.status is CheckStatus.UNKNOWN, check
        assert order[0] == "account"
        assert set(order) == {"account", "credentials", "permissions", "quota", f"image:{TRAINER}"}
        # Both wait for their limit of 4 s, and wait at once.
        assert abs(came["permissions"] - came[f"image:{TRAINER}"]) < 3


async def test_a_backend_that_is_not_connected_says_so_and_does_not_raise() -> None:
    endpoint = FixedEndpoint({REGION: "unix:/nowhere"})
    backend = VertexBackend(ContextInfo("local", "p", (REGION,)), endpoint)
    found = [check async for check in preflight(backend, REGION, job())]
    assert [check.status for check in found] == [CheckStatus.UNKNOWN]
    assert "Not connected" in found[0].sentence


async def test_on_the_emulator_an_image_is_what_runs_in_its_place() -> None:
    unknown, package = "us-docker.pkg.dev/p/r/mine:1", "us-docker.pkg.dev/p/r/executor:1"
    async with emulator(images={"*/own:*": ["python", "-m", "my.module"]}) as (running, clients):
        info = ContextInfo("local", "p", (REGION,), local=True)
        async with VertexBackend(info, LocalEndpoint(running.state)) as backend:
            none = (await looked(backend, job(image=unknown)))[f"image:{unknown}"]
            with pytest.raises(CannotRun) as refused:
                ProgramTable.of({}).argv(unknown, (), ())
            assert none.fatal and (none.sentence, none.fix) == (refused.value.sentence, refused.value.fix)
            own = job(image=unknown)
            own["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["command"] = ["./run", "--token=hf_secret"]
            for asked, uri, words in (
                (job(), TRAINER, "runs on this machine as python -m trainer.task"),
                (job(image="python:3.11"), "python:3.11", "runs on this machine as python"),
                (job(image="docker.io/a/own:2"), "docker.io/a/own:2", "as python -m my.module"),
                (own, unknown, "runs on this machine as the job's command ./run"),
            ):
                check = (await looked(backend, asked))[f"image:{uri}"]
                assert check.status is CheckStatus.OK and check.sentence.endswith(words), check
            python = job()
            del python["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
            python["jobSpec"]["workerPoolSpecs"][0]["pythonPackageSpec"] = {"executorImageUri": package}
            check = (await looked(backend, python))[f"image:{package}"]
            assert check.sentence.endswith("runs on this machine as python with the job's packages")
            # What the registry is told to answer shows here, too.
            await clients.admin(do="checks", missing=["*/trainer:latest"])
            assert (await looked(backend, job()))[f"image:{TRAINER}"].fatal
