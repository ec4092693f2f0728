"""The declaration of a user action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Action:
    """One action of the user.

    `id` is stable and is the name in a key map, e.g. `jobs.cancel`. `scope` is the screen it belongs to
    ("app" for everywhere, "verb" for the command line only). The scope's target implements `action_<method>`.
    `key` may hold several keys, comma-separated, or none for an action that is only a command. `operation`
    names the change, e.g. `job.cancel`: actions of several screens and a verb share one operation, which the
    audit journal records. An action with an operation mutates, and is refused in a read-only context;
    `confirm` requires a dialog that names the target first. `footer` shows the action in the last line.
    `direct` skips these checks: the widget with the binding runs its own method. `needs` names a service of
    the backend or an operation of a service (`Backend.offers`), e.g. `jobs.cancel`. `local` actions need a
    context of this machine.

    An action does not mutate if it only writes what the user sees to a file of their choice (a log, an
    export), updates vxtui's own caches (prices, snapshots, unsaved drafts), selects a theme, or starts the
    emulator, as every read of its jobs does too. None of these changes a job or a profile that somebody may
    launch.
    """

    id: str
    key: str
    label: str
    help: str
    scope: str
    method: str
    operation: str = ""
    confirm: bool = False
    footer: bool = True
    needs: str = ""
    command: str = ""
    """Command word after `:`; if empty, the command word is the last part of the id."""
    argument: str = ""
    """Argument after the command word, e.g. "NAME"; the action's method then has one string parameter."""
    direct: bool = False
    key_only: bool = False
    """Whether the action has no command, because another action has the word and works on a named target."""
    local: bool = False
    any_emulator: bool = False
    """Whether a `local` action is also possible on the emulator of Kubernetes."""
    screen: str = ""
    """`module:class` of the list that the action shows as a mode of the app."""
    name: str = ""
    """Name of the action in a sentence, if the short label of the footer is unsuitable."""
    when: tuple[str, ...] = ()
    """Conditions of the action's screen that must be met, e.g. "job"; the screen explains an unmet
    condition."""
    many: bool = False
    """Whether the action works on all marked jobs instead of the job under the cursor."""
    connects_later: bool = False
    """Whether the action starts without a connection, because only a later step needs one."""

    @property
    def mutates(self) -> bool:
        """Whether the action changes a job, a profile's file, or the emulator."""
        return bool(self.operation)

    @property
    def title(self) -> str:
        """Name of the action at the beginning of a sentence."""
        name = self.name or self.label
        return name[:1].upper() + name[1:]

    @property
    def is_command(self) -> bool:
        """Whether the command line and the palette offer the action."""
        return not (self.direct or self.key_only)

    @property
    def word(self) -> str:
        """The word for the action on the command line."""
        return self.command or self.id.rpartition(".")[2].replace("_", "-")


def act(id: str, key: str, label: str, help: str, method: str = "", **more: Any) -> Action:
    """Create an action whose scope and method follow from its id, as `jobs` and `cancel` in `jobs.cancel`."""
    scope, _, name = id.partition(".")
    return Action(id, key, label, help, scope, method or name, **more)


def move(id: str, key: str, label: str, method: str) -> Action:
    """Create a key that moves the cursor within the widget."""
    return act(id, key, label, label.capitalize(), method, footer=False, direct=True)
