"""The training loop of one rank."""

from __future__ import annotations

import math
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
from trainer.checkpoint.ending import RunEnding
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
from trainer.distributed.device import select_device
from trainer.distributed.loss_weights import LossWeights
from trainer.distributed.mesh import ParallelMesh
from trainer.distributed.process_group import ProcessGroup
from trainer.distributed.step_sync import StepOutcome, StepSync
from trainer.distributed.wait import StoppedBySignal
from trainer.hang import progress
from trainer.hang.heartbeat import ENDING, STARTING, TRAINING
from trainer.loop import events
from trainer.loop.early_stopping import EarlyStopping
from trainer.loop.evaluation import Evaluation
from trainer.loop.loss_guard import Diverged, GuardAction, LossGuard, should_keep
from trainer.loop.micro_batch import fitting_micro_batch
from trainer.loop.rollback import Rollback
from trainer.loop.schedule import learning_rate
from trainer.loop.train_state import TrainState
from trainer.metrics.goodput import Goodput
from trainer.metrics.profiler import StepProfiler
from trainer.metrics.reporter import MetricsReporter
from trainer.metrics.step_log import StepLog
from trainer.models.build import build_workload
from trainer.replicas.check import ReplicaCheck
from trainer.strategy.base import Strategy
from trainer.strategy.build import build_strategy

MAX_SAMPLES = 256
"""Maximum number of a step's samples that an error names."""


class Trainer:
    """The training of one rank of the run. `run` returns the exit code."""

    def __init__(self, config: Config, group: ProcessGroup | None = None) -> None:
        self.config = config
        self.group = group or ProcessGroup()
        self.goodput = Goodput(Path("progress.json") if self.group.local_rank == 0 else None)
        self.device = select_device(config.parallel.device)
        self._use_ranks()
        self.reporter = MetricsReporter(config, self.device, self.group.local_rank)
        self.step_log = StepLog(config.step_log)
        self.early_stopping = EarlyStopping(config.early_stop)
        self.guard = LossGuard(config.guard.spike, config.guard.guard_patience)
        self.rollback = Rollback()
        self.replicas: ReplicaCheck | None = None
        self.state = TrainState()

    def _use_ranks(self) -> None:
        """Set the values that depend only on the rank and the number of ranks."""
        config, data = self.config, self.config.data
        self.world_size = self.group.world_size
        self.plan = BatchPlan.of(data.batch, data.max_micro_batch, self._mesh().data_size)
        self.sync = StepSync(self.rank, self.world_size, self.device)
        self.profiler = StepProfiler(config, self.rank)

    @property
    def rank(self) -> int:
        return self.group.rank

    def _mesh(self) -> ParallelMesh:
        return ParallelMesh.of(self.config.parallel, self.world_size)

    def run(self) -> int:
        """Prepare and train; return the exit code."""
        progress.enter(STARTING)
        self.group.init(self.device, self.config.launch.hang_timeout)
        if self.rank == 0:
            events.settings(self.config)
        try:
            self._prepare()
        except StoppedBySignal as signaled:
            return self._stopped_at_start(signaled.number)
        self.goodput.seconds["init"] += self.goodput.elapsed
        self._phase("training")
        return self._train()

    def _train(self) -> int:
        """Train to the end, or until any rank gets a signal; all ranks then stop at the same step."""
        progress.enter(TRAINING)
        # Repeat an evaluation that a signal interrupted.
        with self.goodput.measure("eval"):
            stop = self._evaluate() if self.evaluation.due(self.state.step) else 0
        while self.state.step < self.config.steps and not stop and not self.early_stopping.ended:
            stop = self._one_step()
            if self.rollback.reason and not stop:
                stop = self._roll_back()
            if not stop and self.evaluation.due(self.state.step):
                with self.goodput.measure("eval"):
                    stop = self._evaluate()
            self.checkpoints.poll()
            if self.replicas is not None and self.replicas.due(self.state.step):
                self._check_replicas()
            if not stop and self.state.step < self.config.steps and self.checkpoints.due(self.state.step):
                stop = self._save()
        code = self._stop(stop) if stop else self._finish()
        # Save before closing the metrics: a stopped run may have no time left for them.
        self.reporter.close(finished=not stop)
        self.profiler.close()
        self.checkpoints.close()
        self.group.destroy()
        return code

    def _prepare(self) -> None:
        self.checkpoints = CheckpointManager(self.config, self.group, lambda: self.sync.received_signal)
        local = self._make_workload()
        data = same_data(data_fingerprint(self.workload.train), self.group)
        checkpoint = self.checkpoints.find(data)
        self.strategy: Strategy = build_strategy(self.config, self.plan, self.device)
        if checkpoint is None and local.model.init_weights:
            self._init_weights(local.model.init_weights)
        self._set_up()
        if checkpoint is not None:
            checkpoint = self._resume(checkpoint)
        self.batches = self._train_batches()
        self.checkpoints.attach(self.strategy, checkpoint)
        every = self.config.guard.check_replicas
        if every:
            self.replicas = ReplicaCheck(
                every,
                self.strategy,
                self.group,
                self.device,
                folder=self.checkpoints.folder,
                run=self.checkpoints.run_id,
                step=self.state.step,
            )

    def _make_workload(self) -> Config:
        """Prepare this node's data and build the model; return the settings with this node's paths."""
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
        self.reporter.measure_steps(self.workload.flops_per_token, self.world_size)
        # Dropout must differ between ranks with different samples, the initial weights must not.
        torch.manual_seed(self.config.seed * 1009 + self._mesh().data_rank(self.rank))
        self._phase("starting", **self.strategy.describe(), device=str(self.device))

    def _init_weights(self, where: str) -> None:
        def report(text: str) -> None:
            if self.rank == 0:
                self._phase("starting", text)

        path, source = init_weights(self.workload.model, self.workload.weights, where, report)
        self.workload = replace(self.workload, weights=source)
        report(f"initial weights from {path}")

    def _resume(self, checkpoint: FoundCheckpoint) -> FoundCheckpoint:
        """Continue from this checkpoint, or from an earlier one if it can't be loaded; return the loaded
        checkpoint."""
        began = time.monotonic()
        checkpoint = self._restore(checkpoint)
        saved = checkpoint.manifest.progress
        self.goodput.count_restore(time.monotonic() - began)
        self.state.position = saved["position"]
        self.guard.load_state(saved.get("guard"))
        self.goodput.resume(self.state.step, saved["spent"])
        if self.rank == 0:
            events.resumed(checkpoint, self.state.position)
        return checkpoint

    def _restore(self, checkpoint: FoundCheckpoint) -> FoundCheckpoint:
        """Restore weights, optimizer, step and losses, and return the loaded checkpoint; the caller sets the
        position in the data."""
        checkpoint = self.checkpoints.load(checkpoint, self.strategy)
        self._load_progress(checkpoint.manifest.step, checkpoint.manifest.progress)
        return checkpoint

    def _load_progress(self, step: int, saved: Mapping[str, Any]) -> None:
        """Restore the result of `_progress`, except the position and the guard's losses."""
        self.state.load_state(step, saved)
        self.evaluation.step = saved["evaluated"]
        # A run that early stopping ended must not train on after a restart.
        self.early_stopping.load_state(saved.get("evaluations"))

    def _train_batches(self) -> Iterator[Batch]:
        workers, data, pinned = self.config.data.workers, self.workload.train, self.device.type == "cuda"
        sampler = self._sampler(self.state.position)
        return batches(data, sampler, workers, pinned=pinned, collate=self.workload.collate)

    def _sampler(self, position: int) -> Sampler:
        rank, seed = self._mesh().data_rank(self.rank), self.config.seed
        return Sampler(len(self.workload.train), self.plan, seed=seed, rank=rank, position=position)

    def _one_step(self) -> int:
        """Do one optimizer step; return the signal of any rank, or 0 if there is none."""
        state, plan = self.state, self.plan
        state.begin_step()
        self.step_log.begin(state.step + 1, self.rank, self._samples)
        rate, began = learning_rate(self.config, state.step), time.monotonic()
        self.profiler.step(state.step + 1)
        micro_batches, weights = self._micro_batches()
        loss, waited = torch.zeros((), device=self.device), time.monotonic() - began
        for number, size in enumerate(plan.micro_batches):
            fetch_began = time.monotonic()
            batch = to_device(next(micro_batches), self.device)
            waited += time.monotonic() - fetch_began
            with self.reporter.steps.counted(size * self.workload.tokens_per_sample):
                weight, last = weights[number], number == plan.accumulation_steps - 1
                loss += weight * self.strategy.forward_backward(batch, weight, last=last)
        norm = self._update(rate, loss)
        # Count the step only now, because a rank that is lost during the update has not completed the step.
        state.end_step(plan.batch)
        self.step_log.done(state.step, self.rank, self.workload.model)
        stop = self._read_outcomes()
        progress.tick(state.step)
        reports = state.step in {1, self.config.steps} or state.step % self.config.log_every == 0
        if reports:
            stop = self._read_outcomes(wait=True) or stop
        state.step_seconds = seconds = self.reporter.steps.timed(began, complete=reports)
        self.goodput.seconds["data"] += waited
        self.goodput.seconds["step"] += time.monotonic() - began - waited
        self.reporter.tick()
        if reports:
            self._report(seconds, waited, norm, rate)
        return stop

    def _micro_batches(self) -> tuple[Iterator[Batch], Sequence[float] | LossWeights]:
        """Return the micro-batches of the next step, and their weights in its mean loss."""
        if self.workload.count_targets is None:
            return self.batches, self.plan.weights
        # Fetch all micro-batches first: the weight of the first depends on the targets of the last.
        fetched = [next(self.batches) for _ in self.plan.micro_batches]
        counts = [self.workload.targets(batch) for batch in fetched]
        return iter(fetched), LossWeights(counts, self.world_size, self.device)

    def _update(self, rate: float, loss: torch.Tensor) -> torch.Tensor:
        """Step the optimizer unless the reduced values require a skip; return the norm of the gradient."""
        guarded, square = self.config.guard.guard != "off", self.strategy.squared_norm()
        reduction = self.sync.reduce(self.state.step + 1, loss, square, limit=self.guard.limit())
        loss, total = reduction.wait()
        norm = None if square is None else total
        keep = should_keep(loss, norm, reduction.limit) if guarded else None
        norm_after = self.strategy.update(rate, norm, keep)
        if square is None and guarded:
            # The norm is infinite if the engine skipped the step, NaN if the engine did not compute it.
            reduction.norm_after_update = math.inf if math.isinf(norm_after) else 0.0
        return norm_after

    def _read_outcomes(self, *, wait: bool = False) -> int:
        """Handle the outcomes of earlier steps, with `wait` of all steps; return a signal among them, or 0 if
        there is none."""
        stop = 0
        for outcome in self.sync.outcomes(wait=wait):
            self._handle(outcome)
            stop = outcome.signal or stop
        return stop

    def _handle(self, outcome: StepOutcome) -> None:
        if self.config.guard.guard == "off":
            if not math.isfinite(outcome.loss):
                raise FloatingPointError(f"the loss is {outcome.loss} at step {outcome.step}")
        # A loss scaler skips steps until it has found its scale.
        elif self._was_skipped(outcome, 0.0 if self.strategy.has_loss_scaler else outcome.norm):
            return
        self.state.record_loss(outcome.loss)

    def _was_skipped(self, outcome: StepOutcome, norm: float) -> bool:
        action = self.guard.check(outcome.loss, norm, outcome.limit)
        if action is GuardAction.ROLL_BACK:
            self.rollback.reason = f"at step {outcome.step} {self.guard.reason}"
        elif action is GuardAction.SKIP and self.rank == 0:
            events.skipped(self.guard, outcome.step)
        return action is not GuardAction.KEEP

    def _roll_back(self) -> int:
        """Restore the last checkpoint and continue with the next batches; return a signal, or 0 if there is
        none. Raises Diverged if there is no checkpoint, or restoring it did not help."""
        stop = self._read_outcomes(wait=True)
        reason, last_step = self.rollback.take(), self.state.step
        if stop:
            return stop
        self.checkpoints.poll(wait=True)
        guard = self.config.guard
        try:
            checkpoint = self.checkpoints.find_again() if guard.guard == "rollback" else None
        except StoppedBySignal as signaled:
            return signaled.number
        if checkpoint is None or not self.rollback.helps(checkpoint):
            problem = self._upload_last()
            raise Diverged(f"{reason}, {self.rollback.refusal(checkpoint, guard)}{problem}")
        with self.goodput.measure("restart"):
            checkpoint = self._restore(checkpoint)
        self.rollback.restored_step = self.state.step
        self.guard.roll_back(checkpoint.manifest.progress.get("guard"))
        self.goodput.count_as_lost((last_step - self.state.step) * self.state.step_seconds)
        if self.rank == 0:
            events.rolled_back(self.guard, checkpoint, reason, self.state.position)
        return 0

    def _upload_last(self) -> str:
        """Upload the last good checkpoint, in case this machine is lost; return a sentence on failure."""
        step, loss = self.checkpoints.saved_step, ""
        if step >= 0:
            timeout = self.config.checkpoint.store_timeout
            loss = self.checkpoints.finish(step, self._progress(), timeout).loss
        self.checkpoints.close()
        return f". Of step {step} {loss}" if loss else ""

    def _save(self) -> int:
        """Begin a checkpoint; return a signal from the outcomes of steps, or 0 if there is none."""
        stop = self._read_outcomes(wait=True)
        if self.guard.skipped or self.rollback.reason:
            # A rollback must not restore weights that lead to skipped steps.
            if self.rank == 0:
                events.no_checkpoint(self.state.step)
            return stop
        self._check_replicas()
        with self.goodput.measure("checkpoint"):
            self.checkpoints.save(self.state.step, self._progress())
        return stop

    def _check_replicas(self) -> None:
        """Compare the replicas, at intervals and before each save: only a matching state is saved. Raises
        ReplicaError."""
        if self.replicas is not None:
            self.replicas.check(self.state.step, self._last_save)

    def _last_save(self) -> int:
        """Return the step of the last checkpoint, after a save in progress, or -1 if there is none."""
        self.checkpoints.poll(wait=True)
        return self.checkpoints.saved_step

    def _evaluate(self) -> int:
        """Evaluate on held-out samples; return a signal that ended the evaluation early, or 0 if there is
        none."""
        step, stop = self.state.step, self._read_outcomes(wait=True)
        evaluated = None if stop else self.evaluation.run(step, self.strategy, self.sync)
        if evaluated is None or evaluated.signal:
            return stop if evaluated is None else evaluated.signal
        # Every rank has an equal mean, so all of them stop together.
        ends = self.early_stopping.update(evaluated.loss)
        if self.rank == 0:
            events.evaluated(step, evaluated.loss, evaluated.accuracy)
            if ends:
                events.stopped_early(step, self.early_stopping)
            self.reporter.record(step, evaluated.metrics, self.checkpoints.run_id)
        return 0

    def _report(self, seconds: float, waited: float, norm: torch.Tensor, rate: float) -> None:
        step, total = self.state.step, self.config.steps
        self.goodput.record_step(step, seconds)
        if self.rank != 0:
            events.rank_step(self.rank, step, seconds, waited)
            return
        speed = self.plan.batch * self.workload.tokens_per_sample / seconds
        metrics: dict[str, Any] = {
            "loss": self.state.last_loss,
            "tokens_per_second": speed,
            "step_seconds": seconds,
            "data_seconds": waited,
            "grad_norm": float(norm),
            "learning_rate": rate,
            **self.reporter.steps.at(step, total, speed),
            **self.workload.figures(),
        }
        events.step(step, total, metrics, self.goodput)
        self.reporter.record(step, metrics, self.checkpoints.run_id)

    def _progress(self) -> dict[str, Any]:
        """Return the state for the checkpoint besides weights and optimizer."""
        return {
            **self.state.state(),
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
                self.state.step, self._progress(), self.config.checkpoint.notice, preempted=True
            )
        if self.rank == 0:
            events.preempted(number, self.state.step, ending, self.goodput)
        return exit_codes.PREEMPTED if ending.saved_step >= 0 else exit_codes.STOPPED

    def _stopped_at_start(self, number: int) -> int:
        """Exit after a signal before the first step, with code 75 only if a checkpoint exists."""
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
                self.state.step, self._progress(), self.config.checkpoint.store_timeout
            )
        if self.rank == 0:
            self._report_end(ending)
        return ending.code

    def _report_end(self, ending: RunEnding) -> None:
        """Log the last line: `done` only if the run lost nothing."""
        seconds = self.goodput.elapsed
        if ending.loss:
            events.not_saved(self.state.step, ending, seconds, self.goodput)
        else:
            losses = (self.state.first_loss, self.state.last_loss)
            events.done(self.state.step, seconds, losses, self.guard.total, self.goodput)

    def where(self) -> dict[str, Any]:
        """Return the fields that locate an error: step, position in the data, this rank's samples. Empty
        before training."""
        if self.state.begun is None:
            return {}
        step, position = self.state.begun
        return {"step": step, "position": position, "samples": self._samples()[:MAX_SAMPLES]}

    def _samples(self) -> list[int]:
        """Return this rank's samples in the step in progress, or in the last step."""
        assert self.state.begun is not None
        rows = islice(self._sampler(self.state.begun[1]), self.plan.accumulation_steps)
        return [index for row in rows for index in row]

    def _phase(self, phase: str, text: str = "", **fields: Any) -> None:
        events.phase(phase, text, self.rank, self.world_size, **fields)


if __name__ == "__main__":
    import runpy

    # `torchrun -m trainer.train` names the loop, but the command is `trainer.task`.
    runpy.run_module("trainer.task", run_name="__main__")
