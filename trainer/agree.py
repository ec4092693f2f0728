"""What all ranks know together of a step: mean loss, gradient norm, and whether somebody was told to leave.

All travel in one small reduction between the backward pass and the optimizer's step, so that every rank
judges the step by the same figures. On a GPU the host reads them one step later and never waits for the
device; the step at which all leave is the same everywhere either way.
"""

from __future__ import annotations

import math
import signal
from collections import deque
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one step: mean loss over the ranks, gradient norm (0 where nobody gave it), and the signal that
    some rank has got, or 0. `limit` is the loss above which the step was not to be kept."""

    step: int
    loss: float
    norm: float
    signal: int
    limit: float


class Shared:
    """Figures of one step under way between the ranks."""

    def __init__(self, step: int, values: torch.Tensor, work: dist.Work | None, limit: float) -> None:
        self.step, self.limit = step, limit
        self.norm_was: float | None = None
        """The norm where only the optimizer's step tells it."""
        self._values, self._work = values, work
        self._host, self._ready = values, None if values.device.type == "cpu" else torch.cuda.Event()

    def wait(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Loss and norm, scalars on the device; with NCCL the device waits for them, not the host."""
        if self._work is not None:
            self._work.wait()
            self._work = None
        if self._ready is not None and self._host is self._values:
            # Copied now: a copy asked for later would stand behind all that is queued by then.
            self._host = torch.empty(self._values.shape, pin_memory=True)
            self._host.copy_(self._values, non_blocking=True)
            self._ready.record()
        return self._values[0], self._values[1].sqrt()

    def outcome(self) -> Outcome:
        """The figures on the host, waited for."""
        self.wait()
        if self._ready is not None:
            self._ready.synchronize()
        loss, square, told = self._host.tolist()
        norm = math.sqrt(square) if self.norm_was is None else self.norm_was
        return Outcome(self.step, loss, norm, int(signal.SIGTERM) if told else 0, self.limit)


class Agreement:
    """Notes SIGTERM, and shares it. `post` in each step, `settle` to know."""

    def __init__(self, rank: int, world: int, device: torch.device) -> None:
        self._rank, self._world, self._device = rank, world, device
        self.lag = 1 if device.type == "cuda" else 0
        self.noted = 0
        self._posted: deque[Shared] = deque()
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, number: int, _: object) -> None:
        # Only a flag: the step that runs must end on all ranks.
        self.noted = number

    def post(
        self, step: int, loss: torch.Tensor, square: torch.Tensor | None = None, *, limit: float = math.inf
    ) -> Shared:
        """Begin the reduction of this rank's loss and of its part of the squared norm, both scalars.

        The parts of all ranks add up to the squared norm.
        """
        values = torch.zeros(3, device=self._device)
        values[0] = loss / self._world
        if square is not None:
            values[1] = square
        if self.noted:
            values[2] = 1.0
        work = dist.all_reduce(values, async_op=True) if self._world > 1 else None
        shared = Shared(step, values, work, limit)
        self._posted.append(shared)
        return shared

    def settle(self, *, everything: bool = False) -> list[Outcome]:
        """Outcomes of the steps that the host may know by now; with `everything`, of all that were posted."""
        found = []
        while len(self._posted) > (0 if everything else self.lag):
            found.append(self._posted.popleft().outcome())
        return found
