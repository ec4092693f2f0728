"""The training loop: read top to bottom."""

from __future__ import annotations

import math
import os
import random
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainer import workload as workloads
from trainer.agree import Agreement, Outcome, Shared
from trainer.checkpoint.load import Found
from trainer.checkpoint.manager import AT_THE_END, Checkpoints
from trainer.checkpoint.weights import start_with
from trainer.config import BatchPlan, Config
from trainer.data.fetch import fetched
from trainer.data.loader import Batch, batches
from trainer.data.sampler import Sampler
from trainer.device import local_gpus, pick_device
from trainer.goodput import Goodput
from trainer.gpus import GpuLines
from trainer.group import ProcessGroup
from trainer.lines import emit
from trainer.metrics.base import sinks
from trainer.metrics.figures import Figures
from trainer.metrics.guard import Diverged, EarlyStop, Guard, Verdict
from trainer.metrics.profile import Profile
from trainer.strategy import base as strategies
from trainer.strategy.base import Strategy

PREEMPTED = 75
"""EX_TEMPFAIL: a checkpoint is there, start me again."""
STOPPED = 143
"""128 + SIGTERM: told to leave before there was a checkpoint to go on from."""


class Trainer:
    """One process of the run. `run` returns the exit code."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.started = time.time()
        self._began = time.monotonic()
        self.group = ProcessGroup()
        self.rank, self.world = self.group.rank, self.group.world
        self.device = pick_device(config.parallel.device)
        self.plan = BatchPlan.of(config.data.batch, config.data.micro_batch, self.world)
        self.agreement = Agreement(self.rank, self.world, self.device)
        self.goodput = Goodput(Path("progress.json") if self.group.local_rank == 0 else None)
        speaks = self.device.type == "cuda" and self.group.local_rank == 0
        self.gpus = GpuLines(local_gpus(os.environ)) if speaks else None
        self.sinks = sinks(config, self.rank)
        self.profile = Profile(config, self.rank)
        self.early_stop = EarlyStop(config.early_stop)
        self.guard = Guard(config.guard.spike, config.guard.guard_patience)
        self.back, self.back_at = "", -1
        """Why to go back to the last checkpoint, and the step that it was gone back to before."""
        self.enough = False
        self.step, self.position, self.evaluated = 0, 0, 0
        self.first_loss: float | None = None
        self.last_loss, self.step_seconds = math.nan, 0.0

    def run(self) -> int:
        """Train to the end, or until `stop`: the signal that some rank has got, known to all together."""
        self.group.join(self.device, self.config.launch.hang_timeout)
        self._prepare()
        # One that a signal has cut off is done again.
        with self.goodput.into("eval"):
            stop = self._evaluate() if self._evaluation_due() else 0
        self.goodput.spent["init"] += time.monotonic() - self._began
        self._phase("training")
        while self.step < self.config.steps and not stop and not self.enough:
            stop = self._one_step()
            if self.back and not stop:
                stop = self._roll_back()
            if not stop and self._evaluation_due():
                with self.goodput.into("eval"):
                    stop = self._evaluate()
            self.checkpoints.poll()
            if not stop and self.step < self.config.steps and self.checkpoints.due(self.step):
                stop = self._save()
        code = self._leave(stop) if stop else self._finish()
        self.profile.close()
        self.checkpoints.close()
        self.group.leave()
        return code

    def _prepare(self) -> None:
        config = self.config
        self.checkpoints = Checkpoints(config, self.group)
        for seed in (random.seed, np.random.seed, torch.manual_seed):
            seed(config.seed)
        here = fetched(config, self.group)
        self.workload = workloads.build(here)
        found = self.checkpoints.find()
        self.strategy: Strategy = strategies.make(config, self.plan, self.device)
        if found is None and here.model.init_weights:
            self._start_with(here.model.init_weights)
        self.strategy.setup(self.workload)
        flops, compiled = self.workload.flops_per_token, config.parallel.compile == "on"
        self.figures = Figures(self.device, self.world, flops, compiled=compiled)
        # Dropout must differ by rank, the model's start must not.
        torch.manual_seed(config.seed * 1009 + self.rank)
        self._phase("starting", **self.strategy.describe(), device=str(self.device))
        if found is not None:
            self._resume(found)
        self.batches = self._train_batches()
        self.checkpoints.attach(self.strategy, found)

    def _start_with(self, where: str) -> None:
        def report(text: str) -> None:
            if self.rank == 0:
                self._phase("starting", text)

        report(f"the weights are those of {start_with(self.workload.model, where, report)}")

    def _resume(self, found: Found) -> None:
        progress = found.manifest.progress
        self._go_on_from(found)
        self.position = progress["position"]
        self.guard.resume(progress.get("guard"))
        self.goodput.resume(self.step, progress["spent"], self.started)
        if self.rank == 0:
            emit(
                "resumed", f"resumed from step {self.step} ({found.source})", step=self.step,
                path=found.source, position=self.position, world_size_before=found.manifest.world_size,
            )  # fmt: skip

    def _go_on_from(self, found: Found) -> None:
        """Weights and what was known at that step; the place in the data is left to the caller."""
        self.checkpoints.load(found, self.strategy)
        progress = found.manifest.progress
        self.step = found.manifest.step
        self.first_loss = progress["first_loss"]
        self.last_loss = math.nan if progress["last_loss"] is None else progress["last_loss"]
        self.evaluated = progress["evaluated"]
        self.early_stop.resume(progress.get("evaluations"))

    def _train_batches(self) -> Iterator[Batch]:
        data, count = self.config.data, len(self.workload.train)
        order = Sampler(count, self.plan, seed=self.config.seed, rank=self.rank, position=self.position)
        return batches(self.workload.train, order, data.workers, pinned=self.device.type == "cuda")

    def _one_step(self) -> int:
        """One optimizer step; the signal that some rank has got, or 0."""
        plan, rate, began = self.plan, learning_rate(self.config, self.step), time.monotonic()
        self.profile.step(self.step + 1)
        total, waited = torch.zeros((), device=self.device), 0.0
        for micro in range(plan.accumulate):
            fetch = time.monotonic()
            batch = self._place(next(self.batches))
            waited += time.monotonic() - fetch
            with self.figures.counted(plan.micro * self.workload.tokens_per_sample):
                total += self.strategy.forward_backward(batch, last=micro == plan.accumulate - 1)
        self.step += 1
        self.position += plan.batch
        norm = self._update(rate, total / plan.accumulate)
        stop = self._settle()
        self.step_seconds = seconds = time.monotonic() - began
        self.goodput.spent["data"] += waited
        self.goodput.spent["step"] += seconds - waited
        if self.gpus is not None:
            self.gpus.tick()
        if self.step in {1, self.config.steps} or self.step % self.config.log_every == 0:
            stop = self._settle(everything=True) or stop
            self._report(seconds, waited, norm, rate)
        return stop

    def _update(self, rate: float, loss: torch.Tensor) -> torch.Tensor:
        """The optimizer's step, unless what all ranks know of it forbids it; the gradient's norm."""
        guarded, square = self.config.guard.guard != "off", self.strategy.norm_square()
        shared = self.agreement.post(self.step, loss, square, limit=self.guard.limit())
        loss, total = shared.wait()
        norm = None if square is None else total
        norm_after = self.strategy.update(rate, norm, may_be_learned(loss, norm, shared) if guarded else None)
        if square is None and guarded:
            # Infinite for a step that the engine has left out; not a number where it has not looked.
            shared.norm_was = math.inf if math.isinf(norm_after) else 0.0
        return norm_after

    def _place(self, batch: Batch) -> Batch:
        return tuple(tensor.to(self.device, non_blocking=True) for tensor in batch)

    def _settle(self, *, everything: bool = False) -> int:
        """Take note of the losses that are known by now; the signal that came with them, or 0."""
        found = 0
        for outcome in self.agreement.settle(everything=everything):
            self._note(outcome)
            found = outcome.signal or found
        return found

    def _note(self, outcome: Outcome) -> None:
        if self.config.guard.guard == "off":
            if not math.isfinite(outcome.loss):
                raise FloatingPointError(f"the loss is {outcome.loss} at step {outcome.step}")
        # A scaler leaves out steps by itself until it has found its scale.
        elif self._leaves_out(outcome, 0.0 if self.strategy.scaled else outcome.norm):
            return
        self.last_loss = outcome.loss
        if self.first_loss is None:
            self.first_loss = outcome.loss

    def _leaves_out(self, outcome: Outcome, norm: float) -> bool:
        verdict = self.guard.judge(outcome.loss, norm, outcome.limit)
        if verdict is Verdict.ROLL_BACK:
            self.back = f"at step {outcome.step} {self.guard.reason}"
        elif verdict is Verdict.SKIP and self.rank == 0:
            emit(
                "guard",
                f"step {outcome.step} is left out: {self.guard.reason}; the weights stay as they are and "
                "training goes on with the next batch",
                severity="WARNING", action="skip", step=outcome.step, reason=self.guard.reason,
                in_a_row=self.guard.skipped, skipped=self.guard.total,
            )  # fmt: skip
        return verdict is not Verdict.KEEP

    def _roll_back(self) -> int:
        """Go on from the last checkpoint, with batches that were not seen yet; a signal, or 0.

        Raises Diverged when that can't help.
        """
        stop = self._settle(everything=True)
        why, self.back, at = self.back, "", self.step
        if stop:
            return stop
        self.checkpoints.poll(wait=True)
        found = self.checkpoints.find() if self.config.guard.guard == "rollback" else None
        if found is None or found.manifest.step == self.back_at:
            self._keep_the_last()
            raise Diverged(f"{why}, {self._why_not_back(found)}")
        with self.goodput.into("restart"):
            self._go_on_from(found)
        self.back_at = self.step
        self.guard.go_back(found.manifest.progress.get("guard"))
        self.goodput.lose((at - self.step) * self.step_seconds)
        if self.rank == 0:
            emit(
                "guard",
                f"{why}: back to step {self.step} ({found.source}), and on with the batches that follow",
                severity="WARNING", action="rollback", step=self.step, reason=why, path=found.source,
                position=self.position, skipped=self.guard.total,
            )  # fmt: skip
        return 0

    def _why_not_back(self, found: Found | None) -> str:
        config = self.config
        if found is not None:
            return (
                f"as before since the checkpoint of step {self.back_at}: other batches did not help. Start "
                "again from an earlier one, or with a lower --learning-rate"
            )
        if config.guard.guard == "skip":
            return f"and --guard skip ends after --guard-patience {config.guard.guard_patience}"
        if config.checkpoint.resume == "never":
            return "and --resume never forbids going back to a checkpoint"
        return "and there is no checkpoint to go back to: lower --learning-rate, or look at the data"

    def _keep_the_last(self) -> None:
        """Bring the last good checkpoint to where it outlives this machine."""
        if self.checkpoints.saved_step >= 0:
            self.checkpoints.leave(self.checkpoints.saved_step, self._progress(), AT_THE_END)
        self.checkpoints.close()

    def _save(self) -> int:
        """Begin a checkpoint; a signal that came meanwhile, or 0."""
        stop = self._settle(everything=True)
        if self.guard.skipped or self.back:
            # Weights that only give losses to be left out must not become what one goes back to.
            if self.rank == 0:
                emit(
                    "guard", f"no checkpoint at step {self.step}, for that step was left out",
                    severity="WARNING", action="no checkpoint", step=self.step,
                )  # fmt: skip
            return stop
        with self.goodput.into("checkpoint"):
            self.checkpoints.save(self.step, self._progress())
        return stop

    def _evaluation_due(self) -> bool:
        every = self.config.eval_every
        return bool(every and self.step and self.step % every == 0 and self.evaluated != self.step)

    def _evaluate(self) -> int:
        """Mean loss of the first batches of the data that is kept for this; a signal ends it early."""
        data = self.workload.evaluation
        if data is None:
            return 0
        losses = []
        source = batches(data, Sampler(len(data), self.plan, seed=0, rank=self.rank), 0, pinned=False)
        stop = self._settle(everything=True)
        for _ in range(self.config.eval_batches):
            self.agreement.post(self.step, self.strategy.evaluate(self._place(next(source))))
            outcome = self.agreement.settle(everything=True)[0]
            stop = stop or outcome.signal
            if stop:
                return stop
            losses.append(outcome.loss)
        self.evaluated = self.step
        mean = sum(losses) / len(losses)
        # Every rank has the same mean, so all of them end together.
        self.enough = self.early_stop.stop(mean)
        if self.rank == 0:
            emit("eval", f"step {self.step}  evaluation loss {mean:.4f}", step=self.step, loss=mean)
            self._record({"eval_loss": mean})
        return 0

    def _report(self, seconds: float, waited: float, norm: torch.Tensor, rate: float) -> None:
        config = self.config
        self.goodput.mark(self.step, seconds)
        if self.rank != 0:
            emit(
                "rank", f"rank {self.rank} at step {self.step}, {seconds:.3f} s a step",
                rank=self.rank, step=self.step, step_seconds=seconds, data_seconds=waited,
            )  # fmt: skip
            return
        speed = self.plan.batch * self.workload.tokens_per_sample / seconds
        figures: dict[str, Any] = {
            "loss": self.last_loss, "tokens_per_second": speed, "step_seconds": seconds,
            "data_seconds": waited, "grad_norm": float(norm), "learning_rate": rate,
            **self.figures.of(self.step, config.steps, speed),
        }  # fmt: skip
        emit(
            "step",
            f"step {self.step}/{config.steps}  loss {self.last_loss:.4f}  {speed:,.0f} tok/s",
            step=self.step, total_steps=config.steps, **figures, goodput=self.goodput.rounded(),
        )  # fmt: skip
        self._record(figures)

    def _record(self, figures: Mapping[str, float]) -> None:
        for sink in self.sinks:
            sink.record(self.step, figures)

    def _progress(self) -> dict[str, Any]:
        return {
            "position": self.position,
            "first_loss": self.first_loss,
            "last_loss": self.last_loss if math.isfinite(self.last_loss) else None,
            "evaluated": self.evaluated,
            "evaluations": self.early_stop.state(),
            "guard": self.guard.state(),
            "spent": self.goodput.rounded(),
        }

    def _leave(self, number: int) -> int:
        """Within the grace period. 75 promises a checkpoint to go on from."""
        self._settle(everything=True)
        with self.goodput.into("checkpoint"):
            self.checkpoints.leave(self.step, self._progress(), self.config.checkpoint.grace or 25.0)
        saved = self.checkpoints.saved_step
        if self.rank == 0:
            name = signal.Signals(number).name
            kept = "checkpoint saved" if saved == self.step else f"the last checkpoint is of step {saved}"
            emit(
                "preempted", f"{name} at step {self.step}: {kept}, leaving", severity="WARNING",
                step=self.step, signal=name, goodput=self.goodput.rounded(),
            )  # fmt: skip
        return PREEMPTED if saved >= 0 else STOPPED

    def _finish(self) -> int:
        self._settle(everything=True)
        with self.goodput.into("checkpoint"):
            self.checkpoints.leave(self.step, self._progress(), AT_THE_END)
        seconds = time.monotonic() - self._began
        if self.rank == 0:
            first = math.nan if self.first_loss is None else self.first_loss
            losses = f"{first:.3f} → {self.last_loss:.3f}"
            if self.guard.total:
                losses += f", {self.guard.total} steps left out"
            emit(
                "done",
                f"done: {self.step} steps in {seconds:.0f} s, loss {losses}",
                step=self.step, loss_first=self.first_loss, loss_last=self.last_loss, seconds=seconds,
                skipped=self.guard.total,
                goodput=self.goodput.rounded(),
            )  # fmt: skip
        for sink in self.sinks:
            sink.close()
        return 0

    def _phase(self, phase: str, text: str = "", **fields: Any) -> None:
        text = text or f"rank {self.rank}: {phase}"
        emit("phase", text, phase=phase, rank=self.rank, world_size=self.world, **fields)


def may_be_learned(loss: torch.Tensor, norm: torch.Tensor | None, shared: Shared) -> torch.Tensor:
    """Whether a step is to be kept, as a scalar on the device: the guard comes to the same on the host."""
    keep = torch.isfinite(loss) & (loss <= shared.limit)
    return keep if norm is None else keep & torch.isfinite(norm)


def learning_rate(config: Config, step: int) -> float:
    """Linear warm-up, then a cosine down to a tenth of the peak."""
    peak, warmup = config.optimizer.learning_rate, config.optimizer.warmup
    if step < warmup:
        return peak * (step + 1) / warmup
    done = (step - warmup) / max(1, config.steps - warmup)
    return peak * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done))))
