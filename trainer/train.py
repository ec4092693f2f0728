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
from trainer.agree import Agreement, Outcome
from trainer.checkpoint.load import Found
from trainer.checkpoint.manager import AT_THE_END, Checkpoints
from trainer.config import BatchPlan, Config, UsageError
from trainer.data.loader import Batch, batches
from trainer.data.sampler import Sampler
from trainer.goodput import Goodput
from trainer.gpus import GpuLines
from trainer.group import ProcessGroup
from trainer.lines import emit
from trainer.metrics.base import sinks
from trainer.metrics.figures import Figures
from trainer.metrics.guard import EarlyStop
from trainer.metrics.profile import Profile
from trainer.strategy import base as strategies
from trainer.strategy.base import ZERO, Strategy

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
        self.enough = False
        self.step, self.position, self.evaluated = 0, 0, 0
        self.first_loss: float | None = None
        self.last_loss = math.nan

    def run(self) -> int:
        """Train to the end, or to a preemption."""
        self.group.join(self.device, self.config.launch.hang_timeout)
        self._prepare()
        with self.goodput.into("eval"):
            stop = self._evaluate() if self._evaluation_due() else 0
        self.goodput.spent["init"] += time.monotonic() - self._began
        self._phase("training")
        while self.step < self.config.steps and not stop and not self.enough:
            stop = self._one_step()
            if not stop and self._evaluation_due():
                with self.goodput.into("eval"):
                    stop = self._evaluate()
            self.checkpoints.poll()
            if not stop and self.step < self.config.steps and self.checkpoints.due(self.step):
                stop = self._settle(everything=True)
                with self.goodput.into("checkpoint"):
                    self.checkpoints.save(self.step, self._progress())
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
        self.workload = workloads.build(config)
        found = self.checkpoints.find()
        other = (
            found is not None and found.manifest.layout == ZERO and found.manifest.world_size != self.world
        )
        self.strategy: Strategy = strategies.make(config, self.plan, self.device, universal=other)
        self.strategy.setup(self.workload)
        self.figures = Figures(self.device, self.world, self.workload.flops_per_token)
        # Dropout must differ by rank, the model's start must not.
        torch.manual_seed(config.seed * 1009 + self.rank)
        self._phase("starting", **self.strategy.describe(), device=str(self.device))
        if found is not None:
            self._resume(found)
        self.batches = self._train_batches()
        self.checkpoints.attach(self.strategy, found)

    def _resume(self, found: Found) -> None:
        self.checkpoints.load(found, self.strategy)
        progress = found.manifest.progress
        self.step, self.position = found.manifest.step, progress["position"]
        self.first_loss, self.last_loss = progress["first_loss"], progress["last_loss"]
        self.evaluated = progress["evaluated"]
        self.early_stop.resume(progress.get("evaluations"))
        self.goodput.resume(self.step, progress["spent"], self.started)
        if self.rank == 0:
            emit(
                "resumed", f"resumed from step {self.step} ({found.source})", step=self.step,
                path=found.source, position=self.position, world_size_before=found.manifest.world_size,
            )  # fmt: skip

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
            total += self.strategy.forward_backward(batch, last=micro == plan.accumulate - 1)
        norm = self.strategy.update(rate)
        self.step += 1
        self.position += plan.batch
        self.agreement.post(self.step, total / plan.accumulate)
        stop = self._settle()
        seconds = time.monotonic() - began
        self.goodput.spent["data"] += waited
        self.goodput.spent["step"] += seconds - waited
        if self.gpus is not None:
            self.gpus.tick()
        if self.step in {1, self.config.steps} or self.step % self.config.log_every == 0:
            stop = self._settle(everything=True) or stop
            self._report(seconds, waited, norm, rate)
        return stop

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
        self.last_loss = outcome.loss
        if self.first_loss is None:
            self.first_loss = outcome.loss
        if not math.isfinite(outcome.loss):
            raise FloatingPointError(f"the loss is {outcome.loss} at step {outcome.step}")

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
            "last_loss": self.last_loss,
            "evaluated": self.evaluated,
            "evaluations": self.early_stop.state(),
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
            losses = f"{self.first_loss:.3f} → {self.last_loss:.3f}"
            emit(
                "done",
                f"done: {self.step} steps in {seconds:.0f} s, loss {losses}",
                step=self.step, loss_first=self.first_loss, loss_last=self.last_loss, seconds=seconds,
                goodput=self.goodput.rounded(),
            )  # fmt: skip
        for sink in self.sinks:
            sink.close()
        return 0

    def _phase(self, phase: str, **fields: Any) -> None:
        text = f"rank {self.rank}: {phase}"
        emit("phase", text, phase=phase, rank=self.rank, world_size=self.world, **fields)


def local_gpus(env: Mapping[str, str]) -> int:
    """GPUs that the processes of this machine use."""
    return min(int(env.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count())


def pick_device(wanted: str) -> torch.device:
    """The device of this local rank. Raises UsageError for a GPU that is not there."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise UsageError(
            "--device cuda: no GPU is visible to torch on this node; use --device cpu to do without"
        )
    devices = list(Path("/dev").glob("nvidia[0-9]*"))
    if wanted == "auto" and not there and devices:
        raise UsageError(
            f"this node has {len(devices)} NVIDIA devices, but torch {torch.__version__} can't use them: "
            "take an image with a CUDA build of torch that fits the driver, or --device cpu to do without"
        )
    if wanted == "cpu" or not there:
        return torch.device("cpu")
    if local >= torch.cuda.device_count():
        raise UsageError(
            f"local rank {local} has no GPU: torch sees {torch.cuda.device_count()} on this node; "
            "use --nproc with that number"
        )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)


def learning_rate(config: Config, step: int) -> float:
    """Linear warm-up, then a cosine down to a tenth of the peak."""
    peak, warmup = config.optimizer.learning_rate, config.optimizer.warmup
    if step < warmup:
        return peak * (step + 1) / warmup
    done = (step - warmup) / max(1, config.steps - warmup)
    return peak * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done))))
