"""`vxtui emulator …`: which job a preemption hits, the audit journal, and verbs without an emulator."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.ui.double import MemoryBackend, job
from tui.actions.operations import emulator as operations
from tui.actions.operations import servers
from tui.config.settings import Settings
from tui.domain.core.states import JobState
from tui.emulator.client import FAULTS, LauncherError
from tui.emulator.paths import StateDir
from tui.verbs import run
from tui.verbs.command_group import cli
from tui.verbs.emulator import gcloud

CONFIG = "contexts:\n- {name: p, kind: local, project: p}\n- {name: cloud, project: q}\n"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory and settings of its own."""
    for name in Settings.__dataclass_fields__:
        monkeypatch.delenv(f"VXTUI_{name.upper()}", raising=False)
    monkeypatch.setenv("VXTUI_STATE_DIR", str(tmp_path))
    (tmp_path / "config.yaml").write_text(CONFIG)
    monkeypatch.setenv("VXTUI_CONFIG", str(tmp_path / "config.yaml"))
    return tmp_path


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Requests to an emulator that answers as the real one does."""
    found: list[dict[str, Any]] = []

    def call(_state: StateDir, request: Mapping[str, Any]) -> dict[str, Any]:
        found.append(dict(request))
        if request["do"] == "preempt":
            return {"job": request["job"], "replicas": [request.get("replica", "workerpool0-0")]}
        return FAULTS[request["do"]].read(request)

    monkeypatch.setattr(servers, "admin_call", call)
    monkeypatch.setattr(servers, "server_status", lambda _: {"pid": 1})
    return found


def call(*words: str) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(cli, [*words, "--json"])
    return done.exit_code, json.loads(done.output)


def audit(place: Path) -> list[dict[str, Any]]:
    path = place / "audit.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize(
    ("words", "target"),
    [
        ("tail --shuffle", "tail shuffle"),
        ("tail --cut-every 20 --late 0.1:5", "tail cut_every=20 late_share=0.1 late_seconds=5"),
        ("tail", "tail clear"),
        ("buckets --missing --bucket b --times 3", "buckets kind=missing bucket=b times=3"),
        ("buckets", "buckets clear"),
        ("buckets --bucket b", "buckets clear"),
        ("checks --deny a.b --deny c.d --expired", "checks denied=a.b,c.d expired"),
        ("checks", "checks clear"),
    ],
)
def test_the_journal_tells_what_a_fault_sets_or_that_it_clears(
    words: str, target: str, place: Path, sent: list[dict[str, Any]]
) -> None:
    code, _ = call("emulator", "fault", *words.split(), "--context", "p")
    assert code == 0 and len(sent) == 1
    asked, done = audit(place)
    assert (asked["result"], done["result"]) == ("asked", "done")
    assert set(asked["target"].split()) == set(target.split()) and done["target"] == asked["target"]
    assert asked["target"].startswith(target.split(maxsplit=1)[0])


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> MemoryBackend:
    jobs = [job(7, "tiny"), job(8, "twice"), job(9, "twice"), job(6, "ended", JobState.FAILED)]
    found = MemoryBackend([replace(one, context="p") for one in jobs])
    found.info = replace(found.info, name="p")
    monkeypatch.setattr(run, "open_backend", lambda *_: found)
    return found


def test_a_preemption_names_the_job_by_its_full_name_to_the_emulator_and_the_journal(
    place: Path, sent: list[dict[str, Any]], backend: MemoryBackend
) -> None:
    name = next(iter(backend.stored))
    code, answer = call("--context", "p", "emulator", "fault", "preempt", "tiny")
    assert code == 0 and answer["job"] == name and sent == [{"do": "preempt", "job": name}]
    assert call("--context", "p", "emulator", "fault", "preempt", "7", "--replica", "workerpool1-0")[0] == 0
    assert sent[1] == {"do": "preempt", "job": name, "replica": "workerpool1-0"}
    lines = audit(place)
    assert [line["target"] for line in lines[::2]] == [f"preempt {name}", f"preempt {name} workerpool1-0"]
    assert {(x["context"], x["project"], x["region"]) for x in lines} == {("p", "p", "us-central1")}


def test_a_preemption_looks_for_its_job_as_a_cancel_does(
    place: Path, sent: list[dict[str, Any]], backend: MemoryBackend
) -> None:
    for verb in (("emulator", "fault", "preempt"), ("cancel", "--yes")):
        code, answer = call("--context", "p", *verb, "nope")
        assert code == 3 and answer["error"]["message"] == "The job nope does not exist in the context p."
        assert answer["error"]["fix"] == "`vxtui jobs` lists all."
        code, answer = call("--context", "p", *verb, "twice")
        assert answer["error"]["code"] == "AMBIGUOUS"
        assert answer["error"]["message"].startswith("2 jobs are named twice:")
    assert not sent and not audit(place) and not backend.cancelled


@pytest.mark.parametrize(
    ("context", "asked"),
    [("p", "p"), ("local", "local"), ("cloud", "local"), ("here", "here"), ("all", "local")],
)
def test_a_job_of_the_emulator_is_looked_for_in_contexts_of_this_machine(
    context: str, asked: str, place: Path, sent: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "config.yaml").write_text(CONFIG + "- {name: here, kind: group, members: [p, local]}\n")
    opened = []

    def opening(where: Any, _settings: Settings) -> MemoryBackend:
        opened.append(where.name)
        return MemoryBackend([replace(job(7, "tiny"), context="p")])

    monkeypatch.setattr(run, "open_backend", opening)
    assert call("--context", context, "emulator", "fault", "preempt", "tiny")[0] == 0
    assert opened == [asked] and len(sent) == 1


@pytest.mark.parametrize("words", ["fault tail --shuffle", "fault buckets", "fault preempt tiny", "status"])
def test_without_an_emulator_each_verb_says_so_and_how_to_start_it(words: str, place: Path) -> None:
    code, answer = call("--context", "p", "emulator", *words.split())
    error = answer["error"]
    assert code == 5 and error["code"] == "UNAVAILABLE" and error["fix"] == "vxtui emulator start"
    assert f"no emulator runs on {place}" in error["message"]
    assert not list((place / "emulator").glob("*"))


def test_a_start_by_a_verb_is_in_the_journal(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_state: StateDir, **options: Any) -> dict[str, Any]:
        if options["rest"]:
            raise LauncherError("not a loopback address")
        return {"pid": 1, "socket": "s"}

    monkeypatch.setattr(operations, "start_server", start)
    assert call("--context", "p", "emulator", "start")[0] == 0
    code, answer = call("--context", "p", "emulator", "start", "--rest", "0.0.0.0:80")
    assert code == 5 and "not a loopback address" in answer["error"]["message"]
    assert [(x["action"], x["result"]) for x in audit(place)] == [
        ("emulator.start", result) for result in ("asked", "done", "asked", "failed")
    ]


RUNNING = {"pid": 1, "socket": "s", "rest": "http://127.0.0.1:8085", "buckets": "http://127.0.0.1:9/secret"}


def test_the_environment_for_gcloud_has_the_emulator_s_addresses_and_no_secret(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gcloud, "server_status", lambda _: RUNNING)
    code, found = call("--context", "p", "emulator", "gcloud")
    environment = found["environment"]
    assert code == 0 and environment["CLOUDSDK_CORE_PROJECT"] == "p"
    assert environment["CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM"] == "http://127.0.0.1:8085/"
    assert environment["CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"] == "http://127.0.0.1:9/storage/v1/"
    assert environment["CLOUDSDK_CONFIG"] == str(place / "emulator" / "gcloud")
    assert not list(place.glob("audit.jsonl"))
    text = CliRunner().invoke(cli, ["--context", "p", "emulator", "gcloud"]).output
    shown = subprocess.run(
        ["sh", "-c", f"{text}\nenv"], capture_output=True, text=True, check=True, env={}
    ).stdout.splitlines()
    assert {f"{name}={value}" for name, value in environment.items()} <= set(shown)


def test_the_environment_for_gcloud_is_taken_back_without_an_emulator(place: Path) -> None:
    code, found = call("emulator", "gcloud", "--unset")
    text = CliRunner().invoke(cli, ["emulator", "gcloud", "--unset"]).output
    assert code == 0 and text.splitlines() == [f"unset {name}" for name in found["environment"]]
    assert not list((place / "emulator").glob("*"))


def test_the_environment_for_gcloud_opens_rest_where_it_is_off(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def start(_state: StateDir, **options: Any) -> dict[str, Any]:
        asked.append(options["rest"])
        return RUNNING

    monkeypatch.setattr(gcloud, "server_status", lambda _: RUNNING | {"rest": None})
    monkeypatch.setattr(operations, "start_server", start)
    assert call("--context", "p", "emulator", "gcloud")[0] == 0
    assert [(x["action"], x["result"]) for x in audit(place)] == [
        ("emulator.start", "asked"),
        ("emulator.start", "done"),
    ]
    code, refused = call("--read-only", "--context", "p", "emulator", "gcloud")
    assert code != 0 and refused["error"]["code"] == "READ_ONLY" and asked == ["127.0.0.1:0"]


def test_a_start_in_the_foreground_becomes_the_emulator(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    class Replaced(BaseException):
        """The process is another program now."""

    def execv(_program: str, command: list[str]) -> None:
        started.append(command)
        raise Replaced

    monkeypatch.setattr("os.execv", execv)
    with pytest.raises(Replaced):
        CliRunner().invoke(cli, ["emulator", "start", "--foreground", "--no-auth"])
    assert started[0][1:] == ["-m", "tui.emulator", "--state-dir", str(place / "emulator"), "--no-auth"]
    assert [(x["action"], x["result"]) for x in audit(place)] == [("emulator.start", "asked")]


@pytest.mark.parametrize("words", [("emulator", "stop", "--context", "cloud"),
                                   ("--context", "local", "emulator", "kubernetes", "stop"),
                                   ("emulator", "stop", "--context", "local-k8s")])  # fmt: skip
def test_a_stop_refuses_a_context_of_another_service(words: tuple[str, ...]) -> None:
    code, told = call(*words)
    assert code == 2 and "does not serve the context" in told["error"]["message"]
