"""The worker pools of a pipeline's training jobs: the common pools with the flags of each job."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Sequence
from typing import Any

STAGES = (("texture", "texture"), ("scorers", "scorers"), ("quality", "quality"), ("integration", "both"))
"""Name and --stage of each training, in order; each starts from the weights of the previous stage."""
Pools = list[dict[str, Any]]


def with_flags(pools: Pools, *flags: str) -> Pools:
    """Append these flags to the flags of the containers in the pools."""
    pools_with_flags = copy.deepcopy(pools)
    for pool in pools_with_flags:
        # An empty pool keeps the index of the workers' pool.
        if pool:
            spec = pool["container_spec"]
            spec["args"] = [*spec.get("args", []), *flags]
    return pools_with_flags


def sweep_pools(pools: Pools, *, steps: int, samples: int) -> Pools:
    """Return the pools of a trial, which reports its loss on held-out samples as `loss`."""
    return with_flags(pools, "--stage=adapter", *_length(steps, samples), "--tuning-metric=loss")


def stage_folders(
    folder: str, pools: Pools, best: Sequence[str], *, steps: int, samples: int
) -> dict[str, str]:
    """Return the checkpoint folder of each stage. The same settings give the same folders: checkpoints of
    cached steps remain valid, and a retried stage continues."""
    settings = json.dumps([pools, list(best), steps, samples], sort_keys=True)
    run = hashlib.sha256(settings.encode()).hexdigest()[:12]
    return {name: f"{folder.rstrip('/')}/{run}/{name}" for name, _ in STAGES}


def stage_pools(
    pools: Pools, folders: dict[str, str], best: Sequence[str], *, steps: int, samples: int
) -> dict[str, Pools]:
    """Return the pools of each stage. `best` are the flags of the sweep's best trial."""
    by_stage: dict[str, Pools] = {}
    before = ""
    for name, stage in STAGES:
        flags = [f"--stage={stage}", f"--upload-dir={folders[name]}", *best, *_length(steps, samples)]
        by_stage[name] = with_flags(pools, *flags, *([f"--init-weights={before}"] if before else []))
        before = folders[name]
    return by_stage


def evaluation_pools(pools: Pools, checkpoint: str, out: str, *, samples: int) -> Pools:
    """Return one machine of the first pool for the evaluation of a checkpoint."""
    (first,) = copy.deepcopy(pools[:1])
    first["replica_count"] = 1
    first["container_spec"] = {
        "image_uri": first["container_spec"]["image_uri"],
        "command": ["python", "-m", "trainer.evaluate"],
        "args": [checkpoint, f"--samples={samples}", f"--out={out}"],
    }
    return [first]


def _length(steps: int, samples: int) -> tuple[str, ...]:
    return f"--steps={steps}", f"--eval-every={steps}", f"--eval-samples={samples}"
