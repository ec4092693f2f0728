"""Names of jobs: the placeholders of a profile, and the suffix of names that repeat."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.ui.double import NOON, job
from tui.domain.core.short_ids import short_ids
from tui.domain.profile.job_name import NameFacts, expand
from tui.domain.spec.display_name import name_problem
from tui.store.profiles.name_facts import NO_COMMIT, name_facts, named

FACTS = NameFacts("tiny", "20261121", "ana", "9f3c2ab")


@pytest.mark.parametrize(
    ("template", "taken", "name"),
    [
        ("tiny", [], "tiny"),
        ("{profile}-{date}-{user}-{git}", [], "tiny-20261121-ana-9f3c2ab"),
        ("{profile}-{n}", [], "tiny-1"),
        ("{profile}-{n}", ["tiny-1", "tiny-9", "tiny-x", "untiny-40", "tiny-12-b"], "tiny-10"),
        ("run.{n}+", ["runx5+", "run.2+"], "run.3+"),
        ("{n}-of-{n}", ["3-of-3"], "4-of-4"),
        ("{other} {}", [], "{other} {}"),
    ],
)
def test_placeholders_are_filled_in(template: str, taken: list[str], name: str) -> None:
    assert expand(template, FACTS, taken) == name


def test_a_name_is_checked_as_the_service_does() -> None:
    assert name_problem("a" * 128) is None
    assert name_problem("a" * 129) == (
        "the display name has 129 characters; the maximum is 128.",
        "Shorten it.",
    )
    assert name_problem("") is not None


def test_only_names_that_repeat_have_a_suffix_and_it_differs() -> None:
    jobs = [job(71234, "tiny"), job(81234, "tiny"), job(55555, "tiny"), job(4, "other")]
    found = short_ids(jobs)
    assert [found.get(each.name) for each in jobs] == ["71234", "81234", "55555", None]
    assert set(short_ids([job(1000123, "a"), job(1000456, "a")]).values()) == {"123", "456"}


def test_the_facts_are_of_this_user_and_of_the_folder_s_commit(tmp_path: Path) -> None:
    profile = tmp_path / "tiny.yaml"
    assert name_facts(profile, NOON, {"displayName": "{git}"}).git == NO_COMMIT
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    found = name_facts(profile, NOON, {"displayName": "{user}-{git}"})
    assert found.profile == "tiny" and found.date == f"{NOON.astimezone():%Y%m%d}"
    assert len(found.git) >= 7 and int(found.git, 16) >= 0 and found.user


def test_a_name_on_a_cluster_is_that_of_an_object(tmp_path: Path) -> None:
    job = {"displayName": "{profile}-{n}", "manifest": {"objects": []}}
    assert named(job, tmp_path / "My_Job.yaml", NOON, ["my-job-4"])["displayName"] == "my-job-5"
    assert (
        named({"displayName": "{profile}-{n}"}, tmp_path / "My_Job.yaml", NOON)["displayName"] == "My_Job-1"
    )
