"""What a verb refuses: a job in the wrong state, an ambiguous name, a group where one context is meant."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.ui.double import MemoryBackend, MemoryJobs, job
from tests.ui.job_double import JobBackend
from tui.backends.errors import NotFound
from tui.backends.group import GroupBackend
from tui.config.settings import Context, Settings
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.interchange import FORMS
from tui.store.profiles.library import check_in, find, read_profile
from tui.verbs import run
from tui.verbs.command_group import cli
from tui.verbs.run import VerbFailure, find_job


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state directory and settings of its own."""
    for name in Settings.__dataclass_fields__:
        monkeypatch.delenv(f"VXTUI_{name.upper()}", raising=False)
    monkeypatch.setenv("VXTUI_STATE_DIR", str(tmp_path))
    (tmp_path / "config.yaml").write_text("{}\n")
    monkeypatch.setenv("VXTUI_CONFIG", str(tmp_path / "config.yaml"))


@pytest.mark.parametrize(
    ("verb", "state", "words"),
    [
        ("delete", JobState.RUNNING, "only an ended job can be deleted"),
        ("cancel", JobState.FAILED, "failed already"),
    ],
)
def test_it_is_refused_and_the_audit_journal_says_so(
    verb: str,
    state: JobState,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = MemoryBackend([job(7, "train", state)])
    monkeypatch.setattr(run, "open_backend", lambda *_: backend)
    done = CliRunner().invoke(cli, [verb, "7", "--json"])
    error = json.loads(done.output)["error"]
    assert done.exit_code == 1 and error["code"] == "FAILED_PRECONDITION", done.output
    assert words in error["message"]
    assert error["fix"] == ("vxtui cancel 7" if verb == "delete" else "")
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(x["action"], x["result"]) for x in lines] == [
        (f"job.{verb}", "asked"),
        (f"job.{verb}", "failed"),
    ]
    assert lines[1]["code"] == "FAILED_PRECONDITION" and words in lines[1]["message"]
    assert not backend.deleted and not backend.cancelled


def test_of_jobs_with_one_name_each_verb_takes_the_only_one_it_can_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = MemoryBackend([job(7, "train"), job(8, "train", JobState.FAILED)])
    monkeypatch.setattr(run, "open_backend", lambda *_: backend)
    assert json.loads(CliRunner().invoke(cli, ["describe", "train", "--json"]).output)["id"] == "7"
    for verb in (["delete"], ["cancel", "--no-wait"]):
        done = CliRunner().invoke(cli, [*verb, "train", "--yes"])
        assert done.exit_code == 0, done.output
    assert [name[-1] for name in backend.cancelled] == ["7"]
    assert [name[-1] for name in backend.deleted] == ["8"]


@pytest.mark.parametrize(
    "words", [["launch", "local-2node"], ["quotas"], ["prices"]], ids=lambda words: words[0]
)
def test_a_region_that_there_is_not_is_named(words: list[str]) -> None:
    done = CliRunner().invoke(cli, [*words, "--region", "us-centrl1", "--json"])
    error = json.loads(done.output)["error"]
    assert done.exit_code == 2
    assert error["message"] == "us-centrl1 must be a region for training."
    assert error["fix"] == "Did you mean us-central1?"


def test_a_misspelt_verb_or_profile_gets_the_one_that_is_meant(tmp_path: Path) -> None:
    assert "Did you mean 'cancel'?" in CliRunner().invoke(cli, ["cancle"]).output
    done = CliRunner().invoke(cli, ["profiles", "show", "local-2nodes"])
    assert "Did you mean local-2node?" in done.output and "Nothing was sent" not in done.output
    (tmp_path / "p.yaml").mkdir()
    done = CliRunner().invoke(cli, ["profiles", "show", str(tmp_path / "p.yaml")])
    assert "is a folder" in done.output


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """What `vxtui doctor` finds, without a service."""
    import tui.verbs.doctor  # noqa: F401 - the name in the package is the verb

    module = sys.modules["tui.verbs.doctor"]
    monkeypatch.setattr(module, "_opened", lambda _: aclosing(MemoryBackend([])))
    return lambda: json.loads(CliRunner().invoke(cli, ["doctor", "--json"]).output)["checks"]


def test_every_place_counts_the_same_profiles_as_valid(
    tmp_path: Path, checks: Callable[[], list[dict[str, Any]]]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "config.yaml").write_text(f"profile_folder: {tmp_path / 'mine'}\n")
    (tmp_path / "mine" / "ok.yaml").write_text("jobSpec: {workerPoolSpecs: []}\n")
    listed = json.loads(CliRunner().invoke(cli, ["profiles", "list", "--json"]).output)["profiles"]
    assert [p["name"] for p in listed if p["problem"]] == ["ok"]
    (tmp_path / "mine" / "ok.yaml").write_text("color: red\nsize: 3\njobSpec: {}\n")
    notes = CliRunner().invoke(cli, ["profiles", "list"]).stderr.splitlines()
    assert len(notes) > 1 and all(line.startswith("ok can't be used: /") for line in notes), notes
    wrong = [c for c in checks() if c["what"].startswith("profile") and not c["ok"]]
    assert [c["what"] for c in wrong] == ["profiles", "profile ok"]


def test_what_keeps_every_kind_from_being_read_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = MemoryBackend()
    backend.use(jobs={"custom_job": MemoryJobs(backend), "pipeline": MemoryJobs(backend)})
    backend.broken["us-central1"] = NotFound("There is no namespace x.", fix="Create it.")
    monkeypatch.setattr(run, "open_backend", lambda *_: backend)
    done = CliRunner().invoke(cli, ["jobs"])
    assert done.exit_code == 3 and done.stderr.count("There is no namespace x. Create it.") == 1
    assert "No jobs here yet" not in done.output
    assert len(json.loads(CliRunner().invoke(cli, ["jobs", "--json"]).stdout)["errors"]) == 1


@pytest.mark.parametrize("context", ["local-k8s", "lab"])
def test_profiles_of_another_family_are_not_judged_by_the_namespaces_of_a_cluster(
    context: str, tmp_path: Path, checks: Callable[[], list[dict[str, Any]]]
) -> None:
    """Nor where the cluster has not been reached."""
    lab = "{name: lab, kind: kubernetes, kubeconfig: /nowhere, namespaces: [default], read_only: true}"
    (tmp_path / "config.yaml").write_text(f"context: {context}\ncontexts: [{lab}]\n")
    (profiles,) = [each for each in checks() if each["what"].startswith("profile")]
    assert profiles["ok"], profiles
    listed = json.loads(CliRunner().invoke(cli, ["profiles", "list", "--json"]).output)["profiles"]
    assert not [each["problem"] for each in listed if each["problem"]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("theme: blah", "The theme blah does not exist."),
        ("keys: {nosuch: x}", "The key map has ids without an action: nosuch."),
        ("keys: {jobs.delete: l}", "The key map gives l to both jobs.launch and jobs.delete."),
    ],
)
def test_doctor_finds_what_the_screen_would_complain_about(
    text: str, words: str, tmp_path: Path, checks: Callable[[], list[dict[str, Any]]]
) -> None:
    (tmp_path / "config.yaml").write_text(text)
    found = next(c for c in checks() if c["what"] == "settings")
    assert not found["ok"] and words in found["detail"] and "config.yaml" in found["fix"]


GROUP = "contexts:\n  - {name: local, kind: local}\n  - {name: guarded, kind: local, read_only: true}\n"


@pytest.mark.parametrize("words", [["launch", "local-2node"], ["prices"]], ids=" ".join)
def test_what_needs_one_context_names_those_of_a_group(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(GROUP)
    done = CliRunner().invoke(cli, [*words, "--context", "all", "--json"])
    error = json.loads(done.output)["error"]
    assert done.exit_code == 2
    assert error["message"] == "all is a group. Choose one context: local, guarded, local-k8s."
    assert error["fix"] == "--context local or --context guarded or --context local-k8s"


def test_a_verb_waits_for_every_member_of_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(MemoryBackend):
        async def connect(self) -> None:
            await asyncio.sleep(0.05)

    def opened(*_: object) -> GroupBackend:
        members = MemoryBackend([job(7, "train", JobState.FAILED)]), Slow([job(8, "train", JobState.FAILED)])
        for name, member in zip(("local", "guarded"), members, strict=True):
            member.info = replace(member.info, name=name)
            member.stored = {j.name: replace(j, context=name) for j in member.stored.values()}
        return GroupBackend("all", members)

    monkeypatch.setattr(run, "open_backend", opened)
    (tmp_path / "config.yaml").write_text(GROUP)
    listed = CliRunner().invoke(cli, ["--context", "all", "jobs", "--json"])
    assert listed.exit_code == 0, listed.output
    found = json.loads(listed.output)
    assert {j["id"] for j in found["jobs"]} == {"7", "8"} and not found["errors"]
    done = CliRunner().invoke(cli, ["--context", "all", "cancel", "train", "--yes", "--json"])
    error = json.loads(done.output)["error"]
    assert error["code"] == "AMBIGUOUS" and error["message"].startswith("2 jobs are named train")


def test_an_export_of_a_groups_job_is_that_of_its_own_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: object) -> GroupBackend:
        members = JobBackend(job(7, "first")), JobBackend(job(8, "second"))
        for name, member in zip(("local", "guarded"), members, strict=True):
            member.info = replace(member.info, name=name, project=f"project-{name}", local=False)
            member.spec = {"displayName": "second", "jobSpec": {"workerPoolSpecs": []}}
        return GroupBackend("all", members)

    monkeypatch.setattr(run, "open_backend", opened)
    (tmp_path / "config.yaml").write_text(GROUP)
    done = CliRunner().invoke(cli, ["--context", "all", "export", "second", "--as", "gcloud"])
    assert done.exit_code == 0 and "--project=project-guarded" in done.output, done.output


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ("local", "`vxtui launch local-2node` trains on this machine"),
        ("local-k8s", "`vxtui launch k8s-pytorch-2node` trains on this machine"),
        ("all", "all is a group. Choose one context: local, guarded, local-k8s."),
    ],
)
def test_an_empty_list_names_a_profile_that_runs_there(
    context: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "open_backend", lambda *_: MemoryBackend([]))
    (tmp_path / "config.yaml").write_text(GROUP)
    done = CliRunner().invoke(cli, ["--context", context, "jobs"])
    assert done.exit_code == 0 and words in done.stderr


def test_a_profile_without_a_region_has_none_in_a_group(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(GROUP)
    show = ["profiles", "show", "local-2node", "--context"]
    shown = CliRunner().invoke(cli, [*show, "all"])
    assert shown.exit_code == 0 and shown.stdout.startswith("{"), shown.output
    assert json.loads(CliRunner().invoke(cli, [*show, "all", "--json"]).stdout)["region"] is None
    assert CliRunner().invoke(cli, [*show, "local"]).stdout.startswith("region us-central1\n")


def test_an_unknown_context_is_named_with_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(GROUP)
    for words in (["jobs", "--context", "none"], ["contexts", "--context", "none"]):
        done = CliRunner().invoke(cli, [*words, "--json"])
        message = json.loads(done.output)["error"]["message"]
        assert message == "No context is called none. Known contexts: local, guarded, local-k8s, all."


@pytest.mark.parametrize(
    ("other", "fix"),
    [
        (job(8, "train"), "Use the id."),
        (job(7, "train", region="europe-west4"), "Use the full resource name."),
        (
            replace(job(7, "train"), context="guarded"),
            "Choose one context: --context test or --context guarded",
        ),
    ],
)
async def test_jobs_of_one_name_are_told_apart_by_what_differs(other: Job, fix: str) -> None:
    class Twice(MemoryBackend):
        async def find_jobs(self, reference: str) -> list[Job]:
            return [job(7, "train"), other]

    with pytest.raises(VerbFailure) as caught:
        await find_job(Twice(), "train")
    assert caught.value.fix == fix and f"{other.context}  {other.region}" in caught.value.message


@pytest.mark.parametrize("profile", ["local-2node", "arr-coc-4x8-a100"])
def test_no_name_of_a_member_is_taken_for_a_region(profile: str) -> None:
    read = read_profile(find(profile, Path("nowhere")))
    group = Context("both", kind="group", members=["local", "guarded"])
    checked = check_in(read, {}, group)
    assert not [problem for problem in checked.problems if "must be a region" in str(problem)]


@pytest.mark.parametrize("form", FORMS)
def test_a_program_that_is_exported_has_a_name_without_placeholders(form: str) -> None:
    done = CliRunner().invoke(cli, ["profiles", "export", "local-2node", "--as", form])
    assert done.exit_code == 0 and "local-2node-1" in done.stdout
    assert "{profile}" not in done.stdout and "assigned at launch" in done.stderr
    done = CliRunner().invoke(cli, ["profiles", "show", "local-2node", "--json"])
    assert json.loads(done.stdout)["body"]["displayName"] == "local-2node-1"
