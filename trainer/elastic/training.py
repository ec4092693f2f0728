"""The training loop of a rank in an elastic run.

A rank prepares alone and then trains with the nodes of the membership. When the membership changes, the rank
leaves the process groups, creates new groups, and continues. The most advanced rank sends its state to the
ranks that lack the last step, and to new ranks. Each step covers all samples of its global batch, or is not
done.

With fsdp the ranks of a node are one replica of the model (`distributed.replica_group`). These ranks enter
and leave each membership together, and each rank sends its shards to its counterparts on other nodes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from typing import Any

from trainer import exit_codes
from trainer.checkpoint.finder import FoundCheckpoint
from trainer.checkpoint.locations import checkpoint_folder
from trainer.checkpoint.manager import CheckpointManager
from trainer.checkpoint.manifest import saves
from trainer.config import Config
from trainer.data.fingerprint import data_fingerprint
from trainer.data.same_data import same_data
from trainer.distributed.batch_plan import BatchPlan
from trainer.distributed.replica_group import Disagreed, ModelReplica
from trainer.distributed.step_sync import StepOutcome, StepSync
from trainer.distributed.wait import StoppedBySignal
from trainer.elastic.group import ElasticGroup
from trainer.elastic.link import MembershipNotice, SupervisorLink
from trainer.elastic.protocol import SHARDS
from trainer.elastic.replica import ReplicaFSDP
from trainer.elastic.store import Superseded
from trainer.errors import CheckpointError, UsageError
from trainer.loop import events
from trainer.metrics.profiler import StepProfiler
from trainer.strategy.build import build_strategy
from trainer.strategy.ddp import DDP
from trainer.supervision.failure import noticed_a_lost_peer
from trainer.train import Trainer

_DECISION_MARGIN = 15.0
"""Seconds, in addition to --peer-timeout, for the supervisors to decide after a connection has broken."""


_NOTICE_SECONDS = 1.0
"""Seconds to wait for a message about a lost node, if the text of the error does not name the node."""


class MembershipChanges(Exception):
    """All ranks completed this step and continue with another membership."""


class HeldState(Enum):
    """Completeness of the weights, optimizer state and progress on a rank."""

    NONE = 0
    PARTIAL = 1
    """The state was lost while loading, so no other rank may copy it."""
    COMPLETE = 2
    """The complete state, as after a step."""


class ElasticTrainer(Trainer):
    """The training loop of one rank below `elastic.supervisor`."""

    strategy: DDP | ReplicaFSDP
    group: ElasticGroup

    def __init__(self, config: Config, link_path: str) -> None:
        self._epoch, self._changes = 0, False
        """The epoch of this rank's membership (0 before the first), and whether this step is the last step of
        that membership."""
        self._profiles = False
        """Whether this rank has created the profiler, which only rank 0 runs."""
        self._held = HeldState.NONE
        self._stepped_at = 0.0
        """Time (monotonic) at which the last step ended, or the training began in this membership."""
        group = ElasticGroup()
        self._link = SupervisorLink(link_path, group.local_rank)
        self._link.abort = group.abort
        super().__init__(config, group)
        if self.device.type == "cuda":
            raise UsageError("--elastic trains on CPUs only: use --device cpu, or omit it on GPUs")

    def _use_ranks(self) -> None:
        config, data = self.config, self.config.data
        if not self._epoch:
            # The ranks and their number are not known yet.
            self.world_size = 1
            self.profiler = StepProfiler(config, 1)
            self.plan = BatchPlan.elastic(data.batch, data.max_micro_batch, 1, 0)
            self.sync = StepSync(0, 1, self.device, asked_to_stop=self._asked_to_stop)
            return
        self.world_size = self.group.world_size
        self.plan = BatchPlan.elastic(data.batch, data.max_micro_batch, self.world_size, self.rank)
        self.sync = StepSync(self.rank, self.world_size, self.device, self._wants_change, self._asked_to_stop)
        if self.rank == 0 and not self._profiles:
            self._profiles = True
            self.profiler = StepProfiler(config, 0)

    def _asked_to_stop(self) -> bool:
        """Return whether all ranks must stop. SIGTERM does not count: it may reach only one node while the
        others train on."""
        return self._link.stopping

    def run(self) -> int:
        """Prepare, then train with each membership until the end; return the exit code."""
        self.group.init(self.device, self.config.launch.hang_timeout)
        try:
            data = self._prepare_alone()
            self._link.ready(self._data_signature(data))
            code: int | None = None
            while code is None:
                code = self._run_epoch(data)
        except StoppedBySignal as signaled:
            if self.group.local_rank == 0:
                events.preempted_at_start(signaled.number)
            saved = saves(checkpoint_folder(self.config.checkpoint.checkpoint_dir))
            code = exit_codes.PREEMPTED if saved else exit_codes.STOPPED
        return code

    def _data_signature(self, data: Mapping[str, Any]) -> str:
        """Return the data signature, the same on all nodes: the run refuses a node that joins later with
        another signature."""
        shards = "" if self.group.replica is None else f"{SHARDS}{self.group.replica.size}"
        return f"{data['samples']} {data['hash']}{shards}"

    def _prepare_alone(self) -> dict[str, Any]:
        """Prepare everything that needs no other node; return the fingerprint of the data."""
        self._local = self._make_workload()
        strategy: Any = build_strategy(self.config, self.plan, self.device, elastic=True)
        self.strategy = strategy
        if isinstance(strategy, ReplicaFSDP):
            self._begin_replica(strategy)
        self._set_up()
        if self.config.checkpoint.async_save == "on":
            # Allocate the buffers: the first use of a buffer takes several times as long as later uses.
            self.strategy.warm_up()
        self.group.leave()
        return data_fingerprint(self.workload.train)

    def _begin_replica(self, strategy: ReplicaFSDP) -> None:
        replica = self.group.make_replica(self.config.launch.hang_timeout)
        batch, size = self.config.data.batch, replica.size
        if batch % size:
            # The ranks of a node gather weights together, so all of them need equal numbers of
            # micro-batches.
            raise UsageError(
                f"--batch {batch} can't be split over the {size} processes of a node, as --elastic "
                f"requires with --strategy fsdp; use {max(1, batch // size) * size}"
            )
        strategy.replica = replica
        if self._local.model.init_weights:
            self._init_weights(self._local.model.init_weights)

    def _run_epoch(self, data: Mapping[str, Any]) -> int | None:
        """Train with the next membership; return the exit code, or None if the membership changes."""
        try:
            notice = self._next_membership()
            if notice.membership.index(notice.node) < 0:
                return self._left()
            self._join(notice, dict(data))
            return self._train()
        except MembershipChanges:
            pass
        except Exception as error:  # noqa: BLE001 - an error of this rank's own is raised again
            self._await_decision(error)
        self._release()
        return None

    def _next_membership(self) -> MembershipNotice:
        """Wait for the newest membership; the ranks of a replica continue with the same membership."""
        after = self._epoch
        while True:
            notice = self._link.wait(after, self._received_while_waiting)
            assert notice is not None
            if self.group.replica is None:
                return notice
            low, after = self.group.replica.extremes(notice.membership.epoch)
            if low == after:
                return notice
            after -= 1

    def _received_while_waiting(self) -> int:
        """Return the signal of this rank, or 0 if the rank has trained, because then it saves together with
        the others."""
        return 0 if self._held is HeldState.COMPLETE else self.sync.received_signal

    def _await_decision(self, error: Exception) -> None:
        """Wait for another membership after an error that the end of another rank explains. Raises `error`
        itself if this rank caused it, or if no membership follows."""
        if not self._explained_by_others(error):
            raise error
        if self.group.replica is not None and not isinstance(error, Disagreed):
            # The error means that the node is lost: its supervisor ends this process.
            with suppress(RuntimeError):
                self.group.replica.agree(ok=False)
        self._link.broken(self._epoch)
        seconds = self.config.launch.peer_timeout + _DECISION_MARGIN
        if self._link.wait(self._epoch, lambda: 0, seconds) is None:
            raise error

    def _explained_by_others(self, error: Exception) -> bool:
        if isinstance(error, Superseded | Disagreed) or noticed_a_lost_peer(error):
            return True
        if not isinstance(error, RuntimeError | CheckpointError | TimeoutError):
            return False
        return self._link.wait(self._epoch, lambda: 0, _NOTICE_SECONDS) is not None

    def _release(self) -> None:
        self.strategy.release()
        self.batches = iter(())
        self.group.leave()

    def _left(self) -> int:
        """Leave the run after a signal; the other nodes have the state and continue to train."""
        events.left(self.state.step, self.rank)
        self.checkpoints.close()
        return exit_codes.PREEMPTED

    def _join(self, notice: MembershipNotice, data: dict[str, Any]) -> None:
        """Continue with this membership."""
        began = self._stepped_at or time.monotonic()
        epoch = self._epoch = notice.membership.epoch
        self._changes = False
        timeout = self.config.launch.hang_timeout
        self.group.join(notice, self.device, timeout, lambda: self._link.epoch > epoch)
        self._use_ranks()
        self.step_log.epoch = epoch
        if self.group.replica is not None:
            _check_sizes(notice, self.group.replica)
        steps = self._steps_by_rank()
        source = steps.index(max(steps))
        if steps[source] < 0:
            self._begin_together(data)
        else:
            self._take_over(source, steps, data)
        self.strategy.regroup(self.plan, self.group.counterparts)
        self.reporter.measure_steps(self.workload.flops_per_token, self.world_size)
        before = self.evaluation.step
        self._make_evaluation()
        self.evaluation.step = before
        self.batches = self._train_batches()
        self._link.settled(epoch, self.state.step)
        self._stepped_at = time.monotonic()
        seconds = self._stepped_at - began
        self.goodput.seconds["restart" if self.state.begun else "init"] += seconds
        self.goodput.disruptions += bool(self.state.begun)
        if self.rank == 0:
            notice.membership.report(self.state.step, seconds)
        self._phase("training")

    def _steps_by_rank(self) -> list[int]:
        """Return the last step that each rank (or each rank of its replica) completed, or -1 if there is no
        complete state."""
        steps: list[int] = self.group.all_gather(self.state.step if self._held is HeldState.COMPLETE else -1)
        size = 1 if self.group.replica is None else self.group.replica.size
        lowest = [min(steps[first : first + size]) for first in range(0, len(steps), size)]
        return [step for step in lowest for _ in range(size)]

    def _begin_together(self, data: dict[str, Any]) -> None:
        """Load the newest checkpoint or begin at step 0, if no rank has the state."""
        self.checkpoints = CheckpointManager(self.config, self.group, lambda: self.sync.received_signal)
        checkpoint = self.checkpoints.find(same_data(data, self.group))
        if checkpoint is not None:
            checkpoint = self._resume(checkpoint)
        elif self._held is HeldState.PARTIAL:
            raise RuntimeError("the nodes with the state of the run were lost, and there is no checkpoint")
        elif self._local.model.init_weights and self.group.replica is None:
            self._init_weights(self._local.model.init_weights)
        self.checkpoints.attach(self.strategy, checkpoint)
        self._held = HeldState.COMPLETE

    def _take_over(self, source: int, steps: list[int], data: dict[str, Any]) -> None:
        """Send the state of rank `source`, which completed the most steps, to all ranks that lack it."""
        is_new = steps[self.rank] < 0
        if is_new:
            self.checkpoints = CheckpointManager(self.config, self.group, lambda: self.sync.received_signal)
        else:
            self.checkpoints.regroup()
        self.checkpoints.share(self.strategy, source, is_new=is_new)
        if min(steps) == steps[source]:
            return
        lacks = steps[self.rank] < steps[source]
        if lacks:
            self._held = HeldState.PARTIAL
        own = None
        if self.rank == source:
            own = (self._progress(), self.rollback)
        state = self.group.all_gather((own, self.strategy.extra_state() if own else None))[source]
        (progress, rollback), extra = state
        own_part = 0 if self.group.replica is None else self.group.local_rank
        self.strategy.send_state(source + own_part, self.group.counterparts)
        if lacks:
            self.strategy.load_extra_state(extra)
            self._load_progress(steps[source], progress)
            self.state.position = progress["position"]
            self.guard.load_state(progress["guard"])
            self.rollback = rollback
        if is_new:
            self.goodput.load_state(progress["spent"])
        self._held = HeldState.COMPLETE

    def _wants_change(self) -> bool:
        """Return whether a new membership is waiting. A save in progress is completed first, because all of
        its ranks must take part."""
        return self._link.epoch > self._epoch and not self.checkpoints.saving

    def _handle(self, outcome: StepOutcome) -> None:
        super()._handle(outcome)
        self._changes = self._changes or outcome.regroup

    def _one_step(self) -> int:
        stop = super()._one_step()
        self._stepped_at = time.monotonic()
        if self._changes and not stop:
            raise MembershipChanges
        return stop

    def _evaluate(self) -> int:
        stop = super()._evaluate()
        if self.evaluation.regroup and not stop:
            raise MembershipChanges
        return stop

    def _restore(self, checkpoint: FoundCheckpoint) -> FoundCheckpoint:
        held, self._held = self._held, HeldState.PARTIAL
        checkpoint = super()._restore(checkpoint)
        self._held = held if held is HeldState.COMPLETE else HeldState.NONE
        return checkpoint


def _check_sizes(notice: MembershipNotice, replica: ModelReplica) -> None:
    """Raise UsageError if the nodes have different numbers of processes."""
    for member in notice.membership.members:
        if member.processes != replica.size:
            raise UsageError(
                f"node {member.node} has {member.processes} processes and node {notice.node} {replica.size}: "
                "--elastic with --strategy fsdp needs the same number of processes on every node"
            )
