"""A global batch gives the same loss and gradient however it is split, with any numbers of targets."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.trainer.in_turn import InTurn, RunFinished
from tests.trainer.uneven_workload import SAMPLES, UnevenSamples, uneven
from trainer.config import parse
from trainer.loop.evaluation import sample_rows
from trainer.models.gpt import VOCABULARY

pytestmark = [pytest.mark.arithmetic, pytest.mark.xdist_group("loss weights")]

FLAGS = {
    **{name: (f"--strategy={name}",) for name in ("ddp", "fsdp", "zero1", "zero2", "zero3")},
    "hsdp": ("--strategy=fsdp", "--data-parallel-replicate=2"),
    "tensor": ("--strategy=fsdp", "--tensor-parallel=2"),
}
PAIRS = ("hsdp", "tensor")
"""These need two ranks or four; one alone is `fsdp`."""
LAYOUTS = ((1, 8), (1, 1), (1, 3), (2, 4), (4, 2))
"""World size and micro-batch. With micro-batches of one sample, one has no target; 3 does not divide 8."""
OF_FOUR = ("fsdp", "hsdp", "tensor", "zero2")
"""Strategies that run on four ranks too, one of each way to divide the work; the others run on two."""
MODEL = ("--model=uneven", f"--batch={SAMPLES}", "--context=32", "--seed=3")
EVALUATED = 7
"""Not a multiple of any layout's micro-batches: some ranks have fewer samples, or none."""
CLOSE = 1e-5
"""Losses and norms are below 8, where float32 is exact to 5e-7. One target of 84 counted wrongly is 1e-2."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, int], dict[str, RunFinished]]:
    """Two steps of each strategy in each layout; ranks are shared by the strategies of a layout."""
    begun = {}
    for world, micro in LAYOUTS:
        # In all but the first layout the logits of 20 tokens at a time.
        memory = 0 if (world, micro) == LAYOUTS[0] else 20 * VOCABULARY * 4 / 2**20
        each = {}
        for name, own in FLAGS.items():
            if (world == 1 and name in PAIRS) or (world == 4 and name not in OF_FOUR):
                continue
            each[name] = (
                *MODEL, *own, f"--micro-batch={micro}", "--steps=2", "--eval-every=1", "--checkpoint-every=0",
                f"--eval-samples={EVALUATED}", f"--logits-memory={memory}",
            )  # fmt: skip
        begun[world, micro] = InTurn(tmp_path_factory.mktemp(f"{world}x{micro}-"), world, each)
    return {layout: ranks.wait() for layout, ranks in begun.items()}


def whole_batch() -> tuple[float, float]:
    """Loss and gradient norm of the whole batch in one pass, by torch's own mean over all targets."""
    torch.manual_seed(3)
    model, samples = uneven(parse([*MODEL])).model, UnevenSamples(32)
    states: list[torch.Tensor] = []
    model.head.register_forward_hook(lambda module, values, output: states.append(values[0]))
    tokens, targets = (torch.stack(part) for part in zip(*(samples[n] for n in range(SAMPLES)), strict=True))
    model(tokens, targets)
    logits = F.linear(states[0], model.head.weight)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    return float(loss.detach()), float(torch.nn.utils.get_total_norm(gradients))


@pytest.mark.parametrize("strategy", FLAGS)
def test_every_layout_of_a_batch_gives_its_loss_and_its_gradient(
    runs: dict[tuple[int, int], dict[str, RunFinished]], strategy: str
) -> None:
    first = runs[LAYOUTS[0]]["fsdp" if strategy in PAIRS else strategy]
    layouts = [layout for layout in LAYOUTS if strategy in runs[layout]]
    assert len(layouts) >= 2
    for layout in layouts:
        found = runs[layout][strategy]
        assert found.code == 0, f"{layout}: {found.errors}"
        for field in ("loss", "grad_norm"):
            assert len(found.steps(field)) == 2
            assert found.steps(field) == pytest.approx(first.steps(field), abs=CLOSE), (layout, field)
        evaluated = [[line["loss"] for line in run.lines if line["kind"] == "eval"] for run in (found, first)]
        assert len(evaluated[0]) == 2 and evaluated[0] == pytest.approx(evaluated[1], abs=CLOSE), layout
    loss, norm = whole_batch()
    assert (first.steps("loss")[0], first.steps("grad_norm")[0]) == pytest.approx((loss, norm), abs=CLOSE)


@pytest.mark.parametrize("count", [1, 7, 8, 19])
@pytest.mark.parametrize(("world", "micro"), LAYOUTS)
def test_every_layout_evaluates_the_same_samples(count: int, world: int, micro: int) -> None:
    of_ranks = [sample_rows(count, SAMPLES, rank, world, micro) for rank in range(world)]
    assert len({len(rows) for rows in of_ranks}) == 1, "all ranks make the same collective calls"
    assert max(len(row) for rows in of_ranks for row in rows) <= micro
    (whole,) = sample_rows(count, SAMPLES, 0, 1, count)
    assert sorted(n for rows in of_ranks for row in rows for n in row) == sorted(whole)
    assert len(set(whole)) == len(whole) == min(count, SAMPLES), "each has the same weight"
