"""The training loop: read top to bottom."""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainer import exit_codes
from trainer.checkpoint.ending import Ending
from trainer.checkpoint.finder import FoundCheckpoint
from trainer.checkpoint.locations import checkpoint_folder
from trainer.checkpoint.manager import CheckpointManager
from trainer.checkpoint.manifest import saves
from trainer.checkpoint.weights import init_weights
from trainer.config import AUTO, Config
from trainer.data.download import download_inputs
from trainer.data.fingerprint import data_fingerprint
from trainer.data.loader import Batch, batches, to_device
from trainer.data.once_per_node import prepare_data
from trainer.data.same_data import same_data
from trainer.data.sampler import Sampler
from trainer.distributed.batch_plan import BatchPlan
from trainer.distributed.device import local_gpu_count, select_device
from trainer.distributed.loss_weights import LossWeights
from trainer.distributed.mesh import ParallelMesh
from trainer.distributed.process_group import ProcessGroup
from trainer.distributed.step_sync import StepOutcome, StepSync
from trainer.distributed.wait import Interrupted
from trainer.hang import progress
from trainer.hang.heartbeat import ENDING, STARTING, TRAINING
from trainer.loop import events
from trainer.loop.early_stopping import EarlyStopping
from trainer.loop.evaluation import Evaluation
from trainer.loop.loss_guard import Diverged, GuardAction, LossGuard, should_keep
from trainer.loop.micro_batch import fitting_micro_batch
from trainer.loop.schedule import learning_rate
from trainer.metrics.goodput import Goodput
from trainer.metrics.gpu import GpuReporter
from trainer.metrics.profiler import StepProfiler
from trainer.metrics.sinks import MetricSink, make_sinks
from trainer.metrics.step_log import StepLog
from trainer.metrics.step_metrics import StepMetrics
from trainer.models.build import build_workload
from trainer.replicas.check import ReplicaCheck
from trainer.strategy.base import Strategy
from trainer.strategy.build import build_strategy

MAX_SAMPLES = 256
"""Samples of a step that an error names."""


class Trainer:
    """One rank of the run. `run` returns the exit code."""

    def __init__(self, config: Config, group: ProcessGroup | None = None) -> None:
        self.config = config
        self.started = time.time()
        self._began = time.monotonic()
        self.group = group or ProcessGroup()
        self.device = select_device(config.parallel.device)
        self._use_ranks()
        self.goodput = Goodput(Path("progress.json") if self.group.local_rank == 0 else None)
        reports_gpus = self.device.type == "cuda" and self.group.local_rank == 0
        self.gpus = GpuReporter(local_gpu_count(os.environ)) if reports_gpus else None
        self.sinks: list[MetricSink] | None = None
        """Of rank 0, from its first reported step on."""
        self.step_log = StepLog(config.step_log)
        self.early_stopping = EarlyStopping(config.early_stop)
        self.guard = LossGuard(config.guard.spike, config.guard.guard_patience)
        self.rollback_reason, self.rolled_back_to = "", -1
        """Why the last checkpoint must be restored, and the step of the previously restored one."""
        self.replicas: ReplicaCheck | None = None
        self.stop_early = False
        self.step, self.position = 0, 0
        self.first_loss: float | None = None
        self.last_loss, self.step_seconds = math.nan, 0.0
        self.begun: tuple[int, int] | None = None
        """The step in progress and its position in the data, or those of the last one."""

    def _use_ranks(self) -> None:
        """What depends on the rank and the number of ranks alone."""
        config, data = self.config, self.config.data
        self.rank, self.world_size = self.group.rank, self.group.world_size
        self.plan = BatchPlan.of(data.batch, data.max_micro_batch, self._mesh().data_size)
        self.sync = StepSync(self.rank, self.world_size, self.device)
        self.profiler = StepProfiler(config, self.rank)

    def _mesh(self) -> ParallelMesh:
        return ParallelMesh.of(self.config.parallel, self.world_size)

    def run(self) -> int:
        """Prepare and train; the exit code."""
        progress.enter(STARTING)
        self.group.init(self.device, self.config.launch.hang_timeout)
        try:
            self._prepare()
        except Interrupted as signaled:
            return self._stopped_at_start(signaled.number)
        self.goodput.seconds["init"] += time.monotonic() - self._began
        self._phase("training")
        return self._train()

    def _train(self) -> int:
        """Train to the end, or until `stop`, the signal of any rank, which all know at the same step."""
        progress.enter(TRAINING)
        # Repeats an evaluation that a signal interrupted.
        with self.goodput.measure("eval"):
            stop = self._evaluate() if self.evaluation.due(self.step) else 0
        while self.step < self.config.steps and not stop and not self.stop_early:
            stop = self._one_step()
            if self.rollback_reason and not stop:
                stop = self._roll_back()
            if not stop and self.evaluation.due(self.step):
                with self.goodput.measure("eval"):
                    stop = self._evaluate()
            self.checkpoints.poll()
            if self.replicas is not None and self.replicas.due(self.step):
                self._check_replicas()
            if not stop and self.step < self.config.steps and self.checkpoints.due(self.step):
                stop = self._save()
        code = self._stop(stop) if stop else self._finish()
        for sink in self.sinks or ():
            # After a signal the checkpoint is saved by now, and there may be no time left.
            sink.close(1.0 if stop else 30.0, finished=not stop)
        self.profiler.close()
        self.checkpoints.close()
        self.group.destroy()
        return code

    def _prepare(self) -> None:
        self.checkpoints = CheckpointManager(self.config, self.group, lambda: self.sync.received_signal)
        local = self._make_workload()
        data = same_data(data_fingerprint(self.workload.train), self.group)
        found = self.checkpoints.find(data)
        self.strategy: Strategy = build_strategy(self.config, self.plan, self.device)
        if found is None and local.model.init_weights:
            self._init_weights(local.model.init_weights)
        self._set_up()
        if found is not None:
            self._resume(found)
        self.batches = self._train_batches()
        self.checkpoints.attach(self.strategy, found)
        every = self.config.guard.check_replicas
        if every:
            self.replicas = ReplicaCheck(
                every, self.strategy, self.group, self.device, folder=self.checkpoints.folder,
                run=self.checkpoints.run_id, step=self.step,
            )  # fmt: skip

    def _make_workload(self) -> Config:
        """Prepare this node's data and build the model; the settings with the paths of this node."""
        config = self.config
        for seed in (random.seed, np.random.seed, torch.manual_seed):
            seed(config.seed)
        copied = download_inputs(config, self.group, lambda: self.sync.received_signal)
        local = prepare_data(copied, self.group, lambda: self.sync.received_signal)
        self.workload = build_workload(local)
        if config.data.micro_batch == AUTO:
            fitting = fitting_micro_batch(local, self.workload, self.group, self.device)
            self.plan = BatchPlan.of(config.data.batch, fitting, self._mesh().data_size)
        self._make_evaluation()
        return local

    def _make_evaluation(self) -> None:
        self.evaluation = Evaluation(self.config, self.workload, self.plan, self.group, self.device)

    def _set_up(self) -> None:
        self.strategy.setup(self.workload)
        self._measure_steps()
        # Dropout must differ between the ranks that see different samples, the initial weights must not.
        torch.manual_seed(self.config.seed * 1009 + self._mesh().data_rank(self.rank))
        self._phase("starting", **self.strategy.describe(), device=str(self.device))

    def _measure_steps(self) -> None:
        flops, compiled = self.workload.flops_per_token, self.config.parallel.compile == "on"
        self.metrics = StepMetrics(self.device, self.world_size, flops, compiled=compiled)

    def _init_weights(self, where: str) -> None:
        def report(text: str) -> None:
            if self.rank == 0:
                self._phase("starting", text)

        path, source = init_weights(self.workload.model, self.workload.weights, where, report)
        self.workload = replace(self.workload, weights=source)
        report(f"the weights are those of {path}")

    def _resume(self, found: FoundCheckpoint) -> None:
        saved, began = found.manifest.progress, time.monotonic()
        self._restore(found)
        self.goodput.count_restore(time.monotonic() - began)
        self.position = saved["position"]
        self.guard.load_state(saved.get("guard"))
        self.goodput.resume(self.step, saved["spent"], self.started)
        if self.rank == 0:
            events.resumed(found, self.position)

    def _restore(self, found: FoundCheckpoint) -> None:
        """Restore weights, optimizer, step and losses; the caller sets the position in the data."""
        self.checkpoints.load(found, self.strategy)
        self._load_progress(found.manifest.step, found.manifest.progress)

    def _load_progress(self, step: int, saved: Mapping[str, Any]) -> None:
        """Restore the result of `_progress`, except the position and the guard's losses."""
        self.step = step
        self.first_loss = saved["first_loss"]
        self.last_loss = math.nan if saved["last_loss"] is None else saved["last_loss"]
        self.evaluation.step = saved["evaluated"]
        self.early_stopping.load_state(saved.get("evaluations"))
        # Of a run that has ended: it must not train on because it is started again.
        self.stop_early = self.early_stopping.ended

    def _train_batches(self) -> Iterator[Batch]:
        workers, data, pinned = self.config.data.workers, self.workload.train, self.device.type == "cuda"
        sampler = self._sampler(self.position)
        return batches(data, sampler, workers, pinned=pinned, collate=self.workload.collate)

    def _sampler(self, position: int) -> Sampler:
        rank, seed = self._mesh().data_rank(self.rank), self.config.seed
        return Sampler(len(self.workload.train), self.plan, seed=seed, rank=rank, position=position)

    def _one_step(self) -> int:
        """One optimizer step; the signal of any rank, or 0."""
        self.begun = (self.step + 1, self.position)
        self.step_log.begin(self.step + 1, self.rank, self._samples)
        plan, rate, began = self.plan, learning_rate(self.config, self.step), time.monotonic()
        self.profiler.step(self.step + 1)
        micro_batches, weights = self._micro_batches()
        loss, waited = torch.zeros((), device=self.device), time.monotonic() - began
        for number, size in enumerate(plan.micro_batches):
            fetch_began = time.monotonic()
            batch = to_device(next(micro_batches), self.device)
            waited += time.monotonic() - fetch_began
            with self.metrics.counted(size * self.workload.tokens_per_sample):
                weight, last = weights[number], number == plan.accumulation_steps - 1
                loss += weight * self.strategy.forward_backward(batch, weight, last=last)
        norm = self._update(rate, loss)
        # Only now the step is done: a rank that is lost before has not made it.
        self.step += 1
        self.position += plan.batch
        self.step_log.done(self.step, self.rank, self.workload.model)
        stop = self._read_outcomes()
        progress.tick(self.step)
        self.step_seconds = seconds = time.monotonic() - began
        self.goodput.seconds["data"] += waited
        self.goodput.seconds["step"] += seconds - waited
        if self.gpus is not None:
            self.gpus.tick()
        if self.step in {1, self.config.steps} or self.step % self.config.log_every == 0:
            stop = self._read_outcomes(wait=True) or stop
            self._report(seconds, waited, norm, rate)
        return stop

    def _micro_batches(self) -> tuple[Iterator[Batch], Sequence[float] | LossWeights]:
        """The micro-batches of the next step, and their weights in its mean loss."""
        if self.workload.count_targets is None:
            return self.batches, self.plan.weights
        # All of them at once: the weight of the first depends on the targets of the last.
        fetched = [next(self.batches) for _ in self.plan.micro_batches]
        counts = [self.workload.targets(batch) for batch in fetched]
        return iter(fetched), LossWeights(counts, self.world_size, self.device)

    def _update(self, rate: float, loss: torch.Tensor) -> torch.Tensor:
        """Step the optimizer, unless the values of all ranks say to skip it; return the gradient's norm."""
        guarded, square = self.config.guard.guard != "off", self.strategy.squared_norm()
        reduction = self.sync.reduce(self.step + 1, loss, square, limit=self.guard.limit())
        loss, total = reduction.wait()
        norm = None if square is None else total
        keep = should_keep(loss, norm, reduction.limit) if guarded else None
        norm_after = self.strategy.update(rate, norm, keep)
        if square is None and guarded:
            # Infinite if the engine skipped the step; NaN if it did not compute the norm.
            reduction.norm_after_update = math.inf if math.isinf(norm_after) else 0.0
        return norm_after

    def _read_outcomes(self, *, wait: bool = False) -> int:
        """Handle the outcomes of earlier steps, with `wait` of all; the signal among them, or 0."""
        stop = 0
        for outcome in self.sync.outcomes(wait=wait):
            self._handle(outcome)
            stop = outcome.signal or stop
        return stop

    def _handle(self, outcome: StepOutcome) -> None:
        if self.config.guard.guard == "off":
            if not math.isfinite(outcome.loss):
                raise FloatingPointError(f"the loss is {outcome.loss} at step {outcome.step}")
        # A loss scaler skips steps by itself until it has found its scale.
        elif self._was_skipped(outcome, 0.0 if self.strategy.has_loss_scaler else outcome.norm):
            return
        self.last_loss = outcome.loss
        if self.first_loss is None:
            self.first_loss = outcome.loss

    def _was_skipped(self, outcome: StepOutcome, norm: float) -> bool:
        action = self.guard.check(outcome.loss, norm, outcome.limit)
        if action is GuardAction.ROLL_BACK:
            self.rollback_reason = f"at step {outcome.step} {self.guard.reason}"
        elif action is GuardAction.SKIP and self.rank == 0:
            events.skipped(self.guard, outcome.step)
        return action is not GuardAction.KEEP

    def _roll_back(self) -> int:
        """Restore the last checkpoint and continue with the batches that follow; return a signal, or 0.

        Raises:
            Diverged: if there is no checkpoint, or restoring it did not help.
        """
        stop = self._read_outcomes(wait=True)
        reason, self.rollback_reason, at = self.rollback_reason, "", self.step
        if stop:
            return stop
        self.checkpoints.poll(wait=True)
        try:
            found = self.checkpoints.find_again() if self.config.guard.guard == "rollback" else None
        except Interrupted as signaled:
            return signaled.number
        if found is None or found.manifest.step == self.rolled_back_to:
            lost = self._upload_last()
            raise Diverged(f"{reason}, {self._no_rollback_because(found)}{lost}")
        with self.goodput.measure("restart"):
            self._restore(found)
        self.rolled_back_to = self.step
        self.guard.roll_back(found.manifest.progress.get("guard"))
        self.goodput.count_as_lost((at - self.step) * self.step_seconds)
        if self.rank == 0:
            events.rolled_back(self.guard, found, reason, self.position)
        return 0

    def _no_rollback_because(self, found: FoundCheckpoint | None) -> str:
        config = self.config
        if found is not None:
            return (
                f"as before the rollback to step {self.rolled_back_to}: other batches did not help. Start "
                "again from an earlier checkpoint, or with a lower --learning-rate"
            )
        if config.guard.guard == "skip":
            return f"and --guard skip ends the run after --guard-patience {config.guard.guard_patience}"
        return "and there is no checkpoint to roll back to: lower --learning-rate, or check the data"

    def _upload_last(self) -> str:
        """Upload the last good checkpoint, so that it outlives this machine; say so if that failed."""
        step, loss = self.checkpoints.saved_step, ""
        if step >= 0:
            timeout = self.config.checkpoint.store_timeout
            loss = self.checkpoints.finish(step, self._progress(), timeout).loss
        self.checkpoints.close()
        return f". Of step {step} {loss}" if loss else ""

    def _save(self) -> int:
        """Begin a checkpoint; return a signal among the outcomes, or 0."""
        stop = self._read_outcomes(wait=True)
        if self.guard.skipped or self.rollback_reason:
            # A rollback must not restore weights that lead to skipped steps.
            if self.rank == 0:
                events.no_checkpoint(self.step)
            return stop
        self._check_replicas()
        with self.goodput.measure("checkpoint"):
            self.checkpoints.save(self.step, self._progress())
        return stop

    def _check_replicas(self) -> None:
        """Before each save too: what is saved is what the replicas agree on. Raises ReplicaError."""
        if self.replicas is not None:
            self.replicas.check(self.step, self._last_save)

    def _last_save(self) -> int:
        """The step of the last checkpoint, once a save in progress is complete; -1 if there is none."""
        self.checkpoints.poll(wait=True)
        return self.checkpoints.saved_step

    def _evaluate(self) -> int:
        """Evaluate on held-out samples; a signal ends it early and is returned."""
        stop = self._read_outcomes(wait=True)
        evaluated = None if stop else self.evaluation.run(self.step, self.strategy, self.sync)
        if evaluated is None or evaluated.signal:
            return stop if evaluated is None else evaluated.signal
        # Every rank has the same mean, so all of them stop together.
        self.stop_early = self.early_stopping.update(evaluated.loss)
        if self.rank == 0:
            events.evaluated(self.step, evaluated.loss, evaluated.accuracy)
            if self.stop_early:
                events.stopped_early(self.step, self.early_stopping)
            self._record(evaluated.metrics)
        return 0

    def _report(self, seconds: float, waited: float, norm: torch.Tensor, rate: float) -> None:
        config = self.config
        self.goodput.record_step(self.step, seconds)
        if self.rank != 0:
            events.rank_step(self.rank, self.step, seconds, waited)
            return
        speed = self.plan.batch * self.workload.tokens_per_sample / seconds
        metrics: dict[str, Any] = {
            "loss": self.last_loss, "tokens_per_second": speed, "step_seconds": seconds,
            "data_seconds": waited, "grad_norm": float(norm), "learning_rate": rate,
            **self.metrics.at(self.step, config.steps, speed), **self.workload.figures(),
        }  # fmt: skip
        events.step(self.step, config.steps, metrics, self.goodput)
        self._record(metrics)

    def _record(self, metrics: Mapping[str, float]) -> None:
        if self.sinks is None:
            self.sinks = make_sinks(self.config, self.rank, self.checkpoints.run_id)
        for sink in self.sinks:
            sink.record(self.step, metrics)

    def _progress(self) -> dict[str, Any]:
        return {
            "position": self.position,
            "first_loss": self.first_loss,
            "last_loss": self.last_loss if math.isfinite(self.last_loss) else None,
            "evaluated": self.evaluation.step,
            "evaluations": self.early_stopping.state(),
            "guard": self.guard.state(),
            "spent": self.goodput.state(),
        }

    def _stop(self, number: int) -> int:
        """Save within the grace period; return the exit code: 75 promises a checkpoint."""
        self._read_outcomes(wait=True)
        self._check_replicas()
        with self.goodput.measure("checkpoint", ENDING):
            ending = self.checkpoints.finish(
                self.step, self._progress(), self.config.checkpoint.notice, preempted=True
            )
        if self.rank == 0:
            events.preempted(number, self.step, ending, self.goodput)
        return exit_codes.PREEMPTED if ending.saved_step >= 0 else exit_codes.STOPPED

    def _stopped_at_start(self, number: int) -> int:
        """After a signal before the first step: 75 only if this run can continue from a checkpoint."""
        folder = checkpoint_folder(self.config.checkpoint.checkpoint_dir)
        saved = any(self.group.all_gather(bool(saves(folder))))
        if self.rank == 0:
            events.preempted_at_start(number)
        self.group.destroy()
        return exit_codes.PREEMPTED if saved else exit_codes.STOPPED

    def _finish(self) -> int:
        self._read_outcomes(wait=True)
        self._check_replicas()
        with self.goodput.measure("checkpoint", ENDING):
            ending = self.checkpoints.finish(
                self.step, self._progress(), self.config.checkpoint.store_timeout
            )
        if self.rank == 0:
            self._report_end(ending)
        return ending.code

    def _report_end(self, ending: Ending) -> None:
        """The last line; `done` is only said of a run that has lost nothing."""
        seconds = time.monotonic() - self._began
        if ending.loss:
            events.not_saved(self.step, ending, seconds, self.goodput)
        else:
            losses = (self.first_loss, self.last_loss)
            events.done(self.step, seconds, losses, self.guard.total, self.goodput)

    def where(self) -> dict[str, Any]:
        """Where an error happened: step, position in the data, this rank's samples. Empty before training."""
        if self.begun is None:
            return {}
        step, position = self.begun
        return {"step": step, "position": position, "samples": self._samples()[:MAX_SAMPLES]}

    def _samples(self) -> list[int]:
        """This rank's samples in the step in progress, or in the last one."""
        assert self.begun is not None
        rows = islice(self._sampler(self.begun[1]), self.plan.accumulation_steps)
        return [index for row in rows for index in row]

    def _phase(self, phase: str, text: str = "", **fields: Any) -> None:
        events.phase(phase, text, self.rank, self.world_size, **fields)


if __name__ == "__main__":
    import runpy

    # `torchrun -m trainer.train` names the loop, where `trainer.task` is the command.
    runpy.run_module("trainer.task", run_name="__main__")
