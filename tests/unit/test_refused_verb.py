"""A verb whose job is in the wrong state: refused without a question, and written down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.ui.double import MemoryBackend, job
from tui.config.settings import Settings
from tui.domain.states import JobState
from tui.verbs import run
from tui.verbs.command_group import cli


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
        ("cancel", JobState.FAILED, "has ended already: failed"),
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
