"""One rank that sets a model up; its peak of memory as a JSON line. `folder PATH` writes a model instead."""

from __future__ import annotations

import json
import os
import sys

import torch
import torch.distributed.fsdp
from torch.distributed.tensor import DTensor

from tests.benchmarks.harness import ROOT, memory_of
from trainer.config import parse
from trainer.distributed.batch_plan import BatchPlan
from trainer.distributed.mesh import ParallelMesh
from trainer.distributed.process_group import ProcessGroup
from trainer.models.build import build_workload
from trainer.strategy.build import build_strategy

FLAGS = ["--device=cpu", "--batch=4", "--context=128", f"--data={ROOT / 'README.md'}"]


def main(flags: list[str]) -> None:
    device = torch.device("cpu")
    group = ProcessGroup()
    group.init(device, 300)
    config = parse([*FLAGS, *flags])
    mesh = ParallelMesh.of(config.parallel, group.world_size)
    strategy = build_strategy(config, BatchPlan.of(4, 4, mesh.data_size), device)
    workload = build_workload(config)
    whole = sum(weight.numel() for weight in workload.model.parameters())
    before = memory_of()
    strategy.setup(workload)
    peak = (memory_of(field="VmHWM") - before) * 2**20
    # DeepSpeed's partitions are no DTensors.
    shards = [w.to_local() for w in workload.model.parameters() if isinstance(w, DTensor)]
    part = sum(shard.numel() for shard in shards) if shards else whole / group.world_size
    sys.stdout.write("\n" + json.dumps({"peak": peak, "whole": whole, "part": part}) + "\n")
    sys.stdout.flush()
    os._exit(0)


def write_folder(path: str) -> None:
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=8000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12,
        num_attention_heads=12, num_key_value_heads=4, max_position_embeddings=256,
    )  # fmt: skip
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(path, max_shard_size="100MB")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "folder":
        write_folder(sys.argv[2])
    else:
        main(sys.argv[1:])
