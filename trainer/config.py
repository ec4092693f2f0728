"""Settings of a run: a dataclass, its flags, and what is wrong with them in one sentence."""

from __future__ import annotations

import argparse
import sysconfig
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

PRESETS: dict[str, dict[str, int]] = {
    "tiny": {"layers": 2, "heads": 4, "width": 64, "context": 64, "batch": 16},
    "small": {"layers": 4, "heads": 4, "width": 128, "context": 128, "batch": 16},
    "base": {"layers": 12, "heads": 12, "width": 768, "context": 1024, "batch": 8},
}


class UsageError(Exception):
    """The flags can't be used; the message names the flag, the reason and the remedy."""


class DataError(Exception):
    """The data can't be read; the message names the path and the reason."""


def _flag(default: Any, text: str, **kw: Any) -> Any:
    return field(default=default, metadata={"help": text, **kw})


@dataclass(frozen=True, slots=True)
class Config:
    """One run. Sizes are in bytes-as-tokens, times in seconds."""

    preset: str = _flag("tiny", "model and batch size", choices=sorted(PRESETS))
    steps: int = _flag(400, "optimizer steps in all")
    seed: int = _flag(0, "of the model, the data order and dropout")
    data: str = _flag("", "a folder, files (comma-separated) or gs://…; default: this Python's own sources")
    batch: int = _flag(0, "sequences a process and step; 0 takes the preset's")
    context: int = _flag(0, "tokens a sequence; 0 takes the preset's")
    accumulate: int = _flag(1, "micro-batches an optimizer step")
    learning_rate: float = _flag(3e-3, "peak, after the warm-up")
    warmup: int = _flag(20, "steps of linear warm-up")
    weight_decay: float = _flag(0.1, "on matrices only")
    clip: float = _flag(1.0, "largest norm of the gradient")
    dropout: float = _flag(0.0, "0 to 1")
    device: str = _flag("auto", "where to train", choices=["auto", "cpu", "cuda"])
    checkpoint_dir: str = _flag("", "default: $AIP_CHECKPOINT_DIR, else ./checkpoints")
    checkpoint_every: int = _flag(100, "steps between two checkpoints; 0: only at the end")
    keep: int = _flag(3, "checkpoints kept")
    resume: str = _flag("auto", "start from the newest good checkpoint, or afresh", choices=["auto", "never"])
    log_every: int = _flag(5, "steps between two lines")
    nproc: int = _flag(0, "processes on this node; 0: one a GPU, or one")
    max_restarts: int = _flag(3, "fresh attempts after a failure")
    join_timeout: float = _flag(1800.0, "seconds to wait for the other nodes")
    print_config: bool = _flag(False, "print the resolved settings as JSON and end")


def parse(argv: Sequence[str] | None = None) -> Config:
    """Flags to settings. Raises UsageError; argparse itself exits with 2 on an unknown flag."""
    parser = argparse.ArgumentParser("python -m trainer.task", description="Train a small GPT on bytes.")
    for item in fields(Config):
        name, default = "--" + item.name.replace("_", "-"), item.default
        if isinstance(default, bool):
            parser.add_argument(name, action="store_true", help=item.metadata["help"])
        else:
            parser.add_argument(name, type=type(default), default=default, **dict(item.metadata))
    config = Config(**vars(parser.parse_args(argv)))
    for name in ("steps", "accumulate", "log_every", "keep"):
        if getattr(config, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be at least 1")
    if not 0 <= config.dropout < 1:
        raise UsageError("--dropout must be in [0, 1)")
    preset = PRESETS[config.preset]
    values = asdict(config)
    values["batch"] = config.batch or preset["batch"]
    values["context"] = config.context or preset["context"]
    values["data"] = config.data or str(Path(sysconfig.get_paths()["stdlib"]))
    return Config(**values)
