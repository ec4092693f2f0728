"""Save and restore the random number generators of a process."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def get_rng_state() -> dict[str, Any]:
    """Return the state of torch's, Python's and NumPy's generators, and of this process's GPU."""
    name, keys, *rest = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "python": random.getstate(),
        # Store the state as a tensor, because checkpoints are loaded without pickle: a checkpoint of unknown
        # origin must not run code.
        "numpy": (str(name), torch.from_numpy(np.asarray(keys, dtype=np.int64)), *rest),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
    }


def set_rng_state(state: dict[str, Any]) -> None:
    """Restore the result of `get_rng_state`; restore the GPU's state only if a GPU exists."""
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
