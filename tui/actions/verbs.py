"""Actions of the command line only. No screen enables this scope."""

from __future__ import annotations

from tui.actions.action import Action

ACTIONS: tuple[Action, ...] = (
    Action(
        "verb.profiles_import", "", "import", "Write a profile from a file, a command or a job", "verb", "",
        operation="profile.import",
    ),
    Action(
        "verb.profiles_fix", "", "fix", "Apply the automatic fixes to a profile", "verb", "",
        operation="profile.fix",
    ),
    Action(
        "verb.endpoints_split", "", "split the traffic", "Send a percentage of the requests to each version",
        "verb", "", operation="endpoint.split",
    ),
    Action(
        "verb.emulator_start", "", "start the emulator", "Start the emulator of this machine", "verb", "",
        operation="emulator.start", local=True,
    ),
    Action(
        "verb.emulator_repair", "", "repair the emulator", "Repair the emulator's databases", "verb", "",
        operation="emulator.repair", local=True,
    ),
    Action(
        "verb.emulator_fault", "", "fault injection", "Make the emulator or a job on it fail", "verb", "",
        operation="emulator.fault", local=True,
    ),
)  # fmt: skip
