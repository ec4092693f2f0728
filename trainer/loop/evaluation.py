"""The mean loss of held-out samples and the accuracy of their answers; a collective call of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from trainer.config import AUTO, Config
from trainer.data.loader import Batch, batches, to_device
from trainer.data.sampler import permute
from trainer.distributed.batch_plan import BatchPlan
from trainer.distributed.loss_weights import LossWeights
from trainer.distributed.mesh import ParallelMesh
from trainer.distributed.process_group import ProcessGroup
from trainer.distributed.step_sync import StepSync
from trainer.hang import progress
from trainer.models.workload import Workload
from trainer.strategy.base import Strategy


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The mean loss over the targets, the same on all ranks, or the signal that ended the evaluation early.
    `accuracy` is the accuracy of generated answers, 0 to 1, if the model generates answers."""

    loss: float
    signal: int = 0
    accuracy: float | None = None

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics, by the names of their charts."""
        metrics = {"eval_loss": self.loss}
        return metrics if self.accuracy is None else {**metrics, "eval_accuracy": self.accuracy}


class Evaluation:
    """Evaluates the model on `--eval-samples` held-out samples, the same for any number of ranks and any
    micro-batch."""

    def __init__(
        self, config: Config, workload: Workload, plan: BatchPlan, group: ProcessGroup, device: torch.device
    ) -> None:
        self._every, self._count = config.eval_every, config.eval_samples
        self._workload, self._group, self._device = workload, group, device
        data_rank = ParallelMesh.of(config.parallel, group.world_size).data_rank(group.rank)
        self._share = data_rank, plan.world_size
        # Equal on all ranks, also in an elastic run with different shares of a batch.
        auto = config.data.micro_batch == AUTO
        most = plan.micro_batch if auto else config.data.max_micro_batch
        self._micro_batch = min(most, plan.batch // plan.world_size)
        self.step = 0
        """The step of the last completed evaluation."""
        self.regroup = False
        """Whether the last evaluation was interrupted by a change of ranks (`--elastic`)."""

    def due(self, step: int) -> bool:
        return bool(self._every and step and step % self._every == 0 and self.step != step)

    def run(self, step: int, strategy: Strategy, sync: StepSync) -> Evaluated | None:
        """Evaluate after `step`, with no pending reduction. Returns None if there are no held-out samples, or
        after an interruption."""
        self.regroup = False
        data = self._workload.evaluation
        if data is None:
            return None
        total, targets = 0.0, 0
        right: list[float] = []
        rows = sample_rows(self._count, len(data), *self._share, self._micro_batch)
        # A rank without samples joins the collective calls with any sample.
        held_out = batches(
            data, [row or [0] for row in rows], 0, pinned=False, collate=self._workload.collate
        )
        for row, batch in zip(rows, held_out, strict=True):
            counts = [self._workload.targets(batch) if row else 0]
            weights = LossWeights(counts, self._group.world_size, self._device)
            loss = strategy.evaluate(to_device(batch, self._device))
            right += self._accuracies(row, batch, strategy)
            sync.reduce(step, loss * weights[0])
            outcome = sync.outcomes(wait=True)[0]
            if outcome.regroup:
                self.regroup = True
                return None
            if outcome.signal:
                return Evaluated(outcome.loss, outcome.signal)
            progress.beat()
            total += outcome.loss * int(weights.total)
            targets += int(weights.total)
        self.step = step
        return Evaluated(total / max(1, targets), accuracy=self._mean(right))

    def _accuracies(self, samples: Sequence[int], batch: Batch, strategy: Strategy) -> list[float]:
        """Return the accuracies of this rank's samples; all ranks generate at the same time, with the same
        number of tokens."""
        check = self._workload.answers
        if check is None:
            return []
        answers = strategy.evaluate(to_device(check.prompts(batch), self._device))
        return check.accuracies(samples, answers.cpu()[: len(samples)])

    def _mean(self, values: list[float]) -> float | None:
        """Return the mean over the values of all ranks."""
        if self._workload.answers is None:
            return None
        every: list[float] = [value for of_rank in self._group.all_gather(values) for value in of_rank]
        return sum(every) / max(1, len(every))


def sample_rows(count: int, held_out: int, rank: int, world_size: int, micro_batch: int) -> list[list[int]]:
    """Return this rank's part of the first `count` of the shuffled held-out samples, in micro-batches.

    All ranks have the same number of micro-batches; the last micro-batch may be empty. No sample occurs
    twice, so all samples have equal weights in the mean.
    """
    count = min(count, held_out)
    positions = np.arange(rank, count, world_size, dtype=np.int64)
    samples = permute(0, *np.divmod(positions, held_out), held_out).tolist()
    rows = -(-count // (world_size * micro_batch))
    return [samples[start : start + micro_batch] for start in range(0, rows * micro_batch, micro_batch)]
