"""Secrets in 12 places of a profile appear in no output and no file but the profile itself."""

from __future__ import annotations

import importlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from tests.secret_places import PLACES, SHAPES, leaks, profile
from tests.ui.double import MemoryBackend, MemoryJobs, job
from tui.backends.interface import Job, LaunchRequest, Unavailable
from tui.config.settings import Settings
from tui.domain.masking import MASK, mask_text, masked
from tui.verbs import output
from tui.verbs.command_group import cli


class Echoing(MemoryJobs):
    """Shows a request as the job's specification, and quotes it in its errors."""

    async def spec(self, name: str) -> dict[str, Any]:
        return dict(self.backend.created[0].resource)

    async def create(self, request: LaunchRequest) -> Job:
        self.backend.created.append(request)
        raise Unavailable(f"can't read {json.dumps(request.resource)}", fix=str(request.resource))


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> MemoryBackend:
    """The service."""
    found = MemoryBackend([job(7, "train")])
    found.use(jobs={"custom_job": Echoing(found)})
    for module in ("run", "launch"):
        monkeypatch.setattr(importlib.import_module(f"tui.verbs.{module}"), "open_backend", lambda *_: found)
    return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: MemoryBackend) -> Path:
    """A folder with the profile, and a service that repeats what it is sent."""
    for name in Settings.__dataclass_fields__:
        monkeypatch.delenv(f"VXTUI_{name.upper()}", raising=False)
    monkeypatch.setenv("VXTUI_STATE_DIR", str(tmp_path / "s"))
    monkeypatch.setenv("VXTUI_CONFIG", str(tmp_path / "config.yaml"))
    mine = tmp_path / "mine"
    mine.mkdir()
    (tmp_path / "config.yaml").write_text(
        f"context: a\nprofile_folder: {mine}\ncontexts: [{{name: a, project: p, regions: [us-central1]}}]\n"
    )
    (mine / "secrets.yaml").write_text(yaml.safe_dump(profile(), sort_keys=False))
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def test_no_output_and_no_file_shows_a_secret(place: Path, backend: MemoryBackend) -> None:
    assert len(SHAPES) == 20 and PLACES == 12
    shown = {}
    for words in (
        ["launch", "secrets", "--yes", "--force"],
        ["launch", "secrets", "--yes", "--force", "--json"],
        ["launch", "secrets", "--dry-run"],
        ["launch", "secrets", "--dry-run", "--json"],
        ["describe", "7", "--json"],
        ["describe", "7"],
        ["profiles", "list"],
        ["profiles", "list", "--json"],
        ["profiles", "show", "secrets"],
        ["profiles", "show", "secrets", "--json"],
        ["profiles", "validate", "secrets"],
        ["profiles", "validate", "secrets", "--json"],
        *(["profiles", "export", "secrets", "--as", form] for form in ("gcloud", "rest", "python")),
        ["profiles", "export", "secrets", "--as", "python", "--json"],
    ):
        done = call(*words)
        assert done.exception is None or isinstance(done.exception, SystemExit), (words, done.exception)
        shown[" ".join(words)] = done.output
    assert "can't read" in shown["launch secrets --yes --force"]
    assert shown["profiles show secrets"].count(MASK) > 20 * 8
    assert {words: leaks(text) for words, text in shown.items() if leaks(text)} == {}
    files = [path for path in place.rglob("*") if path.is_file() and path.name != "secrets.yaml"]
    assert "audit.jsonl" in {path.name for path in files}
    found = {path.name: leaks(path.read_bytes().decode(errors="replace")) for path in files}
    assert {name: where for name, where in found.items() if where} == {}
    # The service gets them as they are, and the job's specification says which are declared.
    sent = json.dumps(backend.created[0].resource)
    assert len(leaks(sent)) == 20 and "VXTUI_SECRETS" in sent


def test_they_are_shown_on_request(place: Path) -> None:
    call("launch", "secrets", "--yes", "--force")
    for words in (
        ["describe", "7", "--json"],
        ["launch", "secrets", "--dry-run"],
        ["profiles", "show", "secrets"],
        ["profiles", "export", "secrets", "--as", "rest"],
    ):
        assert len(leaks(call(*words, "--reveal").output)) == 20, words


def test_a_fix_shows_no_secret_in_its_diff(place: Path) -> None:
    path = place / "mine" / "secrets.yaml"
    document = profile()
    pool = document["jobSpec"]["workerPoolSpecs"][0]
    pool["containerSpec"]["env"].insert(1, {"name": "DB_PASSWORD", "value": "correct-horse"})
    pool["replicaCount"] = 2
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    for more in ([], ["--json"]):
        done = call("profiles", "validate", "secrets", "--fix", *more)
        assert leaks(done.output) == [] and "correct-horse" not in done.output
    assert len(leaks(path.read_text())) == 20


def test_an_exported_program_reads_its_secrets_from_the_environment(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "mine" / "one.yaml").write_text(
        yaml.safe_dump(
            {
                "region": "us-central1",
                "parameters": {"db": {"default": "correct horse", "secret": True}},
                "jobSpec": {
                    "workerPoolSpecs": [
                        {
                            "machineSpec": {"machineType": "n1-standard-4"},
                            "replicaCount": 1,
                            "containerSpec": {
                                "imageUri": "us-docker.pkg.dev/p/r/i:1",
                                "args": ["--db=${db}", "--lr=0.1"],
                                "env": [{"name": "HF_TOKEN", "value": "abc"}],
                            },
                        }
                    ]
                },
            }
        )
    )
    program = call("profiles", "export", "one", "--as", "python").stdout
    assert "correct horse" not in program and '"abc"' not in program
    monkeypatch.setitem(os.environ, "HF_TOKEN", "from-outside")
    monkeypatch.setitem(os.environ, "DB", "also")
    sent: dict[str, Any] = {}

    class Client:
        def create_custom_job(self, **call: Any) -> None:
            sent.update(call)

    scope: dict[str, Any] = {"__name__": "exported"}
    exec(program, scope)  # the program is what is tested
    scope["create"](Client())
    container = sent["custom_job"].job_spec.worker_pool_specs[0].container_spec
    assert list(container.args) == ["--db=also", "--lr=0.1"]
    assert container.env[0].value == "from-outside"
    config = call("profiles", "export", "one", "--as", "gcloud").stdout
    assert "REPLACE_WITH_HF_TOKEN" in config and "correct horse" not in config


def test_validate_names_the_cure_of_a_declared_secret(place: Path) -> None:
    said = call("profiles", "validate", "secrets").output
    assert "secrets.parameter" in said and "Secret Manager" in said


def test_a_crash_report_is_for_its_owner_alone_and_shows_no_secret(place: Path) -> None:
    path = place / "s" / "crash.log"
    path.parent.mkdir(exist_ok=True)
    path.write_text("an old report\n")
    path.chmod(0o644)
    output.crash(ValueError(" ".join(shape.written for shape in SHAPES)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert "ValueError" in text and leaks(text) == []


HEX = "0123456789abcdef"
harmless = st.one_of(
    st.uuids().map(str),
    st.text(HEX, min_size=40, max_size=40),
    st.text(HEX, min_size=64, max_size=64).map("sha256:{}".format),
    st.text(HEX, min_size=64, max_size=64).map("us-docker.pkg.dev/p/r/i@sha256:{}".format),
    st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
    st.integers(10**15, 10**19).map("projects/p/locations/us-central1/customJobs/{}".format),
    st.from_regex(r"[a-z][a-z0-9_-]{2,30}(/[a-z0-9._-]{1,20}){1,4}", fullmatch=True).map("gs://{}".format),
    st.from_regex(r"/[a-z][a-z0-9_-]{2,20}(/[a-zA-Z0-9._-]{1,20}){1,4}", fullmatch=True),
    st.from_regex(r"https://[a-z]{3,10}\.example\.com/[a-z0-9/-]{0,20}", fullmatch=True),
    st.from_regex(r"[a-z]{2,10}-[a-z]{2,10}-[0-9]{1,4}[a-z]?", fullmatch=True),
    st.floats(allow_nan=False).map(repr),
    st.sampled_from(
        ["--pad-token=<pad>", "--max-tokens=4096", "--text-key=content", "--tokenizer=meta/llama-3-8b",
         "n1-standard-4", "a2-highgpu-8g", "sk-learn-wrapper-2024-version", "hf_hub_download",
         "task-scheduler-with-warmup-2000", "workerpool1-3", "--token-file=/gcs/bucket/token.txt"]
    ),
)  # fmt: skip


@given(harmless)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask_text(text) == text
    spec = {"args": [text, f"--data={text}"], "env": [{"name": "RUN", "value": text}], "imageUri": text}
    assert masked(spec) == (spec, 0)


@pytest.mark.parametrize(
    "part",
    [
        "a-",
        "a.",
        "--a.",
        "eyJ-",
        "http://",
        "token=",
        "-----BEGIN PRIVATE KEY-----",
        "/a",
        "hf_",
        "x@",
        "'\"",
    ],
)
def test_a_hostile_text_is_read_once(part: str) -> None:
    """Twice the text takes about twice the time: nobody waits minutes for a megabyte."""
    text = part * (400_000 // len(part))
    assert len(mask_text(text)) > 0
    assert masked({"env": [{"name": "TOKEN", "value": text}]})[1] >= 0
