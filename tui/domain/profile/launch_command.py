"""The commands that `at_launch` of a profile's parameter accepts. A launch sets the parameter to the
command's output. vxtui computes the output of these few commands itself, without a shell."""

from __future__ import annotations

import re
import shlex

_DATE = re.compile(r"date (-u )?\+((?:[^%]|%[-_0^]?[aAbBdeFHIjklmMpRsSTuVwyYZz%])+)")
_FIXED = {
    "whoami": "whoami",
    "id -un": "whoami",
    "git rev-parse HEAD": "git rev-parse HEAD",
    "git rev-parse --short HEAD": "git rev-parse --short HEAD",
    "git rev-parse --abbrev-ref HEAD": "git rev-parse --abbrev-ref HEAD",
    "git branch --show-current": "git rev-parse --abbrev-ref HEAD",
    "gcloud config get-value project": "gcloud config get-value project",
    "gcloud config get project": "gcloud config get-value project",
}
KNOWN = ("date +FORMAT", *dict.fromkeys(_FIXED.values()))
"""Allowed values of `at_launch`."""


def of_shell(command: str) -> str:
    """Return the `at_launch` setting for a script's command, or "" if a launch can't fill in its output. >>>
    of_shell("date '+%Y%m%d' 2>/dev/null") 'date +%Y%m%d'"""
    try:
        words = shlex.split(re.sub(r"\s2>\s*/dev/null", " ", command))
    except ValueError:
        return ""
    joined = " ".join(words)
    if words[:1] == ["date"]:
        return joined if len(words) == 2 + ("-u" in words) and is_known(joined) else ""
    return _FIXED.get(joined, "")


def is_known(setting: str) -> bool:
    """Return whether a launch can fill in the output of this `at_launch` command."""
    return setting in _FIXED.values() or date_format(setting) is not None


def date_format(command: str) -> tuple[str, bool] | None:
    """Return the format of `date +FORMAT` and whether it is in UTC; `None` for other commands."""
    match = _DATE.fullmatch(command)
    return (match[2], bool(match[1])) if match else None
