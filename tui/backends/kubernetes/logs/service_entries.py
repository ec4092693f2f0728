"""Log entries of the cluster itself about a job: events, conditions, ends of containers.

An entry's id depends only on its content, so that repeated reads give the same entry.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tui.backends.kubernetes.fields import items, mapping, text
from tui.backends.kubernetes.logs.lines.stamped import SECOND, moment_of, stamp_of
from tui.domain.core.log_entry import SERVICE, LogEntry, Severity

_BAD = {"Failed": Severity.ERROR, "FailureTarget": Severity.ERROR}
_NOTABLE = frozenset(
    {"Restarting", "Suspended", "Evicted", "Preempted", "DisruptionTarget", "Requeued", "DeactivationTarget"}
)
_TOLD_WHEN_FALSE = frozenset({"QuotaReserved", "PodScheduled"})
"""Conditions whose status `False` explains why a job waits."""
_FIRST = frozenset({"Created", "Suspended", "QuotaReserved", "Admitted"})
"""Conditions sorted before the events of the same second. Other conditions come after the events."""
LAST = SECOND - 1000
ENDED = LAST - SECOND // 1000
"""Position of a container's end within its second: before the resulting conditions of the job."""
_NANOSECONDS = re.compile(r"[0-9a-f]{16}")
_QUIET = frozenset({"Initialized", "Ready", "ContainersReady", "PodReadyToStartContainers", "PodScheduled"})
"""Pod conditions that events report too."""


def event_entry(event: Mapping[str, Any], job: str, replica: str = "") -> LogEntry | None:
    """Return the entry of an Event in REST format, or `None` for an Event without a time.

    `job` is the name of the job's own object. `replica` is the id of the replica whose pod the event is
    about.
    """
    series = mapping(event.get("series"))
    times = [event.get(field) for field in ("lastTimestamp", "eventTime", "firstTimestamp")]
    created = mapping(event.get("metadata")).get("creationTimestamp")
    stamp = _first_time(series.get("lastObservedTime"), *times, created)
    if stamp is None:
        return None
    about = mapping(event.get("involvedObject"))
    kind, name, reason = (
        str(value or "") for value in (about.get("kind"), about.get("name"), event.get("reason"))
    )
    count = series.get("count") or event.get("count") or 1
    source = event.get("reportingComponent") or mapping(event.get("source")).get("component") or ""
    words = text(event.get("message"))
    message = f"{reason}: {words}" if reason and words else reason or words
    message += f" ({count} times)" if isinstance(count, int) and count > 1 else ""
    # A job and its parts often have the same name.
    subject = "" if name == job and kind.endswith("Job") else f"{replica or f'{kind} {name}'}: "
    severity = Severity.WARNING if event.get("type") == "Warning" else Severity.INFO
    payload = {"reason": reason, "object": f"{kind}/{name}", "component": str(source), "count": count}
    meta = mapping(event.get("metadata"))
    key = f"event-{meta.get('uid') or name}-{count}"
    # An event is named after its object and the time of its first occurrence in ns.
    suffix = str(meta.get("name") or "").rpartition(".")[2]
    place = int(suffix, 16) if _NANOSECONDS.fullmatch(suffix) else stamp
    return _entry(stamp, place, key, severity, f"{subject}{message}", payload)


def condition_entries(obj: Mapping[str, Any], job: str) -> Iterator[LogEntry]:
    """Yield the entries of the conditions of a job, a workload, a pod group or a pod."""
    meta = mapping(obj.get("metadata"))
    kind, name, uid = str(obj.get("kind") or ""), str(meta.get("name") or ""), str(meta.get("uid") or "")
    subject = "" if name == job and kind.endswith("Job") else f"{kind} {name}: "
    for at, condition in enumerate(items(mapping(obj.get("status")).get("conditions"))):
        type_, status = str(condition.get("type") or ""), str(condition.get("status") or "")
        stamp = _first_time(condition.get("lastTransitionTime"), condition.get("lastUpdateTime"))
        reported = status == "True" or (status == "False" and type_ in _TOLD_WHEN_FALSE)
        if stamp is None or not reported or (kind == "Pod" and type_ in _QUIET):
            continue
        reason, words = str(condition.get("reason") or ""), text(condition.get("message"))
        why = f" ({reason})" if reason and reason != type_ else ""
        word = type_ if status == "True" else f"not {type_}"
        severity = _BAD.get(type_) if status == "True" else None
        notable = type_ in _NOTABLE or status == "False"
        yield _entry(
            stamp,
            stamp + (at if type_ in _FIRST else LAST + at),
            f"condition-{uid}-{type_}-{status}-{reason}",
            severity or (Severity.WARNING if notable else Severity.INFO),
            f"{subject}{word}{why}{': ' + words if words else ''}",
            {"reason": reason, "object": f"{kind}/{name}", "condition": type_, "status": status},
        )


def pod_entries(pod: Mapping[str, Any], replica: str) -> Iterator[LogEntry]:
    """Yield the entries of ended containers of a pod, and of the pod's failure."""
    meta, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
    name, uid = str(meta.get("name") or ""), str(meta.get("uid") or "")
    only = len(items(mapping(pod.get("spec")).get("containers"))) == 1
    subject = f"{replica} (pod {name})" if replica else f"pod {name}"
    for container in items(status.get("containerStatuses")):
        for state in (container.get("lastState"), container.get("state")):
            ended = mapping(mapping(state).get("terminated"))
            stamp = _first_time(ended.get("finishedAt"))
            if stamp is None:
                continue
            code, reason = ended.get("exitCode"), str(ended.get("reason") or "")
            details = text(ended.get("message"))
            which = "" if only else f" container {container.get('name')}"
            reason_note = "" if reason in {"Completed", "Error", ""} else f", {reason}"
            yield _entry(
                stamp,
                stamp + ENDED,
                f"end-{uid}-{container.get('name')}-{ended.get('containerID') or stamp}",
                Severity.INFO if code == 0 else Severity.ERROR,
                f"{subject}{which} ended with exit code {code}{reason_note}"
                f"{': ' + details if details else ''}",
                {"reason": reason, "object": f"Pod/{name}", "exitCode": code},
            )
    reason, details = str(status.get("reason") or ""), text(status.get("message"))
    if reason and status.get("phase") == "Failed":
        stamp = _last_change(status) or _first_time(meta.get("creationTimestamp"))
        if stamp is not None:
            words = f"{subject} failed: {reason}{': ' + details if details else ''}"
            payload = {"reason": reason, "object": f"Pod/{name}"}
            yield _entry(stamp, stamp + ENDED, f"pod-{uid}-{reason}", Severity.ERROR, words, payload)


def _entry(  # noqa: PLR0917 - what it is and where it stands
    stamp: int, place: int, key: str, severity: Severity, message: str, payload: dict[str, Any]
) -> LogEntry:
    """Return an entry whose time, in full seconds, is refined to `place` within its second.

    An object's end or creation known only to the second is sorted to the end of that second: after its pods'
    lines, and after the first lines of pods that ran before a restart.
    """
    at = place if stamp % SECOND == 0 and stamp <= place < stamp + SECOND else stamp
    digest = hashlib.blake2b(key.encode(), digest_size=8).hexdigest()
    own = f"{place:016x}-{digest}"
    payload_ = {"message": message, **payload}
    return LogEntry(moment_of(at), own, SERVICE, severity, message, payload_, nanos=at % SECOND % 1000)


def _last_change(status: Mapping[str, Any]) -> int | None:
    times = [
        _first_time(condition.get("lastTransitionTime")) for condition in items(status.get("conditions"))
    ]
    return max((time for time in times if time is not None), default=None)


def _first_time(*texts: object) -> int | None:
    stamps = (stamp_of(text) for text in texts if isinstance(text, str) and text)
    return next((stamp for stamp in stamps if stamp), None)
