"""Find, start and stop the Kubernetes API of one state directory. Standard library only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tui.emulator import launcher
from tui.emulator.kubernetes.paths import KubernetesState

LauncherError = launcher.LauncherError


def status(state: KubernetesState) -> dict[str, Any] | None:
    """The running server's info, or `None` when there is none.

    Keys: pid, server (URL), kubeconfig, context, state_dir, started_at, version.
    """
    return launcher.status(state)


def ensure_running(state: KubernetesState, *, given_up: Callable[[], bool] = lambda: False) -> Path:
    """The kubeconfig of the running server; start one if there is none (blocking).

    Several processes may call it at once: one server starts.

    Raises:
        LauncherError: when no server is ready in time, or `given_up` returns True.
    """
    return Path(launcher.ensure_running(state, given_up=given_up)["kubeconfig"])


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
