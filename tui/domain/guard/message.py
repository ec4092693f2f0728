"""The words of an alert: what happened, why, what it cost, and where to look."""

from __future__ import annotations

from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.formatting import age, pieces
from tui.domain.core.text import plain
from tui.domain.guard.conditions import JobReading
from tui.domain.masking import mask_text


def alert_title(reading: JobReading, happened: str) -> str:
    """Return one line: the job, what happened, and the context."""
    return mask_text(f"{plain(reading.job.display_name)} {happened} ({reading.job.context})")


def alert_body(reading: JobReading, diagnosis: Diagnosis | None) -> str:
    """Return the lines below the title: cause, next step, figures, and the command that shows the job."""
    job = reading.job
    lines = []
    if diagnosis is not None and diagnosis.meaning:
        lines.append(f"Cause: {plain(diagnosis.meaning)}" + (" (not certain)" if diagnosis.guess else ""))
    if diagnosis is not None and diagnosis.fix:
        lines.append(f"Next: {plain(diagnosis.fix)}")
    elif job.waits and job.waiting:
        lines.append(f"Reason: {plain(job.waiting[0])}")
    lines.append(" · ".join(_figures(reading)))
    lines.append(f"Look: vxtui --context {job.context} describe {job.id}")
    return mask_text("\n".join(line for line in lines if line))


def _figures(reading: JobReading) -> list[str]:
    """Return how far the job came, how long it ran and what it cost, as far as known."""
    job, figures = reading.job, []
    progress = job.progress
    if progress.step is not None:
        total = f" of {progress.total_steps:,}" if progress.total_steps else ""
        figures.append(f"step {progress.step:,}{total}")
    if (ran := job.duration(reading.at)) is not None:
        figures.append(f"ran {age(ran)}")
    elif (waited := job.wait(reading.at)) is not None:
        figures.append(f"waited {age(waited)}")
    if reading.spent is not None:
        figures.append(f"~${reading.spent:,.2f}")
    figures.append(pieces(job.replica_count, "replica"))
    return figures
