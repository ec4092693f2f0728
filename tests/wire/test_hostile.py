"""Hostile jobs, really run by an emulator, through verbs, tabs and exports: nothing fails over them."""

from __future__ import annotations

import asyncio
import io
import json
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import textual.pilot
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.shell import Home, home
from tests.ui.conftest import wait_for_idle
from tests.wire.control import connect
from tests.wire.hostile_jobs import Hostile, harmless, hostile
from tests.wire.hostile_screen import KeyTimes, console, look_at, unsafe
from tui.emulator.paths import StateDir
from tui.verbs.command_group import run

pytestmark = pytest.mark.xdist_group("hostile")
USUAL, FROZEN = 2, 3
"""So many times the CPU of a harmless job's keys at most: in the median, and each key beside their p99."""
AGAIN = 2
"""Further looks at a job with a key above that: a collection of garbage may have come between."""
PEER_KEYS = 6
"""Keys on each tab of a harmless job."""
FOR_A_MEDIAN = 100
"""With fewer keys the median says which keys were drawn: some cost fifty times as much as others."""
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


def check_by_verbs(names: list[str], jobs: list[Hostile]) -> None:
    verb("jobs")
    listed = {each["name"] for each in json.loads(verb("jobs", "--json"))["jobs"]}
    assert listed >= set(names)
    failures = []
    for name, job in zip(names, jobs, strict=True):
        try:
            check_verbs(name, job)
            check_exports(name)
        except AssertionError as error:
            error.add_note(repr(job))
            failures.append(error)
    if failures:
        raise ExceptionGroup("jobs that a verb fails over", failures)


async def check_by_keys(
    place: Home, names: list[str], jobs: list[Hostile], plain: list[str], keys: int
) -> None:
    """Every tab of each job; a key of a hostile job costs about as much as one of a harmless job."""
    ours, peer = KeyTimes(), KeyTimes()
    async with console(place.root) as (app, pilot):
        for name in plain:
            peer.of_keys += (await look_at(app, pilot, name, PEER_KEYS)).of_keys
        limit = FROZEN * peer.share(0.99)
        for name, job in zip(names, jobs, strict=True):
            try:
                times = await look_at(app, pilot, name, keys)
                for _ in range(AGAIN):
                    if times.share(1) > limit:
                        times = times.least(await look_at(app, pilot, name, keys))
                assert times.share(1) <= limit, (times.words(), limit)
            except AssertionError as error:
                error.add_note(repr(job))
                raise
            ours.of_keys += times.of_keys
    print(f"hostile: {ours.words()}\nharmless: {peer.words()}")
    if min(len(ours.of_keys), len(peer.of_keys)) >= FOR_A_MEDIAN:
        assert ours.share(0.5) <= USUAL * peer.share(0.5)


def check_all(place: Home, jobs: list[Hostile], keys: int, peers: int) -> None:
    """The jobs by verbs and by keys, with so many harmless ones beside them."""
    began = time.monotonic()
    names = asyncio.run(run_jobs(place, [*jobs, *[harmless(at) for at in range(peers)]]))
    names, plain = names[: len(jobs)], names[len(jobs) :]
    print(f"{len(jobs)} jobs ran after {time.monotonic() - began:.0f} s")
    check_by_verbs(names, jobs)
    print(f"verbs are done after {time.monotonic() - began:.0f} s")
    asyncio.run(check_by_keys(place, names, jobs, plain, keys))
    print(f"keys are done after {time.monotonic() - began:.0f} s")
    assert not (place.root / "s" / "crash.log").exists()


def drawn(count: int, chance: int) -> list[Hostile]:
    """So many jobs. Hypothesis would make a list of them smaller than one by one."""
    found: list[Hostile] = []

    @seed(chance)
    @given(hostile)
    @settings(
        database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck), deadline=None,
        max_examples=count,
    )  # fmt: skip
    def draw(job: Hostile) -> None:
        found.append(job)

    draw()
    return found


def a_seed() -> int:
    """Another one each time; a failure says which."""
    found = int(os.environ.get("HOSTILE_SEED", secrets.randbelow(10**9)))
    print(f"HOSTILE_SEED={found}")
    return found


# Several seconds: an emulator, and jobs that really run.
def test_a_few_jobs(place: Home) -> None:
    check_all(place, drawn(3, a_seed()), keys=1, peers=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(5))
def test_five_hundred_jobs(place: Home, part: int) -> None:
    """A hundred of them, which run at the same time and are looked at by one console."""
    check_all(place, drawn(100, a_seed() + part), keys=1, peers=5)
