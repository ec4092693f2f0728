"""Turn a profile's `package` block into a job that can be sent: collect, build, then upload or push."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui.backends.interface import Backend, BackendError, NotFound
from tui.domain.vertex.packaging import (
    BUILDERS,
    LaunchTarget,
    PackagedTask,
    PackageRequest,
    PackagingError,
    build_commands,
    dockerfile,
    image_uri,
    package_uri,
    staging_of,
    with_task,
)
from tui.packaging.archive import write_build_folder, write_sdist
from tui.packaging.files import SourceFiles, collect
from tui.packaging.image import find_builder, run_builder

MIB = 1024 * 1024
Progress = Callable[["PackagingStep"], None]


@dataclass(frozen=True, slots=True)
class PackagingStep:
    """One step of packaging, with the uploaded bytes `done` of `total`. Both are 0 for other steps."""

    words: str
    done: int = 0
    total: int = 0

    @property
    def line(self) -> str:
        """The step with its percentage, for display."""
        return f"{self.words} {self.done * 100 // self.total} %" if self.total else self.words


@dataclass(frozen=True, slots=True)
class PackagePlan:
    """The package that a launch builds, and its destination. Planning changes nothing."""

    source: SourceFiles
    task: PackagedTask
    builder: str
    custom_job: dict[str, Any]
    """The CustomJob to send, in REST format."""
    target: LaunchTarget

    @property
    def dockerfile(self) -> str:
        """The Dockerfile; empty for a source distribution."""
        return dockerfile(self.source.package, self.source.requirements) if self.builder else ""

    @property
    def lines(self) -> list[str]:
        """The package and how it is built, for display."""
        count, size = len(self.source.files), size_text(self.source.size)
        how = f"image, built by {self.builder}" if self.builder else "source distribution"
        lines = [f"package  {count} files, {size}, {how}", f"         {self.task.uri}"]
        if self.source.requirements:
            lines.append(f"requires {', '.join(self.source.requirements)}")
        return lines


def size_text(size: int) -> str:
    """Format a size in bytes for display."""
    return f"{size / MIB:,.1f} MiB" if size >= MIB else f"{size / 1024:,.1f} KiB"


async def plan_package(order: PackageRequest) -> PackagePlan:
    """Read the folder and plan the package. Nothing is sent or written.

    With an `image` and a builder (docker, podman, Cloud Build) the package becomes an image, otherwise a
    source distribution. The emulator has no containers and always gets a source distribution. Raises
    PackagingError with the problem and its fix.
    """
    job, package, target = order.job, order.package, order.target
    for path, sentence, fix in package.problems():
        raise PackagingError(f"{'.'.join(('package', *map(str, path)))}: {sentence}", fix)
    source = await asyncio.to_thread(collect, package, Path(order.beside))
    builder = ""
    if not target.local and package.image and package.build != "sdist":
        builder = await find_builder(package.build)
    if target.local and package.build in BUILDERS:
        raise PackagingError(
            f"package.build must be auto on the emulator, which runs no containers (is {package.build}).",
            "Omit package.build, or write build: auto, which makes a source distribution here.",
        )
    if builder:
        task = PackagedTask(image_uri(package.image, source.digest), is_image=True)
    else:
        uri = package_uri(staging_of(job, package, target.local), order.folder, source.digest)
        task = PackagedTask.of_package(uri, package, target.local)
    return PackagePlan(source, task, builder, with_task(job, package, task), target)


async def prepare_package(plan: PackagePlan, backend: Backend, progress: Progress) -> dict[str, Any]:
    """Build and deliver the package. Return the CustomJob to send. Cancelling leaves no files behind.

    Content that is already in the bucket is not uploaded again.

    Raises:
        PackagingError: the package can't be built.
        BackendError: the bucket refuses it.
    """
    with tempfile.TemporaryDirectory(prefix="vxtui-package-") as folder:
        if plan.builder:
            progress(PackagingStep("collecting the files"))
            await asyncio.to_thread(write_build_folder, plan.source, Path(folder))
            commands = build_commands(plan.builder, plan.task.uri, folder, plan.target.project)
            await run_builder(commands, lambda line: progress(PackagingStep(line)))
        elif await _exists(plan, backend):
            progress(PackagingStep(f"{plan.task.uri} is already uploaded"))
        else:
            progress(PackagingStep("packing"))
            path = await asyncio.to_thread(write_sdist, plan.source, Path(folder))
            bucket = plan.task.uri.removeprefix("gs://").partition("/")[0]
            words = f"uploading {size_text(path.stat().st_size)} to gs://{bucket}"
            await backend.storage.upload(
                path, plan.task.uri, lambda done, total: progress(PackagingStep(words, done, total))
            )
    return plan.custom_job


async def _exists(plan: PackagePlan, backend: Backend) -> bool:
    """Return whether the package is in its bucket. On the emulator, a missing bucket is created."""
    bucket = plan.task.uri.removeprefix("gs://").partition("/")[0]
    try:
        # The name is a digest of the content, and uploads are atomic.
        return await backend.storage.size_of(plan.task.uri) is not None
    except NotFound as error:
        if plan.target.local:
            await backend.storage.create_bucket(bucket, plan.target.region)
            return False
        raise BackendError(
            f"The bucket gs://{bucket} for the package does not exist.",
            fix=f"gcloud storage buckets create gs://{bucket} --location={plan.target.region}",
        ) from error
