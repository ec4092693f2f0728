"""A killed run resumes with the same batches and the same losses, bit for bit."""

from __future__ import annotations

import random
import shutil
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.trainer.ranks import Ranks, losses
from tests.waiting import wait_for
from trainer.checkpoint import manifest as manifests

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


COPIES, PARTS = {"data-parallel-replicate": 2}, {"tensor-parallel": 2}
LAYOUTS: dict[str, tuple[int, str, dict[str, int]]] = {
    "copies": (2, "fsdp", COPIES), "ddp": (2, "ddp", {}), "fsdp": (2, "fsdp", {}),
    "tensor": (2, "fsdp", PARTS), "hsdp": (4, "fsdp", COPIES), "hsdp tensor": (4, "fsdp", COPIES | PARTS),
    "zero1": (2, "zero1", {}), "zero2": (2, "zero2", {}), "zero3": (2, "zero3", {}),
}  # fmt: skip
"""Number of ranks, strategy and flags."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "copies" else pytest.mark.slow) for name in LAYOUTS],
)
def test_nodes_with_disks_of_their_own_resume(tmp_path: Path, text: Path, name: str) -> None:
    world, strategy, layout = LAYOUTS[name]
    place = f"--upload-dir={tmp_path / 'bucket'}"
    kept = {"workers": 0, "steps": 12, **layout}
    first = Ranks(tmp_path / "own", world, *flags(strategy, text, **{**kept, "steps": 6}), place, nodes=2)
    assert first.wait() == [0] * world, first.errors()
    lost: dict[str, tuple[int, ...]] = {"nothing": (), "a disk": (1,), "both disks": (0, 1)}
    if name == "copies":
        # The kernels are those of the other layouts; the bucket holds the same files as the disks.
        lost = {"nothing": ()}
    ends = []
    for what, disks in lost.items():
        copy = tmp_path / f"lost {what}"
        shutil.copytree(tmp_path / "own", copy)
        for node in disks:
            shutil.rmtree(copy / f"node-{node}" / "checkpoints")
        # Without a bucket only what is the same on every node outlives a lost disk.
        rescue = [f"--upload-dir={copy / 'bucket'}"] if len(disks) > (strategy == "ddp") else []
        shutil.copytree(tmp_path / "bucket", copy / "bucket")
        more = Ranks(copy, world, *flags(strategy, text, **kept), *rescue, nodes=2)
        assert more.wait() == [0] * world, more.errors()
        resumed = [x for x in more.lines() if x["kind"] == "resumed"]
        assert [x["step"] for x in resumed] == [6]
        assert not [x for x in more.lines() if "is skipped" in x["message"]]
        ends.append(losses(more.lines()))
    assert all(end == ends[0] for end in ends), "bit for bit, random state and all"
    assert sorted(ends[0]) == list(range(1, 13))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fsdp", "hsdp", "zero2"])
def test_nodes_that_swap_disks_or_change_their_number_resume(tmp_path: Path, text: Path, name: str) -> None:
    world, strategy, layout = LAYOUTS[name]
    place = f"--upload-dir={tmp_path / 'bucket'}"
    kept = {"workers": 0, "steps": 12, "dropout": 0, **layout}
    first = Ranks(tmp_path / "own", world, *flags(strategy, text, **{**kept, "steps": 6}), place, nodes=2)
    assert first.wait() == [0] * world, first.errors()
    shutil.copytree(tmp_path / "own" / "node-0", tmp_path / "swapped" / "node-1")
    shutil.copytree(tmp_path / "own" / "node-1", tmp_path / "swapped" / "node-0")
    swapped = Ranks(tmp_path / "swapped", world, *flags(strategy, text, **kept), nodes=2)
    assert swapped.wait() == [0] * world, swapped.errors()
    one = Ranks(
        tmp_path / "one", world // 2, *flags(strategy, text, **kept | {"data-parallel-replicate": 1}), place
    )
    assert one.wait() == [0] * (world // 2), one.errors()
    for ranks in (swapped, one):
        assert [x["step"] for x in ranks.lines() if x["kind"] == "resumed"][-1] == 6
    # Six steps of Adam amplify the rounding of another order of sums.
    assert losses(one.lines())[12] == pytest.approx(losses(swapped.lines())[12], abs=1e-5)


def test_a_copy_that_cant_be_loaded_is_skipped_for_the_next_good_one(tmp_path: Path, text: Path) -> None:
    kept = {"workers": 0, "checkpoint-every": 2}
    first = Ranks(tmp_path, 1, *flags("ddp", text, **kept, steps=4))
    assert first.wait() == [0], first.errors()
    # The manifest agrees with a file that torch can't read.
    newest = tmp_path / "checkpoints" / "step-4"
    (newest / "side.pt").write_bytes(b"not a state")
    manifest = manifests.read(newest)
    manifests.write(newest, replace(manifest, files=_inventory(newest)))
    more = Ranks(tmp_path, 1, *flags("ddp", text, **kept, steps=6))
    assert more.wait() == [0], more.errors()
    assert [x["step"] for x in more.lines() if x["kind"] == "resumed"] == [2]
    told = [x["message"] for x in more.lines() if "is skipped" in x["message"]]
    assert len(told) == 1 and "step-4 (local) is skipped" in told[0] and "side.pt can't be read" in told[0]


def test_another_optimizer_begins_without_the_state_that_the_checkpoint_lacks(
    tmp_path: Path, text: Path
) -> None:
    kept = {"workers": 0, "checkpoint-every": 0, "dropout": 0}
    first = Ranks(tmp_path, 1, *flags("ddp", text, **kept, steps=2))
    assert first.wait() == [0], first.errors()
    more = Ranks(
        tmp_path, 1, *flags("ddp", text, **kept, steps=4, optimizer="sgd"), "--allow-change=optimizer"
    )
    assert more.wait() == [0], more.errors()
    assert [x["step"] for x in more.lines() if x["kind"] == "resumed"] == [2]
    assert any("optimizer adamw → sgd" in x["message"] for x in more.lines())


def _inventory(folder: Path) -> dict[str, dict[str, int]]:
    files = manifests.inventory(folder, 0)
    del files[manifests.MANIFEST]
    return files


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
