"""Checks before the launch of a pipeline: its root, template, account, images and permissions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.pipeline_body_support import spec
from tests.wire.preflight_support import ACCOUNT, REGION, TRAINER, checking, looked
from tui.backends.interface import LaunchRequest
from tui.domain.core.job import LAUNCH_LABEL
from tui.domain.document.document_edit import edited
from tui.domain.vertex.preflight import CheckStatus
from tui.store.profiles.templates import PIPELINE_JOB


def pipeline(image: str = TRAINER, **more: Any) -> dict[str, Any]:
    made = spec(deploymentSpec={"executors": {"exec-a": {"container": {"image": image}}}})
    runtime = {"gcsOutputDirectory": "gs://near/root", "parameterValues": {"name": "gs://near/data"}}
    return {
        "displayName": "x",
        "pipelineJob": {"pipelineSpec": made, "runtimeConfig": runtime, "serviceAccount": ACCOUNT, **more},
    }


async def test_what_a_pipeline_needs_is_looked_up() -> None:
    async with checking() as (_, clients, backend):
        await backend.storage.create_bucket("near", REGION)
        found = await looked(backend, pipeline())
        wanted = {"credentials", "permissions", "quota", f"image:{TRAINER}", "bucket:near", "account"}
        assert set(found) == wanted
        assert {check.status for check in found.values()} == {CheckStatus.OK}, found

        await clients.admin(do="checks", denied=["aiplatform.pipelineJobs.create", "iam.*"])
        found = await looked(backend, pipeline())
        assert (
            found["permissions"].fatal and "aiplatform.pipelineJobs.create" in found["permissions"].sentence
        )
        assert found["account"].fatal and "actAs" in found["account"].sentence

        network = (await looked(backend, pipeline(network="projects/1/global/networks/n")))["network"]
        assert network.status is CheckStatus.UNKNOWN and "compute networks describe n" in network.fix


async def test_an_image_and_a_root_are_fixed_where_they_stand() -> None:
    mine = "us-docker.pkg.dev/p/r/deep/mine"
    async with checking(registry={mine: ["1.4.2"]}) as (_, _clients, backend):
        await backend.storage.create_bucket("near", "europe-west4")
        await backend.storage.create_bucket("near-us", REGION)
        before = pipeline(f"{mine}:1.4.1")
        found = await looked(backend, before)
        image, bucket = found[f"image:{mine}:1.4.1"], found["bucket:near"]
        assert image.fatal and not bucket.fatal
        after = edited(edited(before, image.edits), bucket.edits)
        body = after["pipelineJob"]
        assert body["runtimeConfig"]["gcsOutputDirectory"] == "gs://near-us/root"
        assert body["runtimeConfig"]["parameterValues"] == {"name": "gs://near-us/data"}
        found = await looked(backend, after)
        assert found[f"image:{mine}:1.4.2"].status is found["bucket:near-us"].status is CheckStatus.OK


async def test_a_template_is_looked_for_at_its_address() -> None:
    async with checking() as (running, clients, backend):
        await backend.storage.create_bucket("near", REGION)
        (running.state.buckets / "near" / "dag.yaml").write_text("{}")
        package = "https://us-central1-kfp.pkg.dev/p/r/dag"
        for uri, status in (
            ("gs://near/dag.yaml", CheckStatus.OK),
            ("gs://near/gone.yaml", CheckStatus.PROBLEM),
            (f"{package}/v1", CheckStatus.OK),
            ("https://elsewhere.example/dag", CheckStatus.UNKNOWN),
        ):
            job = pipeline(templateUri=uri)
            del job["pipelineJob"]["pipelineSpec"]
            assert (await looked(backend, job))["template"].status is status, uri
        await clients.admin(do="checks", missing=["*"])
        job["pipelineJob"]["templateUri"] = f"{package}/v1"
        assert (await looked(backend, job))["template"].fatal


async def test_a_create_whose_reply_is_lost_makes_one_pipeline() -> None:
    async with checking() as (_, clients, backend):
        service = backend.jobs["pipeline_job"]
        body = pipeline()
        request = LaunchRequest(REGION, PIPELINE_JOB.resource(body), "mark")
        for code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
            await clients.admin(
                do="api", method="CreatePipelineJob", kind="error", code=code, applied=True, times=1
            )
            made = await service.create(replace(request, mark=code.lower()))
            assert made.labels[LAUNCH_LABEL] == code.lower() and made.kind == "pipeline_job"
        jobs = [job async for page in service.list_all() for job in page.jobs]
        assert len(jobs) == 2, "it was never sent twice"
