"""Actions of the list of jobs that are made of tasks."""

from __future__ import annotations

from tui.actions.action import Action

ACTIONS: tuple[Action, ...] = (
    Action("studies.open", "enter", "open", "Open its tasks or trials", "studies", "open"),
    Action("studies.launch", "l", "launch", "Choose a profile to launch", "studies", "launch"),
    Action("studies.mark", "space", "mark", "Mark or unmark it", "studies", "mark"),
    Action(
        "studies.cancel", "c", "cancel", "Cancel it, or the marked ones", "studies", "cancel",
        operation="job.cancel", confirm=True, needs="jobs.cancel", key_only=True,
    ),
    Action(
        "studies.compare", "P", "compare", "Compare the two marked runs: what they differ in", "studies",
        "compare",
    ),
    Action("studies.filter", "slash", "filter", "Filter: state:failed kind:tuning text", "studies", "filter"),
    Action("studies.sort", "s", "sort", "By age, state, kind or name", "studies", "sort"),
    Action(
        "studies.copy", "y", "copy name", "Copy the resource name", "studies", "copy", footer=False
    ),
    Action(
        "studies.back", "escape", "back", "Clear the filter, then back to the jobs", "studies", "back",
        footer=False,
    ),
    Action(
        "app.studies", "5", "studies", "Studies & pipelines: progress, best result, failed task", "app",
        "studies", footer=False, name="studies & pipelines",
    ),
)  # fmt: skip
