"""What all ranks know together after a step: the mean loss, and whether somebody was told to leave.

Both travel in one small reduction. On a GPU its result is read one step later, so that the host never waits
for the device; the step at which all leave is the same everywhere either way.
"""

from __future__ import annotations

import signal
from collections import deque
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one step: mean loss over the ranks, and the signal that some rank has got, or 0."""

    step: int
    loss: float
    signal: int


class Agreement:
    """Notes signals, and shares them. `post` after each step, `settle` to know."""

    def __init__(self, rank: int, world: int, device: torch.device) -> None:
        self._rank, self._world, self._device = rank, world, device
        self.lag = 1 if device.type == "cuda" else 0
        self.noted = 0
        self._posted: deque[tuple[int, torch.Tensor, dist.Work | None]] = deque()
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, number: int, _: object) -> None:
        # Only a flag: the step that runs must end on all ranks.
        self.noted = number

    def post(self, step: int, loss: torch.Tensor) -> None:
        """Begin the reduction of this rank's loss, a scalar."""
        both = torch.zeros(self._world + 1, device=self._device)
        both[0] = loss / self._world
        if self.noted:
            both[1 + self._rank] = float(self.noted)
        work = dist.all_reduce(both, async_op=True) if self._world > 1 else None
        self._posted.append((step, both, work))

    def settle(self, *, everything: bool = False) -> list[Outcome]:
        """Outcomes of the steps whose reduction is over; with `everything`, of all that were posted."""
        found = []
        while len(self._posted) > (0 if everything else self.lag):
            step, both, work = self._posted.popleft()
            if work is not None:
                work.wait()
            loss, *signals = both.tolist()
            found.append(Outcome(step, loss, int(max(signals))))
        return found
