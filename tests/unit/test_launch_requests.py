"""What gcloud sends for a script is what the profile made of the script sends.

Each folder of `launch_scripts/requests` has a script in the manner of public ones, with the files beside it,
and `expected.json`: the requests that gcloud 578.0.0 made when bash ran the script, or what gcloud refused.
The clock stood at 2026-03-04 05:06:07 UTC, the user was ada, the commit 0a1b2c3, the project my-project.

The 38 scripts of `second` were written and given to gcloud before the reader had seen them. At its first
reading 25 came out as by gcloud, 13 ended in an error or asked for a value, and none made another job.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import CustomJob
from google.protobuf import json_format

from tui.domain.interchange import ConfigFile, from_text
from tui.domain.interchange.gcloud_script import Surroundings
from tui.domain.profile import Profile, ProfileInvalid, load

CASES = sorted(
    path.parent for path in Path(__file__).parent.glob("launch_scripts/requests/*/*/expected.json")
)
NOT_FOLLOWED = {
    "bash-c": "line 3: .*gcloud is called through bash; call it directly",
    "config-by-python": "line 5: .*the script's output to made.yaml can't be followed",
    "jq-config": "line 4: .*the script's output to config.json can't be followed",
    "machines-by-name": r"line 4: .*MACHINES\[\$SIZE\] can't be followed",
    "sed-into-stdin": "line 2: .*the output of .*sed.* is unknown",
    "makefile": "line 6: .*bash's syntax can't be read here",
    "template-with-envsubst": "line 5: .*the script's output to job.yaml can't be followed",
    "template-with-sed": "line 4: .*the script's output to filled.yaml can't be followed",
    "through-xargs": "line 1: .*gcloud is called through xargs; call it directly",
}
"""Scripts of which gcloud makes a job and we make none: the error says what could not be followed, where."""
ASKED = {
    "dotenv-by-xargs": {"REGION": "us-east4", "NAME": "xenv"},
    "missing-variable": {"MACHINE_TYPE": ""},
    "missing-variable-empty": {"SUFFIX": ""},
    "user-in-name": {"JOB_ID_2": "ada-20260304050607"},
}
"""Scripts with values that bash had and the reader asks for, as parameters without a default."""
NOW = time.gmtime(1772600767)
SAID = {
    "git rev-parse": "0a1b2c3",
    "whoami": "ada",
    "gcloud secrets": "s3cr3t",
    "gcloud config get-value project": "my-project",
}
"""What the commands of the scripts printed."""


@dataclass
class Case:
    """A script, and what gcloud made of it."""

    folder: Path

    def __post_init__(self) -> None:
        self.expected: dict[str, Any] = json.loads((self.folder / "expected.json").read_text())
        names = ("launch.sh", "Makefile", "README.md")
        self.script = next(self.folder / name for name in names if (self.folder / name).exists())

    def profile(self, command: str = "") -> tuple[Profile, str]:
        """The profile of its only command, or of the one of this number, with its region."""
        found = from_text(
            self.script.read_text(),
            self.script.name,
            lambda name: ConfigFile((self.folder / name).read_text(), name),
            Surroundings(
                str(self.folder), {"HOME": "/home/ada", "USER": "ada"},
                lambda name: (self.folder / name).read_text(), command,
            ),
        )  # fmt: skip
        profile = load(found.text, "launch.yaml", found.name)
        return profile, profile.region


def answer(command: str) -> str | None:
    """What this command of a script printed when gcloud ran."""
    if form := re.search(r"\bdate (?:-u )?['\"]?\+['\"]?([^'\")]+)", command):
        return time.strftime(form[1].strip().replace("%s", "1772600767"), NOW)
    return next((said for words, said in SAID.items() if words in command), None)


def sent(profile: Profile, asked: dict[str, str]) -> dict[str, Any]:
    """The request, with what the commands in the script printed; without our mark of a secret's variable."""
    given = {p.name: said for p in profile.parameters if (said := answer(p.help)) is not None}
    with_asked = profile.check(given | asked)
    assert with_asked.request is not None
    job = CustomJob.pb(CustomJob())
    json_format.ParseDict(with_asked.request.resource, job)
    for pool in job.job_spec.worker_pool_specs:
        for at, variable in reversed(list(enumerate(pool.container_spec.env))):
            if variable.name == "VXTUI_SECRETS":
                del pool.container_spec.env[at]
    return dict(json_format.MessageToDict(job))


def as_sent(body: dict[str, Any]) -> dict[str, Any]:
    """The job of gcloud's body. It sends a mapping in snake_case as it is, where the service has a list."""
    spec = body["jobSpec"]
    if isinstance(spec.get("worker_pool_specs"), dict):
        body = {**body, "jobSpec": {**spec, "worker_pool_specs": [spec["worker_pool_specs"]]}}
    return dict(json_format.MessageToDict(json_format.ParseDict(body, CustomJob.pb(CustomJob()))))


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_a_script_makes_the_requests_that_gcloud_makes(folder: Path) -> None:
    case, asked = Case(folder), ASKED.get(folder.name, {})
    wanted = case.expected["requests"]
    if asked:
        with pytest.raises(ProfileInvalid) as caught:
            case.profile()[0].check({})
        assert {p.field for p in caught.value.problems} >= {f"parameters.{name}" for name in asked}
    elif folder.name in NOT_FOLLOWED or not wanted:
        with pytest.raises(ProfileInvalid) as caught:
            case.profile()
        told = "\n".join(f"line {p.line}: {p.message}" for p in caught.value.problems)
        assert re.search(NOT_FOLLOWED.get(folder.name, "line [1-9]"), told), told
        return
    for number, request in enumerate(wanted, 1):
        profile, region = case.profile(str(number) if len(wanted) > 1 else "")
        assert sent(profile, asked) == as_sent(request["body"])
        assert f"/locations/{region}/customJobs" in request["path"] or "${" in region
