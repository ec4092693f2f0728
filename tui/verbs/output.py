"""Output of the verbs: tables for people, documented JSON for programs, one sentence for a failure."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tui.config import crash_log
from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.job import Job, known_replicas
from tui.domain.core.task import Artifact, Task
from tui.domain.core.text import json_text, plain
from tui.domain.core.training_progress import Progress
from tui.domain.jobs.diagnosis import diagnosis_of
from tui.domain.masking import mask_text, mask_value, masked
from tui.interrupts import INTERRUPTED, WORD

SCHEMA = 1


def out(text: str = "") -> None:
    """Print one line on stdout, without control sequences."""
    out_document(plain(text))


def out_document(text: str) -> None:
    """Print lines on stdout as they are: JSON, or text that is painted or was made plain before."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """Print one line for people on stderr, without control sequences and secrets."""
    sys.stderr.write(plain(mask_text(text)) + "\n")
    sys.stderr.flush()


def print_json(value: Mapping[str, Any]) -> None:
    """Print a document with the number of its schema."""
    out_document(json_text({"schema": SCHEMA, **value}, indent=2))


def print_error(code: str, message: str, fix: str, exit_code: int, *, as_json: bool) -> int:
    """Print what happened and what to do, JSON on one line; return the exit code."""
    if as_json:
        error = {"code": code, "message": mask_text(message), "fix": mask_text(fix)}
        out_document(json_text({"schema": SCHEMA, "error": error}))
    else:
        for line in message.splitlines():
            note(line)
        if fix:
            note(f"→ {fix}")
    return exit_code


def print_interrupted(*, as_json: bool, fix: str = "") -> int:
    """Say that the user ended the verb, and what to do now; return the exit code."""
    return print_error("INTERRUPTED", WORD, fix, INTERRUPTED, as_json=as_json)


def crash(error: BaseException) -> int:
    """Write the traceback of a defect to a file, and one sentence to the user; return the exit code."""
    where = crash_log.write(error)
    # Masked before it is cut: the start of a secret has no shape.
    words = plain(mask_text(str(error)))[:200]
    said = f"vxtui failed unexpectedly ({type(error).__name__}: {words}); {where}."
    return print_error("INTERNAL", said, "Please report it with that file.", 5, as_json="--json" in sys.argv)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Print aligned columns; those whose index is in `right` are aligned right."""
    clean = [[plain(cell) for cell in row] for row in rows]
    widths = [max(len(r[i]) for r in [list(headers), *clean]) for i in range(len(headers))]
    for row in [list(headers), *clean]:
        cells = [
            c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        out("  ".join(cells).rstrip())


def when(moment: datetime | None) -> str | None:
    """RFC 3339 in UTC, or null."""
    return (
        None
        if moment is None
        else moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    )


def job_json(
    job: Job, progress: Progress | None = None, diagnosis: Diagnosis | None = None
) -> dict[str, Any]:
    """A job in the documented shape (docs/JSON.md).

    `diagnosis` is what is known of what is wrong with it, where more than the job itself was read.
    """
    progress = progress or job.progress
    diagnosis = diagnosis or diagnosis_of(job)
    positions = {group.name: position for position, group in enumerate(job.groups)}
    error = {"code": job.error.code, "message": job.error.message} if job.error else None
    return {
        "name": job.name,
        "id": job.id,
        "display_name": job.display_name,
        "state": job.state.value,
        "native_state": job.native_state,
        "reason": job.reason or None,
        "waiting": list(job.waiting),
        "meaning": diagnosis.meaning or None if diagnosis else None,
        "next_step": diagnosis.fix or None if diagnosis else None,
        "kind": job.kind,
        "parent": job.parent or None,
        "context": job.context,
        "region": job.region,
        "persistent_resource": job.persistent_resource or None,
        "create_time": when(job.create_time),
        "start_time": when(job.start_time),
        "resume_time": when(job.resume_time),
        "end_time": when(job.end_time),
        "labels": {key: mask_value(key, value) for key, value in job.labels.items()},
        "error": error,
        "replicas": [
            {
                "id": r.id,
                "group": r.group,
                "pool": positions.get(r.group),
                "index": r.index,
                "role": r.role,
                "state": r.state.value,
                "exit_code": r.exit_code,
                "node": r.node or None,
                "restarts": r.restarts,
                "reason": r.reason or None,
                "pod": r.pod or None,
            }
            for r in known_replicas(job)
        ],
        "restarts_note": job.restarts_note or None,
        "tasks": [task_json(task) for task in job.tasks],
        "progress": {
            "step": progress.step,
            "total_steps": progress.total_steps,
            "loss": {"first": progress.first_loss, "last": progress.last_loss},
            "tokens_per_second": progress.tokens_per_second,
            "speed": None
            if progress.speed is None
            else {"value": progress.speed, "unit": progress.speed_unit},
            "learning_rate": progress.learning_rate,
            "expected_end": None if job.state.terminal else when(progress.ends_at),
            "dialect": progress.dialect,
        },
    }


def task_json(task: Task) -> dict[str, Any]:
    """A task in the documented shape (docs/JSON.md)."""
    return {
        "id": task.id,
        "name": task.name or task.id,
        "parent": task.parent or None,
        "state": task.state.value,
        "native_state": task.native_state or None,
        "job": task.job or None,
        "depends_on": list(task.depends_on),
        "parameters": {key: _masked(key, value) for key, value in task.parameters.items()},
        "outputs": {key: _masked(key, value) for key, value in task.outputs.items()},
        "input_artifacts": _artifacts_json(task.input_artifacts),
        "output_artifacts": _artifacts_json(task.output_artifacts),
        "metrics": dict(task.metrics),
        "step": task.step,
        "attempts": task.attempts,
        "failed_jobs": list(task.failed_jobs),
        "start_time": when(task.start_time),
        "end_time": when(task.end_time),
        "reason": mask_text(task.reason) or None,
    }


def _artifacts_json(found: Mapping[str, Sequence[Artifact]]) -> dict[str, Any]:
    return {
        name: [
            {
                "uri": mask_text(one.uri),
                "type": one.type or None,
                "name": one.name or None,
                "metadata": masked(dict(one.metadata))[0],
            }
            for one in each
        ]
        for name, each in found.items()
    }


def _masked(name: str, value: object) -> object:
    return mask_value(name, value) if isinstance(value, str) else value
