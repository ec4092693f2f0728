"""Runs one container of a pod, restarting it until it has ended permanently."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shutil
import time
from typing import Protocol

from tui.config.regular_file import open_regular
from tui.domain.kubernetes.quantity import NotAQuantity
from tui.emulator.kubernetes.node.kubelet import status
from tui.emulator.kubernetes.node.kubelet.environment import Site, build_plan
from tui.emulator.kubernetes.node.kubelet.folders import PodFolder
from tui.emulator.kubernetes.node.kubelet.process_wait import process_ended
from tui.emulator.kubernetes.node.kubelet.references import CannotCreate
from tui.emulator.kubernetes.node.kubelet.services import NamespaceLookup, PodServices
from tui.emulator.kubernetes.node.kubelet.status import KubeletContainerState
from tui.emulator.kubernetes.node.log_files import last_lines
from tui.emulator.kubernetes.resources import Obj
from tui.emulator.kubernetes.times import rfc3339
from tui.emulator.paths import AttemptDir
from tui.emulator.runner.plan import AttemptStatus
from tui.emulator.runs.images import CannotRun
from tui.emulator.runs.ports import NoPorts

log = logging.getLogger(__name__)

STARTED_POLL = 0.02
"""Poll interval for the start of a run's first process."""
CONFIG_RETRY = 2.0
"""Interval between tries to create a container whose ConfigMap or Secret is missing."""
RESET_SECONDS = 600.0
"""Duration of a run that resets the back-off."""
MESSAGE_BYTES = 4096
LOG_LINES, LOG_BYTES = 80, 2048
"""Lines and bytes of the log that replace a missing termination message."""
UNKNOWN = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
    "startedAt": None,
    "finishedAt": None,
}
_OCI = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create "
    "failed: unable to start container process: {why}: unknown"
)


class ContainerPod(Protocol):
    """The parts of a pod that a container uses."""

    obj: Obj
    spec: Obj
    uid: str
    name: str
    namespace: str
    folder: PodFolder
    lookup: NamespaceLookup
    services: PodServices
    has_init: bool

    @property
    def title(self) -> str: ...

    @property
    def grace(self) -> float: ...

    @property
    def ended(self) -> bool: ...

    def site(self, spec: Obj, run: AttemptDir) -> Site: ...

    def publish(self) -> None: ...

    def event(self, reason: str, message: str, *, warning: bool = False) -> None: ...


class PodContainer:
    """A container of a pod. `run` returns when the container has ended permanently; `state` is its status."""

    def __init__(self, pod: ContainerPod, spec: Obj, *, init: bool) -> None:
        self.pod, self.spec = pod, spec
        self.name = str(spec["name"])
        sidecar = init and spec.get("restartPolicy") == "Always"
        self.state = KubeletContainerState(
            self.name, str(spec.get("image", "")), init, sidecar, resources=spec.get("resources") or {}
        )
        if init or pod.has_init:
            self.state.state = {"waiting": {"reason": status.INITIALIZING}}
        policy = pod.spec.get("restartPolicy", "Always")
        if init:
            policy = "Always" if sidecar else "OnFailure" if policy == "Always" else policy
        self._policy = policy
        self.number = 0
        """Number of the current or last run; 0 before the first."""
        self.active = False
        """Whether the current run has not ended, even if `state` still shows the run before."""
        self._failures = 0
        """Consecutive ends that led to a restart."""
        self._started_at = 0.0
        self._ended_at = 0.0
        self._stopping = asyncio.Event()
        self.changed = asyncio.Event()
        """Set when the state has changed."""

    @property
    def stopped(self) -> bool:
        """Whether the container starts no further run."""
        return self._stopping.is_set()

    @property
    def run_folder(self) -> AttemptDir | None:
        """Folder of the current or last run; None before the first run."""
        return self.pod.folder.run(self.name, self.number) if self.number else None

    async def run(self) -> None:
        """Run the container, restarting it by its policy, until it has ended permanently or is stopped."""
        if self.active:
            await self._follow()
        while not self.stopped and self._is_due():
            if not await self._back_off() or not await self._start():
                break
            await self._follow()

    def resume(self, before: Obj | None) -> None:
        """Resume the run that an earlier server started, unless there is none. `before` is the container's
        old status."""
        runs = self.pod.folder.runs(self.name)
        if before:
            self.state.last = dict(before.get("lastState") or {})
            self.state.image_id = str(before.get("imageID") or "")
        if not runs:
            return
        self.number = runs[-1].number
        self.state.restarts = self.number - 1
        self._failures = self.state.restarts
        self.state.container_id = self._id()
        known = (before or {}).get("state") or {}
        ends = [state["terminated"] for state in (known, self.state.last) if "terminated" in state]
        end = next((ended for ended in ends if ended.get("containerID") == self.state.container_id), None)
        self.active = end is None
        if end is not None:
            self.state.state = {"terminated": dict(end)}
        elif "running" in known and (before or {}).get("containerID") == self.state.container_id:
            self.state.state = dict(known)
        self.pod.services.hold_devices(self.pod.uid, self.name, runs[-1])

    def stop(self, grace: float) -> None:
        """Stop the current run and start no other. A later call can only shorten the grace period."""
        self._stopping.set()
        self.changed.set()
        folder = self.run_folder
        if folder is None or not self.active:
            return
        try:
            self.pod.services.runner.command(folder, {"do": "stop", "reason": "cancel", "grace": grace})
        except OSError as error:
            # The next call or the next server tries again.
            log.error("%s of pod %s can't be stopped: %s", self.name, self.pod.title, error)
            asyncio.get_running_loop().call_later(1.0, self.stop, grace)

    def give_up(self) -> None:
        """Set the final state of a container that waited for its next run or never had one."""
        if self.state.exit_code is None:
            last = self.state.last.get("terminated")
            self.state.state = {"terminated": dict(last or UNKNOWN)}

    # -- before a run

    def _is_due(self) -> bool:
        code = self.state.exit_code
        return code is None or status.restarts(self._policy, code)

    async def _back_off(self) -> bool:
        """Wait before a restart; return False if the container is stopped in the meantime."""
        ended = self.state.state.get("terminated")
        if ended is None:
            return True
        settings = self.pod.services.settings
        if self._started_at and self._ended_at - self._started_at > RESET_SECONDS:
            self._failures = 0
        self._failures += 1
        wait = status.back_off(
            self._failures, settings.crash_back_off_seconds, settings.longest_back_off_seconds
        )
        self.state.last = {"terminated": ended}
        if not wait:
            return True
        message = f"back-off {_duration(wait)} restarting failed container={self.name} pod={self.pod.title}"
        self._wait_state("CrashLoopBackOff", message)
        text = f"Back-off restarting failed container {self.name} in pod {self.pod.title}"
        self.pod.event("BackOff", text, warning=True)
        return await self._sleep(wait)

    async def _start(self) -> bool:
        """Start the next run; return False if the container is stopped in the meantime."""
        if not await self._pull():
            return False
        while not self.stopped:
            try:
                self._start_run()
                return True
            except (CannotCreate, NotAQuantity, NoPorts) as error:
                self._wait_state("CreateContainerConfigError", str(error))
                self.pod.event("Failed", f"Error: {error}", warning=True)
            except OSError as error:
                log.warning("%s of pod %s can't start: %s", self.name, self.pod.title, error)
                self._wait_state("CreateContainerError", f"context: {error}")
                self.pod.event("Failed", f"Error: {error}", warning=True)
            if not await self._sleep(CONFIG_RETRY):
                break
        return False

    async def _pull(self) -> bool:
        """Pull the image; return False if the container is stopped in the meantime."""
        image, images, tries = self.state.image, self.pod.services.images, 0
        if self.number and self.state.image_id:
            self.pod.event("Pulled", f'Container image "{image}" already present on machine')
            return True
        while not self.stopped:
            self.pod.event("Pulling", f'Pulling image "{image}"')
            began = time.monotonic()
            if not await self._sleep(images.delay(image)):
                return False
            why = images.refusal(image, self.spec)
            if why is None:
                took = _duration(round(time.monotonic() - began, 3))
                self.pod.event(
                    "Pulled", f'Successfully pulled image "{image}" in {took} ({took} including waiting).'
                )
                digest = hashlib.sha256(image.encode()).hexdigest()
                self.state.image_id = f"{image.partition('@')[0].rpartition(':')[0] or image}@sha256:{digest}"
                return True
            self.pod.event("Failed", f'Failed to pull image "{image}": {why}', warning=True)
            self.pod.event("Failed", "Error: ErrImagePull", warning=True)
            self._wait_state("ErrImagePull", why)
            settings = self.pod.services.settings
            wait = min(settings.crash_back_off_seconds * 2**tries, settings.longest_back_off_seconds)
            # A kubelet alternates between the two reasons.
            if not await self._sleep(min(wait, 2.0)):
                return False
            self._wait_state("ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {why}')
            self.pod.event("BackOff", f'Back-off pulling image "{image}"', warning=True)
            self.pod.event("Failed", "Error: ImagePullBackOff", warning=True)
            if not await self._sleep(wait):
                return False
            tries = min(tries + 1, 10)
        return False

    def _start_run(self) -> None:
        """Start the next run. Raises CannotCreate, CannotRun, NotAQuantity, NoPorts, OSError."""
        services, number = self.pod.services, self.number + 1
        folder = self.pod.folder.run(self.name, number)
        site = self.pod.site(self.spec, folder)
        try:
            plan = build_plan(
                self.pod.obj,
                self.spec,
                site,
                self.pod.lookup,
                grace=self.pod.grace,
                sample_period=services.settings.sample_period,
            )
        except CannotRun as error:
            raise CannotCreate(str(error)) from error
        services.runner.start(folder, plan)
        self.number, self.active = number, True
        self.state.container_id = self._id()
        self.pod.event("Created", f"Created container: {self.name}")
        for old in self.pod.folder.runs(self.name)[:-2]:
            # Like a node, keep only the log of the previous run.
            shutil.rmtree(old.root, ignore_errors=True)

    # -- a run

    async def _follow(self) -> None:
        folder = self.run_folder
        assert folder is not None
        await self._wait_for_start(folder)
        runner = self.pod.services.runner
        while True:
            pid = runner.pid(folder)
            if pid is None:
                break
            await process_ended(pid)
        # This also kills processes of a dead runner, which takes time.
        ended = await asyncio.to_thread(runner.status, folder)
        self._ended_at, self.active = time.time(), False
        self.pod.services.release_devices(self.pod.uid, self.name)
        self.state.state = {"terminated": self._terminated(folder, ended)}
        self._change()

    async def _wait_for_start(self, folder: AttemptDir) -> None:
        runner = self.pod.services.runner
        while True:
            attempt = runner.status(folder)
            mine = attempt.replicas[0] if attempt.replicas else None
            if attempt.outcome is not None or (mine is not None and mine.state != "starting"):
                break
            await asyncio.sleep(STARTED_POLL)
        if attempt.outcome is None and mine is not None and mine.state == "running":
            if not self.state.running:
                self._started_at = time.time()
                self.state.state = {"running": {"startedAt": rfc3339(self._started_at)}}
                self.state.restarts = self.number - 1
                self.pod.event("Started", f"Started container {self.name}")
            self._change()

    def _terminated(self, folder: AttemptDir, ended: AttemptStatus) -> Obj:
        self.state.restarts = self.number - 1
        mine = ended.replicas[0] if ended.replicas else None
        running = self.state.state.get("running") or {}
        finished = _written(folder) or self._ended_at
        # A short run may have ended before its start was seen.
        times = {"startedAt": running.get("startedAt") or rfc3339(_planned(folder) or finished)}
        times |= {"finishedAt": rfc3339(finished), "containerID": self.state.container_id}
        if mine is None or mine.exit_code is None:
            return {**UNKNOWN, **times}
        refused = next((text for _, _, text in ended.events if text.startswith("exec: ")), "")
        if refused and not running:
            message = _OCI.format(why=refused)
            self.pod.event("Failed", f"Error: {message}", warning=True)
            return {"exitCode": 128, "reason": "StartError", "message": message, **times}
        if not running:
            self.pod.event("Started", f"Started container {self.name}")
        code = mine.exit_code
        terminated: Obj = {
            "exitCode": code,
            "reason": "Completed" if code == 0 else "Error",
            **times,
        }
        if mine.oom:
            terminated["reason"] = "OOMKilled"
        if message := self._message(folder, code):
            terminated["message"] = message
        return terminated

    def _message(self, folder: AttemptDir, code: int) -> str:
        try:
            with open_regular(self.pod.folder.message(self.name, folder.number)) as file:
                text = file.read(MESSAGE_BYTES)
        except OSError:
            text = b""
        fallback = self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        if not text and fallback and code:
            lines = last_lines(folder, self.name, LOG_LINES)
            text = b"".join(lines)[-LOG_BYTES:]
        return text.decode("utf-8", "replace")

    def _id(self) -> str:
        key = f"{self.pod.uid}/{self.name}/{self.number}"
        return f"containerd://{hashlib.sha256(key.encode()).hexdigest()}"

    def _wait_state(self, reason: str, message: str) -> None:
        self.state.state = {"waiting": {"reason": reason, "message": message}}
        self._change()

    def _change(self) -> None:
        self.changed.set()
        self.pod.publish()

    async def _sleep(self, seconds: float) -> bool:
        """Sleep; return False if the container is stopped in the meantime."""
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._stopping.wait()
            except TimeoutError:
                pass
        return not self.stopped


def _duration(seconds: float) -> str:
    """Format a duration like Go: 10s, 1m20s, 150ms."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    text = f"{rest:.3f}".rstrip("0").rstrip(".")
    return f"{int(minutes)}m{text}s" if minutes else f"{text}s"


def _written(folder: AttemptDir) -> float | None:
    """Return when the runner last wrote its record."""
    try:
        return folder.database.stat().st_mtime
    except OSError:
        return None


def _planned(folder: AttemptDir) -> float | None:
    try:
        return folder.plan.stat().st_mtime
    except OSError:
        return None
