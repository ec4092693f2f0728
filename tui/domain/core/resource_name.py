"""The grammar of Google's resource names.

A region becomes a part of a host name to which credentials are sent, so nothing else may pass for one:
`localhost:1#` as a region would make the host a stranger's.
"""

from __future__ import annotations

import re

PROJECT = r"(?:[a-z0-9][a-z0-9.-]{0,62}:)?[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
"""A project's id, also one with the domain that old ids begin with, its number, or a placeholder for it."""
LOCATION = r"[a-z][a-z0-9]{0,29}(?:-[a-z0-9]{1,20}){0,3}"
"""A region, a zone, or a place such as `global`."""
ID = r"[A-Za-z0-9_][A-Za-z0-9_.~-]{0,127}"
"""The last part of a resource's name."""

GKE_CLUSTER = re.compile(
    rf"projects/(?P<project>{PROJECT})/(?:locations|zones)/(?P<location>{LOCATION})"
    r"/clusters/(?P<cluster>[a-z][a-z0-9-]{0,39})",
    re.ASCII,
)
"""For `fullmatch`: a cluster of Google Kubernetes Engine."""

_PROJECT, _LOCATION = re.compile(PROJECT, re.ASCII), re.compile(LOCATION, re.ASCII)


def name_pattern(collection: str) -> re.Pattern[str]:
    """For `fullmatch`: the full names of a collection's resources; groups are project, location and id."""
    return re.compile(rf"projects/({PROJECT})/locations/({LOCATION})/{collection}/({ID})", re.ASCII)


def log_project(name: str, own: str) -> str:
    """The project whose log and series have those of this job; `own` is the context's.

    The service's names have the project's number, and then it is the context's own.
    """
    project = name.split("/")[1] if name.startswith("projects/") else ""
    return own if not project or project.isdigit() else project


def is_project(text: str) -> bool:
    """Whether it can be a project's id or number."""
    return _PROJECT.fullmatch(text) is not None


def is_location(text: str) -> bool:
    """Whether it can be a region; there need not be one of this name."""
    return _LOCATION.fullmatch(text) is not None
