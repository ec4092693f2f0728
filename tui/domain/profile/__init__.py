"""Profiles: read, check, fill in and render. The input is text, and the output is requests or problems. This
package accesses no files."""

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
