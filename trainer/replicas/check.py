"""The comparison of replicas during a run (`--check-replicas`), and the response to a difference.

A state whose replicas differ is never saved: a check precedes every save. The attempt ends, and the next
attempt continues from the last checkpoint. When it reaches the same step, it reports the ranks whose results
differ from the first time.
"""

from __future__ import annotations

import hashlib
import math
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from trainer.distributed.process_group import ProcessGroup
from trainer.errors import ReplicaError, UsageError
from trainer.replicas import record as records
from trainer.replicas.hashing import combined, hashes
from trainer.replicas.record import MismatchRecord
from trainer.replicas.votes import Mismatch, Repeat, RepeatVerdict, mismatch, verdict
from trainer.strategy.base import Strategy
from trainer.structured_log import emit

_MAX_NAMES, _MAX_FIELDS = 3, 16
"""Maximum number of tensors in the sentence and in the structured line."""
_MAX_NAMED = 8
"""Maximum number of ranks in the sentence."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the state and the ranks with a replica of it; `slots` is the index of each rank's hash."""

    key: tuple[str, str]
    slots: dict[int, int]


class ReplicaCheck:
    """Compares the replicas of a run. All ranks call each method at the same step."""

    def __init__(
        self,
        every: int,
        strategy: Strategy,
        group: ProcessGroup,
        device: torch.device,
        *,
        folder: Path,
        run: str,
        step: int,
    ) -> None:
        """`folder` is the folder of the checkpoints; the run begins or continues at `step`. Raises UsageError
        if no rank has a replica of another rank's state."""
        self._every, self._strategy, self._group, self._device = every, strategy, group, device
        self._folder, self._run = folder, run
        self._checked = -1
        self._places = group.all_gather((group.node_rank, socket.gethostname()))
        own = {part: sorted(tensors) for part, tensors in strategy.replicas().items()}
        self._own = [(part, _digest(names)) for part, names in sorted(own.items())]
        owned = group.all_gather(self._own)
        self._parts = _parts(owned)
        self._width = max(len(keys) for keys in owned)
        if not self._parts:
            raise UsageError(
                f"--check-replicas {every}: no process has a copy of another one's state; remove the flag, "
                "or train with --strategy ddp, zero1 or zero2 on several processes, or with "
                "--data-parallel-replicate"
            )
        self._earlier = self._read_record(step)

    def _read_record(self, step: int) -> MismatchRecord | None:
        """Return the mismatch after which this attempt repeats steps; a new node has no record of it."""
        group, own = self._group, records.read(self._folder)
        for rank_record in group.all_gather(own):
            if (
                rank_record
                and rank_record.run == self._run
                and rank_record.step > step
                and len(rank_record.values) == group.world_size
            ):
                record: MismatchRecord = rank_record
                return record
        return None

    def due(self, step: int) -> bool:
        return step % self._every == 0 or (self._earlier is not None and step == self._earlier.step)

    def check(self, step: int, last_save: Callable[[], int]) -> None:
        """Compare the replicas after this step. `last_save` waits for the last checkpoint and returns its
        step. Raises ReplicaError on every rank if replicas differ."""
        if step == self._checked:
            return
        state = self._strategy.replicas()
        hashes_by_part = {
            part: hashes([tensors[name] for name in sorted(tensors)])
            for part, tensors in sorted(state.items())
        }
        table = self._gathered([combined(of_part.to(self._device)) for of_part in hashes_by_part.values()])
        values = [_mixed(row) for row in table]
        if self._earlier is not None and step >= self._earlier.step:
            self._judge(self._earlier, step, values, self._distance(state))
        difference = mismatch(
            [{rank: table[rank][slot] for rank, slot in p.slots.items()} for p in self._parts]
        )
        if difference is not None:
            names = self._differing(state, hashes_by_part)
            self._keep(state, names)
            self._end(difference, names, step, last_save(), values)
        self._checked = step

    def _gathered(self, own: Sequence[torch.Tensor]) -> list[list[int]]:
        """Return the hashes of all ranks, by rank."""
        mine = torch.zeros(self._width, dtype=torch.int64, device=self._device)
        for slot, value in enumerate(own):
            mine[slot] = value
        rows = [torch.empty_like(mine) for _ in range(self._group.world_size)]
        dist.all_gather(rows, mine)
        return torch.stack(rows).tolist()  # type: ignore[no-any-return]

    def _differing(
        self, state: dict[str, dict[str, torch.Tensor]], hashes_by_part: dict[str, torch.Tensor]
    ) -> list[str]:
        """Return the names of the tensors whose replicas differ."""
        own = {
            (part, name): value
            for part, of_part in hashes_by_part.items()
            for name, value in zip(sorted(state[part]), of_part.tolist(), strict=True)
        }
        seen: dict[tuple[str, str], int] = {}
        names: dict[str, None] = {}
        for answer in self._group.all_gather(own):
            for key, value in answer.items():
                if seen.setdefault(key, value) != value:
                    names[key[1]] = None
        return list(names)

    def _keep(self, state: Mapping[str, Mapping[str, torch.Tensor]], names: Sequence[str]) -> None:
        """Write this rank's values of the first differing tensor, for comparison with the repetition."""
        kept = {
            part: {name: of_part[name].detach().cpu() for name in names[:1] if name in of_part}
            for part, of_part in state.items()
        }
        try:
            torch.save(kept, self._values_file)
        except (OSError, RuntimeError) as error:
            emit(
                "phase",
                f"{self._values_file} can't be written: {error}",
                severity="WARNING",
                phase="training",
            )

    @property
    def _values_file(self) -> Path:
        return self._folder / f"replica-values-{self._group.rank}.pt"

    def _distance(self, state: Mapping[str, Mapping[str, torch.Tensor]]) -> float:
        """Return the maximum difference between this rank's values and those that it computed the first time;
        NaN if it is unknown."""
        greatest = 0.0
        try:
            kept = torch.load(self._values_file)
            for part, of_part in kept.items():
                for name, before in of_part.items():
                    now = state[part][name].detach().cpu()
                    # A flipped bit may also turn a number into infinity.
                    change = (now.double() - before.double()).abs().nan_to_num(math.inf).max()
                    greatest = max(greatest, float(change))
        except (OSError, RuntimeError, KeyError, ValueError):
            return math.nan
        finally:
            self._values_file.unlink(missing_ok=True)
        return greatest

    def _end(self, difference: Mismatch, names: list[str], step: int, saved: int, values: list[int]) -> None:
        """Record and report the mismatch, and end the attempt on all ranks."""
        group = self._group
        if group.local_rank == 0:
            try:
                records.write(self._folder, MismatchRecord(self._run, step, values))
            except OSError as error:
                text = f"the mismatch can't be written to {self._folder}: {error.strerror or error}"
                emit("phase", text, severity="WARNING", phase="training")
        ranks, more = self._named(difference.ranks), len(names) - _MAX_NAMES
        tensors = ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
        begin = f"the replicas differ at step {step}"
        if difference.has_majority:
            other = "has" if len(difference.ranks) == 1 else "have"
            begin += f": {ranks} {other} other values than most ranks in {tensors}; "
            begin += "memory or arithmetic there is faulty"
        else:
            begin += f" in {tensors}: {ranks} disagree, and no majority shows which is wrong"
        back = (
            f"the last checkpoint, of step {saved}"
            if saved >= 0
            else "step 0, because there is no checkpoint"
        )
        text = f"{begin}. The state is not saved; training repeats the steps from {back}"
        self._emit(
            "found",
            text,
            step,
            difference.ranks,
            severity="ERROR",
            tensors=names[:_MAX_FIELDS],
            majority=difference.has_majority,
            saved_step=saved if saved >= 0 else None,
        )
        raise ReplicaError(begin)

    def _judge(self, earlier: MismatchRecord, step: int, values: list[int], distance: float) -> None:
        """Report the ranks whose results differ from the first time."""
        self._earlier = None
        if self._group.local_rank == 0:
            records.delete(self._folder)
        if step == earlier.step:
            distances = self._group.all_gather(distance)
            judged = verdict(earlier.values == values, distances)
            text, severity = self._sentence(judged, step)
            self._emit("repeated", text, step, judged.ranks, severity=severity, repeat=judged.repeat.value)

    def _sentence(self, judged: RepeatVerdict, step: int) -> tuple[str, str]:
        """Return the sentence about the repetition, and its severity."""
        begin = f"step {step}, at which the replicas differed, was repeated"
        if judged.repeat is Repeat.OTHER_RESULT:
            ranks = f"{self._named(judged.ranks)} had another result the first time, by {judged.most:.3g}"
            others = f"the others by at most {judged.rest:.3g}"
            return f"{begin}: {ranks}, {others}: memory or arithmetic there is faulty", "ERROR"
        if judged.repeat is Repeat.SAME_RESULTS:
            text = "every rank has the same result as the first time: a permanent fault, or a program that"
            return (
                f"{begin}: {text} computes differently on one of them; a third replica would show which",
                "ERROR",
            )
        text = "the results of all ranks are about equally far from those of the first time"
        return f"{begin}: {text}, so the wrong rank is unknown", "WARNING"

    def _named(self, ranks: Sequence[int]) -> str:
        """Return the ranks in words: `rank 3 on node 1 (host)`, `ranks …`."""
        nodes = len({node for node, _ in self._places}) > 1
        shown = [
            f"{rank}{f' on node {self._places[rank][0]}' if nodes else ''} ({self._places[rank][1]})"
            for rank in ranks[:_MAX_NAMED]
        ]
        more = ", …" if len(ranks) > len(shown) else ""
        return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(shown)}{more}"

    def _emit(self, state: str, text: str, step: int, ranks: Sequence[int], **fields: Any) -> None:
        """Write one line on rank 0."""
        if self._group.rank == 0:
            nodes = sorted({self._places[rank][0] for rank in ranks})
            hosts = sorted({self._places[rank][1] for rank in ranks})
            emit(
                "replicas",
                text,
                state=state,
                step=step,
                ranks=list(ranks),
                node_ranks=nodes,
                hosts=hosts,
                **fields,
            )


def _parts(owned: Sequence[Sequence[tuple[str, str]]]) -> list[_Part]:
    """Return the parts of the state that at least two ranks have."""
    slots: dict[tuple[str, str], dict[int, int]] = {}
    for rank, keys in enumerate(owned):
        for slot, key in enumerate(keys):
            slots.setdefault(key, {})[rank] = slot
    return [_Part(key, ranks) for key, ranks in slots.items() if len(ranks) > 1]


def _digest(names: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def _mixed(row: Sequence[int]) -> int:
    """Combine a rank's hashes into one number."""
    return int.from_bytes(hashlib.sha256(repr(list(row)).encode()).digest()[:8], "big")
