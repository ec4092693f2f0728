"""Holes in the logs of pods, in words that say what is lost and how to avoid it."""

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
"""How to keep the log of a pod."""
KEEP_RUNS = (
    "`restartPolicy: OnFailure` starts a container again in its pod, which keeps the log of its last two "
    "runs; a context with a `project` reads the others from Cloud Logging"
)
"""How to keep the log of what ran before a restart."""
KEEP_CLOUD = "A context with a `project` reads it from Cloud Logging"
"""How to keep the log of pods that were ended on purpose."""


def lost_runs(name: ContainerName, run: int, state: ContainerState, at: int) -> LogGap:
    """The API has no log of the runs from `run` on that it had before."""
    count = next_readable(state) - run
    which = "the first run" if run == 0 and count == 1 else f"{pieces(count, 'earlier run')}"
    if run == 0 and count > 1:
        which = f"the first {count} runs"
    reason = f"{name.words} has no log of {which} any more: a cluster keeps that of the last two runs"
    until = state.previous_started if state.previous else state.started
    return LogGap(moment_of(at), None, reason, _moment(until))


def rotated(name: ContainerName, at: int, until: int | None) -> LogGap:
    """The file of the log was replaced while it was not being read."""
    reason = (
        f"the log file of {name.words} was rotated on its node while it was not being read: the API has only "
        "the newest file (containerLogMaxSize of the kubelet)"
    )
    return LogGap(moment_of(at), None, reason, _moment(until))


def unreadable(name: ContainerName, at: int, said: str, *, cloud: str = "") -> LogGap:
    """The node does not give the log of the container."""
    tried = f"; Cloud Logging has no more: {cloud}" if cloud else ""
    return LogGap(moment_of(at), None, f"the log of {name.words} can't be read: {said}{tried}")


def pod_gone(name: ContainerName, at: int, *, cloud: str = "") -> LogGap:
    """The pod was deleted before its log was read to the end; `cloud` is why Cloud Logging has no answer."""
    tried = f"; Cloud Logging has no more: {cloud}" if cloud else ""
    reason = f"{name.words} ({name.replica}) was deleted before its log was read to the end{tried}. {KEEP}"
    return LogGap(moment_of(at), None, reason)


def no_pods(replicas: str, at: int, *, cloud: str = "") -> LogGap:
    """These replicas of an ended job have no pods."""
    tried = f"; Cloud Logging has nothing of them: {cloud}" if cloud else ""
    reason = f"the pods of {replicas} are deleted, and what they wrote with them{tried}. {KEEP}"
    return LogGap(moment_of(at), None, reason)


def replaced(
    replicas: str, at: int, until: int | None, why: str, *, meant: bool = False, cloud: str = ""
) -> LogGap:
    """Pods of these replicas ran, and others have taken their place.

    `meant`: they were ended on purpose, so that no restart policy keeps them.
    """
    tried = f"; Cloud Logging has nothing of them: {cloud}" if cloud else ""
    cause = f" ({why})" if why else ""
    gone = f"earlier pods of {replicas} are deleted{cause}, and what they wrote with them{tried}"
    return LogGap(moment_of(at), None, f"{gone}. {KEEP_CLOUD if meant else KEEP_RUNS}", _moment(until))


def _moment(stamp: int | None) -> datetime | None:
    return None if stamp is None else moment_of(stamp)
