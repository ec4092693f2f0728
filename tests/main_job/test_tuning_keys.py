"""A sweep by keys alone, in a real pty: launched, watched, its best trial's log read and the trial cloned."""

from __future__ import annotations

import re

import pytest

from tests.shell import VXTUI, home
from tests.terminal import Terminal

CTRL_U = "\x15"


def words(text: str) -> str:
    """The screen's text on one line: a dialog breaks its lines where the terminal ends."""
    return " ".join(text.replace("▌", " ").split())


# A minute each: two trials really train.
@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["small", "usual"])
def test_a_sweep_is_launched_watched_and_its_best_trial_cloned(size: tuple[int, int]) -> None:
    with home() as place:
        screen = Terminal([VXTUI], place.env, *size)

        def keys(*pressed: str, until: str) -> None:
            screen.press(*pressed)
            screen.wait(lambda text: re.search(until, words(text)))

        try:
            screen.wait("No jobs here yet")
            keys("2", until="local-2node")
            keys("/", "local-tuning", "enter", until="1 of ")
            keys("l", until="Launch local-tuning")
            # The values of this launch: two trials of four steps.
            keys("tab", "tab", "tab", CTRL_U, "2", until="trials 2 ")
            keys("tab", "tab", CTRL_U, "4", until="steps 4 ")
            keys("enter", until="enter launch")
            keys("enter", until="Overview +Trials")
            keys("]", until="of 2 trials ended")
            keys("s", until="newest first")
            keys("s", until="2 of 2 trials ended .*best loss")
            keys("b", until="★")
            keys("v", until="loss by learning-rate")
            keys("enter", until="local-tuning-1-trial-")
            keys("]", "]", until="step")
            screen.wait(lambda text: "step" in text and "loss" in text)
            keys("esc", until="Overview +Trials")
            keys("B", until="Save .* as the profile")
            keys(CTRL_U, "the-best", "enter", until="the-best")
            screen.press("ctrl+q")
            assert screen.wait_exit() == 0
        finally:
            screen.close()
        found = place.json("tasks", "local-tuning-1")
        best = next(task for task in found["tasks"] if task["id"] == found["best"])
        (pool,) = place.json("profiles", "show", "the-best")["body"]["jobSpec"]["workerPoolSpecs"]
        given = dict(arg[2:].split("=", 1) for arg in pool["containerSpec"]["args"] if "=" in arg)
        assert {name: given[name] for name in best["parameters"]}.keys() == best["parameters"].keys()
        assert float(given["learning-rate"]) == pytest.approx(best["parameters"]["learning-rate"])
