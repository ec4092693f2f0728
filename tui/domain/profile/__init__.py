"""Profiles: read, check, fill in, render. Text in, requests or problems out; no file is touched here."""

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
