"""Profiles: read, check, fill in, render. Text in, requests or problems out; no files are touched here."""

from tui.domain.profile.model import Checked, Profile, Request, inspect, load, problems_of
from tui.domain.profile.parameters import Parameter
from tui.domain.profile.source import Problem, ProfileInvalid

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
