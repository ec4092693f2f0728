"""The mean loss of held-out samples; a collective call of all ranks."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer.config import BatchPlan, Config
from trainer.data.loader import batches, to_device
from trainer.data.sampler import Sampler
from trainer.distributed.loss_weights import LossWeights
from trainer.distributed.process_group import ProcessGroup
from trainer.distributed.step_sync import StepSync
from trainer.models.workload import Workload
from trainer.strategy.base import Strategy


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The mean loss over the targets, the same on all ranks; or the signal that ended it early."""

    loss: float
    signal: int = 0


class Evaluation:
    """Evaluates the model on the first `--eval-batches` micro-batches of each rank's held-out samples."""

    def __init__(
        self, config: Config, workload: Workload, plan: BatchPlan, group: ProcessGroup, device: torch.device
    ) -> None:
        self._every, self._count = config.eval_every, config.eval_batches
        self._workload, self._plan, self._group, self._device = workload, plan, group, device
        self.step = 0
        """The step of the last evaluation that ended."""
        self.regroup = False
        """Whether the last one was interrupted, because all ranks continue with others (`--elastic`)."""

    def due(self, step: int) -> bool:
        return bool(self._every and step and step % self._every == 0 and self.step != step)

    def run(self, step: int, strategy: Strategy, sync: StepSync) -> Evaluated | None:
        """Evaluate after `step`, with no reduction outstanding.

        None without held-out samples, or if it was interrupted.
        """
        self.regroup = False
        data = self._workload.evaluation
        if data is None:
            return None
        total, targets = 0.0, 0
        sampler = Sampler(len(data), self._plan, seed=0, rank=self._group.rank)
        held_out = batches(data, sampler, 0, pinned=False, collate=self._workload.collate)
        for _ in range(self._count):
            batch = next(held_out)
            weights = LossWeights([self._workload.targets(batch)], self._group.world_size, self._device)
            loss = strategy.evaluate(to_device(batch, self._device))
            sync.reduce(step, loss * weights[0])
            outcome = sync.outcomes(wait=True)[0]
            if outcome.regroup:
                self.regroup = True
                return None
            if outcome.signal:
                return Evaluated(outcome.loss, outcome.signal)
            total += outcome.loss * int(weights.total)
            targets += int(weights.total)
        self.step = step
        return Evaluated(total / max(1, targets))
