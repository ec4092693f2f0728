"""Operations on jobs: launch, cancel, delete and other changes."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tui.actions.availability import WRONG_STATE, ActionSelection, job_refusal
from tui.actions.operations.creation import SentLaunch, create, sent_launch
from tui.actions.operations.runner import OperationError, OperationRunner, Outcome
from tui.backends.interface import Backend, BackendError, JobService, LaunchRequest, NotFound, NotOffered
from tui.domain.core.formatting import pieces
from tui.domain.core.job import Job
from tui.domain.core.text import plain
from tui.domain.jobs.changes import scale_problem
from tui.domain.masking import remember
from tui.domain.pipeline.rerun import rerun_resource
from tui.domain.profile import Request
from tui.domain.spec.spec_format import format_of
from tui.domain.vertex.packaging import PackageRequest, PackagingError
from tui.kinds.kind import Kind
from tui.kinds.registry import kind_of, kind_of_body
from tui.store.log.retention import remove_logs

if TYPE_CHECKING:
    from tui.packaging.prepare import PackagePlan, PackagingStep


MAY_APPEAR = timedelta(minutes=1)
"""Time after a launch in which its job may still appear in the list."""


class JobOperations:
    """Operations on jobs through one open backend."""

    def __init__(self, runner: OperationRunner, backend: Backend) -> None:
        self._runner = runner
        self._backend = backend

    async def cancel(self, job: Job) -> Outcome[str]:
        """Request the cancellation of a job, which ends shortly afterwards."""

        async def cancel(service: JobService) -> str:
            await service.cancel(job.name)
            suspends = kind_of(job).cancel_suspends
            return f"{'Suspending' if suspends else 'Cancelling'} {job.display_name}"

        return await self._change("job.cancel", job, cancel)

    async def delete(self, job: Job) -> Outcome[str]:
        """Delete an ended job. If the job no longer exists, the operation fails, as a verb does."""

        async def delete(service: JobService) -> str:
            try:
                await service.delete(job.name)
            except NotFound as error:
                raise OperationError(
                    f"{job.display_name} was already deleted.", code=error.code, exit_code=error.exit_code
                ) from error
            await asyncio.to_thread(remove_logs, self._runner.journal.path.parent, job.name)
            return f"Deleted {job.display_name}"

        return await self._change("job.delete", job, delete)

    async def suspend(self, job: Job) -> Outcome[str]:
        """End the replicas of a job that continues when it is resumed."""

        async def suspend(service: JobService) -> str:
            await service.suspend(job.name)
            return f"Suspending {job.display_name}"

        return await self._change("job.suspend", job, suspend)

    async def resume(self, job: Job) -> Outcome[str]:
        """Resume a suspended job."""

        async def resume(service: JobService) -> str:
            await service.resume(job.name)
            return f"Resuming {job.display_name}"

        return await self._change("job.resume", job, resume)

    async def scale(self, job: Job, replicas: int) -> Outcome[str]:
        """Set the number of a job's workers."""

        async def scale(service: JobService) -> str:
            if problem := scale_problem(job, replicas):
                raise OperationError(problem, code=WRONG_STATE, exit_code=1)
            await service.scale(job.name, replicas)
            return f"Scaling {job.display_name} to {pieces(replicas, 'worker')}"

        return await self._change("job.scale", job, scale)

    async def rerun(self, job: Job) -> Outcome[Job]:
        """Create an ended pipeline again; the service's cache has the results of its successful tasks."""

        mark = secrets.token_hex(8)

        async def rerun() -> Job:
            self._must_allow("job.rerun", job)
            service = self._backend.job_service(job.name)
            resource = rerun_resource(await service.spec(job.name))
            return await create(service, LaunchRequest(job.region, resource, mark))

        return await self._runner.run(
            "job.rerun",
            job.name,
            rerun,
            lambda created: f"Launched {plain(created.display_name)} again",
            region=job.region,
            context=job.context,
            created=lambda created: created.name,
            mark=mark,
            kind=kind_of(job).key,
        )

    async def launch(
        self,
        request: Request,
        package: PackageRequest | PackagePlan | None = None,
        *,
        tell: Callable[[PackagingStep], None] = lambda _: None,
        on_send: Callable[[SentLaunch], None] = lambda _: None,
        on_interrupt: Callable[[SentLaunch], None] = lambda _: None,
    ) -> Outcome[Job]:
        """Create exactly one job, after building its package and uploading it to the bucket.

        `package` may be planned already, if the user has seen the files to pack. `tell` gets the progress of
        the package. `on_send` is called when the request is sent. A later cancel of this task calls
        `on_interrupt`, and the outcome states whether the job exists (`creation.create`).
        """

        mark = secrets.token_hex(8)

        async def launch() -> Job:
            ready = request
            if package is not None:
                ready = replace(request, custom_job=await self._packed(package, tell))
            service = self._service_for(request.body, ready.resource)
            sent = LaunchRequest(
                ready.region,
                ready.resource,
                mark,
                on_send=lambda: on_send(sent_launch(sent)),
                title=format_of(request.body).resource_title(ready.resource),
            )
            return await create(service, sent, lambda: on_interrupt(sent_launch(sent)))

        # The service's error may quote the secrets.
        remember(request.secrets)
        name = str(request.custom_job.get("displayName", "a job"))
        return await self._runner.run(
            "job.launch",
            name,
            launch,
            lambda job: f"Launched {plain(job.display_name)}",
            region=request.region,
            created=lambda job: job.name,
            mark=mark,
            kind=self._kind(request.body, request.resource).key,
        )

    async def unfinished(self) -> AsyncGenerator[str, None]:
        """Yield the outcome of each launch whose process was killed while it waited for the reply."""
        runner = self._runner
        for asked_at, entry in await asyncio.to_thread(runner.journal.unfinished, runner.context.name):
            if entry.kind not in self._backend.jobs:
                continue
            request = LaunchRequest(entry.region, mark=entry.mark)
            about = (
                f"The launch of {plain(entry.target)} at {asked_at.astimezone():%H:%M:%S} lost its console"
            )
            try:
                launched = await self._backend.jobs[entry.kind].launched(request)
            except BackendError as error:
                yield f"{about}. Whether its job exists is unknown: {error.message} {request.look_first}"
                continue
            if launched is not None:
                await runner.settle(replace(entry, target=launched.name), "done")
                yield f"{about}; its job exists: {launched.display_name} ({launched.id})."
            elif runner.journal.now() - asked_at < MAY_APPEAR:
                yield f"{about}; no job with the label {request.label} exists yet. {request.look_first}"
            else:
                await runner.settle(entry, "failed")
                yield f"{about}; no job with the label {request.label} exists: nothing was created."

    @staticmethod
    def _kind(body: str, resource: Mapping[str, Any]) -> Kind:
        return kind_of_body(body, format_of(body).job_of(resource))

    def _service_for(self, body: str, resource: Mapping[str, Any]) -> JobService:
        """Return the service that creates this resource. Raises OperationError if the context has none."""
        kind = self._kind(body, resource)
        service = self._backend.jobs.get(kind.key)
        if service is None:
            raise OperationError(
                f"The context {self._backend.info.name} has no {kind.words.noun}s.",
                fix="Choose another context; `vxtui contexts` lists the contexts.",
                code=NotOffered.code,
                exit_code=NotOffered.exit_code,
            )
        return service

    async def _packed(
        self, package: PackageRequest | PackagePlan, tell: Callable[[PackagingStep], None]
    ) -> dict[str, Any]:
        """Return the CustomJob to send, with its package uploaded."""
        # Import the module only here, because few profiles have a package.
        from tui.packaging.prepare import plan_package, prepare_package  # noqa: PLC0415

        try:
            plan = await plan_package(package) if isinstance(package, PackageRequest) else package
            return await prepare_package(plan, self._backend, tell)
        except PackagingError as error:
            fix = error.fix or "Nothing was sent."
            raise OperationError(error.message, fix=fix, code="INVALID_PACKAGE") from error

    async def _change(
        self, operation_id: str, job: Job, act: Callable[[JobService], Awaitable[str]]
    ) -> Outcome[str]:
        """Run the operation on a job; `act` returns the text of the outcome."""

        async def change() -> str:
            self._must_allow(operation_id, job)
            return await act(self._backend.job_service(job.name))

        return await self._runner.run(
            operation_id,
            job.name,
            change,
            str,
            region=job.region,
            context=job.context,
        )

    def _must_allow(self, operation_id: str, job: Job) -> None:
        """Check that the job's kind and state allow the operation. Raises OperationError. The service itself
        refuses a login without the permission, and names the permission."""
        selection = ActionSelection(backend=self._backend, login_counts=False)
        if refusal := job_refusal(operation_id, job, selection):
            raise OperationError(
                refusal.reason, fix=refusal.fix, code=refusal.code, exit_code=refusal.exit_code
            )
