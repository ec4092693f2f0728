"""Hostile jobs, really run by an emulator, through verbs, tabs and exports: nothing fails over them."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import textual.pilot
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.shell import Home, home
from tests.ui.conftest import wait_for_idle
from tests.wire.control import connect
from tests.wire.hostile_jobs import Hostile, hostile
from tests.wire.hostile_screen import look_at
from tui.emulator.paths import StateDir
from tui.verbs.command_group import run

pytestmark = pytest.mark.xdist_group("hostile")
PARENT = "projects/local/locations/us-central1"
ENDED = ("SUCCEEDED", "FAILED")


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    """A home whose environment is this process's too: verbs and console run here."""
    with home() as found, pytest.MonkeyPatch.context() as patch:
        for key, value in found.env.items():
            patch.setenv(key, value)
        patch.setattr(textual.pilot, "wait_for_idle", wait_for_idle)
        started = found.run("emulator", "start")
        assert started.returncode == 0, started.stderr
        yield found


async def run_jobs(place: Home, jobs: list[Hostile]) -> list[str]:
    """Run them to their end; return their names."""
    folder = Path(place.root) / "output"
    folder.mkdir(exist_ok=True)
    async with connect(StateDir(place.state).target) as clients:
        made = [
            await clients.create(job.request(folder, at), parent=PARENT, name=job.name, labels=job.labels)
            for at, job in enumerate(jobs)
        ]
        for job in made:
            await clients.reach(job.name, *ENDED)
    return [job.name for job in made]


def verb(*words: str, codes: tuple[int, ...] = (0,)) -> str:
    """Run it here; what it printed on both streams is checked."""
    out, err = io.StringIO(), io.StringIO()
    argv, sys.argv = sys.argv, ["vxtui", *words]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = run()
    finally:
        sys.argv = argv
    assert code in codes, (words, code, err.getvalue())
    for printed in (out.getvalue(), err.getvalue()):
        assert "Traceback" not in printed, words
        assert not [c for c in printed if c != "\n" and unsafe(c)], (words, printed)
    return out.getvalue()


def unsafe(character: str) -> bool:
    """A terminal may act on it: a control character, or one that turns the direction of the text."""
    return unicodedata.category(character) in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(character) in (
        "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI",
    )  # fmt: skip


def check_verbs(name: str, job: Hostile) -> None:
    said = json.loads(verb("describe", name, "--json"))
    assert said["display_name"] == job.name and said["labels"] == job.labels
    for words in (("describe",), ("metrics",), ("metrics", "--json"), ("logs", "--grep", "[a-z]")):
        verb(words[0], name, *words[1:])
    lines = verb("logs", name).splitlines()
    objects = [json.loads(each) for each in verb("logs", name, "--json").splitlines()]
    printed = [each for each in objects if each["replica"] != "service"]
    assert len(printed) == job.printed
    assert len(lines) == len(objects)
    assert len({each["insert_id"] for each in objects}) == len(objects)


def check_exports(name: str) -> None:
    """As a profile, and in all forms. What a form can't hold is refused by a sentence."""
    verb("profiles", "import", name, "--name", "hostile", "--force", codes=(0, 3))
    verb("profiles", "show", "hostile", codes=(0, 3))
    for form in ("gcloud", "rest", "python"):
        verb("profiles", "export", "hostile", "--as", form, codes=(0, 3))


def check_all(place: Home, jobs: list[Hostile], keys: int) -> None:
    names = asyncio.run(run_jobs(place, jobs))
    verb("jobs")
    listed = {each["name"] for each in json.loads(verb("jobs", "--json"))["jobs"]}
    assert listed >= set(names)
    for name, job in zip(names, jobs, strict=True):
        check_verbs(name, job)
        check_exports(name)
    asyncio.run(look_at(names, place.root, unsafe, keys))
    assert not (place.root / "s" / "crash.log").exists()


EACH = settings(
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
    deadline=None,
)


# Several seconds: an emulator, and jobs that really run.
@given(st.lists(hostile, min_size=1, max_size=2))
@settings(EACH, max_examples=2)
def test_a_few_jobs(place: Home, jobs: list[Hostile]) -> None:
    check_all(place, jobs, keys=3)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@given(st.lists(hostile, min_size=20, max_size=20))
@settings(EACH, max_examples=25)
def test_five_hundred_jobs(place: Home, jobs: list[Hostile]) -> None:
    check_all(place, jobs, keys=8)
