"""Current values of the placeholders in a job's name, on this machine."""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tui.domain.kubernetes.objects import dns_name
from tui.domain.profile.job_name import NameFacts, expand, is_template
from tui.domain.spec.spec_format import body_of, format_of
from tui.helper_program import run_helper_blocking

GIT_SECONDS = 2.0
CLAIM_SECONDS = 600.0
"""Maximum time in seconds from the choice of a name to the journal's entry of its launch."""
NO_COMMIT = "nogit"


def blocks(template: str) -> bool:
    """Return whether `name_facts` runs git or looks up the user for this template, which may take seconds."""
    return any(f"{{{slow}}}" in template for slow in ("git", "user"))


def name_facts(profile: Path, now: datetime, job: Mapping[str, Any]) -> NameFacts:
    """Return the values of the placeholders of a job's name; the commit is that of the profile's folder. For
    the name of a cluster object, the values are made valid."""
    template = str(job.get("displayName", ""))
    user = _user() if "{user}" in template else ""
    commit = _commit(profile.resolve().parent) if "{git}" in template else ""
    name = profile.stem
    if format_of(body_of(job)).family == "kubernetes":
        name, user = dns_name(name), dns_name(user) if user else ""
    return NameFacts(name, f"{now.astimezone():%Y%m%d}", user, commit)


def named(
    job: Mapping[str, Any], profile: Path, now: datetime, existing_names: Iterable[str] = ()
) -> dict[str, Any]:
    """Return a custom job with its name's placeholders filled in. `{n}` counts `existing_names`. Blocking."""
    template = str(job.get("displayName", ""))
    if not is_template(template):
        return dict(job)
    return {**job, "displayName": expand(template, name_facts(profile, now, job), existing_names)}


def claim(folder: Path, name: str) -> bool:
    """Claim a name for `CLAIM_SECONDS`, so that launches at the same time get different numbers. Return
    whether no other launch has the name. Blocking."""
    # A full disk, or another launch that has just removed an old claim, is no reason to refuse a launch.
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for claimed in folder.iterdir():
            if claimed.stat().st_mtime < time.time() - CLAIM_SECONDS:
                claimed.unlink(missing_ok=True)
        try:
            (folder / hashlib.sha256(name.encode()).hexdigest()).touch(exist_ok=False)
        except FileExistsError:
            return False
    return True


def _user() -> str:
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        return "user"
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)


def _commit(folder: Path) -> str:
    """Return the short commit of a folder, or `NO_COMMIT` if git reports no commit in time."""
    commit = git_output(["rev-parse", "--short", "HEAD"], folder)
    return commit if re.fullmatch(r"[0-9a-f]+", commit) else NO_COMMIT


def git_output(words: Sequence[str], folder: Path) -> str:
    """Return git's output in a folder; "" if git fails or does not answer in time. Blocking."""
    try:
        done = run_helper_blocking(["git", "-C", str(folder), *words], seconds=GIT_SECONDS)
    except (OSError, TimeoutError):
        return ""
    return done.output.decode(errors="replace").strip() if done.code == 0 else ""
