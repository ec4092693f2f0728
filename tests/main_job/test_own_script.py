"""A script of somebody's on two nodes: it continues after a killed supervisor and after a lost node."""

from __future__ import annotations

import pytest

from tests.script_kills import script_job

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("own script")]


# Many seconds: an emulator, and torch is imported six times. The tests of the trainer kill a rank.
def test_a_script_survives_the_end_of_a_supervisor_and_of_a_node() -> None:
    with script_job() as job:
        for what, replica in (("supervisor", "workerpool1-0"), ("node", "workerpool0-0")):
            restart = job.kill(what, replica)
            assert job.begins()[-1] >= 10, "from its own checkpoint"
            assert restart.lost_steps <= 20 and restart.orphans == 0
        progress = job.progress()
    assert progress["step"] >= 10 and progress["total_steps"] == 1_000_000
    assert progress["loss"]["last"] < progress["loss"]["first"]
    assert progress["speed"]["unit"] == "samples/s" and progress["speed"]["value"] > 0
