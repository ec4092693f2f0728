"""`python -m trainer.evaluate CHECKPOINT`: compute loss and accuracy of a checkpoint on held-out samples.

--out is a JSON file with `loss` (nats per token), `likelihood` (exp(-loss), the geometric mean of the
probabilities of the correct tokens, 0 to 1), `accuracy` if the model generates answers, `samples` and `step`.
CHECKPOINT and --out may be gs:// if buckets are mounted. The evaluation runs in one process.
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
    """Run the command; return 0, or the exit code of wrong usage."""
    parser = argparse.ArgumentParser("python -m trainer.evaluate", description=__doc__.splitlines()[0])
    parser.add_argument(
        "checkpoint", help="a folder step-N, or its parent folder to use the newest good checkpoint"
    )
    parser.add_argument("--samples", type=int, default=128, help="held-out samples")
    parser.add_argument("--batch", type=int, default=8, help="samples per pass")
    parser.add_argument(
        "--data", default="", help="as for training; default: the data of the checkpoint's run"
    )
    parser.add_argument("--out", default="", help="a JSON file for the result")
    options = parser.parse_args(argv)
    try:
        checkpoint = fetch(options.checkpoint)
        manifest = read(checkpoint)
        data = options.data or manifest.config.get("data", {}).get("data", "")
        config = settings(
            manifest,
            "--eval-every=1",
            f"--eval-samples={options.samples}",
            f"--batch={options.batch}",
            f"--micro-batch={options.batch}",
            *([f"--data={data}"] if data else []),
        )
        metrics = {**evaluate(config, checkpoint), "step": manifest.step}
        if options.out:
            _write(local_path(options.out), metrics)
    except (CheckpointError, DataError, UsageError) as error:
        emit("error", str(error), severity="ERROR")
        return exit_codes.USAGE
    summary = "  ".join(f"{name} {value:g}" for name, value in metrics.items())
    fields: dict[str, Any] = metrics
    emit("eval", f"{options.checkpoint}: {summary}", **fields)
    return exit_codes.DONE


@torch.inference_mode()
def evaluate(config: Config, checkpoint: Path) -> dict[str, float]:
    """Return the metrics of a checkpoint. Raises UsageError, DataError."""
    workload, device = build_workload(config), select_device(config.parallel.device)
    if workload.evaluation is None:
        raise UsageError(f"--model {config.model.model} has no held-out samples")
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
    metrics = {"loss": loss, "likelihood": math.exp(-loss), "samples": sum(map(len, rows))}
    return {**metrics, "accuracy": sum(right) / len(right)} if right else metrics


def _write(path: Path, value: dict[str, Any]) -> None:
    """Write under a temporary name first: no reader sees an incomplete file. Raises CheckpointError."""
    new = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps(value, indent=1))
        new.rename(path)
    except OSError as error:
        raise CheckpointError(f"{path} can't be written: {error.strerror or error}") from error


if __name__ == "__main__":
    sys.exit(main())
