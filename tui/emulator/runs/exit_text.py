"""The service's message about the replica that ended its job (docs/facts/vertex.md 13.1 and 16)."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from urllib.parse import quote

from tui.emulator.interfaces import JobRecord, project_number
from tui.emulator.paths import AttemptDir
from tui.emulator.runner.plan import AttemptStatus
from tui.emulator.runner.replica_start import START_ERROR

_TRACEBACK = b"Traceback (most recent call last):\n"
_TAIL_BYTES = 64 * 1024
"""Number of last bytes of stderr in which the service searches for a traceback."""
_TRACEBACK_BYTES = 2048
"""Maximum number of bytes of a traceback in a message, which keeps the end of the traceback."""


def exit_text(status: AttemptStatus, attempt: AttemptDir, job: JobRecord) -> str:
    """Return the message: replica, exit code, traceback from the replica's stderr, link to the job's log."""
    replica = status.failed_replica or ""
    low = sorted({r.id.rpartition("-")[0] for r in status.replicas if r.oom})
    if len([r for r in status.replicas if r.oom]) > 1:
        return (
            f"Replicas low on memory: {', '.join(low)}. Specify a machine with larger memory and try again."
        )
    code = status.exit_code or 0
    start_error = next(
        (t for _, source, t in status.events if source == replica and t.startswith("exec: ")), ""
    )
    if low:
        text = f"The replica {replica} ran out-of-memory and exited with a non-zero status of 9(SIGKILL)."
    elif start_error and code == START_ERROR:
        text = (
            f"The replica {replica} exited with a non-zero status of {code}. "
            "Termination reason: StartError. \n"
            "Termination log message: failed to create containerd task: failed to create shim task: OCI "
            "runtime create failed: runc create failed: unable to start container process: "
            f"{start_error}: unknown\n"
        )
    else:
        text = (
            f"The replica {replica} exited with a non-zero status of {code}{_signal(code)}. "
            f"Termination reason: Error. \n{_last_traceback(attempt.output(replica, 'stderr'))}"
        )
    entries = quote(f'resource.type="ml_job"\nresource.labels.job_id="{job.id}"', safe="")
    return (
        f"{text}\nTo find out more about why your job exited please check the logs: "
        f"https://console.cloud.google.com/logs/viewer?project={project_number(job.project)}"
        f"&resource=ml_job%2Fjob_id%2F{job.id}&advancedFilter={entries}"
    )


def _signal(code: int) -> str:
    try:
        return f" ({signal.Signals(code - 128).name})"
    except ValueError:
        return ""


def _last_traceback(stderr: Path) -> str:
    """Return the last Python traceback in a replica's stderr, or "" if there is none."""
    try:
        with stderr.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            tail = file.read()
    except OSError:
        return ""
    start = tail.rfind(_TRACEBACK)
    if start < 0:
        return ""
    lines = tail[start + len(_TRACEBACK) :].splitlines(keepends=True)
    # A traceback ends with the first line that is not indented: the exception.
    end = next((n for n, line in enumerate(lines, 1) if not line.startswith((b" ", b"\n"))), len(lines))
    text = (_TRACEBACK + b"".join(lines[:end]))[-_TRACEBACK_BYTES:]
    return text.decode(errors="replace")
