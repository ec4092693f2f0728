"""Server-side checks of a new or changed schedule."""

from __future__ import annotations

from collections.abc import Iterator

from tui.domain.schedules.cron import CronError, read_cron
from tui.emulator.messages import Pb
from tui.emulator.schedules.due import seconds

LONGEST_NAME = 128
_COUNTS = ("max_run_count", "max_concurrent_active_run_count")


def schedule_problems(pb: Pb, parent: str) -> Iterator[tuple[str, str]]:
    """Yield (field of the schedule, what is wrong); the pipeline itself is checked elsewhere."""
    if not pb.display_name or len(pb.display_name) > LONGEST_NAME:
        yield "display_name", f"is required, with up to {LONGEST_NAME} characters"
    try:
        read_cron(pb.cron)
    except CronError as error:
        yield "cron", str(error)
    if pb.max_concurrent_run_count < 1:
        yield "max_concurrent_run_count", "is required; it must be 1 or more"
    for field in _COUNTS:
        if getattr(pb, field) < 0:
            yield field, "must not be negative"
    if pb.HasField("end_time") and seconds(pb.end_time) <= seconds(pb.start_time):
        yield "end_time", "must be after start_time"
    if pb.WhichOneof("request") != "create_pipeline_job_request":
        yield "create_pipeline_job_request", "is required; the emulator schedules nothing but pipeline jobs"
    elif pb.create_pipeline_job_request.parent != parent:
        yield "create_pipeline_job_request.parent", f"must be the schedule's: {parent}"
