"""Describes gaps in the logs of pods: the loss, its cause and its prevention."""

from __future__ import annotations

from datetime import datetime

from tui.backends.kubernetes.logs.lines.entries import ContainerName
from tui.backends.kubernetes.logs.lines.stamped import moment_of
from tui.backends.kubernetes.logs.runs import ContainerState, next_readable
from tui.domain.core.formatting import pieces
from tui.domain.core.log_entry import LogGap

KEEP = (
    "`cleanPodPolicy: None` keeps the pods of a job that ends, but not once its backoffLimit is exceeded "
    "(kubeflow/trainer#3419); a context with a `project` reads the rest from Cloud Logging"
)
"""Advice on keeping the log of a pod."""
KEEP_RUNS = (
    "`restartPolicy: OnFailure` starts a container again in its pod, which keeps the log of its last two "
    "runs; a context with a `project` reads the others from Cloud Logging"
)
"""Advice on keeping the log of a container's runs before a restart."""
KEEP_CLOUD = "A context with a `project` reads the log from Cloud Logging"
"""Advice on keeping the log of pods that were stopped on purpose."""


def lost_runs(name: ContainerName, run: int, state: ContainerState, at: int) -> LogGap:
    """Return the gap of the runs, from `run` on, whose logs the API no longer has."""
    count = next_readable(state) - run
    which = "the first run" if run == 0 and count == 1 else f"{pieces(count, 'earlier run')}"
    if run == 0 and count > 1:
        which = f"the first {count} runs"
    reason = f"{name.words} no longer has the log of {which}: a cluster keeps the log of the last two runs"
    until = state.previous_started if state.previous else state.started
    return LogGap(moment_of(at), None, reason, _moment(until))


def rotated(name: ContainerName, at: int, until: int | None) -> LogGap:
    """Return the gap of a log file that was rotated while it was not read."""
    reason = (
        f"the log file of {name.words} was rotated on its node while it was not being read: the API has only "
        "the newest file (containerLogMaxSize of the kubelet)"
    )
    return LogGap(moment_of(at), None, reason, _moment(until))


def unreadable(name: ContainerName, at: int, reason: str, *, cloud: str = "") -> LogGap:
    """Return the gap of a container whose node does not return the log."""
    tried = f"; Cloud Logging has no further entries: {cloud}" if cloud else ""
    return LogGap(moment_of(at), None, f"the log of {name.words} can't be read: {reason}{tried}")


def pod_gone(name: ContainerName, at: int, *, cloud: str = "") -> LogGap:
    """Return the gap of a deleted pod's partly read log. `cloud` is the reason why Cloud Logging can't fill
    it."""
    tried = f"; Cloud Logging has no further entries: {cloud}" if cloud else ""
    reason = f"{name.words} ({name.replica}) was deleted before its log was read to the end{tried}. {KEEP}"
    return LogGap(moment_of(at), None, reason)


def no_pods(replicas: str, at: int, *, cloud: str = "") -> LogGap:
    """Return the gap of an ended job's replicas without pods."""
    tried = f"; Cloud Logging has no entries of the pods: {cloud}" if cloud else ""
    reason = f"the pods of {replicas} and their logs are deleted{tried}. {KEEP}"
    return LogGap(moment_of(at), None, reason)


def replaced(
    replicas: str, at: int, until: int | None, why: str, *, meant: bool = False, cloud: str = ""
) -> LogGap:
    """Return the gap of replaced pods of these replicas.

    `meant` is true if the pods were stopped on purpose; then no restart policy would have preserved them.
    """
    tried = f"; Cloud Logging has no entries of the pods: {cloud}" if cloud else ""
    cause = f" ({why})" if why else ""
    gone = f"earlier pods of {replicas} and their logs are deleted{cause}{tried}"
    return LogGap(moment_of(at), None, f"{gone}. {KEEP_CLOUD if meant else KEEP_RUNS}", _moment(until))


def _moment(stamp: int | None) -> datetime | None:
    return None if stamp is None else moment_of(stamp)
