"""Actions of the launch screen and of the values on it."""

from __future__ import annotations

from tui.actions.action import Action

_LAUNCH = (
    Action(
        "launch.go",
        "enter",
        "launch",
        "Launch the job",
        "launch",
        "go",
        operation="job.launch",
        needs="jobs.create",
    ),
    Action("launch.next", "tab", "change a value", "Edit the first value", "launch", "next"),
    Action(
        "launch.previous",
        "shift+tab",
        "the last value",
        "Edit the last value",
        "launch",
        "previous",
        footer=False,
    ),
    Action("launch.preview", "v", "view request", "Show the exact request", "launch", "preview"),
    Action("launch.fix", "F", "fix", "Fix what a check found, for this launch", "launch", "fix"),
    Action("launch.dry", "d", "dry run", "Show the dry run as JSON", "launch", "dry"),
    Action("launch.down", "pagedown", "more", "Scroll the checks down", "launch", "down", footer=False),
    Action("launch.up", "pageup", "less", "Scroll the checks up", "launch", "up,shift+tab", footer=False),
    Action("launch.back", "escape", "back", "Back without launching", "launch", "back"),
)

_LAUNCH_VALUE = (
    Action(
        "launchvalue.go_on",
        "enter,down,tab",
        "next value",
        "Go on to the next value; after the last one enter launches",
        "launchvalue",
        "go_on",
        direct=True,
    ),
    Action(
        "launchvalue.go_back",
        "up,shift+tab",
        "the value before",
        "Go back to the value before",
        "launchvalue",
        "go_back",
        footer=False,
        direct=True,
    ),
)

_LAUNCH_CHOICE = (
    Action(
        "launchchoice.choose",
        "enter,down",
        "choose",
        "Choose the value from a list; typing narrows it",
        "launchchoice",
        "choose",
        direct=True,
    ),
    Action(
        "launchchoice.go_on",
        "tab",
        "next value",
        "Go on to the next value; after the last one enter launches",
        "launchchoice",
        "go_on",
        direct=True,
    ),
    Action(
        "launchchoice.go_back",
        "up,shift+tab",
        "the value before",
        "Go back to the value before",
        "launchchoice",
        "go_back",
        footer=False,
        direct=True,
    ),
)

ACTIONS: tuple[Action, ...] = (*_LAUNCH, *_LAUNCH_VALUE, *_LAUNCH_CHOICE)
