"""Copies of the state while training continues, until training changes the state.

Weights and optimizer state change only in the optimizer's step, so a save needs their copy only before the
next step. The writing thread copies them during the forward and backward pass, and training finishes the
remaining copies before its step.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from trainer.errors import CheckpointError

_CHUNK = 8 << 20
"""Bytes per copy operation: 1 to 2 ms, the maximum wait for the other thread at the end."""


class DeferredCopies:
    """The copies of one save. Two threads may run them together."""

    def __init__(self) -> None:
        self.waited = 0.0
        """Seconds that training waited for the copies."""
        self._left: deque[tuple[torch.Tensor, torch.Tensor]] = deque()
        self._versions: list[tuple[torch.Tensor, int]] = []
        self._unfinished, self._change = 0, threading.Condition()
        self._events: list[torch.cuda.Event] = []
        self._stream: torch.cuda.Stream | None = None
        self._changed, self._finished = False, False

    def add(self, buffer: torch.Tensor, source: torch.Tensor) -> None:
        """Schedule a copy of `source` to `buffer`, in CPU memory, with the same shape and strides."""
        self._versions.append((source, source._version))
        if source.is_cuda:
            self._copy_from_gpu(buffer, source)
        elif not (source.is_contiguous() and buffer.is_contiguous()):
            buffer.copy_(source)
        else:
            size = max(1, _CHUNK // source.element_size())
            pairs = [*zip(buffer.view(-1).split(size), source.view(-1).split(size), strict=True)]
            self._left.extend(pairs)
            self._unfinished += len(pairs)

    def _copy_from_gpu(self, buffer: torch.Tensor, source: torch.Tensor) -> None:
        """Queue the copy behind the computation of the state, in parallel with later computations."""
        if self._stream is None:
            self._stream = torch.cuda.Stream(source.device)
            self._stream.wait_stream(torch.cuda.current_stream(source.device))
        with torch.cuda.stream(self._stream):
            buffer.copy_(source, non_blocking=True)

    def finish(self) -> None:
        """Finish the copies before training changes the state. Later computations run after the copies."""
        if self._finished:
            return
        began = time.monotonic()
        self._copy_what_is_left()
        if self._stream is not None:
            # This call makes the GPU wait, not this thread.
            torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)
        self._check_versions()
        self._finished = True
        self.waited = time.monotonic() - began

    def complete(self) -> None:
        """Run the copies that training does not run, in the writing thread; return when all are complete.
        Raises CheckpointError if the state changed before it was copied."""
        self._copy_what_is_left()
        if self._stream is not None:
            self._stream.synchronize()
        self._check_versions()
        if self._changed:
            raise CheckpointError(
                "the model changed a weight outside the optimizer's step during the copy; later saves "
                "copy everything before training continues"
            )

    @property
    def changed(self) -> bool:
        """Whether the state changed before it was copied; known after `finish` or `complete`."""
        return self._changed

    def _copy_what_is_left(self) -> None:
        while True:
            try:
                buffer, source = self._left.popleft()
            except IndexError:
                break
            # torch's own copy would use all threads of the CPU, in competition with the step.
            np.copyto(_bytes(buffer), _bytes(source))
            with self._change:
                self._unfinished -= 1
                self._change.notify_all()
        with self._change:
            self._change.wait_for(lambda: not self._unfinished)

    def _check_versions(self) -> None:
        """Check that the state is unchanged. Only the first check counts: later the optimizer changes the
        state."""
        with self._change:
            checked, self._versions = self._versions, []
            self._changed = self._changed or any(tensor._version != before for tensor, before in checked)


@dataclass(frozen=True, slots=True)
class StagedState:
    """A state to write: another thread calls `write` after `copies.complete`."""

    write: Callable[[], None]
    copies: DeferredCopies = field(default_factory=DeferredCopies)


def _bytes(tensor: torch.Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    as_bytes: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] = tensor.view(torch.uint8).numpy()
    return as_bytes
