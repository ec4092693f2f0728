"""A small model of random vectors, whose process can kill its node in the middle of a step, or wait there.

`$KILL` is `stage:N`: in the N-th forward pass of the process, in the backward pass after it, or before the
optimizer's step that follows, its supervisor and it get SIGKILL; the stage `error` raises one. `$PAUSE` is a
file with a number: a process with it waits in every 20th forward pass, unless the number is higher. `$SLOW`
is a file with the seconds that each forward pass takes longer.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from trainer.config import Config
from trainer.models.workload import Workload

EVERY = 20
WIDTH = 32


def kill_node() -> None:
    """Kill the supervisor and this process, as if the machine were gone."""
    server = psutil.Process().parent()
    supervisor = server.parent() if server is not None else None
    assert supervisor is not None
    supervisor.kill()
    os.kill(os.getpid(), signal.SIGKILL)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
        stage, _, number = os.environ.get("KILL", "").partition(":")
        self._stage, self._at, self._count = stage, int(number or 0), 0
        self._pause = os.environ.get("PAUSE", "")
        self._slow = os.environ.get("SLOW", "")
        if stage == "optimizer":
            register_optimizer_step_pre_hook(lambda *_: self._kill_at("optimizer"))

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if self.training:
            self._count += 1
            time.sleep(float(Path(self._slow).read_text()) if self._slow else 0)
            self._wait()
            self._kill_at("forward")
            if (self._stage, self._at) == ("error", self._count):
                raise ValueError("this model is broken")
        loss = (self.layers(inputs) - targets).square().mean()
        if self._stage == "backward" and loss.requires_grad:
            loss.register_hook(lambda _: self._kill_at("backward"))
        return loss

    def _kill_at(self, stage: str) -> None:
        if (stage, self._count) == (self._stage, self._at):
            kill_node()

    def _wait(self) -> None:
        while self._pause and self._count % EVERY == 0 and int(Path(self._pause).read_text()) < self._count:
            Path(f"{self._pause}-{self._count}").touch()
            time.sleep(0.01)


class Sums:
    """Random vectors with their means."""

    def __init__(self) -> None:
        self._inputs = torch.randn(997, WIDTH, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._inputs[index], self._inputs[index].mean()[None]


def build(config: Config) -> Workload:
    model = Model()
    return Workload(model, [model.layers], Sums(), tokens_per_sample=1)
