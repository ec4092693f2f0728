"""Runs one pod from its binding to its end."""

from __future__ import annotations

import asyncio
import logging
import shutil
from copy import deepcopy
from typing import Any, Literal

from tui.emulator.kubernetes.errors import ApiNotFound, ApiStorageFull
from tui.emulator.kubernetes.node.kubelet import hostnames, status, volumes
from tui.emulator.kubernetes.node.kubelet.container import PodContainer
from tui.emulator.kubernetes.node.kubelet.environment import Site, requested_gpus
from tui.emulator.kubernetes.node.kubelet.references import CannotCreate
from tui.emulator.kubernetes.node.kubelet.services import PodServices
from tui.emulator.kubernetes.node.kubelet.status import PodFate, PodPlacement, PodVerdict
from tui.emulator.kubernetes.node.kubelet.volumes import CannotMount
from tui.emulator.kubernetes.resources import PODS, Obj
from tui.emulator.kubernetes.times import age_seconds, rfc3339
from tui.emulator.paths import AttemptDir

log = logging.getLogger(__name__)

_DEADLINE = "activeDeadlineSeconds"
MOUNT_RETRY = 2.0
"""Interval between tries to set up a volume whose object is missing."""
PUBLISH_RETRY = 1.0
TERMINAL = {"Succeeded", "Failed"}
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"
_FAMILY_LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "batch.kubernetes.io/job-name",
    "job-name",
)


class PodWorker:
    """Runs one pod. `obj` is its newest object."""

    def __init__(self, services: PodServices, obj: Obj, place: PodPlacement) -> None:
        self.services, self.obj, self.place = services, obj, place
        self.spec: Obj = obj["spec"]
        self.uid, self.name = str(obj["metadata"]["uid"]), str(obj["metadata"]["name"])
        self.namespace = str(obj["metadata"]["namespace"])
        self.folder = services.folder.pod(self.uid)
        self.lookup = services.lookup(self.namespace)
        self.verdict: PodVerdict | None = None
        self._ended = asyncio.Event()
        self.gone = False
        """Whether the pod's object is gone."""
        self.has_init = bool(self.spec.get("initContainers"))
        before = _by_name(obj.get("status") or {})
        self.init = [PodContainer(self, spec, init=True) for spec in self.spec.get("initContainers") or ()]
        self.main = [PodContainer(self, spec, init=False) for spec in self.spec.get("containers") or ()]
        for container in self.containers:
            container.resume(before.get(container.name))
        self._stopping = asyncio.Event()
        self._volumes: Obj = {}
        self._deadline: asyncio.Task[None] | None = None
        self._seconds: Any = None
        """activeDeadlineSeconds of the current deadline; it may change while the pod runs."""

    @property
    def ended(self) -> bool:
        """Whether all containers have ended permanently."""
        return self._ended.is_set()

    async def wait_for_end(self) -> None:
        await self._ended.wait()

    def mark_ended(self) -> None:
        self._ended.set()

    @property
    def containers(self) -> list[PodContainer]:
        return [*self.init, *self.main]

    @property
    def title(self) -> str:
        """The pod's name in the kubelet's messages."""
        return f"{self.name}_{self.namespace}({self.uid})"

    @property
    def grace(self) -> float:
        seconds = self.spec.get("terminationGracePeriodSeconds")
        return 30.0 if seconds is None else float(seconds)

    async def run(self) -> None:
        """Run the pod to its end. If its object is being deleted, delete it then."""
        self._set_deadline()
        try:
            if await self._mount():
                await self._run_containers()
        except Exception:
            log.exception("pod %s", self.title)
            self.verdict = PodVerdict("InternalError", "The emulator failed to run this pod; see its log.")
            for container in self.containers:
                container.stop(0)
            await asyncio.gather(*(started.run() for started in self.containers if started.number))
        finally:
            self._clear_deadline()
        self._ended.set()
        for container in self.containers:
            if not container.state.init or "waiting" in container.state.state:
                container.give_up()
        self.publish()
        self._confirm_deletion()

    def stop(self, grace: float, verdict: PodVerdict | None = None) -> None:
        """Stop all containers and start no other. The first verdict is final."""
        if verdict is not None and self.verdict is None and not self.ended:
            self.verdict = verdict
        first = not self._stopping.is_set()
        self._stopping.set()
        for container in self.containers:
            if first and container.state.running:
                self.event("Killing", f"Stopping container {container.name}")
            container.stop(grace)
        if verdict is not None:
            self.publish()

    def update(self, obj: Obj) -> None:
        """React to a change of the object."""
        self.obj = obj
        if self._deadline is not None and obj["spec"].get(_DEADLINE) != self._seconds:
            self._set_deadline()
        if "deletionTimestamp" in obj["metadata"]:
            grace = obj["metadata"].get("deletionGracePeriodSeconds")
            self.stop(self.grace if grace is None else float(grace))
            if self.ended:
                self._confirm_deletion()

    # -- its containers

    async def _run_containers(self) -> None:
        if not await self._initialize():
            return
        work = [
            asyncio.create_task(main_container.run(), name=f"{main_container.name} of {self.title}")
            for main_container in self.main
        ]
        try:
            await asyncio.gather(*work)
            for container in self.init:
                if container.state.sidecar:
                    container.stop(self.grace)
            await asyncio.gather(*self._sidecars)
        finally:
            for task in [*work, *self._sidecars]:
                task.cancel()

    async def _initialize(self) -> bool:
        """Run the init containers in order; return False if the pod ends with them."""
        self._sidecars: list[asyncio.Task[None]] = []
        for container in self.init:
            if container.state.sidecar:
                self._sidecars.append(asyncio.create_task(container.run()))
                while not container.state.done and not container.stopped:
                    container.changed.clear()
                    await container.changed.wait()
            else:
                await container.run()
            if self._stopping.is_set() or not container.state.done:
                await self._end_sidecars()
                return False
        for main_container in self.main:
            if not main_container.number:
                # A kubelet reports initializing only if there are init containers.
                reason = status.INITIALIZING if self.init else status.CREATING
                main_container.state.state = {"waiting": {"reason": reason}}
        return True

    async def _end_sidecars(self) -> None:
        for container in self.init:
            if container.state.sidecar:
                container.stop(self.grace)
        await asyncio.gather(*self._sidecars)

    async def _mount(self) -> bool:
        """Create folders and volumes; return False if the pod is stopped in the meantime."""
        self.publish()
        while not self._stopping.is_set() or any(container.number for container in self.containers):
            try:
                self.folder.root.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._volumes = dict(
                    volumes.prepare_volumes(self.obj, self.folder, self.services.folder, self.lookup)
                )
                return True
            except (CannotMount, CannotCreate) as error:
                self.event("FailedMount", str(error), warning=True)
            except OSError as error:
                self.event("FailedMount", f"Unable to attach or mount volumes: {error}", warning=True)
            try:
                async with asyncio.timeout(MOUNT_RETRY):
                    await self._stopping.wait()
            except TimeoutError:
                pass
        return False

    def site(self, spec: Obj, run: AttemptDir) -> Site:
        """Return this machine's resources for a run of the container. Raises CannotCreate, OSError."""
        services = self.services
        names = self._names()
        mounts = volumes.mounts_of(spec, self._volumes, {})
        kept = {
            container.name: volumes.load_mounts(self.folder, container.name) for container in self.containers
        }
        volumes.save_mounts(self.folder, {**kept, spec["name"]: mounts})
        message = self.folder.message(spec["name"], run.number)
        message.parent.mkdir(parents=True, exist_ok=True)
        message.unlink(missing_ok=True)
        node = services.node(self.spec["nodeName"])
        gpu_count = requested_gpus({"spec": {"containers": [spec]}})

        def port(host: hostnames.Host, number: int) -> int:
            return services.ports.port(self.uid, host, number)

        return Site(
            services.state,
            services.images.programs,
            run,
            message,
            mounts,
            (node.get("status") or {}).get("allocatable") or {},
            services.take_devices(self.uid, spec["name"], gpu_count),
            services.simulates(self.spec["nodeName"]),
            services.siblings(self.obj),
            lambda env: hostnames.translate(env, names, port),
            lambda text: hostnames.replace_addresses(text, names, port),
        )

    def _names(self) -> hostnames.HostNames:
        labels = self.obj["metadata"].get("labels") or {}
        families = {str(labels[key]) for key in _FAMILY_LABELS if labels.get(key)}
        families |= {str(owner["name"]) for owner in self.obj["metadata"].get("ownerReferences") or ()}
        own = str(self.spec.get("hostname") or self.name)
        return hostnames.HostNames(self.namespace, own, self.services.known_hosts(self.namespace), families)

    def _set_deadline(self) -> None:
        self._clear_deadline()
        self._seconds = self.obj["spec"].get(_DEADLINE)
        self._deadline = asyncio.create_task(self._watch_deadline(), name=f"deadline of {self.title}")

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    async def _watch_deadline(self) -> None:
        if self._seconds is None:
            return
        await asyncio.sleep(max(0.0, float(self._seconds) - age_seconds(self.place.start_time)))
        self.event("DeadlineExceeded", DEADLINE_MESSAGE)
        self.stop(self.grace, PodVerdict(status.DEADLINE, DEADLINE_MESSAGE))

    # -- its object

    def publish(self) -> None:
        """Store the current status; retry later if the disk is full."""
        if self.gone:
            return
        states = [container.state for container in self.containers]

        def edit(obj: Obj) -> None:
            if obj["metadata"]["uid"] == self.uid:
                obj["status"] = status.pod_status(
                    obj, deepcopy(states), self.place, PodFate(self.verdict, self.ended), rfc3339()
                )

        try:
            self.obj = self.services.objects.change(PODS, self.namespace, self.name, edit, status=True)
        except ApiNotFound:
            self.gone = True
        except ApiStorageFull as error:
            log.error("the status of pod %s can't be stored: %s", self.title, error)
            asyncio.get_running_loop().call_later(PUBLISH_RETRY, self.publish)

    def event(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an Event of the kubelet about this pod."""
        kind: Literal["Normal", "Warning"] = "Warning" if warning else "Normal"
        self.services.event(self.obj, reason, message, kind)

    def _confirm_deletion(self) -> None:
        """Delete the object, since no process of the pod is left."""
        if self.gone or "deletionTimestamp" not in self.obj["metadata"]:
            return
        try:
            self.services.objects.delete(PODS, self.namespace, self.name, grace=0, uid=self.uid)
        except ApiNotFound:
            self.gone = True
        except ApiStorageFull as error:
            log.error("pod %s can't be deleted: %s", self.title, error)
            asyncio.get_running_loop().call_later(PUBLISH_RETRY, self._confirm_deletion)

    def remove_files(self) -> None:
        """Remove the folder and release the ports of an ended pod."""
        shutil.rmtree(self.folder.root, ignore_errors=True)
        self.services.ports.release(self.uid)


def _by_name(pod_status: Obj) -> dict[str, Obj]:
    return {
        container["name"]: container
        for key in ("initContainerStatuses", "containerStatuses")
        for container in pod_status.get(key) or ()
    }
