"""Actions of the launch screen and of its values."""

from __future__ import annotations

from tui.actions.action import Action, act

_LAUNCH = (
    act(
        "launch.go",
        "enter",
        "launch",
        "Launch the job",
        operation="job.launch",
        needs="jobs.create",
        when=("ready",),
    ),
    act("launch.next", "tab", "change a value", "Edit the first value"),
    act("launch.previous", "shift+tab", "the last value", "Edit the last value", footer=False),
    act("launch.preview", "v", "view request", "Show the exact request", when=("request",)),
    act("launch.fix", "F", "fix", "Fix the problem with a check, for this launch", when=("fixes",)),
    act("launch.dry", "d", "dry run", "Show the dry run as JSON", when=("request",)),
    act("launch.down", "pagedown", "more", "Scroll the checks down", footer=False),
    Action("launch.up", "pageup", "less", "Scroll the checks up", "launch", "up,shift+tab", footer=False),
    act("launch.back", "escape", "back", "Back without launching"),
)

_LAUNCH_VALUE = (
    act(
        "launchvalue.go_on",
        "enter,down,tab",
        "next value",
        "Continue with the next value; after the last one enter launches",
        direct=True,
    ),
    act(
        "launchvalue.go_back",
        "up,shift+tab",
        "the value before",
        "Go back to the previous value",
        footer=False,
        direct=True,
    ),
)

_LAUNCH_CHOICE = (
    act(
        "launchchoice.choose",
        "enter,down",
        "choose",
        "Choose the value from a list; typing narrows it",
        direct=True,
    ),
    act(
        "launchchoice.go_on",
        "tab",
        "next value",
        "Continue with the next value; after the last one enter launches",
        direct=True,
    ),
    act(
        "launchchoice.go_back",
        "up,shift+tab",
        "the value before",
        "Go back to the previous value",
        footer=False,
        direct=True,
    ),
)

ACTIONS: tuple[Action, ...] = (*_LAUNCH, *_LAUNCH_VALUE, *_LAUNCH_CHOICE)
