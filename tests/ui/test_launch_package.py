"""A profile with a package on the launch screen: packed and launched, refused, or given up."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.ui.double import MemoryBackend
from tests.ui.jobs_screen_support import until
from tests.ui.profiles_screen_support import launch_screen, profiles, text
from tui.backends.interface import Bucket, PermissionDenied, Progressed, StorageService
from tui.config.settings import Context
from tui.domain.document.document_edit import Edit
from tui.screens.launch.screen import LaunchScreen
from tui.store.profiles.library import entry, with_edits

PROFILE = """\
displayName: packed
package:
  path: ./my-task
  script: task.py
  executorImage: us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest
jobSpec:
  baseOutputDirectory: {outputUriPrefix: gs://stage/run}
  workerPoolSpecs: [{machineSpec: {machineType: n1-standard-4}, replicaCount: 1}]
"""


class BucketBackend(MemoryBackend):
    """Keeps what was uploaded; waits at half of it until `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.go = asyncio.Event()
        self.denied = False
        self.use(storage=Files(self))


class Files(StorageService):
    def __init__(self, backend: BucketBackend) -> None:
        self._backend = backend

    async def bucket(self, name: str) -> Bucket:
        return Bucket(name, "us-central1")

    async def create_bucket(self, name: str, location: str) -> Bucket:
        return Bucket(name, location)

    async def size_of(self, uri: str) -> int | None:
        files = self._backend.files
        return len(files[uri]) if uri in files else None

    async def upload(self, path: Path, uri: str, progress: Progressed | None = None) -> None:
        if self._backend.denied:
            raise PermissionDenied("Can't upload: no.", fix="Ask for a role.")
        data = await asyncio.to_thread(path.read_bytes)
        assert progress is not None
        progress(len(data) // 2, len(data))
        await self._backend.go.wait()
        self._backend.files[uri] = data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "profiles/my-task").mkdir(parents=True)
    (tmp_path / "profiles/my-task/task.py").write_text("print(1)\n")
    (tmp_path / "profiles/packed.yaml").write_text(PROFILE)
    return tmp_path


def uris(request: Any) -> list[str]:
    spec = request["jobSpec"]["workerPoolSpecs"][0]["pythonPackageSpec"]
    return list(spec["packageUris"])


async def test_a_package_is_made_sent_and_launched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = BucketBackend()
    async with profiles(backend, folder, monkeypatch) as (app, pilot, went):
        await launch_screen(app, pilot, "packed")
        await pilot.press("enter")
        await until(pilot, lambda: " 49 %" in text(app, "#answer") or " 50 %" in text(app, "#answer"), "half")
        assert "esc cancels it" in text(app, "#answer") and not backend.created
        backend.go.set()
        await until(pilot, lambda: went, "the job's screen")
        (request,) = backend.created
        assert uris(request.resource) == list(backend.files)
        assert next(iter(backend.files)).startswith("gs://stage/vxtui-packages/my-task/")


async def test_a_package_is_given_up_by_esc(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = BucketBackend()
    async with profiles(backend, folder, monkeypatch) as (app, pilot, _):
        await launch_screen(app, pilot, "packed")
        await pilot.press("enter")
        await until(pilot, lambda: "esc cancels it" in text(app, "#answer"), "the progress")
        await pilot.press("escape")
        await until(pilot, lambda: "Cancelled" in text(app, "#answer"), "the end of it")
        assert isinstance(app.screen, LaunchScreen) and not backend.created and not backend.files


async def test_what_can_t_be_packed_or_sent_is_said_on_the_screen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = BucketBackend()
    backend.denied = True
    async with profiles(backend, folder, monkeypatch) as (app, pilot, _):
        await launch_screen(app, pilot, "packed")
        await pilot.press("enter")
        await until(pilot, lambda: "Launch failed: Can't upload" in text(app, "#answer"), "the refusal")
        assert "Ask for a role" in text(app, "#answer")
        (folder / "profiles/my-task/task.py").unlink()
        await until(pilot, lambda: app.screen._failed_at + 1 < time.monotonic(), "a second")
        await pilot.press("enter")
        await until(pilot, lambda: "task.py is not in" in text(app, "#answer"), "the missing script")
        assert not backend.created


def test_a_change_for_this_launch_goes_into_the_job_with_the_package(folder: Path) -> None:
    found = entry(folder / "profiles/packed.yaml", mine=True)
    prepared = found.prepare({}, context=Context("one", project="p", regions=["us-central1"]), region="")
    path = ("jobSpec", "workerPoolSpecs", 0, "machineSpec", "machineType")
    changed = with_edits(prepared, [Edit(path, "n1-standard-8")])
    assert changed.order is not None
    for job in (changed.request.custom_job, changed.order.preview()):
        assert job["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]["machineType"] == "n1-standard-8"
    assert changed.request.custom_job == changed.order.preview()
