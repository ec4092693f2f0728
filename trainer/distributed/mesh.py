"""The mesh of the ranks: replicas of the model, shards of a replica, and parts of each layer."""

from __future__ import annotations

from dataclasses import dataclass

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from trainer.config import ParallelConfig
from trainer.errors import UsageError
from trainer.torch_private import set_group_timeout

REPLICATE, SHARD, TENSOR = "replicate", "shard", "tensor"


@dataclass(frozen=True, slots=True)
class ParallelMesh:
    """The sizes of the mesh. Ranks that differ only in `tensor` are neighbours, and see the same samples."""

    replicate: int
    shard: int
    tensor: int

    @classmethod
    def of(cls, parallel: ParallelConfig, world_size: int) -> ParallelMesh:
        """Divide the world by `--data-parallel-replicate` and `--tensor-parallel`; the quotient is the number
        of shards. Raises UsageError if the product does not divide the world size."""
        replicate, tensor = parallel.data_parallel_replicate, parallel.tensor_parallel
        if world_size % tensor:
            raise UsageError(
                f"--tensor-parallel {tensor}: the world size must be a multiple of {tensor}, not {world_size}"
            )
        if world_size // tensor % replicate:
            product = f"{replicate} × {tensor} (--tensor-parallel)" if tensor > 1 else f"{replicate}"
            raise UsageError(
                f"--data-parallel-replicate {replicate}: the world size must be a multiple of {product}, "
                f"not {world_size}"
            )
        return cls(replicate, world_size // tensor // replicate, tensor)

    @property
    def data_size(self) -> int:
        """Number of ranks that see different samples."""
        return self.replicate * self.shard

    def data_rank(self, rank: int) -> int:
        """Return the index, below `data_size`, of the part of a batch that a rank sees."""
        return rank // self.tensor

    def devices(self, device_type: str, timeout: float) -> DeviceMesh:
        """Create the process groups, with a timeout per collective call in seconds; a collective call."""
        sizes = (self.replicate, self.shard, self.tensor)
        mesh = init_device_mesh(device_type, sizes, mesh_dim_names=(REPLICATE, SHARD, TENSOR))
        for group in mesh.get_all_groups():
            set_group_timeout(group, timeout)
        return mesh
