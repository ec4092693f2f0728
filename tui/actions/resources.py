"""Actions of the list of persistent resources."""

from __future__ import annotations

from tui.actions.action import Action

ACTIONS: tuple[Action, ...] = (
    Action(
        "verb.resources_create", "", "create a persistent resource",
        "Create a persistent resource with the machines of a profile", "verb", "",
        operation="resource.create",
    ),
    Action("resources.open", "enter", "details", "Pools, times, error and jobs of it", "resources", "open"),
    Action(
        "resources.reboot", "b", "reboot", "Reboot its machines", "resources", "reboot",
        operation="resource.reboot", confirm=True, needs="resources",
        name="reboot a persistent resource",
    ),
    Action(
        "resources.delete", "D", "delete", "Delete it, which cancels the jobs on it", "resources", "delete",
        operation="resource.delete", confirm=True, needs="resources",
        name="delete a persistent resource",
    ),
    Action(
        "resources.jobs", "J", "jobs", "List the jobs that run on it or wait for it", "resources", "jobs",
    ),
    Action("resources.filter", "slash", "filter", "Filter by name, state or machine", "resources", "filter"),
    Action(
        "resources.copy", "y", "copy name", "Copy its resource name", "resources", "copy", footer=False
    ),
    Action("resources.back", "escape", "back", "Back to the jobs", "resources", "back", footer=False),
    Action(
        "app.resources", "9", "persistent resources", "Persistent resources: machines that stay", "app",
        "resources", footer=False, needs="resources",
    ),
)  # fmt: skip
