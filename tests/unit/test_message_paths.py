"""Paths in messages stay in their bucket, and names have no control characters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import model, pipeline_service

from tests.wire.pipelines import container, leaf, spec, task
from tui.domain.pipeline.ir import BadPipeline, read_pipeline
from tui.emulator.interfaces import CustomJobPb
from tui.emulator.paths import StateDir
from tui.emulator.pipelines.executors import TaskCannotStart, TaskPlace, executor_input, imported
from tui.emulator.pipelines.planner import Planner
from tui.emulator.pipelines.service import PipelineServer
from tui.emulator.rpc.methods import WireError
from tui.emulator.services.check_faults import ActiveCheckFaults
from tui.emulator.serving.validate import model_problems
from tui.emulator.storage.names import InvalidObjectName, file_at
from tui.emulator.vertex.validate import spec_problems

OUTSIDE = (
    "gs://b/../../token", "gs://../token", "gs://b/x/../../../token", "gs://b/./x", "gs://b/x\0y", "gs://b/x\r\ny",
    "gs://", "gs:///etc/passwd", "/etc/passwd", "gs://B/x", "gs://b/" + "x" * 300,
)  # fmt: skip


@pytest.mark.parametrize("uri", OUTSIDE)
def test_no_message_names_a_file_outside_of_a_bucket(uri: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidObjectName):
        file_at(tmp_path, uri)
    job = CustomJobPb()
    pool = job.job_spec.worker_pool_specs.add(replica_count=1)
    pool.machine_spec.machine_type = "n1-standard-4"
    pool.python_package_spec.executor_image_uri, pool.python_package_spec.python_module = "python:3.11", "m"
    pool.python_package_spec.package_uris.append(uri)
    job.job_spec.base_output_directory.output_uri_prefix = uri
    fields = {where for where, _ in spec_problems(job.job_spec)}
    assert {"worker_pool_specs[0].python_package_spec.package_uris[0]"} <= fields
    assert "base_output_directory.output_uri_prefix" in fields
    served = model.Model.pb()(display_name="m", artifact_uri=uri, container_spec={"image_uri": "i"})
    assert [where for where, _ in model_problems(served, "us-central1")] == ["model.artifact_uri"]


@pytest.mark.parametrize("uri", OUTSIDE)
def test_a_pipeline_names_no_file_outside_of_a_bucket(uri: str, tmp_path: Path) -> None:
    server = PipelineServer(None, None, None, StateDir(tmp_path), ActiveCheckFaults())  # type: ignore[arg-type]
    made = spec({"a": task("say")}, {"say": leaf("e")}, {"e": container("true")})
    for body in (
        {"pipeline_spec": made, "runtime_config": {"gcs_output_directory": uri}},
        {"template_uri": uri, "runtime_config": {"gcs_output_directory": "gs://b/root"}},
    ):
        request = pipeline_service.CreatePipelineJobRequest(
            parent="projects/p/locations/us-central1", pipeline_job=body
        )
        with pytest.raises(WireError):
            server.checked(pipeline_service.CreatePipelineJobRequest.pb(request))
    if uri.startswith("gs://"):
        artifact = {"artifactUri": {"constant": uri}, "typeSchema": {"schemaTitle": "system.Artifact"}}
        node = first(spec({"a": task("i")}, {"i": leaf("e")}, {"e": {"importer": artifact}}))
        with pytest.raises(TaskCannotStart):
            imported(node, {})


def first(made: dict[str, Any]) -> Any:
    planner = Planner(read_pipeline(made), {})
    planner.plan({})
    return next(iter(planner.ready.values()))


@pytest.mark.parametrize("name", ["../../../../x", "a/b", "..", "a\0b", "a\nb", ""])
def test_a_task_has_a_plain_name(name: str) -> None:
    with pytest.raises(BadPipeline, match="without slashes and control characters"):
        read_pipeline(spec({name: task("say")}, {"say": leaf("e")}, {"e": container("true")}))


@pytest.mark.parametrize("name", ["../../../../token", "a/../../../../../x", "a\0b"])
def test_an_output_stays_in_the_folder_of_its_task(name: str, tmp_path: Path) -> None:
    component = {**leaf("e"), "outputDefinitions": {"parameters": {name: {"parameterType": "STRING"}}}}
    node = first(spec({"a": task("say")}, {"say": component}, {"e": container("true")}))
    with pytest.raises(TaskCannotStart):
        executor_input(node, TaskPlace("gs://b/root/1/run/a_1", StateDir(tmp_path)))


@pytest.mark.parametrize("route", ["/a\r\nX: y", "/a b", "/ä", "a", "/a\0"])
def test_a_route_has_printable_ascii_only(route: str) -> None:
    served = model.Model.pb()(display_name="m", container_spec={"image_uri": "i", "predict_route": route})
    assert [where for where, _ in model_problems(served, "us-central1")] == [
        "model.container_spec.predict_route"
    ]


def test_a_link_leads_out_of_no_bucket(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").symlink_to(tmp_path / "token")
    with pytest.raises(InvalidObjectName):
        file_at(tmp_path, "gs://b/x")
    assert file_at(tmp_path, "gs://b/y/z/") == tmp_path / "b" / "y" / "z"
