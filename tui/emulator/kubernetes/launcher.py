"""Find, start and stop the Kubernetes API of one state directory. Standard library only."""

from __future__ import annotations

from typing import Any

from tui.emulator import launcher
from tui.emulator.kubernetes.paths import KubernetesState

LauncherError = launcher.LauncherError


def status(state: KubernetesState) -> dict[str, Any] | None:
    """The running server's info, or `None` when there is none.

    Keys: pid, server (URL), kubeconfig, context, state_dir, started_at, version.
    """
    return launcher.status(state)


def start(state: KubernetesState) -> dict[str, Any]:
    """Start a server and return its `status`.

    Raises:
        LauncherError: also when a server runs already on this state directory.
    """
    return launcher.start(state)


def stop(state: KubernetesState) -> bool:
    """Stop the server and wait for its end; its pods continue. False when none was running.

    Raises:
        LauncherError: when it does not end.
    """
    return launcher.stop(state)
