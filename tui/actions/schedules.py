"""Actions of the list of schedules."""

from __future__ import annotations

from tui.actions.action import Action, act

ACTIONS: tuple[Action, ...] = (
    Action(
        "verb.schedules_create", "", "create a schedule", "Run a profile's pipeline at the times of a cron",
        "verb", "", operation="schedule.create",
    ),
    act("schedules.open", "enter", "last run", "Open the schedule's newest run", when=("schedule", "runs")),
    act("schedules.runs", "R", "runs", "List the schedule's runs and open one", when=("schedule", "runs")),
    act(
        "schedules.pause", "p", "pause/resume", "Pause the schedule, or resume a paused schedule",
        operation="schedule.pause", confirm=True, needs="schedules", name="pause or resume a schedule",
        when=("schedule", "pausable"),
    ),
    Action(
        "verb.schedules_resume", "", "resume a schedule", "Start the runs of a paused schedule again",
        "verb", "", operation="schedule.resume",
    ),
    act(
        "schedules.delete", "D", "delete", "Delete the schedule; its runs stay", operation="schedule.delete",
        confirm=True, needs="schedules", name="delete a schedule", when=("schedule",),
    ),
    act("schedules.details", "d", "details", "Show cron, times, limits and response", when=("schedule",)),
    act("schedules.filter", "slash", "filter", "Filter by name, state or cron"),
    act("schedules.copy", "y", "copy name", "Copy the resource name", footer=False, when=("schedule",)),
    act("schedules.back", "escape", "back", "Back to the jobs", footer=False),
    act(
        "app.schedules", "", "schedules", "Pipelines that run on a schedule", footer=False,
        needs="schedules", screen="tui.screens.schedules.screen:SchedulesScreen",
    ),
)  # fmt: skip
