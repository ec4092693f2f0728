"""Builds a case with everything that isn't its cause drawn from a seed: size, dialect, noise, survived trouble."""

from __future__ import annotations

import random
import zlib
from typing import Any

from tests.corpus.failures.case import Case, Root, Words, hook
from tests.corpus.failures.harness import names

NOISES = [
    "cudnn",
    "pip",
    "entrypoint",
    "omp",
    "nccl",
    "future",
    "hf",
    "wandb",
    "metadata",
    "apex",
    "optional",
    "tensorboard",
    "gcsfuse",
    "ldconfig",
]
INCIDENTS = [
    "gcs_retry",
    "bad_sample",
    "library_traceback",
    "logged_exception",
    "wandb_network",
    "oom_recovered",
    "loss_scale",
    "nan_skipped",
    "worker_restart",
    "nccl_warn",
    "checkpoint_fallback",
    "eval_assert",
    "deprecation",
    "errors_metric",
    "hub_retry",
    "xid_other",
]
DIALECTS = ("plain", "tqdm", "hf", "json", "megatron", "epoch", "logging", "loguru", "keras", "maxtext")
SIZES = (2, 2, 3, 4, 4, 6, 8, 8, 12, 16, 16, 24, 32, 48, 64)
GENERIC = {
    "shape",
    "recursion",
    "division by zero",
    "index out of range",
    "pickle",
    "reshape",
    "nan",
    "math range error",
    "float",
    "nonetype",
    "traced",
    "segmentation fault",
    "truncated",
    "jsondecodeerror",
    "utf-8",
    "parquet",
    "end-of-stream",
    "gzipped",
    "zlib",
    "decompress",
    "could not be opened",
    "crc",
    "empty file",
    "failed to read all data",
    "no space left",
    "free space",
    "full",
    "read-only file system",
    "file too large",
    "quota",
    "ephemeral",
    "memory",
    "memoryerror",
    "unable to allocate",
    "bad_alloc",
    "too many open files",
    "thread",
    "resource temporarily unavailable",
    "dataloader worker",
    "sigsegv",
    "sigill",
    "pickle data was truncated",
    "header",
    "no valid checkpoint",
    "world size",
    "bucket",
    "503",
    "429",
    "transport endpoint is not connected",
    "input/output error",
    "stale file handle",
    "permission denied",
    "default credentials",
    "api key",
    "401",
    "scope",
    "connection refused",
    "certificate",
    "ssl",
    "timed out",
    "connect",
    "404",
    "500",
    "unable to open database file",
    "run initialization has timed out",
    "noauth",
    "address already in use",
    "slots",
    "out of memory",
    "cublas_status_alloc_failed",
    "resource_exhausted",
    "oom when allocating tensor",
    "fallen off the bus",
    "ecc",
    "xid",
    "lost",
    "nvlink",
    "gsp",
    "tpu",
    "illegal memory access",
    "device-side assert",
    "driver",
    "kernel image",
    "no cuda gpus are available",
    "system not yet initialized",
    "no route to host",
    "shared memory",
    "nccl",
    "duplicate gpu",
    "loss scale",
    "probability tensor",
    "checkpoint",
    "undefined symbol",
    "descriptors",
    "batch",
    "yaml",
    "dtype",
    "reduction",
    "cannot identify image",
    "backward through the graph a second time",
    "state_dict",
    "zip archive",
    "weights only",
    "optimizer",
    "num_samples",
    "allocate",
    "cuda",
    "mat1 and mat2",
    "stream is not open",
    "16k",
    "100",
    "1000",
    "768",
    "1024",
    "512",
    "256",
    "dot_general",
}
"""Words that a cause may say in another way: they name no package, file, flag, bucket, host or key."""
RETRY: dict[str, Words] = {
    "code": ("no", "change"),
    "package": ("no", "change"),
    "data": ("no", "change"),
    "config-flag": ("no", "change"),
    "memory-host": "change",
    "memory-gpu": "change",
    "disk": "change",
    "storage-gcs": ("yes", "no", "change"),
    "permission": ("no", "change"),
    "image": ("no", "change"),
    "quota-capacity": ("yes", "change"),
    "preemption": "yes",
    "network": ("yes", "node", "change"),
    "nccl-desync": ("yes", "node", "no", "change"),
    "hardware-gpu": "node",
    "timeout": ("yes", "change", "no"),
    "checkpoint": ("no", "change"),
    "launcher": ("yes", "no", "change"),
    "dependency-service": ("yes", "no", "change"),
    "user-cancel": "no",
    "unknown": ("no", "yes", "change", ""),
    "none": ("no", ""),
}
"""What may be advised on a retry; by family, unless a case knows better."""
LAUNCHERS = ("torchrun", "torchrun", "torchrun", "deepspeed", "accelerate", "mpirun")


def mixed(
    name: str,
    family: Words,
    cause: str,
    pattern: str | tuple[str, ...],
    call: str,
    *,
    on: str | list[int] = "one",
    stage: str = "step",
    options: dict[str, Any] | None = None,
    before: tuple[str, ...] = (),
    light: bool = True,
    settings: dict[str, Any] | None = None,
    extra: list[dict[str, Any]] | None = None,
    at_step: int = 0,
    **fixed: Any,
) -> Case:
    """A case in which `call` fails on one rank, on all, or on those listed."""
    draw = random.Random(zlib.crc32(name.encode()))
    seed = draw.randrange(1, 10**6)
    platform = fixed.pop("platform", draw.choice(["vertex", "vertex", "vertex", "kubernetes"]))
    replicas = fixed.pop("replicas", draw.choice(SIZES if light else (2, 3, 4, 8)))
    ranks = fixed.pop("ranks", draw.choice([1, 1, 1, 1, 2, 4, 8]))
    while replicas * ranks > 64 or (not light and replicas * ranks > 8):
        ranks = max(1, ranks // 2)
        if ranks == 1:
            break
    world = replicas * ranks
    small = world <= 8
    steps = draw.choice([20, 30, 40] if not small else [40, 80, 150, 300])
    step = draw.randrange(3, steps)
    scale = draw.choice([30.0, 60.0, 100.0])
    values: dict[str, Any] = {
        "dialect": draw.choice(DIALECTS),
        "noise": draw.sample(NOISES, draw.choice([1, 2, 3, 5] if world > 16 else [2, 4, 6, 8])),
        "steps": steps,
        "save_every": draw.choice([7, 10, 25]),
        "print_every": draw.choice([1, 2, 5]) if small else draw.choice([2, 5]),
        "step_seconds": scale * draw.choice([0.008, 0.015, 0.03]) * (1 if small else 2),
        "scale": scale,
        "collective": draw.choice(["gloo", "gloo", "nccl", "nccl", "nccl", "none", "horovod", "tf", "jax"]),
        "frames": draw.choice([3, 5, 7]),
        "channels": draw.choice([2, 4, 8]),
        "chatty": (small and draw.random() < 0.6) or draw.random() < 0.15,
        "print_local0": draw.random() < 0.5,
        "all_save": draw.random() < 0.3,
        "rank_prefix": draw.random() < 0.4,
        "launcher": draw.choice(LAUNCHERS),
        "launcher_delay": draw.choice([0.1, 2.0, 10.0]),
        "collective_timeout": 600.0,
        "join_timeout": draw.choice([90.0, 180.0]),
        "output": draw.choice(
            ["/gcs/train-artifacts/run", "/mnt/nfs/runs/8f3k2", "gs://acme-models/pretrain/v7"]
        ),
    }
    if not light:
        # Its libraries take seconds to load: the others wait for as long.
        values |= {"join_timeout": 50 * scale, "collective_timeout": 50 * scale}
    if world > 24:
        # Two cores start as many processes in some seconds.
        values["join_timeout"] = 15 * scale
    values |= settings or {}
    step = at_step or min(step, values["steps"] - 1)
    if isinstance(on, list):
        at: list[int] | None = on
    else:
        at = {"one": [draw.randrange(world)], "zero": [0], "last": [world - 1]}.get(on)
    hooks = list(extra or [])
    hooks += [hook(b, at, "setup") for b in before]
    if draw.random() < 0.3:
        hooks.append(hook(draw.choice(["system.atexit_noise", "system.wandb_summary"]), None, "setup"))
    for incident in draw.sample(INCIDENTS, draw.choice([0, 1, 2, 3, 4])):
        if stage in ("step", "save", "end") and step > 1:
            who = [draw.randrange(world)]
            hooks.append(hook(f"incidents.{incident}", who, "step", draw.randrange(1, step)))
    hooks.append(hook(call, at, stage, step if stage == "step" else 0, **(options or {})))
    fields: dict[str, Any] = {
        "form": draw.choice(
            ["jsonl"] * 6 + ["gcloud", "gcloud"] + [{"vertex": "stream", "kubernetes": "kubectl"}[platform]]
        ),
        "grace": draw.choice([3.0, 10.0, 60.0, 260.0]),
        "late": draw.choice([0, 0, 0, 0, 20.0]),
        "joined": draw.random() < 0.12,
        "entry": draw.choice(
            ["train.py", "train.py", "pretrain_gpt.py", "finetune.py", "main.py", "run_clm.py"]
        ),
        "severity": draw.random() < 0.85,
    }
    case = Case(
        name,
        family,
        tuple(w for w in cause.split("|") if w and w.lower() not in GENERIC),
        platform=platform,
        replicas=replicas,
        ranks=ranks,
        seed=seed,
    )
    if draw.random() < 0.2:
        chosen = draw.sample(names(case), 1)
        fields["skew"] = {n: draw.uniform(-20, 20) for n in chosen}
    fields |= fixed
    for key, value in fields.items():
        setattr(case, key, value)
    if "retry" not in fixed:
        families = (family,) if isinstance(family, str) else family
        case.retry = tuple(
            dict.fromkeys(
                w for f in families for w in ((RETRY[f],) if isinstance(RETRY[f], str) else RETRY[f])
            )
        )
    case.hooks = hooks
    case.settings = values
    if case.root is None and pattern:
        patterns = (pattern,) if isinstance(pattern, str) else pattern
        where = ("",) if at is None else tuple(sorted({names(case)[r // ranks] for r in at}))
        case.root = Root(patterns, where)
    return case
