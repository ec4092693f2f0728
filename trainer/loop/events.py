"""The events that the training loop logs: a sentence for the reader and fields for the console."""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping
from typing import Any

from trainer.checkpoint.ending import RunEnding
from trainer.checkpoint.finder import FoundCheckpoint
from trainer.config import Config, OptimizerConfig
from trainer.loop.early_stopping import EarlyStopping
from trainer.loop.loss_guard import LossGuard
from trainer.metrics.goodput import Goodput
from trainer.structured_log import emit


def phase(name: str, text: str, rank: int, world_size: int, **fields: Any) -> None:
    emit("phase", text or f"rank {rank}: {name}", phase=name, rank=rank, world_size=world_size, **fields)


def settings(config: Config) -> None:
    """Log the settings whose defaults depend on the model and the task."""
    data, optimizer = config.data, config.optimizer
    if optimizer.warmup >= config.steps and optimizer.warmup != OptimizerConfig().warmup:
        text = (
            f"--warmup {optimizer.warmup} needs more steps than --steps {config.steps}: the learning rate "
            "does not reach its peak"
        )
        emit("phase", text, severity="WARNING", phase="starting")
    emit(
        "phase",
        f"--context {config.model.context} --batch {data.batch} --micro-batch {data.micro_batch} "
        f"--learning-rate {optimizer.learning_rate:g} --weight-decay {optimizer.weight_decay:g}; "
        "--print-config shows all settings",
        phase="starting",
    )


def resumed(checkpoint: FoundCheckpoint, position: int) -> None:
    step = checkpoint.manifest.step
    emit(
        "resumed",
        f"resumed from step {step} ({', '.join((checkpoint.source, *checkpoint.restored))})",
        step=step,
        path=checkpoint.source,
        restored=list(checkpoint.restored),
        position=position,
        world_size_before=checkpoint.manifest.world_size,
    )


def step(number: int, total: int, metrics: Mapping[str, Any], goodput: Goodput) -> None:
    """Log a step; `metrics` contain the loss and the tokens per second."""
    emit(
        "step",
        f"step {number}/{total}  loss {metrics['loss']:.4f}  {metrics['tokens_per_second']:,.0f} tok/s",
        step=number,
        total_steps=total,
        **metrics,
        goodput=goodput.report(number),
    )


def rank_step(rank: int, number: int, seconds: float, waited: float) -> None:
    emit(
        "rank",
        f"rank {rank} at step {number}, {seconds:.3f} s/step",
        rank=rank,
        step=number,
        step_seconds=seconds,
        data_seconds=waited,
    )


def evaluated(number: int, loss: float, accuracy: float | None) -> None:
    """Log an evaluation; `accuracy` is the accuracy of generated answers, 0 to 1."""
    text, more = f"step {number}  evaluation loss {loss:.4f}", dict[str, Any]()
    if accuracy is not None:
        text, more = f"{text}  accuracy {accuracy:.1%}", {"accuracy": accuracy}
    emit("eval", text, step=number, loss=loss, **more)


def stopped_early(number: int, evaluations: EarlyStopping) -> None:
    count, best = evaluations.without_improvement, evaluations.best
    text = f"--early-stop: no loss below {best:.4f} in {count} evaluations, so the run ends at step {number}"
    emit("phase", text, phase="stopping")


def skipped(guard: LossGuard, number: int) -> None:
    emit(
        "guard",
        f"step {number} is skipped: {guard.reason}; the weights are unchanged, and training continues with "
        "the next batch",
        severity="WARNING",
        action="skip",
        step=number,
        reason=guard.reason,
        in_a_row=guard.skipped,
        skipped=guard.total,
    )


def rolled_back(guard: LossGuard, checkpoint: FoundCheckpoint, reason: str, position: int) -> None:
    number = checkpoint.manifest.step
    emit(
        "guard",
        f"{reason}: rolled back to step {number} ({checkpoint.source}); training continues with the "
        "batches that follow",
        severity="WARNING",
        action="rollback",
        step=number,
        reason=reason,
        path=checkpoint.source,
        position=position,
        skipped=guard.total,
    )


def no_checkpoint(number: int) -> None:
    emit(
        "guard",
        f"no checkpoint at step {number}, because that step was skipped",
        severity="WARNING",
        action="no checkpoint",
        step=number,
    )


def left(number: int, rank: int) -> None:
    """Log that this node leaves an elastic run after a signal, and the others train on."""
    text = f"rank {rank} leaves after step {number}; the other nodes train on"
    emit("preempted", text, severity="WARNING", step=number, rank=rank)


def preempted(number: int, at: int, ending: RunEnding, goodput: Goodput) -> None:
    """Log that the run stops after signal `number`, at step `at`."""
    name = signal.Signals(number).name
    emit(
        "preempted",
        f"{name} at step {at}: {ending.loss or 'checkpoint saved, exiting'}",
        severity="ERROR" if ending.loss else "WARNING",
        step=at,
        signal=name,
        **ending.fields,
        goodput=goodput.report(at),
    )


def preempted_at_start(number: int) -> None:
    """Log that the run stops after signal `number`, before the first step."""
    name = signal.Signals(number).name
    emit("preempted", f"{name} before the first step, exiting", severity="WARNING", step=0, signal=name)


def not_saved(number: int, ending: RunEnding, seconds: float, goodput: Goodput) -> None:
    """Log that the run ends after `number` steps and `seconds`, without its last checkpoint."""
    emit(
        "save_failed",
        f"the run reached step {number}, but {ending.loss}",
        severity="ERROR",
        step=number,
        **ending.fields,
        seconds=seconds,
        goodput=goodput.report(number),
    )


def done(
    number: int, seconds: float, losses: tuple[float | None, float], skipped_steps: int, goodput: Goodput
) -> None:
    """Log the end of the run after `number` steps and `seconds`; `losses` are the first and the last loss."""
    first, last = losses
    text = f"{math.nan if first is None else first:.3f} → {last:.3f}"
    if skipped_steps:
        text += f", {skipped_steps} steps skipped"
    emit(
        "done",
        f"done: {number} steps in {seconds:.0f} s, loss {text}",
        step=number,
        loss_first=first,
        loss_last=last,
        seconds=seconds,
        skipped=skipped_steps,
        goodput=goodput.report(number),
    )
