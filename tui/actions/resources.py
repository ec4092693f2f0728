"""Actions of the list of persistent resources."""

from __future__ import annotations

from tui.actions.action import Action, act

ACTIONS: tuple[Action, ...] = (
    Action(
        "verb.resources_create", "", "create a persistent resource",
        "Create a persistent resource with the machines of a profile", "verb", "",
        operation="resource.create",
    ),
    act("resources.open", "enter", "details", "Show the pools, times, error and jobs", when=("resource",)),
    act(
        "resources.reboot", "b", "reboot", "Reboot the machines", operation="resource.reboot", confirm=True,
        needs="resources", name="reboot a persistent resource", when=("resource", "rebootable"),
    ),
    act(
        "resources.delete", "D", "delete", "Delete the resource, which cancels its jobs",
        operation="resource.delete", confirm=True, needs="resources", name="delete a persistent resource",
        when=("resource", "deletable"),
    ),
    act("resources.jobs", "J", "jobs", "List the jobs that run on the resource or wait for it",
        when=("resource", "jobs")),
    act("resources.filter", "slash", "filter", "Filter by name, state or machine"),
    act("resources.copy", "y", "copy name", "Copy the resource name", footer=False, when=("resource",)),
    act("resources.back", "escape", "back", "Back to the jobs", footer=False),
    act(
        "app.resources", "9", "persistent resources", "Persistent resources: machines that stay",
        footer=False, needs="resources", screen="tui.screens.resources.screen:ResourcesScreen",
    ),
)  # fmt: skip
