"""DeepSpeed's own files, written later: what it would write at once is copied, and a thread writes the copy.

DeepSpeed hands each file to its checkpoint engine as a tree of plain containers and tensors. The engine
here copies the tensors to buffers that are kept, like the stager of the other strategies; the bytes that
reach the disk are made by DeepSpeed's own engine.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import torch


class Buffers:
    """Copies trees of tensors to the CPU. A tree of the same shape is copied to the same memory again."""

    def __init__(self, *, pinned: bool) -> None:
        self._pinned = pinned
        self._kept: dict[Hashable, torch.Tensor] = {}

    def copy(self, tree: Any, name: Hashable = "") -> Any:
        """A tree that shares no memory with the given one; `name` tells trees apart.

        Tensors that are the same piece of memory (tied weights) are one in the copy too. Copies from a GPU
        are under way until the device is synchronized.
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
            # Shallow first: what a state dict carries beside its items stays with it.
            made = copy.copy(value)
            made.update({k: self._copy(v, (*path, k), seen, memo) for k, v in value.items()})
            return made
        return copy.deepcopy(value, memo)

    def _tensor(
        self, value: torch.Tensor, path: tuple[Hashable, ...], seen: dict[Hashable, Any]
    ) -> torch.Tensor:
        value = value.detach()
        memory = (value.device, value.data_ptr(), value.dtype, tuple(value.shape), value.stride())
        if memory in seen and value.numel():
            found: torch.Tensor = seen[memory]
            return found
        kept = self._kept.get(path)
        if kept is None or kept.shape != value.shape or kept.dtype != value.dtype:
            kept = torch.empty_like(value, device="cpu", pin_memory=self._pinned)
            self._kept[path] = kept
        kept.copy_(value, non_blocking=self._pinned)
        seen[memory] = kept
        return kept


class LateFiles:
    """A checkpoint engine of DeepSpeed's that keeps what it is given until `take`."""

    def __init__(self, engine: Any, *, pinned: bool) -> None:
        """`engine` writes and reads the files, and answers all other questions."""
        self._engine = engine
        self._buffers = Buffers(pinned=pinned)
        self._files: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Not yet: a disk that refuses must not keep one rank from the meeting of all."""

    def save(self, state_dict: Any, path: str) -> None:
        """Copied now, written later. The name tells where its buffers are, whatever the step's folder."""
        self._files[path] = self._buffers.copy(state_dict, Path(path).name)

    def take(self) -> Callable[[], None]:
        """What writes the files that were saved since the last call. It raises OSError or RuntimeError."""
        files, self._files = self._files, {}

        def write() -> None:
            for path, tree in files.items():
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                self._engine.save(tree, path)

        return write
