"""Server of one deployed model: started, checked, restarted, and ended with the emulator."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tui.domain.core.log_entry import Severity
from tui.emulator.runner import process_tree
from tui.emulator.runs.images import CannotRun
from tui.emulator.runs.ports import NoPorts
from tui.emulator.serving.container_log import ContainerLog
from tui.emulator.serving.environment import MARK
from tui.emulator.serving.guard import ServerPlan
from tui.emulator.serving.http_client import Answer, HttpClient, ServerUnreachable
from tui.helper_program import end_group, start_program

log = logging.getLogger(__name__)

CHECK_SECONDS = 10.0
"""Seconds between health checks of a healthy server, and the maximum wait for their response."""
FIRST_CHECKS = (0.02, 0.5)
"""Seconds between the checks of a starting server, doubled from the first value to the second."""
END_SECONDS = 5.0
"""Seconds in which a guard ends once the server's processes have had their grace period."""
RESTARTS = (0.5, 30.0)
"""Seconds before an ended server restarts, doubled from the first value to the second."""
_ROOT = Path(__file__).resolve().parents[3]
_GUARD = (sys.executable, "-P", "-m", "tui.emulator.serving.guard")


class ServerFailed(Exception):
    """The server did not become healthy. The message gives the reason."""


class ModelServer:
    """Keeps one server running until `close` is called. `plan` returns its plan and a new port, or raises
    CannotRun."""

    def __init__(
        self, place: Path, health_route: str, plan: Callable[[], tuple[ServerPlan, int]], output: ContainerLog
    ) -> None:
        self._place, self._health, self._plan, self._log = place, health_route, plan, output
        self._client: HttpClient | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._healthy = False
        self._unanswered = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(), name=f"model server {place.name}")

    @property
    def ready(self) -> bool:
        """Whether the server answers health checks."""
        return self._healthy

    async def started(self, seconds: float) -> None:
        """Wait until the server is healthy for the first time.

        Raises ServerFailed when its first process ends, can't be started, or is not healthy within `seconds`.
        """
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._first)
        except TimeoutError:
            raise ServerFailed(
                f"no health check (GET {self._health}) was answered with 200 within {seconds:g} s; the "
                "server has to listen on the port in AIP_HTTP_PORT"
            ) from None

    async def post(self, path: str, body: bytes, content_type: str, seconds: float) -> Answer:
        """Send a prediction. Raises ServerUnreachable, TimeoutError."""
        if self._client is None or not self._healthy:
            raise ServerUnreachable("the model server is not healthy")
        self._unanswered += 1
        self._quiet.clear()
        try:
            return await self._client.request("POST", path, body, content_type, seconds)
        finally:
            self._unanswered -= 1
            if not self._unanswered:
                self._quiet.set()

    async def drained(self) -> None:
        """Wait until no prediction is pending. Each prediction has a timeout."""
        await self._quiet.wait()

    async def close(self) -> None:
        """End the server and its processes; delete its working directory."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._first.done():
            self._first.exception()
        await asyncio.to_thread(shutil.rmtree, self._place, ignore_errors=True)

    async def _run(self) -> None:
        pause = RESTARTS[0]
        while True:
            try:
                code = await self._run_once()
            except (CannotRun, NoPorts, OSError) as error:
                reason = f"can't be started: {error}"
            else:
                last = f": {self._log.last_error}" if self._log.last_error else ""
                reason = f"ended with exit code {code}{last}"
            if not self._first.done():
                self._first.set_exception(ServerFailed(f"the model server {reason}"))
            await self._log.message(f"The model server {reason}; it is restarting.", Severity.ERROR)
            await asyncio.sleep(pause)
            pause = min(pause * 2, RESTARTS[1])

    async def _run_once(self) -> int:
        (plan, port), pipe = self._plan(), asyncio.subprocess.PIPE
        # Inherit nothing from the emulator's environment: models must not see the user's credentials.
        env = {"PATH": os.defpath, "PYTHONPATH": str(_ROOT), "LANG": "C.UTF-8"}
        process = await start_program(*_GUARD, stdin=pipe, stdout=pipe, stderr=pipe, cwd="/", env=env)
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        copies = [
            asyncio.create_task(self._log.copy(process.stdout, "stdout")),
            asyncio.create_task(self._log.copy(process.stderr, "stderr")),
        ]
        self._client = HttpClient(port)
        checks = asyncio.create_task(self._check(self._client))
        try:
            process.stdin.write(plan.line())
            with contextlib.suppress(OSError):
                await process.stdin.drain()
            code = await process.wait()
            await asyncio.gather(*copies)
            return code
        finally:
            self._healthy = False
            checks.cancel()
            self._client.close()
            await asyncio.shield(asyncio.ensure_future(self._end(process, plan.grace + END_SECONDS)))
            for copy in copies:
                copy.cancel()

    async def _end(self, process: asyncio.subprocess.Process, seconds: float) -> None:
        """Let the guard end the server within `seconds`."""
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await process.wait()
        if process.returncode is None:
            await end_group(process, grace=False)
        if process.returncode is None or process.returncode < 0:
            # The guard was killed and ended nothing.
            await asyncio.to_thread(end_processes, self._place)

    async def _check(self, client: HttpClient) -> None:
        """Set `ready` by health checks while the process runs."""
        pause = FIRST_CHECKS[0]
        while True:
            try:
                answer = await client.request("GET", self._health, seconds=CHECK_SECONDS)
                healthy, result = answer.status == 200, f"status {answer.status}"
            except (ServerUnreachable, TimeoutError) as error:
                healthy, result = False, str(error) or f"no answer within {CHECK_SECONDS:g} s"
            if self._healthy and not healthy:
                await self._log.message(
                    f"The health check GET {self._health} failed: {result}", Severity.WARNING
                )
            self._healthy = healthy
            if healthy and not self._first.done():
                self._first.set_result(None)
            await asyncio.sleep(CHECK_SECONDS if healthy else pause)
            pause = min(pause * 2, FIRST_CHECKS[1])


def end_processes(place: Path) -> None:
    """Kill the processes of model servers whose working directory is `place` or below it."""
    while processes := [proc for proc in process_tree.scan().values() if _marked(proc, place)]:
        process_tree.send(processes, signal.SIGKILL)


def _marked(proc: process_tree.Proc, place: Path) -> bool:
    if proc.ended:
        return False
    folder = process_tree.environment(proc.pid).get(MARK, "")
    return folder == str(place) or folder.startswith(f"{place}/")
