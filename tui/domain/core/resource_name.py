"""The grammar of Google's resource names. A region becomes a part of a host name that receives credentials,
so the grammar must be strict. Otherwise the region `localhost:1#` would redirect them to another host."""

from __future__ import annotations

import re

PROJECT = r"(?:[a-z0-9][a-z0-9.-]{0,62}:)?[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
"""A project's id (possibly with an old domain prefix), its number, or a placeholder."""
LOCATION = r"[a-z][a-z0-9]{0,29}(?:-[a-z0-9]{1,20}){0,3}"
"""A region, a zone, or another location such as `global`."""
ID = r"[A-Za-z0-9_][A-Za-z0-9_.~-]{0,127}"
"""The last part of a resource's name."""

GKE_CLUSTER = re.compile(
    rf"projects/(?P<project>{PROJECT})/(?:locations|zones)/(?P<location>{LOCATION})"
    r"/clusters/(?P<cluster>[a-z][a-z0-9-]{0,39})",
    re.ASCII,
)
"""A GKE cluster's name, for `fullmatch`."""

_requested: dict[str, str] = {}
"""Projects of requests by the number in the reply. A number never changes its project."""
_PROJECT, _LOCATION = re.compile(PROJECT, re.ASCII), re.compile(LOCATION, re.ASCII)


def name_pattern(collection: str) -> re.Pattern[str]:
    """Return the full names of a collection's resources, for `fullmatch`; groups are project, location and
    id."""
    return re.compile(rf"projects/({PROJECT})/locations/({LOCATION})/{collection}/({ID})", re.ASCII)


def log_project(name: str, own: str) -> str:
    """Return the project with the log and series of this job. A project number is replaced with the id that a
    request named (`note_project`), or with `own`, the context's project, if no request named it."""
    project = _project(name)
    return _requested.get(project, own) if not project or project.isdigit() else project


def note_project(requested: str, replied: str) -> None:
    """Remember the project of a requested name, since the service replies with the project's number. For any
    project (`-`) the number stands for itself."""
    project, number = _project(requested), _project(replied)
    if number.isdigit() and project == "-":
        _requested.setdefault(number, number)
    elif number.isdigit() and project:
        _requested[number] = project


def same_resource(name: str, other: str) -> bool:
    """Return whether two full names mean one resource. Each name may have the project's id or number
    (`note_project`)."""
    return name == other or (
        name.split("/")[2:] == other.split("/")[2:] and log_project(name, "") == log_project(other, "") != ""
    )


def _project(name: str) -> str:
    return name.split("/")[1] if name.startswith("projects/") else ""


def is_project(text: str) -> bool:
    """Return whether the text can be a project's id or number."""
    return _PROJECT.fullmatch(text) is not None


def is_location(text: str) -> bool:
    """Return whether the text can be a region; the region need not exist."""
    return _LOCATION.fullmatch(text) is not None
