"""The split of a global batch over the ranks and their micro-batches."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.errors import UsageError


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The split of a global batch into the micro-batches of a rank, of at most `micro_batch` sequences.

    All ranks have the same number of sequences, except in an elastic run, where the lower ranks have one
    more.
    """

    batch: int
    micro_batch: int
    accumulation_steps: int
    world_size: int
    rank: int = 0

    @classmethod
    def of(cls, batch: int, max_micro_batch: int, world_size: int) -> BatchPlan:
        """Plan as few micro-batches of at most `max_micro_batch` as possible.

        Raises:
            UsageError: if the ranks can't have the same number of sequences.
        """
        if batch % world_size:
            low = batch // world_size * world_size
            near = f"{low} or {low + world_size}" if low else str(world_size)
            raise UsageError(f"--batch {batch} can't be split over {world_size} processes; use {near}")
        per_rank = batch // world_size
        steps = -(-per_rank // max_micro_batch)
        return cls(batch, -(-per_rank // steps), steps, world_size)

    @classmethod
    def elastic(cls, batch: int, max_micro_batch: int, world_size: int, rank: int) -> BatchPlan:
        """Return the plan for one rank out of any number of ranks.

        Raises:
            UsageError: if there are fewer sequences than ranks.
        """
        if batch < world_size:
            raise UsageError(f"--batch {batch} has fewer sequences than the {world_size} processes")
        own = _share(batch, world_size, rank)
        steps = -(-own // max_micro_batch)
        return cls(batch, -(-own // steps), steps, world_size, rank)

    @property
    def share(self) -> int:
        """Return this rank's sequences in a step."""
        return _share(self.batch, self.world_size, self.rank)

    @property
    def micro_batches(self) -> tuple[int, ...]:
        """The size of each micro-batch of a step, in sequences; sizes differ by at most 1, and larger
        micro-batches come first."""
        small, larger = divmod(self.share, self.accumulation_steps)
        return (small + 1,) * larger + (small,) * (self.accumulation_steps - larger)

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of each micro-batch: the average over the ranks is then the mean over all sequences."""
        return tuple(size * self.world_size / self.batch for size in self.micro_batches)


def _share(batch: int, world_size: int, rank: int) -> int:
    return batch // world_size + (rank < batch % world_size)
