"""Shared services for pods: files, ports, devices, images, and lookups of objects."""

from __future__ import annotations

import logging
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Literal

from tui.emulator.kubernetes.config import KubernetesConfig
from tui.emulator.kubernetes.errors import ApiStorageFull
from tui.emulator.kubernetes.node.kubelet import volumes
from tui.emulator.kubernetes.node.kubelet.folders import NodeFolder
from tui.emulator.kubernetes.node.kubelet.hostnames import Host, LocalPorts
from tui.emulator.kubernetes.node.kubelet.images import ImageRegistry
from tui.emulator.kubernetes.node.kubelet.volumes import CannotMount
from tui.emulator.kubernetes.node.pools import PoolNode, machines
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.resources import NODES, PODS, SERVICES, Obj
from tui.emulator.paths import AttemptDir, StateDir
from tui.emulator.runner.plan import AttemptPlan
from tui.emulator.runs import gpus
from tui.emulator.runs.runner_handle import LocalRunner

log = logging.getLogger(__name__)


class PodServices:
    """Services shared by all emulated nodes, which run on one machine."""

    def __init__(self, objects: Objects, settings: KubernetesConfig, state: StateDir) -> None:
        self.objects, self.settings, self.state = objects, settings, state
        self.folder = NodeFolder(state)
        self.runner = LocalRunner()
        self.images = ImageRegistry(settings.images, settings.missing_images, settings.image_pull_seconds)
        self.ports = LocalPorts(self.folder.ports, state.root)
        self.machines: dict[str, PoolNode] = {
            machine.name: machine for machine in machines(settings.node_pools)
        }
        self._addresses: dict[str, str] = {}
        self._devices: dict[tuple[str, str], tuple[int, ...]] = {}

    def lookup(self, namespace: str) -> NamespaceLookup:
        return NamespaceLookup(self.objects, namespace)

    def node(self, name: str) -> Obj:
        """Return the Node object, or an empty object if the node was deleted."""
        return self.objects.find(NODES, "", name) or {}

    def simulates(self, node: str) -> bool:
        machine = self.machines.get(node)
        return machine is not None and machine.pool.simulate_accelerators

    def known_hosts(self, namespace: str) -> Callable[[Host], bool]:
        """Return a predicate for names of services and pods."""
        pods = {
            (pod["metadata"]["namespace"], name)
            for pod in self.objects.list(PODS)
            for name in (pod["metadata"]["name"], pod["spec"].get("hostname"))
        }

        def known(host: Host) -> bool:
            if (host.namespace, host.label) in pods:
                return True
            return self.objects.find(SERVICES, host.namespace, host.label) is not None

        return known

    def siblings(self, pod: Obj) -> int:
        """Return the number of pods of the same owner on this machine."""
        owners = {owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()}
        if not owners:
            return 1
        return max(
            1,
            sum(
                any(owner["uid"] in owners for owner in other["metadata"].get("ownerReferences") or ())
                for other in self.objects.list(PODS, pod["metadata"]["namespace"])
            ),
        )

    def event(self, about: Obj, reason: str, message: str, kind: Literal["Normal", "Warning"]) -> None:
        try:
            self.objects.event(about, reason, message, type=kind, component="kubelet")
        except ApiStorageFull as error:
            log.error("event %s of %s: %s", reason, about["metadata"]["name"], error)

    # -- addresses and devices

    def address(self, uid: str, known: str = "") -> str:
        """Return the pod's own loopback address, or the `known` one."""
        if known:
            self._addresses[uid] = known
            return known
        in_use, seed = set(self._addresses.values()), zlib.crc32(uid.encode())
        while True:
            address = f"127.{64 + seed % 128}.{(seed >> 8) % 256}.{1 + (seed >> 16) % 254}"
            if address not in in_use:
                self._addresses[uid] = address
                return address
            seed = (seed * 1103515245 + 12345) % (1 << 32)

    def take_devices(self, uid: str, container: str, count: int) -> tuple[int, ...]:
        """Assign the least used GPUs to a container; fewer if the machine has fewer."""
        present = gpus.present()
        used = Counter(index for held in self._devices.values() for index in held)
        chosen = tuple(sorted(sorted(present, key=lambda index: (used[index], index))[:count]))
        if chosen:
            self._devices[uid, container] = chosen
        return chosen

    def hold_devices(self, uid: str, container: str, run: AttemptDir) -> None:
        """Mark the GPUs of a resumed run as used."""
        if devices := _planned_devices(run):
            self._devices[uid, container] = devices

    def release_address(self, uid: str) -> None:
        self._addresses.pop(uid, None)

    def release_devices(self, uid: str, container: str) -> None:
        self._devices.pop((uid, container), None)


class NamespaceLookup:
    """Implements `references.Lookup`."""

    def __init__(self, objects: Objects, namespace: str) -> None:
        self._objects, self.namespace = objects, namespace

    def config_map(self, name: str) -> Mapping[str, bytes] | None:
        config_map = self._find("configmaps", name)
        return None if config_map is None else volumes.config_map_data(config_map)

    def secret(self, name: str) -> Mapping[str, bytes] | None:
        secret = self._find("secrets", name)
        return None if secret is None else volumes.secret_data(secret)

    def bind_claim(self, name: str) -> None:
        """Bind the claim on first use. Raises CannotMount."""
        claim = self._find("persistentvolumeclaims", name)
        if claim is None:
            raise CannotMount(f'persistentvolumeclaim "{name}" not found')
        if (claim.get("status") or {}).get("phase") == "Bound":
            return
        claims = self._objects.resource("persistentvolumeclaims")

        def fill(obj: Obj) -> None:
            requested = (obj["spec"].get("resources") or {}).get("requests") or {}
            modes = obj["spec"].get("accessModes") or ["ReadWriteOnce"]
            obj["status"] = {"phase": "Bound", "accessModes": modes, "capacity": dict(requested)}

        def name_volume(obj: Obj) -> None:
            obj["spec"]["volumeName"] = f"pvc-{obj['metadata']['uid']}"

        self._objects.change(claims, self.namespace, name, name_volume)
        self._objects.change(claims, self.namespace, name, fill, status=True)

    def _find(self, plural: str, name: str) -> Obj | None:
        return self._objects.find(self._objects.resource(plural), self.namespace, name)


def _planned_devices(folder: AttemptDir) -> tuple[int, ...]:
    """Return the GPUs of a run that an earlier server started."""
    try:
        return AttemptPlan.load(folder.plan).replicas[0].accelerators
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return ()
