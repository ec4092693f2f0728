"""Actions of the list of schedules."""

from __future__ import annotations

from tui.actions.action import Action

ACTIONS: tuple[Action, ...] = (
    Action(
        "verb.schedules_create", "", "create a schedule", "Run a profile's pipeline at the times of a cron",
        "verb", "", operation="schedule.create",
    ),
    Action("schedules.open", "enter", "last run", "Open its newest run", "schedules", "open"),
    Action("schedules.runs", "R", "runs", "List its runs and open one", "schedules", "runs"),
    Action(
        "schedules.pause", "p", "pause/resume", "Pause it, or resume one that is paused", "schedules",
        "pause", operation="schedule.pause", confirm=True, needs="schedules",
        name="pause or resume a schedule",
    ),
    Action(
        "verb.schedules_resume", "", "resume a schedule", "Start the runs of a paused schedule again",
        "verb", "", operation="schedule.resume",
    ),
    Action(
        "schedules.delete", "D", "delete", "Delete it; its runs stay", "schedules", "delete",
        operation="schedule.delete", confirm=True, needs="schedules", name="delete a schedule",
    ),
    Action(
        "schedules.details", "d", "details", "Its cron, times, limits and last response", "schedules",
        "details",
    ),
    Action("schedules.filter", "slash", "filter", "Filter by name, state or cron", "schedules", "filter"),
    Action(
        "schedules.copy", "y", "copy name", "Copy its resource name", "schedules", "copy", footer=False
    ),
    Action("schedules.back", "escape", "back", "Back to the jobs", "schedules", "back", footer=False),
    Action(
        "app.schedules", "", "schedules", "Pipelines that run again and again", "app", "schedules",
        footer=False, needs="schedules",
    ),
)  # fmt: skip
