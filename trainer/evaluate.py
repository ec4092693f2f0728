"""`python -m trainer.evaluate CHECKPOINT`: the loss and the accuracy of a checkpoint on held-out samples.

--out is a JSON file with `loss` (nats of a token), `likelihood` (e to the minus loss: the geometric mean of
the right tokens' probabilities, 0 to 1), `accuracy` of the answers where the model gives some, `samples` and
`step`. CHECKPOINT and --out may be gs:// where buckets are mounted. One process evaluates.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from trainer import exit_codes
from trainer.checkpoint.manifest import read
from trainer.checkpoint.weights import init_weights
from trainer.cloud_paths import local_path
from trainer.config import Config
from trainer.data.loader import batches, to_device
from trainer.distributed.device import select_device
from trainer.errors import CheckpointError, DataError, UsageError
from trainer.loop.evaluation import sample_rows
from trainer.models.build import build_workload
from trainer.serving.answerer import fetch, settings
from trainer.structured_log import emit


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, or that of a wrong use."""
    parser = argparse.ArgumentParser("python -m trainer.evaluate", description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", help="a folder step-N, or its parent: then the newest good one")
    parser.add_argument("--samples", type=int, default=128, help="held-out samples")
    parser.add_argument("--batch", type=int, default=8, help="samples of a pass")
    parser.add_argument("--data", default="", help="as of training; default: that of the checkpoint's run")
    parser.add_argument("--out", default="", help="a JSON file for the result")
    given = parser.parse_args(argv)
    try:
        checkpoint = fetch(given.checkpoint)
        manifest = read(checkpoint)
        data = given.data or manifest.config.get("data", {}).get("data", "")
        config = settings(
            manifest,
            "--eval-every=1",
            f"--eval-samples={given.samples}",
            f"--batch={given.batch}",
            f"--micro-batch={given.batch}",
            *([f"--data={data}"] if data else []),
        )
        found = {**evaluate(config, checkpoint), "step": manifest.step}
        if given.out:
            _write(local_path(given.out), found)
    except (CheckpointError, DataError, UsageError) as error:
        emit("error", str(error), severity="ERROR")
        return exit_codes.USAGE
    told = "  ".join(f"{name} {value:g}" for name, value in found.items())
    fields: dict[str, Any] = found
    emit("eval", f"{given.checkpoint}: {told}", **fields)
    return exit_codes.DONE


@torch.inference_mode()
def evaluate(config: Config, checkpoint: Path) -> dict[str, float]:
    """The figures of a checkpoint. Raises UsageError, DataError."""
    workload, device = build_workload(config), select_device(config.parallel.device)
    if workload.evaluation is None:
        raise UsageError(f"--model {config.model.model} holds out no samples")
    _, source = init_weights(workload.model, workload.weights, str(checkpoint), lambda _: None)
    model = replace(workload, weights=source).materialize(device).eval().to(device)
    size = config.data.max_micro_batch
    rows = sample_rows(config.eval_samples, len(workload.evaluation), 0, 1, size)
    total, targets = 0.0, 0
    right: list[float] = []
    held_out = batches(workload.evaluation, rows, 0, pinned=False, collate=workload.collate)
    for row, batch in zip(rows, held_out, strict=True):
        count = workload.targets(batch)
        total += float(model(*to_device(batch, device))) * count
        targets += count
        if workload.answers is not None:
            answers = model(*to_device(workload.answers.prompts(batch), device))
            right += workload.answers.accuracies(row, answers.cpu())
    loss = total / max(1, targets)
    found = {"loss": loss, "likelihood": math.exp(-loss), "samples": sum(map(len, rows))}
    return {**found, "accuracy": sum(right) / len(right)} if right else found


def _write(path: Path, value: dict[str, Any]) -> None:
    """Write under another name first: no reader sees an incomplete file. Raises CheckpointError."""
    new = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps(value, indent=1))
        new.rename(path)
    except OSError as error:
        raise CheckpointError(f"{path} can't be written: {error.strerror or error}") from error


if __name__ == "__main__":
    sys.exit(main())
