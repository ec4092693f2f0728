"""Deferred writing of DeepSpeed's files: each is copied when DeepSpeed saves it, and a thread writes it.

DeepSpeed passes each file to its checkpoint engine as a tree of plain containers and tensors. The engine
here copies the tensors to reused buffers, like the stager of the other strategies; DeepSpeed's own engine
writes the file.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import torch


class TensorBuffers:
    """Copies trees of tensors to the CPU; reuses the memory for a tree of the same shape."""

    def __init__(self, *, pinned: bool) -> None:
        self._pinned = pinned
        self._buffers: dict[Hashable, torch.Tensor] = {}

    def copy(self, tree: Any, name: Hashable = "") -> Any:
        """A tree that shares no memory with `tree`; each `name` has buffers of its own.

        Tensors that share their memory (tied weights) share it in the copy, too. Copies from a GPU are
        complete only after the device is synchronized.
        """
        return self._copy(tree, (name,), {}, {})

    def _copy(
        self, value: Any, path: tuple[Hashable, ...], seen: dict[Hashable, Any], memo: dict[int, Any]
    ) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value, path, seen)
        if type(value) in (list, tuple):
            return type(value)(self._copy(v, (*path, n), seen, memo) for n, v in enumerate(value))
        if isinstance(value, dict):
            # A shallow copy keeps the attributes of a state dict.
            copied = copy.copy(value)
            copied.update({k: self._copy(v, (*path, k), seen, memo) for k, v in value.items()})
            return copied
        return copy.deepcopy(value, memo)

    def _tensor(
        self, value: torch.Tensor, path: tuple[Hashable, ...], seen: dict[Hashable, Any]
    ) -> torch.Tensor:
        value = value.detach()
        memory = (value.device, value.data_ptr(), value.dtype, tuple(value.shape), value.stride())
        if memory in seen and value.numel():
            tied: torch.Tensor = seen[memory]
            return tied
        buffer = self._buffers.get(path)
        if buffer is None or buffer.shape != value.shape or buffer.dtype != value.dtype:
            buffer = torch.empty_like(value, device="cpu", pin_memory=self._pinned)
            self._buffers[path] = buffer
        buffer.copy_(value, non_blocking=self._pinned)
        seen[memory] = buffer
        return buffer


class DeferredFiles:
    """A DeepSpeed checkpoint engine that keeps copies of the files until `take`."""

    def __init__(self, engine: Any, *, pinned: bool) -> None:
        """`engine` writes and reads the files, and has all other methods of a checkpoint engine."""
        self._engine = engine
        self._buffers = TensorBuffers(pinned=pinned)
        self._files: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Deferred: a disk error must not keep one rank from a collective call of all ranks."""

    def save(self, state_dict: Any, path: str) -> None:
        """Copy the file. Its name, without the step's folder, selects the buffers."""
        self._files[path] = self._buffers.copy(state_dict, Path(path).name)

    def take(self) -> Callable[[], None]:
        """A function that writes the files saved since the last call; it raises OSError or RuntimeError."""
        files, self._files = self._files, {}

        def write() -> None:
            for path, tree in files.items():
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                self._engine.save(tree, path)

        return write
