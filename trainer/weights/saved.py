"""Weights in files: each rank reads only its part of each weight."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

from trainer.weights.source import copy_part


class SavedWeights(Protocol):
    """Weights in files, by their names there; also a `WeightSource` for a model with these names."""

    @property
    def shapes(self) -> Mapping[str, torch.Size]:
        """The shape of each weight; tied weights appear once."""

    @property
    def dtypes(self) -> Mapping[str, torch.dtype]:
        """The data type of each weight."""

    def fill(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Read these weights, or this rank's part of a DTensor. Raises OSError, RuntimeError, ValueError or
        CheckpointException if the weights can't be read."""


class DcpWeights:
    """`SavedWeights` through torch.distributed.checkpoint, which reads only this rank's part of a tensor."""

    def __init__(self, reader: Any, prefix: str = "") -> None:
        """The names of the weights begin with `prefix`; other saved values are left out."""
        self._reader, self._prefix = reader, prefix
        saved = {
            name.removeprefix(prefix): item
            for name, item in reader.read_metadata().state_dict_metadata.items()
            if name.startswith(prefix) and isinstance(item, TensorStorageMetadata)
        }
        self.shapes = {name: item.size for name, item in saved.items()}
        self.dtypes = {name: item.properties.dtype for name, item in saved.items()}

    def fill(self, weights: Mapping[str, torch.Tensor]) -> None:
        state = {f"{self._prefix}{name}": weight.detach() for name, weight in weights.items()}
        with warnings.catch_warnings():
            # torch warns of the missing process group: each rank reads alone, and may read other weights.
            warnings.simplefilter("ignore", UserWarning)
            dcp.load(state, storage_reader=self._reader, no_dist=True)


class SafetensorsWeights(DcpWeights):
    """`SavedWeights` in safetensors files that together have each weight once."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Raises OSError or SafetensorError if a file can't be read."""
        super().__init__(_SafetensorsReader(files))


class LazyWeights:
    """`SavedWeights` of values whose `contiguous()` reads one complete weight into memory."""

    def __init__(self, values: dict[str, Any]) -> None:
        first = {id(value): name for name, value in reversed(values.items())}
        once = set(first.values())
        self._values = {name: value for name, value in values.items() if name in once}
        self.shapes = {name: torch.Size(value.shape) for name, value in self._values.items()}
        self.dtypes = {name: value.dtype for name, value in self._values.items()}

    def fill(self, weights: Mapping[str, torch.Tensor]) -> None:
        for name, weight in weights.items():
            copy_part(self._values[name].contiguous(), weight)


class _SafetensorsReader(HuggingFaceStorageReader):
    """Reads only some files of a folder, whose other files may copy weights; reads their headers once."""

    def __init__(self, files: Sequence[Path]) -> None:
        super().__init__(str(files[0].parent))
        self.fs = _Listing(files)  # type: ignore[assignment]
        self._metadata: Metadata | None = None

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        if self._metadata is None:
            self._metadata = super().read_metadata()
        return self._metadata


class _Listing:
    """Replacement of the reader's file system, with its only used method."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = [str(file) for file in files]

    def ls(self, path: Any) -> list[str]:
        return self._files
