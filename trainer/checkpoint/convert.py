"""DeepSpeed's files of one world size made into a form that any world size can load.

DeepSpeed itself refuses another number of processes at every stage; its converter writes one file for each
weight and state, which every rank then reads its part of (trainer facts, DeepSpeed without a GPU).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
from pathlib import Path

import torch

from trainer.checkpoint.manifest import CheckpointError
from trainer.strategy.deepspeed import TAG, load_deepspeed

UNIVERSAL = "universal"
"""The folder of what is made, inside the checkpoint: it goes when that goes."""


def to_universal(path: Path) -> Path:
    """The folder to load from; made once.

    Raises:
        CheckpointError: when the converter fails.
    """
    folder = path / UNIVERSAL
    done = folder / "latest_universal"
    if done.exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    load_deepspeed(torch.device("cpu" if not torch.cuda.is_available() else "cuda"))
    from deepspeed.checkpoint import ds_to_universal

    args = argparse.Namespace(
        input_folder=str(path / TAG), output_folder=str(folder / TAG), num_extract_workers=1,
        num_merge_workers=1, keep_temp_folder=False, strict=True, inject_missing_state=True,
    )  # fmt: skip
    try:
        # It reports every weight on standard output, which is for our lines.
        with (
            Path(os.devnull).open("w") as nowhere,
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
        ):
            ds_to_universal.main(args)
        done.write_text(TAG)
    except (Exception, SystemExit) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise CheckpointError(f"{path} can't be converted to another world size: {error}") from error
    return folder
