"""Values that a launch fills in for parameters with `at_launch`: the time, user, commit and project."""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from tui.domain.profile.launch_command import date_format
from tui.store.profiles.name_facts import git_output


def launch_values(
    commands: Mapping[str, str], *, given_names: Iterable[str], project: str, now: datetime, folder: Path
) -> dict[str, str]:
    """Return the value of each parameter with a command (`at_launch`) that is not in `given_names`.

    git runs in `folder`, as for the script that the profile was imported from. A value that can't be
    determined is left out, so that the launch requests the value. Blocking.
    """
    missing = {
        name: command for name, command in commands.items() if command and name not in set(given_names)
    }
    values = {name: _value(command, project, now, folder) for name, command in missing.items()}
    return {name: value for name, value in values.items() if value}


def _value(command: str, project: str, now: datetime, folder: Path) -> str:
    if (date := date_format(command)) is not None:
        form, utc = date
        return (now.astimezone(UTC) if utc else now.astimezone()).strftime(form)
    if command == "whoami":
        try:
            return getpass.getuser()
        except (OSError, KeyError):
            return ""
    return project if command.startswith("gcloud ") else _git(command.split(), folder)


def _git(command: list[str], folder: Path) -> str:
    return git_output(command[1:], folder)
