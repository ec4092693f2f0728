"""Profiles: read, check, fill in, render. The input is text, the output requests or problems; no file
access."""

from tui.domain.document.source import Problem, ProfileInvalid
from tui.domain.profile.model import Checked, Profile, Request, inspect, load, problems_of
from tui.domain.profile.parameters import Parameter

__all__ = [
    "Checked",
    "Parameter",
    "Problem",
    "Profile",
    "ProfileInvalid",
    "Request",
    "inspect",
    "load",
    "problems_of",
]
