"""One action: what a person can do, declared once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a person can do.

    `id` is stable and is what a key map names, e.g. `jobs.cancel`. `scope` is the place it belongs to
    ("app" for everywhere). The scope's target implements `action_<method>`. `key` may hold several keys,
    comma-separated, or none for a thing that is only a command. `mutates` closes it in read-only mode;
    `confirm` means that a dialog naming the target comes first. `footer` shows it in the last line.
    `needs` names a service of the backend or an operation of one (`Backend.offers`), e.g. `jobs.cancel`.
    `direct` leaves the gate out: the widget that has the binding runs its own method (moves, mostly).
    """

    id: str
    key: str
    label: str
    help: str
    scope: str
    method: str
    mutates: bool = False
    confirm: bool = False
    footer: bool = True
    needs: str = ""
    command: str = ""
    """Word after `:` that runs it; empty means the last part of the id."""
    argument: str = ""
    """What its command takes after the word, e.g. "NAME"; such an action's method takes one string."""
    direct: bool = False

    @property
    def word(self) -> str:
        """The word of the command line."""
        return self.command or self.id.rpartition(".")[2].replace("_", "-")
