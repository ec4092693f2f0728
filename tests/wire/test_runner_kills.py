"""A killed runner costs no job: the next one takes over what lives, and reads how the others ended."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator

import pytest

from tests.waiting import wait_for
from tests.wire.attempts import FOREVER, Attempt, attempt
from tui.emulator.runner import database

KILLS = 100


@pytest.fixture
def one() -> Iterator[Attempt]:
    with attempt() as made:
        yield made


def kill(one: Attempt) -> None:
    """Kill the runner, and wait for the next one to have written its record."""
    killed = one.keeper()
    killed.kill()
    wait_for(
        lambda: (identity := database.read_identity(one.home.database)) and identity.pid != killed.pid,
        "the next runner",
    )


def until(path: object, code: int) -> str:
    waits = f"while not pathlib.Path({str(path)!r}).exists(): time.sleep(0.01)"
    return f"import pathlib, sys, time\n{waits}\nsys.exit({code})"


def test_a_new_runner_takes_over_living_replicas_and_reads_their_codes(one: Attempt) -> None:
    one.run(until(one.state.root / "go", 3), FOREVER, "print('done')")
    wait_for(lambda: one.codes().get("workerpool1-1") == 0, "a replica to end")
    one.said("up", "workerpool1-0")
    before = {r.id: r.pid for r in one.status().replicas}
    for _ in range(2):
        kill(one)
        assert {r.id: r.pid for r in one.status().replicas} == before and one.status().outcome is None
    (one.state.root / "go").touch()
    status = one.ended()
    assert (status.outcome, status.failed_replica, status.exit_code) == ("failed", "workerpool0-0", 3)
    assert [text for _, _, text in status.events] == ["command terminated with exit code 3"]
    assert one.processes() == []


def test_replicas_that_end_without_a_runner_keep_their_codes(one: Attempt) -> None:
    one.run(until(one.state.root / "go", 0), until(one.state.root / "go", 0))
    wait_for(lambda: [r.state for r in one.status().replicas] == ["running"] * 2, "both replicas")
    killed = one.keeper()
    killed.suspend()
    (one.state.root / "go").touch()
    wait_for(lambda: sum(p.status() == "zombie" for p in killed.children()) == 2, "both to end")
    killed.kill()
    assert one.ended().outcome == "succeeded"
    assert one.codes() == {"workerpool0-0": 0, "workerpool1-0": 0}


def test_a_command_reaches_the_next_runner_once(one: Attempt) -> None:
    one.run(FOREVER, FOREVER)
    one.said("up")
    killed = one.keeper()
    killed.suspend()
    one.command(do="stop", reason="cancel")
    killed.kill()
    assert one.ended().outcome == "stopped" and one.processes() == []


# Minutes: a hundred attempts.
@pytest.mark.slow
def test_a_hundred_kills_fail_nothing() -> None:
    dice, failed, live, ended = random.Random(29), [], 0, 0
    for number in range(KILLS):
        with attempt() as one:
            # Ends early, late, or around the kill.
            codes = [0, 0, dice.choice([0, 0, 3])]
            waits = [0.3 + dice.random(), dice.random() * 0.5, 0.6]
            programs = [
                f"import sys, time; time.sleep({wait}); sys.exit({code})"
                for wait, code in zip(waits, codes, strict=True)
            ]
            one.run(*programs[: 2 + number % 2])
            wait_for(lambda: database.read_identity(one.home.database), "the record")
            time.sleep(dice.random() * 1.2)
            states = [r.state for r in one.status().replicas]
            live, ended = live + states.count("running"), ended + states.count("exited")
            for process in one.processes():
                if "tui.emulator.runner.attempt" in process.cmdline():
                    process.kill()
            status = one.ended()
            right = {"succeeded"} if codes[2] == 0 or number % 2 == 0 else {"succeeded", "failed"}
            if status.outcome not in right or status.exit_code not in {None, 3}:
                failed.append((number, status))
    print(json.dumps({"kills": KILLS, "live": live, "ended": ended, "failed": len(failed)}))
    assert not failed
