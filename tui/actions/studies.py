"""Actions of the list of studies and pipelines."""

from __future__ import annotations

from tui.actions.action import Action, act

ACTIONS: tuple[Action, ...] = (
    act("studies.open", "enter", "open", "Open the job's tasks or trials", when=("job",)),
    act("studies.launch", "l", "launch", "Choose a profile to launch"),
    act("studies.mark", "space", "mark", "Mark or unmark the job", when=("job",)),
    act(
        "studies.cancel", "c", "cancel", "Cancel the job, or the marked jobs", operation="job.cancel",
        confirm=True, needs="jobs.cancel", key_only=True, when=("job",), many=True,
    ),
    act("studies.compare", "P", "compare", "Show the differences between the two marked runs",
        when=("two_runs",)),
    act("studies.filter", "slash", "filter", "Filter: state:failed kind:tuning text"),
    act("studies.sort", "s", "sort", "By age, state, kind or name"),
    act("studies.copy", "y", "copy name", "Copy the resource name", footer=False, when=("job",)),
    act("studies.back", "escape", "back", "Clear the filter, then back to the jobs", footer=False),
    act(
        "app.studies", "5", "studies", "Studies & pipelines: progress, best result, failed task",
        footer=False, name="studies & pipelines", screen="tui.screens.studies.screen:StudiesScreen",
    ),
)  # fmt: skip
