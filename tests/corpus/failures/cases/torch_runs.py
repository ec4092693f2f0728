"""Runs of torch itself: DDP on gloo under torchrun, at most 8 processes."""

# fmt: off
from __future__ import annotations

import random
import zlib
from typing import Any

from tests.corpus.failures.case import Case, Root, Words
from tests.corpus.failures.cases.mix import GENERIC, RETRY
from tests.corpus.failures.harness import names

TORCHRUN = (
    "{python} -m torch.distributed.run --nnodes {nodes} --node-rank {node} --nproc-per-node {ranks} "
    "--master-addr 127.0.0.1 --master-port {port} "
)


def torch_case(  # noqa: PLR0917 - rows of a table
    name: str, family: Words, cause: str, pattern: str | tuple[str, ...], fault: str, at: str = "0", replicas: int = 2, ranks: int = 1, **fixed: Any,
) -> Case:
    """A case in which DDP fails on the ranks `at`."""
    draw = random.Random(zlib.crc32(name.encode()))
    platform = fixed.pop("platform", draw.choice(["vertex", "vertex", "kubernetes"]))
    case = Case(name, family, tuple(w for w in cause.split("|") if w and w.lower() not in GENERIC), platform=platform, replicas=replicas, ranks=ranks, seed=draw.randrange(10**6))
    case.command = TORCHRUN + f"ddp.py {fault}"
    case.env = {"FAULT_RANKS": at} | fixed.pop("env", {})
    case.settings = {"scale": 1.0}
    case.limit = 150.0
    case.grace = draw.choice([2.0, 8.0])
    case.form = draw.choice(["jsonl", "jsonl", "gcloud", "stream" if platform == "vertex" else "kubectl"])
    chosen = {int(r) // ranks for r in at.split(",")}
    patterns = (pattern,) if isinstance(pattern, str) else pattern
    case.root = Root(patterns, tuple(names(case)[n] for n in sorted(chosen)))
    families = (family,) if isinstance(family, str) else family
    case.retry = tuple(dict.fromkeys(w for f in families for w in ((RETRY[f],) if isinstance(RETRY[f], str) else RETRY[f])))
    for key, value in fixed.items():
        setattr(case, key, value)
    return case


def torch_runs() -> list[Case]:
    t = torch_case
    resume = {"RESUME": "1"}
    return [
        t("torch_shapes", "code", "mat1 and mat2", "mat1 and mat2 shapes cannot be multiplied", "shapes", "0,1", 2, 1),
        t("torch_dtype", "code", "dtype", "mat1 and mat2 must have the same dtype|must have the same dtype", "dtype", "1", 2, 2),
        t("torch_unused_parameters", "code", "reduction", "Expected to have finished reduction in the prior iteration", "unused", "0,1,2,3", 2, 2),
        t("torch_vocabulary", ("data", "code"), "index out of range", "IndexError: index out of range in self", "vocabulary", "3", 2, 2),
        t("torch_graph_twice", "code", "backward through the graph a second time", "Trying to backward through the graph a second time", "graph", "1", 2, 1),
        t("torch_view", "code", "shape", "is invalid for input of size|view size", "inplace", "2", 3, 1),
        t("torch_missing_keys", "checkpoint", "state_dict", "Error\\(s\\) in loading state_dict for Model|Missing key\\(s\\)|Unexpected key", "missing_keys", "0,1", 2, 1, env=resume),
        t("torch_size_mismatch", "checkpoint", "embedding.weight", "size mismatch for embedding.weight|Error\\(s\\) in loading state_dict", "size_mismatch", "1", 2, 1, env=resume),
        t("torch_zip_cut", "checkpoint", "zip archive", "PytorchStreamReader failed|not a ZIP archive|zip archive", "zip_cut", "2", 2, 2, env=resume),
        t("torch_weights_only", ("checkpoint", "code", "package"), "Weights only", "Weights only load failed", "weights_only", "0", 2, 1, env=resume),
        t("torch_optimizer_groups", "checkpoint", "optimizer", "doesn't match the size of optimizer's group", "optimizer_groups", "0,1", 2, 1, env=resume),
        t("torch_save_disk_full", "disk", "", "PytorchStreamWriter failed writing file|No space left on device|iostream error|unexpected pos", "disk", "0", 2, 1, env={"SMALL": "1"}),
        t("torch_worker_killed", ("memory-host", "code", "data"), "DataLoader worker", "DataLoader worker \\(pid(\\(s\\))? .*\\) (exited unexpectedly|is killed by signal)", "worker_killed", "1", 2, 1),
        t("torch_worker_raises", ("data", "code"), "document", "ValueError: document \\d+ has no field|Caught ValueError in DataLoader worker", "worker_raises", "1", 2, 1),
        t("torch_empty_dataset", ("data", "code"), "num_samples", "num_samples should be a positive integer", "empty", "1", 2, 1),
        t("torch_mismatch_detail", "nccl-desync", "", "preamble|Detected mismatch|Timed out waiting|Connection closed by peer|Read error|Connection reset", "other_shape", "0,1,2", 3, 1, env={"FAULT_RANKS": "2", "LIMIT": "6"}, note="rank 2 reduces another shape; each rank that compares may report it"),
        t("torch_other_collective", "nccl-desync", "", "preamble|Detected mismatch|Timed out waiting|Connection closed by peer|Read error|Connection reset", "other_collective", "0,1,2,3", 4, 1, env={"FAULT_RANKS": "3", "LIMIT": "6"}),
        t("torch_skipped_collective", ("nccl-desync", "timeout"), "", "Timed out waiting \\d+ms for (recv|send) operation", "skip_collective", "0,1,2,3", 2, 2, env={"FAULT_RANKS": "3", "LIMIT": "4"}, note="rank 3 sleeps in place of the all-reduce; its replica may be named too"),
        t("torch_monitored_barrier", ("nccl-desync", "timeout"), "", "monitoredBarrier", "barrier", "0,1,2,3", 4, 1, env={"FAULT_RANKS": "2"}, note="rank 2 hangs and never prints a cause"),
        t("torch_rank_oom_killed", "memory-host", "", "failed \\(exitcode: -9\\)|Signal 9 \\(SIGKILL\\)|exitcode  : -9", "killed", "1", 2, 2, retry=("change", "yes")),
        t("torch_segfault", ("code", "hardware-gpu"), "", "failed \\(exitcode: -11\\)|Signal 11 \\(SIGSEGV\\)|exitcode  : -11", "segfault", "3", 2, 2, retry=("no", "yes", "change", "node")),
        t("torch_allocator", "memory-host", "allocate", "DefaultCPUAllocator: (can't|not enough)|not enough memory", "memory", "1", 2, 1),
        t("torch_no_cuda", ("package", "image", "config-flag"), "CUDA", "Torch not compiled with CUDA enabled|_cuda_setDevice", "cuda", "0,1", 2, 1),
        t("torch_no_nccl", ("package", "image", "config-flag"), "NCCL", "Distributed package doesn't have NCCL|NCCL built in", "nccl", "0,1", 2, 1),
        t("torch_eight_ranks", ("data", "code"), "index out of range", "IndexError: index out of range in self", "vocabulary", "5", 2, 4),
        t("torchrun_script_missing", ("config-flag", "image", "launcher"), "trian.py", "can't open file", "x", "0,1", 2, 1, command=TORCHRUN + "trian.py --steps 100"),
        t("torchrun_bad_flag", ("config-flag", "launcher"), "", "error: (unrecognized|argument|ambiguous|the following)", "x", "0,1", 2, 1, command="{python} -m torch.distributed.run --nnodes {nodes} --nproc-per-node {ranks} --rdvz-backend c10d ddp.py"),
        t("torchrun_node_missing", ("launcher", "network", "timeout"), "", "RendezvousTimeoutError|DistNetworkError|DistStoreError|client socket has timed out|clients joined", "x", "0,1,2", 3, 1, command="if [ {node} = 2 ]; then echo waiting for the data volume; sleep 40; fi; {python} -m torch.distributed.run --nnodes {nodes} --nproc-per-node {ranks} --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:{port} --rdzv-conf join_timeout=8 --rdzv-id 7 ddp.py", grace=3.0, retry=("yes", "change"), note="node 2 never joins"),
        t("torch_env_missing", ("launcher", "config-flag"), "MASTER_ADDR", "environment variable MASTER_ADDR expected", "x", "0,1", 2, 1, command="env -u MASTER_ADDR -u MASTER_PORT {python} -u ddp.py"),
        t("torch_port_taken", ("launcher", "network"), "", "EADDRINUSE|address already in use|Address already in use", "x", "0", 2, 1, command="if [ {node} = 0 ]; then {python} -c 'import socket, time; s = socket.create_server((\"127.0.0.1\", {port})); time.sleep(25)' & sleep 1; fi; env LIMIT=6 {python} -u ddp.py"),
    ]
