"""A dry run whose name counts the jobs there are, where those can't be listed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.ui.double import MemoryBackend, MemoryJobs
from tui.backends.interface import JobPage, Unavailable
from tui.store.profiles.name_facts import claim
from tui.verbs import run
from tui.verbs.command_group import cli


class SilentJobs(MemoryJobs):
    """Listings without an answer."""

    async def list_all(self, *, filter: str = "") -> AsyncGenerator[JobPage, None]:
        await asyncio.Event().wait()
        yield JobPage("")


@pytest.mark.parametrize("silent", [True, False])
def test_the_note_says_why_the_jobs_do_not_count(
    silent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tui.verbs.launch  # noqa: F401 - the name in the package is the verb

    (tmp_path / "config.yaml").write_text("{}\n")
    monkeypatch.setenv("VXTUI_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("VXTUI_CONFIG", str(tmp_path / "config.yaml"))
    backend, module = MemoryBackend(), sys.modules["tui.verbs.launch"]
    if silent:
        backend.use(jobs={"custom_job": SilentJobs(backend)})
    else:
        backend.error = Unavailable("the service is away.")
    for where in (run, module):
        monkeypatch.setattr(where, "open_backend", lambda *_: backend)
    monkeypatch.setattr(module, "NAMES", 0.05)
    done = CliRunner().invoke(cli, ["launch", "local-2node", "--dry-run"])
    why = "no answer within 0 s." if silent else "the service is away."
    assert f"so they don't count in the name: {why}" in done.stderr, done.output
    assert "the checks say why" not in done.stderr


def test_launches_at_the_same_time_claim_different_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["run-1", "run-1", "run-2", "ü" * 128]
    assert [claim(tmp_path / "names", name) for name in names] == [True, False, True, True]
    # A claim ends by itself, e.g. of a launch that was declined.
    monkeypatch.setattr("tui.store.profiles.name_facts.CLAIM_SECONDS", -1.0)
    assert claim(tmp_path / "names", "run-1")
    (tmp_path / "file").touch()
    assert claim(tmp_path / "file", "run-1")
