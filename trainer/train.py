"""The training loop: read top to bottom."""

from __future__ import annotations

import math
import os
import random
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from trainer.checkpoint import Checkpoints
from trainer.config import PRESETS, Config, UsageError
from trainer.data import Batches, local_path, read_bytes
from trainer.gpus import GpuLines
from trainer.group import ProcessGroup
from trainer.lines import emit
from trainer.model import GPT
from trainer.strategy.base import Strategy
from trainer.strategy.ddp import DDP

PREEMPTED = 75
"""EX_TEMPFAIL: a checkpoint is there, start me again."""


class Trainer:
    """One process of the run. `run` returns the exit code."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.group = ProcessGroup()
        self.rank, self.world = self.group.rank, self.group.world
        self.device = pick_device(config.device)
        self.gpus = GpuLines(local_gpus(os.environ)) if self._speaks_for_its_gpus() else None
        self.signal = 0
        self.step = 0
        self._saved_at = -1
        self.first_loss: float | None = None
        self.last_loss = math.nan
        self.spent = {"init": 0.0, "data": 0.0, "step": 0.0, "checkpoint": 0.0}
        self._began = time.monotonic()
        signal.signal(signal.SIGTERM, self._note)

    def _speaks_for_its_gpus(self) -> bool:
        return self.device.type == "cuda" and self.group.local_rank == 0

    def _note(self, number: int, _: object) -> None:
        # Only a flag: the loop shares it with all ranks in the reduction that each step does anyway.
        self.signal = number

    def run(self) -> int:
        """Train to the end, or to a preemption."""
        self.group.join(self.device)
        try:
            self._prepare()
            self._resume()
            self.spent["init"] = time.monotonic() - self._began
            self._phase("training")
            while self.step < self.config.steps:
                stop = self._one_step()
                if stop:
                    return self._leave(stop)
                if self.config.checkpoint_every and self.step % self.config.checkpoint_every == 0:
                    self._save()
            return self._finish()
        finally:
            self.group.leave()

    def _prepare(self) -> None:
        config, preset = self.config, PRESETS[self.config.preset]
        for seed in (random.seed, np.random.seed, torch.manual_seed):
            seed(config.seed)
        model = GPT(preset["layers"], preset["heads"], preset["width"], config.context, config.dropout)
        self.strategy: Strategy = DDP()
        self.model = self.strategy.setup(model, self.device)
        # Dropout must differ by rank, the model's start must not.
        torch.manual_seed(config.seed * 1009 + self.rank)
        decay = [p for p in model.parameters() if p.dim() >= 2]
        other = [p for p in model.parameters() if p.dim() < 2]
        groups = [
            {"params": decay, "weight_decay": config.weight_decay},
            {"params": other, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.95), fused=True)
        self.batches = Batches(read_bytes(config.data), config.context, config.seed)
        folder = checkpoint_folder(config.checkpoint_dir, os.environ)
        self.checkpoints = Checkpoints(folder, keep=config.keep, group=self.group)
        self._phase("starting", **self.strategy.describe(), device=str(self.device))

    def _resume(self) -> None:
        if self.config.resume == "never":
            return
        path = self.checkpoints.newest(self._warn)
        if path is None:
            return
        state = self.checkpoints.load(path, self.device)
        self.strategy.load(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.first_loss = state["step"], state["first_loss"]
        self.last_loss = state["last_loss"]
        if self.rank == 0:
            emit("resumed", f"resumed from step {self.step} ({path})", step=self.step, path=str(path))

    def _one_step(self) -> int:
        """One optimizer step; the signal that some rank has got, or 0."""
        config, began = self.config, time.monotonic()
        rate = learning_rate(config, self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        total, waited = torch.zeros((), device=self.device), 0.0
        per_micro = config.batch * self.world
        for micro in range(config.accumulate):
            fetch = time.monotonic()
            position = (self.step * config.accumulate + micro) * per_micro
            tokens, targets = self.batches.batch(position, config.batch, self.rank, self.world)
            tokens, targets = tokens.to(self.device), targets.to(self.device)
            waited += time.monotonic() - fetch
            with self.strategy.accumulate(micro == config.accumulate - 1), self._autocast():
                loss = self.model(tokens, targets) / config.accumulate
                self.strategy.backward(loss)
            total += loss.detach()
        norm = self.strategy.clip(config.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        mean, stop = self._agree(total)
        seconds = time.monotonic() - began
        self.spent["data"] += waited
        self.spent["step"] += seconds - waited
        self.last_loss = mean
        if self.first_loss is None:
            self.first_loss = mean
        if not math.isfinite(mean):
            raise FloatingPointError(f"the loss is {mean} at step {self.step}")
        self._report(mean, seconds, waited, float(norm), rate)
        return stop

    def _autocast(self) -> Any:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")

    def _agree(self, loss: torch.Tensor) -> tuple[float, int]:
        """Mean loss over the ranks and the highest signal, in one reduction."""
        if self.world == 1:
            return float(loss), self.signal
        both = torch.zeros(self.world + 1, device=self.device)
        both[0], both[1 + self.rank] = loss, float(self.signal)
        dist.all_reduce(both)
        return float(both[0]) / self.world, int(both[1:].max())

    def _report(self, loss: float, seconds: float, waited: float, norm: float, rate: float) -> None:
        config = self.config
        if self.gpus is not None:
            self.gpus.tick()
        last = self.step == config.steps
        if self.step != 1 and not last and self.step % config.log_every:
            return
        speed = config.batch * config.accumulate * self.world * config.context / seconds
        if self.rank == 0:
            emit(
                "step",
                f"step {self.step}/{config.steps}  loss {loss:.4f}  {speed:,.0f} tok/s",
                step=self.step, total_steps=config.steps, loss=loss, tokens_per_second=speed,
                step_seconds=seconds, data_seconds=waited, grad_norm=norm, learning_rate=rate,
            )  # fmt: skip
        else:
            emit(
                "rank", f"rank {self.rank} at step {self.step}, {seconds:.3f} s a step",
                rank=self.rank, step=self.step, step_seconds=seconds, data_seconds=waited,
            )  # fmt: skip

    def _save(self) -> None:
        state = {
            "model": self.strategy.state(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "first_loss": self.first_loss,
            "last_loss": self.last_loss,
        }
        saved = self.checkpoints.save(
            self.step, state, {"strategy": self.strategy.name, "config": asdict(self.config)}
        )
        self._saved_at = self.step
        self.spent["checkpoint"] += saved.seconds
        if self.rank == 0:
            emit(
                "checkpoint",
                f"checkpoint at step {saved.step} in {saved.seconds:.2f} s, {saved.bytes / 1e6:.1f} MB",
                step=saved.step, path=str(saved.path), seconds=saved.seconds, bytes=saved.bytes,
                stall_seconds=saved.seconds,
            )  # fmt: skip

    def _leave(self, number: int) -> int:
        self._save()
        if self.rank == 0:
            name = signal.Signals(number).name
            emit(
                "preempted", f"{name} at step {self.step}: checkpoint saved, leaving", severity="WARNING",
                step=self.step, signal=name,
            )  # fmt: skip
        return PREEMPTED

    def _finish(self) -> int:
        if self._saved_at != self.step:
            self._save()
        seconds = time.monotonic() - self._began
        if self.rank == 0:
            losses = f"{self.first_loss:.3f} → {self.last_loss:.3f}"
            emit(
                "done",
                f"done: {self.step} steps in {seconds:.0f} s, loss {losses}",
                step=self.step, loss_first=self.first_loss, loss_last=self.last_loss, seconds=seconds,
                goodput=self.spent,
            )  # fmt: skip
        return 0

    def _phase(self, phase: str, **fields: Any) -> None:
        emit(
            "phase",
            f"rank {self.rank}: {phase}",
            phase=phase,
            rank=self.rank,
            world_size=self.world,
            **fields,
        )

    def _warn(self, text: str) -> None:
        if self.rank == 0:
            emit("phase", text, severity="WARNING", phase="resuming")


def local_gpus(env: Mapping[str, str]) -> int:
    """GPUs that the processes of this machine use."""
    return min(int(env.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count())


def checkpoint_folder(given: str, env: Mapping[str, str]) -> Path:
    """Where this run's checkpoints are.

    Below $AIP_CHECKPOINT_DIR each job has a folder of its own, by its id: a restart of the job finds its
    checkpoints there, and another job with the same output directory does not take them for its own.
    """
    if given:
        return local_path(given)
    if env.get("AIP_CHECKPOINT_DIR"):
        return local_path(env["AIP_CHECKPOINT_DIR"]) / env.get("CLOUD_ML_JOB_ID", "run")
    return Path("checkpoints")


def pick_device(wanted: str) -> torch.device:
    """The device of this local rank. Raises UsageError for a GPU that is not there."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise UsageError(
            "--device cuda: no GPU is visible to torch on this node; use --device cpu to do without"
        )
    if wanted == "cpu" or not there:
        return torch.device("cpu")
    torch.cuda.set_device(local)
    return torch.device("cuda", local)


def learning_rate(config: Config, step: int) -> float:
    """Linear warm-up, then a cosine down to a tenth of the peak."""
    if step < config.warmup:
        return config.learning_rate * (step + 1) / config.warmup
    done = (step - config.warmup) / max(1, config.steps - config.warmup)
    return config.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done))))
