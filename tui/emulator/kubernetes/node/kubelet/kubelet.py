"""The kubelet of all nodes: a worker for each pod bound to one."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path
from typing import Any

from tui.emulator.kubernetes.node.disruption import KIND, SHUTDOWN, condition
from tui.emulator.kubernetes.node.kubelet.folders import PodFolder
from tui.emulator.kubernetes.node.kubelet.pod import TERMINAL, PodWorker
from tui.emulator.kubernetes.node.kubelet.process_wait import process_ended
from tui.emulator.kubernetes.node.kubelet.services import PodServices
from tui.emulator.kubernetes.node.kubelet.status import PodPlacement, PodVerdict
from tui.emulator.kubernetes.resources import PODS, Obj
from tui.emulator.kubernetes.times import rfc3339
from tui.emulator.kubernetes.watching import WatchEvent
from tui.emulator.shells.left_behind import end_left_programs

log = logging.getLogger(__name__)

FORCED_GRACE = 0.5
"""Grace period in seconds for a pod whose object is already gone."""


class Kubelet:
    """Runs the pods of all nodes. `workers` holds the existing pods by uid."""

    name = "kubelet"

    def __init__(self, services: PodServices) -> None:
        self.services = services
        self.workers: dict[str, PodWorker] = {}
        self.shutting_down: set[str] = set()
        """Nodes that accept no more pods."""
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def pods_on(self, node: str) -> list[PodWorker]:
        """Return the pods of a node that have not ended."""
        workers = self.workers.values()
        return [worker for worker in workers if worker.spec.get("nodeName") == node and not worker.ended]

    async def run(self) -> None:
        """Run until cancelled; the pods' processes continue."""
        changes = self.services.objects.watch((PODS,))
        try:
            # The clients' connections ended with the server that started these programs.
            await asyncio.to_thread(end_left_programs, self.services.folder.pods)
            self._resume()
            async for event in changes:
                try:
                    self._see(event)
                except Exception:
                    log.exception("pod %s", event.obj["metadata"].get("name"))
        finally:
            changes.close()
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _resume(self) -> None:
        pods = [pod for pod in self.services.objects.list(PODS) if pod["spec"].get("nodeName")]
        known = {str(pod["metadata"]["uid"]) for pod in pods}
        try:
            self.services.ports.load(known)
        except (OSError, ValueError) as error:
            log.error("can't restore the ports of running pods: %s", error)
        for pod in pods:
            self._see(WatchEvent("ADDED", PODS, pod))
        if not self.services.folder.pods.is_dir():
            return
        for path in self.services.folder.pods.iterdir():
            if path.name not in known:
                self._spawn(path.name, self._remove_stray(path))

    def _see(self, event: WatchEvent) -> None:
        pod, uid = event.obj, str(event.obj["metadata"]["uid"])
        worker = self.workers.get(uid)
        if event.type == "DELETED":
            if worker is not None:
                worker.gone = True
                worker.stop(FORCED_GRACE)
                if worker.ended:
                    self._forget(worker)
            return
        if worker is not None:
            worker.update(pod)
        elif pod["spec"].get("nodeName"):
            self._accept(pod, uid)

    def _accept(self, pod: Obj, uid: str) -> None:
        node = str(pod["spec"]["nodeName"])
        before = pod.get("status") or {}
        known = node in self.services.machines or self.services.folder.pod(uid).root.exists()
        if not known and "deletionTimestamp" not in pod["metadata"]:
            # No kubelet runs the pod, so it stays pending.
            return
        machine = self.services.machines.get(node)
        address = self.services.address(uid, str(before.get("podIP") or ""))
        start = str(before.get("startTime") or rfc3339())
        place = PodPlacement(machine.address if machine else "", address, start)
        worker = PodWorker(self.services, pod, place)
        self.workers[uid] = worker
        if before.get("phase") in TERMINAL:
            worker.mark_ended()
            worker.update(pod)
            return
        if node in self.shutting_down and not self.services.folder.pod(uid).root.exists():
            worker.stop(0, PodVerdict("NodeShutdown", "Pod was rejected as the node is shutting down."))
        if verdict := _known_verdict(before):
            worker.stop(0, verdict)
        if "deletionTimestamp" in pod["metadata"]:
            worker.update(pod)
        self._spawn(uid, self._run(worker))

    async def _run(self, worker: PodWorker) -> None:
        await worker.run()
        if worker.gone:
            self._forget(worker)

    def _spawn(self, uid: str, work: Any) -> None:
        task = asyncio.create_task(work, name=f"pod {uid}")
        self._tasks[uid] = task

        def done(ended: asyncio.Task[None]) -> None:
            if self._tasks.get(uid) is ended:
                del self._tasks[uid]
            if not ended.cancelled() and (error := ended.exception()):
                log.error("pod %s", uid, exc_info=error)

        task.add_done_callback(done)

    def _forget(self, worker: PodWorker) -> None:
        if self.workers.pop(worker.uid, None) is None:
            return
        self.services.release_address(worker.uid)
        for container in worker.containers:
            self.services.release_devices(worker.uid, container.name)
        try:
            worker.remove_files()
        except OSError as error:
            log.error("can't remove the files of pod %s: %s", worker.title, error)

    async def _remove_stray(self, path: Path) -> None:
        """End the processes of a pod that no longer exists in the API, and remove its files."""
        for _, run in PodFolder(path).every_run():
            if self.services.runner.alive(run):
                self.services.runner.command(run, {"do": "stop", "reason": "cancel", "grace": FORCED_GRACE})
            while (pid := self.services.runner.pid(run)) is not None:
                await process_ended(pid)
            # This kills processes of a dead runner.
            await asyncio.to_thread(self.services.runner.status, run)
        await asyncio.to_thread(shutil.rmtree, path, True)


def _known_verdict(before: Obj) -> PodVerdict | None:
    """Return the verdict that an earlier server was carrying out."""
    for present in before.get("conditions") or ():
        if (
            present["type"] == KIND
            and present["status"] == "True"
            and present.get("reason") == "TerminationByKubelet"
        ):
            message = str(present.get("message") or "")
            reason = "Terminated" if message == SHUTDOWN else "Evicted"
            return PodVerdict(reason, message, (condition("TerminationByKubelet", message),))
    return None
