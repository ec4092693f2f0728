"""Import DeepSpeed without its output and its compilation at run time.

DeepSpeed would build a shared-memory extension at its start on CPUs, and a fused Adam for its optimizer. Both
builds take minutes, and fail without a compiler (docs/facts/trainer.md DeepSpeed without a GPU).
"""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from typing import Any

import torch

TAG = "zero"
"""The folder of DeepSpeed's files inside a checkpoint."""


def load_deepspeed(device: torch.device) -> Any:
    """Import and return the package."""
    if device.type == "cpu":
        os.environ["DS_ACCELERATOR"] = "cpu"
    warnings.filterwarnings("ignore", module="deepspeed")
    import deepspeed
    import deepspeed.ops

    # The first use of the package would run a compiler for each operation, to detect which operations can be
    # built.
    vars(deepspeed.ops).setdefault("__compatible_ops__", {})
    deepspeed.utils.logger.setLevel(logging.ERROR)
    _load_muon_uncompiled()
    return deepspeed


def _load_muon_uncompiled() -> None:
    """Import Muon without torch.compile.

    The engine imports it to compare the optimizer's class, which is never Muon here. The module passes its
    functions to torch.compile on import: that loads inductor, seconds of CPU time per process.
    """
    from deepspeed.runtime import compiler

    compile_, compiler.compile = compiler.compile, lambda: lambda function: function
    try:
        # Older versions of DeepSpeed have no Muon.
        with contextlib.suppress(ImportError):
            import deepspeed.runtime.zero.muon.muon_optimizer  # noqa: F401
    finally:
        compiler.compile = compile_
