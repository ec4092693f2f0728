"""One reduction in each step: mean loss, gradient norm, and the signal of any rank.

The reduction runs between the backward pass and the optimizer's step, so that all ranks decide on the same
values. On a GPU the host reads the values one step later and never waits for the device; all ranks still stop
at the same step.
"""

from __future__ import annotations

import math
import signal
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """Mean loss over the ranks, gradient norm (0 if unknown), and the signal of any rank (0 if there is
    none). A step whose loss exceeds `limit` is skipped. `regroup` is true if every rank requests other ranks
    (`--elastic`)."""

    step: int
    loss: float
    norm: float
    signal: int
    limit: float
    regroup: bool = False


class StepReduction:
    """The running reduction of one step."""

    def __init__(
        self, step: int, values: torch.Tensor, work: dist.Work | None, limit: float, world_size: int
    ) -> None:
        self.step, self.limit, self._world_size = step, limit, world_size
        self.norm_after_update: float | None = None
        """The gradient norm, if the optimizer's step computes it."""
        self._values, self._work = values, work
        self._host, self._ready = values, None if values.device.type == "cpu" else torch.cuda.Event()

    def wait(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return loss and norm, scalars on the device. With NCCL the device waits for the values, not the
        host."""
        if self._work is not None:
            self._work.wait()
            self._work = None
        if self._ready is not None and self._host is self._values:
            # A later copy would be queued behind later kernels.
            self._host = torch.empty(self._values.shape, pin_memory=True)
            self._host.copy_(self._values, non_blocking=True)
            self._ready.record()
        return self._values[0], self._values[1].sqrt()

    def outcome(self) -> StepOutcome:
        """Return the values on the host; the call blocks until they are there."""
        self.wait()
        if self._ready is not None:
            self._ready.synchronize()
        loss, square, signaled, asking = self._host.tolist()
        norm = math.sqrt(square) if self.norm_after_update is None else self.norm_after_update
        number = int(signal.SIGTERM) if signaled else 0
        return StepOutcome(self.step, loss, norm, number, self.limit, round(asking) == self._world_size)


class StepSync:
    """Handles SIGTERM, and shares a received signal with the values of a step. Call `reduce` in each step,
    and read the results with `outcomes`."""

    def __init__(
        self,
        rank: int,
        world_size: int,
        device: torch.device,
        wants_regroup: Callable[[], bool] = lambda: False,
        asked_to_stop: Callable[[], bool] | None = None,
    ) -> None:
        """`wants_regroup` returns whether this rank requests other ranks after the step. `asked_to_stop`
        replaces SIGTERM, which then has no effect."""
        self._rank, self._world_size, self._device = rank, world_size, device
        self._lag = 1 if device.type == "cuda" else 0
        self._wants_regroup = wants_regroup
        self._asked_to_stop, self._signal = asked_to_stop, 0
        self._reductions: deque[StepReduction] = deque()
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, number: int, _: object) -> None:
        # Only set a flag: all ranks must complete the current step.
        self._signal = number

    @property
    def received_signal(self) -> int:
        """The signal of this rank; 0 if there is none."""
        if self._asked_to_stop is None:
            return self._signal
        return int(signal.SIGTERM) if self._asked_to_stop() else 0

    def reduce(
        self, step: int, loss: torch.Tensor, square: torch.Tensor | None = None, *, limit: float = math.inf
    ) -> StepReduction:
        """Begin the reduction of this rank's loss and of its share of the squared norm, both scalars.

        The shares of all ranks add up to the squared norm.
        """
        values = torch.zeros(4, device=self._device)
        values[0] = loss / self._world_size
        if square is not None:
            values[1] = square
        if self.received_signal:
            values[2] = 1.0
        if self._wants_regroup():
            values[3] = 1.0
        work = dist.all_reduce(values, async_op=True) if self._world_size > 1 else None
        reduction = StepReduction(step, values, work, limit, self._world_size)
        self._reductions.append(reduction)
        return reduction

    def outcomes(self, *, wait: bool = False) -> list[StepOutcome]:
        """Return the outcomes of the steps that are available without waiting, or with `wait` of all
        steps."""
        outcomes = []
        while len(self._reductions) > (0 if wait else self._lag):
            outcomes.append(self._reductions.popleft().outcome())
        return outcomes
