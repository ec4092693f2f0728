"""One action: what a person can do, declared once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a person can do.

    `id` is stable and is what a key map names, e.g. `jobs.cancel`. `scope` is the place it belongs to
    ("app" for everywhere, "verb" for what only the command line has). The scope's target implements
    `action_<method>`. `key` may hold several keys, comma-separated, or none for an action that is only a
    command. `operation` names what it changes, e.g. `job.cancel`: actions of several screens and a verb
    share one operation, which the audit journal records. An action with an operation mutates, and is
    refused where the context is read-only; `confirm` means that a dialog naming the target comes first.
    `footer` shows it in the last line. `direct` leaves the gate out: the widget that has the binding runs
    its own method. `needs` names a service of the backend or an operation of one (`Backend.offers`), e.g.
    `jobs.cancel`. `local` actions need a context of this machine.

    What does not mutate: writing what the user sees to a file of their choice (a log, an export), vxtui's
    own caches (prices, snapshots, unsaved drafts), the choice of a theme, and starting the emulator, which
    every reading of its jobs does too. None of them changes a job or a profile that somebody may launch.
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
    """Word after `:` that runs it; empty means the last part of the id."""
    argument: str = ""
    """What its command takes after the word, e.g. "NAME"; such an action's method takes one string."""
    direct: bool = False
    key_only: bool = False
    """No command: another action has the word and does the same for what is named after it."""
    local: bool = False
    any_emulator: bool = False
    """A `local` one is possible on the emulator of Kubernetes too."""
    screen: str = ""
    """`module:class` of the list that the action shows; the list becomes a mode of the app."""
    name: str = ""
    """What a sentence calls it where the label, short for the footer, does not do."""
    when: tuple[str, ...] = ()
    """Conditions of its place that must be met, e.g. "job"; the place says why one is not."""
    many: bool = False
    """It acts on all marked jobs; other actions act on the job under the cursor."""
    connects_later: bool = False
    """It runs without a connection: only a later step needs one."""

    @property
    def mutates(self) -> bool:
        """It changes something: a job, a profile's file, or the emulator."""
        return bool(self.operation)

    @property
    def title(self) -> str:
        """What a sentence calls it, as its first words."""
        name = self.name or self.label
        return name[:1].upper() + name[1:]

    @property
    def is_command(self) -> bool:
        """The command line and the palette offer it."""
        return not (self.direct or self.key_only)

    @property
    def word(self) -> str:
        """The word of the command line."""
        return self.command or self.id.rpartition(".")[2].replace("_", "-")


def act(id: str, key: str, label: str, help: str, method: str = "", **more: Any) -> Action:
    """An action whose scope and method follow from its id: `jobs` and `cancel` of `jobs.cancel`."""
    scope, _, name = id.partition(".")
    return Action(id, key, label, help, scope, method or name, **more)


def move(id: str, key: str, label: str, method: str) -> Action:
    """A key that moves within the widget that has it."""
    return act(id, key, label, label.capitalize(), method, footer=False, direct=True)
