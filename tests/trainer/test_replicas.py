"""`--check-replicas`: a flipped bit on one rank is found, named and never saved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainer.multi_node_support import Cluster
from tests.trainer.ranks import Ranks
from trainer import exit_codes
from trainer.replicas.hashing import combined, hashes
from trainer.replicas.votes import Repeat, mismatch, verdict

TYPES = (torch.float32, torch.bfloat16, torch.int64, torch.uint8)
FLAGS = (
    "--model=tests.trainer.flipping_model:build", "--batch=4", "--micro-batch=4", "--check-replicas=4",
    "--checkpoint-every=6", "--steps=16",
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(TYPES), st.integers(1, 3000), st.integers(0, 9), st.data())
def test_any_flipped_bit_changes_the_hash(
    kind: torch.dtype, size: int, offset: int, data: st.DataObject
) -> None:
    whole = torch.randint(0, 200, (size + offset,)).to(kind)
    tensor = whole[offset:]
    before = hashes([tensor, tensor.clone()])
    assert before[0] == before[1], "where it is in memory has no effect"
    lanes = tensor.view(torch.uint8)
    at, bit = data.draw(st.integers(0, len(lanes) - 1)), data.draw(st.integers(0, 7))
    lanes[at] ^= 1 << bit
    after = hashes([tensor, tensor.clone()])
    assert after[0] == after[1] != before[0]
    assert combined(after) != combined(before)


@given(st.integers(0, 63), st.lists(st.integers(0, 999), min_size=1, max_size=40, unique=True))
def test_the_same_bit_flipped_in_many_words_changes_the_hash(bit: int, places: list[int]) -> None:
    tensor = torch.randn(2000)
    before = hashes([tensor])
    tensor.view(torch.int64)[places] ^= torch.tensor(1 << bit, dtype=torch.uint64).view(torch.int64)
    assert hashes([tensor]) != before


def test_what_sums_do_not_see_changes_the_hash() -> None:
    """Words in another order, also over blocks, and zeros at the end."""
    big = torch.arange(700_000, dtype=torch.int64)
    moved = big.roll(1 << 18)
    few = torch.tensor([1.0, 2.0, 3.0])
    found = hashes([big, moved, few, few.flip(0), torch.cat((few, torch.zeros(1))), torch.zeros(3)])
    assert len(set(found.tolist())) == 6


@given(st.integers(2, 9), st.data())
def test_the_minority_is_named(world: int, data: st.DataObject) -> None:
    ranks = list(range(world))
    wrong = data.draw(st.lists(st.sampled_from(ranks), max_size=world, unique=True))
    votes = {rank: 100 + rank if rank in wrong else 7 for rank in ranks}
    found = mismatch([dict.fromkeys(ranks, 1), votes])
    if not wrong:
        assert found is None
    elif 2 * (world - len(wrong)) > world:
        assert found is not None and found.has_majority and set(found.ranks) == set(wrong)
    elif len(wrong) < world or world > 1:
        assert found is not None and not found.has_majority and set(found.ranks) == set(ranks)


def test_what_a_repetition_says() -> None:
    assert verdict(False, [1e-7, 1e-3]).ranks == (1,)
    assert verdict(False, [float("inf"), 1e-3, 0.0]).ranks == (0,)
    assert verdict(True, [0.0, 0.0]).repeat is Repeat.SAME_RESULTS
    for distances in ([1e-3, 2e-3], [0.0, 0.0], [1.0, float("nan")]):
        assert verdict(False, distances).repeat is Repeat.UNDECIDED


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    found.end()


def said(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["kind"] == "replicas"]


def test_a_flipped_bit_is_repaired_and_its_rank_is_named(cluster: Cluster) -> None:
    """Two replicas: the repetition tells which one is faulty. The run ends like one without the fault."""
    good = Ranks(cluster.root / "good", 2, *FLAGS, "--warmup=4")
    # In step 9, after the checkpoint of step 6: the check of step 12 sees it.
    bad = cluster.start(0, 1, *FLAGS, "--nproc=2", "--log-every=1", "--warmup=4", "--model-args=rank=1,at=8")
    assert good.wait() == [0, 0] and bad.process.wait(240) == 0, good.errors()
    assert not said(good.lines()), "healthy replicas agree"
    found, repeated = bad.lines("replicas")
    assert (found["state"], found["step"], found["majority"]) == ("found", 12, False)
    assert found["ranks"] == [0, 1] and found["saved_step"] == 6
    assert "model.layers.0.weight" in found["tensors"]
    assert (repeated["state"], repeated["step"], repeated["ranks"]) == ("repeated", 12, [1])
    assert [line["step"] for line in bad.lines("resumed")] == [6]
    last = [line for line in good.lines() if line["kind"] == "step"][-1]
    assert last["loss"] == bad.lines("step")[-1]["loss"], "bit for bit"
    assert not list((cluster.root / "ck").glob("replica-*")), "nothing is left of it"


def test_a_fault_that_stays_ends_each_attempt_without_a_wrong_checkpoint(tmp_path: Path) -> None:
    """Three replicas: the majority names the rank at once; each attempt of the launch finds it again."""
    flags = (*FLAGS[:1], "--batch=3", "--micro-batch=1", *FLAGS[3:], "--model-args=rank=2,at=8,again=True")
    for _ in range(2):
        run = Ranks(tmp_path, 3, *flags)
        assert run.wait() == [exit_codes.REPLICAS_DIFFER] * 3, run.errors()
    first, repeated, second = said(run.lines())
    for found in (first, second):
        assert (found["state"], found["ranks"], found["majority"]) == ("found", [2], True)
        assert found["step"] == 12 and found["severity"] == "ERROR" and "rank 2" in found["message"]
    # DDP of three processes may cut the gradients into other buckets after a start.
    assert repeated["repeat"] in {Repeat.SAME_RESULTS, Repeat.UNDECIDED} and repeated["ranks"] == []
    steps = sorted(path.name for path in (tmp_path / "checkpoints").glob("step-*"))
    assert steps == ["step-6"], "nothing after the flip is saved"


def test_replicas_of_shards_are_compared(tmp_path: Path) -> None:
    """HSDP: ranks 0 and 1 have the shards of one copy, 2 and 3 those of the other."""
    flags = (*FLAGS, "--strategy=fsdp", "--data-parallel-replicate=2", "--micro-batch=1")
    run = Ranks(tmp_path, 4, *flags, "--model-args=rank=1,at=2")
    assert run.wait() == [exit_codes.REPLICAS_DIFFER] * 4, run.errors()
    (found,) = said(run.lines())
    assert (found["step"], found["ranks"], found["majority"]) == (4, [1, 3], False)


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        # A weight that is trained is overwritten in each step, by its owner's.
        (["--strategy=zero2", "--model-args=rank=1,at=2,frozen=True"], "layers.0.weight"),
        # Both ranks have the bias of a layer that is divided by its inputs.
        (
            ["--strategy=fsdp", "--tensor-parallel=2", "--model-args=rank=1,at=2,name=layers.1.bias"],
            "layers.1.bias",
        ),
    ],
    ids=["zero2", "tensor"],
)
def test_what_zero_and_tensor_parallelism_leave_whole_is_compared(
    tmp_path: Path, flags: list[str], name: str
) -> None:
    good = Ranks(
        tmp_path / "good", 2, *FLAGS, "--steps=5", *flags[:-1], flags[-1].replace("rank=1", "rank=9")
    )
    bad = Ranks(tmp_path / "bad", 2, *FLAGS, *flags)
    assert good.wait() == [0, 0], good.errors()
    assert bad.wait() == [exit_codes.REPLICAS_DIFFER] * 2, bad.errors()
    assert not said(good.lines())
    (found,) = said(bad.lines())
    assert (found["step"], found["ranks"], found["majority"]) == (4, [0, 1], False)
    assert name in {tensor.removeprefix("model.") for tensor in found["tensors"]}


def test_without_replicas_the_flag_is_refused(tmp_path: Path) -> None:
    run = Ranks(tmp_path, 2, *FLAGS, "--strategy=fsdp")
    assert run.wait() == [exit_codes.USAGE] * 2
    assert "no process has a copy of another one's state" in run.lines()[-1]["message"]
