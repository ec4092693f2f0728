"""The Kubernetes of this machine, started on demand; it outlives the console."""

from __future__ import annotations

import threading

from tui.backends.errors import BackendError, Stopped, Unavailable
from tui.backends.kubernetes.login.cluster import Cluster, Login, log_in_with
from tui.backends.vertex.transport.connect import in_thread
from tui.emulator.kubernetes import launcher
from tui.emulator.kubernetes.paths import KubernetesState


class LocalCluster(Cluster):
    """The emulated cluster of one state directory."""

    local = True

    def __init__(self, state: KubernetesState) -> None:
        self._state = state

    async def log_in(self) -> Login:
        given_up = threading.Event()
        try:
            kubeconfig = await in_thread(
                lambda: launcher.ensure_running(self._state, given_up=given_up.is_set)
            )
        except launcher.LauncherError as error:
            raise Unavailable(
                f"The local Kubernetes can't be started: {error}",
                fix="`vxtui emulator kubernetes status` tells more, `vxtui doctor` looks further.",
            ) from error
        finally:
            given_up.set()
        return await log_in_with(str(kubeconfig))

    def explain(self, error: BackendError) -> BackendError:
        if not isinstance(error, Unavailable) or launcher.status(self._state) is not None:
            return error
        return Stopped(
            "The local Kubernetes is stopped. Pods that run go on meanwhile.",
            fix="`vxtui emulator kubernetes start` starts it.",
        )
