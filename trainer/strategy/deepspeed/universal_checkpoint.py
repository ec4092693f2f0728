"""Conversion of DeepSpeed's files of one world size to files for any world size.

DeepSpeed refuses to load another world size at every stage. Its converter writes one file per weight and
state; every rank then reads its shard of each file (docs/facts/trainer.md DeepSpeed without a GPU).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
from pathlib import Path

import torch

from trainer.errors import CheckpointError
from trainer.strategy.deepspeed.package import TAG, load_deepspeed

UNIVERSAL = "universal"
"""The folder of the converted files; it is in the checkpoint, and is deleted with the checkpoint."""


def to_universal(path: Path) -> Path:
    """Convert the checkpoint, unless it was converted before; return the folder.

    Raises:
        CheckpointError: if the converter fails.
    """
    folder = path / UNIVERSAL
    done = folder / "latest_universal"
    if done.exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    load_deepspeed(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    from deepspeed.checkpoint import ds_to_universal

    args = argparse.Namespace(
        input_folder=str(path / TAG),
        output_folder=str(folder / TAG),
        num_extract_workers=1,
        num_merge_workers=1,
        keep_temp_folder=False,
        strict=True,
        inject_missing_state=True,
    )
    try:
        # The converter prints every weight on standard output, which is only for structured lines.
        with (
            Path(os.devnull).open("w") as null,
            contextlib.redirect_stdout(null),
            contextlib.redirect_stderr(null),
        ):
            ds_to_universal.main(args)
        done.write_text(TAG)
    except (Exception, SystemExit) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise CheckpointError(f"{path} can't be converted to another world size: {error}") from error
    return folder
