"""A killed run resumes with the same batches and the same losses, bit for bit."""

from __future__ import annotations

import random
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.trainer.ranks import Ranks, losses
from tests.waiting import wait_for

STRATEGIES = ("ddp", "zero3", "fsdp", "zero2")
"""Each run repeats the same kernels on the same data, so that other kernels add nothing."""
STEPS = 18


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """12 windows of 64 bytes per epoch and a rest: with 8 per step an epoch ends within every second step."""
    words = random.Random(3).choices(["loss", "gradient", "rank", "node", "step\n"], k=2000)
    path = tmp_path / "text.txt"
    path.write_bytes(" ".join(words).encode()[: 64 * 76])
    return path


def flags(strategy: str, text: Path, **kw: object) -> list[str]:
    given = {
        "steps": STEPS, "batch": 8, "micro-batch": 2, "workers": 2, "dropout": 0.1, "data": text,
        "checkpoint-every": 5, "strategy": strategy, **kw,
    }  # fmt: skip
    return [f"--{name}={value}" for name, value in given.items()]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_after_a_kill_every_later_loss_is_the_same(tmp_path: Path, text: Path, strategy: str) -> None:
    # Dropout, a schedule, two micro-batches a step, two workers; the epoch ends after 9 steps and a half.
    whole = Ranks(tmp_path / "whole", 2, *flags(strategy, text))
    assert whole.wait() == [0, 0], whole.errors()

    cut = Ranks(tmp_path / "cut", 2, *flags(strategy, text))
    wait_for(lambda: any(line["kind"] == "checkpoint" for line in cut.lines()), "a checkpoint", every=0.01)
    # Far from the end, which a loaded machine may reach before the kill does.
    cut.wait_step(random.randint(6, 9))
    cut.kill()
    again = Ranks(tmp_path / "cut", 2, *flags(strategy, text))
    assert again.wait() == [0, 0], again.errors()
    resumed = next(line["step"] for line in again.lines() if line["kind"] == "resumed")
    assert resumed % 5 == 0 and resumed > 0
    # The same program and shapes on the same layout, and a sum of two has one order: exact, bit for bit.
    assert losses(again.lines()) == losses(whole.lines())


@pytest.mark.arithmetic
@pytest.mark.parametrize(
    "strategy",
    ["fsdp", "zero3", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ddp", "zero1", "zero2"))],
)
def test_a_checkpoint_of_two_ranks_resumes_on_one_and_on_four(
    tmp_path: Path, text: Path, strategy: str
) -> None:
    kept = {"dropout": 0, "workers": 0, "checkpoint-dir": tmp_path / "ck", "micro-batch": 8}
    first = Ranks(tmp_path / "two", 2, *flags(strategy, text, **kept, steps=8))
    assert first.wait() == [0, 0], first.errors()
    ends = []
    for world in (2, 1, 4):
        copy = tmp_path / f"ck-{world}"
        shutil.copytree(tmp_path / "ck", copy)
        more = Ranks(
            tmp_path / f"at-{world}", world,
            *flags(strategy, text, **{**kept, "checkpoint-dir": copy, "steps": 14, "checkpoint-every": 0}),
        )  # fmt: skip
        assert more.wait() == [0] * world, more.errors()
        assert next(line["step"] for line in more.lines() if line["kind"] == "resumed") == 8
        ends.append([losses(more.lines())[step] for step in range(9, 15)])
    # Losses of about 3 that other sums lead to: 1e-5 is some 30 times their rounding (3 * 2**-23), for what
    # six steps of Adam make of it.
    for others in ends[1:]:
        assert others == pytest.approx(ends[0], abs=1e-5)


def test_ddp_resumes_as_fsdp_and_back(tmp_path: Path, text: Path) -> None:
    kept = {"dropout": 0, "workers": 0, "checkpoint-dir": tmp_path / "ck"}
    for until, strategy in ((4, "ddp"), (8, "fsdp"), (12, "ddp")):
        part = Ranks(tmp_path / "parts", 2, *flags(strategy, text, **{**kept, "steps": until}))
        assert part.wait() == [0, 0], part.errors()
    resumed = [line["step"] for line in part.lines() if line["kind"] == "resumed"]
    assert resumed == [4, 8]


@pytest.mark.parametrize(("ranks", "every"), [((1,), 5), ((0, 1), 1)])
def test_a_signal_to_any_rank_costs_no_step(
    tmp_path: Path, text: Path, ranks: tuple[int, ...], every: int
) -> None:
    # A save after every step is always under way when the signal comes; the workers get it too.
    kept = {"checkpoint-every": every}
    whole = Ranks(tmp_path / "whole", 2, *flags("ddp", text))
    left = Ranks(tmp_path / "cut", 2, *flags("ddp", text, **kept))
    left.wait_step(8)
    workers = [c for r in ranks for c in psutil.Process(left.processes[r].pid).children()]
    assert len(workers) == 2 * len(ranks)
    left.signal(signal.SIGTERM, *ranks)
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.terminate()
    assert left.wait() == [75, 75], left.errors()
    again = Ranks(tmp_path / "cut", 2, *flags("ddp", text))
    assert again.wait() == [0, 0] == whole.wait()
    said = again.lines()
    assert [x["step"] for x in said if x["kind"] == "preempted"] == [
        x["step"] for x in said if x["kind"] == "resumed"
    ]
    assert losses(said) == losses(whole.lines())


@pytest.mark.parametrize(
    "strategy", ["ddp", *(pytest.param(name, marks=pytest.mark.slow) for name in ("fsdp", "zero2"))]
)
def test_nodes_with_disks_of_their_own_resume(tmp_path: Path, text: Path, strategy: str) -> None:
    place = f"--upload-dir={tmp_path / 'bucket'}"
    kept = {"workers": 0, "steps": 12}
    first = Ranks(tmp_path / "own", 2, *flags(strategy, text, **{**kept, "steps": 6}), place, nodes=2)
    assert first.wait() == [0, 0], first.errors()
    copies = [tmp_path / "lost-nothing", tmp_path / "lost-a-disk"]
    for copy in copies:
        shutil.copytree(tmp_path / "own", copy)
    shutil.rmtree(copies[1] / "node-1" / "checkpoints")
    ends = []
    for copy in copies:
        # Without a bucket only what is the same on every node outlives a lost disk.
        rescue = [place] if copy == copies[1] and strategy != "ddp" else []
        more = Ranks(copy, 2, *flags(strategy, text, **kept), *rescue, nodes=2)
        assert more.wait() == [0, 0], more.errors()
        assert [x["step"] for x in more.lines() if x["kind"] == "resumed"] == [6]
        ends.append(losses(more.lines()))
    assert ends[0] == ends[1], "bit for bit, random state and all"
    assert sorted(ends[0]) == list(range(1, 13))


def test_a_copy_that_is_damaged_on_one_node_is_taken_from_the_other(tmp_path: Path, text: Path) -> None:
    kept = {"workers": 0, "steps": 10, "checkpoint-every": 5}
    first = Ranks(tmp_path, 2, *flags("ddp", text, **kept), nodes=2)
    assert first.wait() == [0, 0], first.errors()
    newest = tmp_path / "node-1" / "checkpoints" / "step-10"
    (newest / "side.pt").write_bytes(b"")
    (newest.with_name("step-5") / "manifest.json").write_text("{")
    more = Ranks(tmp_path, 2, *flags("ddp", text, **{**kept, "steps": 12}), nodes=2)
    assert more.wait() == [0, 0], more.errors()
    assert [x["step"] for x in more.lines() if x["kind"] == "resumed"] == [10]
    told = [x["message"] for x in more.lines(1) if "is skipped" in x["message"]]
    assert len(told) == 2 and "step-10" in told[1] and "step-5" in told[0]
