"""Deferred writing of DeepSpeed's files: `save` copies each file, and a thread writes it later.

DeepSpeed passes each file to its checkpoint engine as a tree of plain containers and tensors. This engine
copies the tensors to reused buffers, as the other strategies do; DeepSpeed's own engine writes the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from trainer.strategy.deferred_copies import StagedState
from trainer.strategy.tensor_buffers import TensorBuffers


class DeferredFiles:
    """A DeepSpeed checkpoint engine that keeps copies of the files until `take` is called."""

    def __init__(self, engine: Any, unstable: Callable[[], Iterable[torch.Tensor]], *, pinned: bool) -> None:
        """`engine` writes and reads the files, and has all other methods of a checkpoint engine.

        `unstable` returns tensors that change between two steps of the optimizer.
        """
        self._engine, self._unstable = engine, unstable
        self._buffers = TensorBuffers(pinned=pinned)
        self._files: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Do nothing yet, because a disk error must not stop one rank before a collective call of all
        ranks."""

    def save(self, state_dict: Any, path: str) -> None:
        """Copy the file. Its name, without the step's folder, selects the buffers."""
        self._files[path] = self._buffers.copy(state_dict, Path(path).name, self._unstable())

    def finish(self) -> None:
        """Finish the remaining copies, before training changes the state."""
        self._buffers.finish()

    def take(self) -> StagedState:
        """Return the files saved since the last call; writing them raises OSError or RuntimeError."""
        files, self._files = self._files, {}

        def write() -> None:
            for path, tree in files.items():
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                self._engine.save(tree, path)

        return StagedState(write, self._buffers.take())
