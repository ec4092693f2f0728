"""From a profile's `package` block to a job that can be sent: collected, made, uploaded or pushed."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui.backends.interface import Backend, BackendError, InvalidRequest, NotFound
from tui.domain.vertex.packaging import (
    BUILDERS,
    Order,
    PackagingError,
    Target,
    Task,
    build_commands,
    dockerfile,
    image_uri,
    package_uri,
    placed,
    staging_of,
)
from tui.packaging.archive import write_build_folder, write_sdist
from tui.packaging.files import Source, collect
from tui.packaging.image import find_builder, run_builder

MIB = 1024 * 1024
Progress = Callable[["Step"], None]


@dataclass(frozen=True, slots=True)
class Step:
    """What is being done. `done` of `total` bytes of an upload; 0 of 0 where there is nothing to count."""

    words: str
    done: int = 0
    total: int = 0

    @property
    def line(self) -> str:
        """For people, with the percentage."""
        return f"{self.words} {self.done * 100 // self.total} %" if self.total else self.words


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be made and where it would go; nothing has been done yet."""

    source: Source
    task: Task
    builder: str
    custom_job: dict[str, Any]
    """The CustomJob in REST form as it would be sent."""
    target: Target

    @property
    def dockerfile(self) -> str:
        """Empty for a source distribution."""
        return dockerfile(self.source.package, self.source.requirements) if self.builder else ""

    @property
    def lines(self) -> list[str]:
        """For people: what is packed and how it gets there."""
        count, size = len(self.source.files), amount(self.source.size)
        how = f"image, built by {self.builder}" if self.builder else "source distribution"
        found = [f"package  {count} files, {size}, {how}", f"         {self.task.uri}"]
        if self.source.requirements:
            found.append(f"requires {', '.join(self.source.requirements)}")
        return found


def amount(size: int) -> str:
    """Bytes for people."""
    return f"{size / MIB:,.1f} MiB" if size >= MIB else f"{size / 1024:,.1f} KiB"


async def plan_package(order: Order) -> Plan:
    """Look at the folder and decide; sends nothing and writes nothing.

    With an `image` it is built where a builder is there (docker, podman, Cloud Build), else it goes as a
    source distribution. The emulator has no containers: there it is always a source distribution.

    Raises:
        PackagingError: with what is wrong and what to do.
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
            f"package.build is {package.build}, and the emulator runs no containers.",
            "Leave it out, or write build: auto; here it is then a source distribution.",
        )
    if builder:
        task = Task(image_uri(package.image, source.digest), is_image=True)
    else:
        name = str(job.get("displayName") or "task")
        uri = package_uri(staging_of(job, package, target.local), name, source.digest)
        task = Task.of_package(uri, package, target.local)
    return Plan(source, task, builder, placed(job, package, task), target)


async def prepare_package(plan: Plan, backend: Backend, progress: Progress) -> dict[str, Any]:
    """Make it and bring it there; the answer is the CustomJob to send. Cancelling ends it, nothing is left.

    The same content is not sent twice.

    Raises:
        PackagingError: what can't be made.
        BackendError: what the bucket refused.
    """
    with tempfile.TemporaryDirectory(prefix="vxtui-package-") as folder:
        if plan.builder:
            progress(Step("collecting the files"))
            await asyncio.to_thread(write_build_folder, plan.source, Path(folder))
            commands = build_commands(plan.builder, plan.task.uri, folder, plan.target.project)
            await run_builder(commands, lambda line: progress(Step(line)))
        elif await _is_there(plan, backend):
            progress(Step(f"{plan.task.uri} is there already"))
        else:
            progress(Step("packing"))
            path = await asyncio.to_thread(write_sdist, plan.source, Path(folder))
            bucket = plan.task.uri.removeprefix("gs://").partition("/")[0]
            words = f"uploading {amount(path.stat().st_size)} to gs://{bucket}"
            await backend.storage.upload(
                path, plan.task.uri, lambda done, total: progress(Step(words, done, total))
            )
    return plan.custom_job


async def pack(order: Order, backend: Backend, tell: Callable[[str], None]) -> dict[str, Any]:
    """Plan and prepare in one, with `tell` for each line of progress. Raises BackendError alone."""
    try:
        plan = await plan_package(order)
        return await prepare_package(plan, backend, lambda step: tell(step.line))
    except PackagingError as error:
        raise InvalidRequest(error.message, fix=error.fix) from error


async def _is_there(plan: Plan, backend: Backend) -> bool:
    """Also makes a bucket of the emulator's, as it does for every bucket that a job names."""
    bucket = plan.task.uri.removeprefix("gs://").partition("/")[0]
    try:
        # Its name is of its content, and an upload is whole or not at all.
        return await backend.storage.size_of(plan.task.uri) is not None
    except NotFound as error:
        if plan.target.local:
            await backend.storage.create_bucket(bucket, plan.target.region)
            return False
        raise BackendError(
            f"The bucket gs://{bucket} for the package does not exist.",
            fix=f"gcloud storage buckets create gs://{bucket} --location={plan.target.region}",
        ) from error
