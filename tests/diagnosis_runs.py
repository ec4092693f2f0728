# ruff: noqa: E501 - lines of logs
"""Writes runs that fail: many replicas, noise at the start, survived errors, one root, cascades, teardown."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parent / "corpus" / "failures"
WORDINGS: list[dict[str, Any]] = json.loads((CORPUS / "wordings.json").read_text())
START = 1_790_000_000.0
NOISE = [
    "2026-11-28 10:00:00.1: E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:8310] Unable to register cuDNN factory: "
    "Attempting to register factory for plugin cuDNN when one has already been registered",
    "W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find TensorRT",
    "/usr/lib/python3/dist-packages/x.py:3: FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated.",
    "WARNING: flash_attn is not installed, falling back to sdpa",
    "Could not load dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object file: No such file",
    "NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
    "gcsfuse: retrying in 0.5 seconds: googleapi: Error 503: backend error",
    "[W socket.cpp:663] [c10d] The client socket has failed to connect to [workerpool0-0]:29500 (errno: 111 - Connection refused).",
    "wandb: WARNING `resume` will be ignored since W&B syncing is set to `offline`.",
    "urllib3.connectionpool: WARNING Retrying (Retry(total=4, connect=None)) after connection broken by 'NewConnectionError'",
    "INFO:root:loading checkpoint index, 0 errors",
]
SURVIVED = [
    ["ERROR:data:shard 17: image file is truncated (12 bytes not processed), skipping sample"],
    [
        "Traceback (most recent call last):",
        '  File "/app/data.py", line 88, in fetch',
        "    blob = client.get(name)",
        "google.api_core.exceptions.ServiceUnavailable: 503 GET https://storage.googleapis.com/storage/v1/b/x: backend error",
        "retrying in 4.0 seconds (attempt 1/5)",
    ],
    ["[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768"],
    [
        "ERROR:train:evaluation failed",
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 120, in evaluate',
        "    score = metric(labels)",
        "ValueError: Only one class present in y_true",
    ],
    ["wandb: Network error (ConnectionError), entering retry loop."],
]
CASCADES = [
    [
        "[rank{rank}]:[E1128 10:30:08.4 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.",
        "terminate called after throwing an instance of 'c10::DistBackendError'",
    ],
    [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 71, in step',
        "    loss.backward()",
        '  File "/opt/python/lib/python3.11/site-packages/torch/_tensor.py", line 525, in backward',
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:41003",
    ],
    [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 71, in step',
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:333, remote process exited or "
        "there was a network error, NCCL version 2.21.5",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    ],
    ["[E ProcessGroupGloo.cpp:144] Rank {rank} failed to pass monitoredBarrier in 1800000 ms"],
]
TEARDOWN = [
    "W1128 10:31:00 api.py:1028] Sending process 16308 closing signal SIGTERM",
    "wandb: Find logs at: ./wandb/run-1/logs",
    "wandb: Run history:",
    "/usr/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 6 leaked "
    "semaphore objects to clean up at shutdown",
    "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f>",
    "RuntimeError: DataLoader worker (pid 77) is killed by signal: Terminated.",
]
TORCHRUN = [
    "E1128 10:31:01 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code}) local_rank: 0 (pid: 16309) of binary: /usr/bin/python",
    "Traceback (most recent call last):",
    '  File "/usr/bin/torchrun", line 8, in <module>',
    "    sys.exit(main())",
    '  File "/opt/python/lib/python3.11/site-packages/torch/distributed/run.py", line 1019, in run',
    "    elastic_launch(",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    "============================================================",
    "train.py FAILED",
    "------------------------------------------------------------",
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2026-11-28_10:31:01",
    "  host      : node",
    "  rank      : {rank} (local_rank: 0)",
    "  exitcode  : {code} (pid: 16309)",
    "  error_file: <N/A>",
    "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
    "============================================================",
]
EXCEPTIONS = ("Error", "Exception", "Interrupt")


@dataclass
class Run:
    """A run and what is right of it."""

    name: str
    entries: list[dict[str, Any]] = field(default_factory=list)
    job: dict[str, Any] = field(default_factory=dict)
    families: list[str] = field(default_factory=list)
    replica: str = ""
    line: int | None = None


class _Writer:
    def __init__(self, chance: random.Random, count: int) -> None:
        self.chance = chance
        self.names = [f"workerpool{0 if at == 0 else 1}-{max(0, at - 1)}" for at in range(count)]
        self.skew = {name: chance.uniform(-40, 40) if chance.random() < 0.25 else 0.0 for name in self.names}
        self.rows: list[tuple[float, int, str, str, bool]] = []

    def write(self, at: float, name: str, texts: list[str], root: int = -1) -> None:
        for number, text in enumerate(texts):
            self.rows.append((at + 0.001 * number, len(self.rows), name, text, number == root))

    def run(self, run: Run) -> Run:
        rows = sorted(
            (at + self.skew[name], order, name, text, root) for at, order, name, text, root in self.rows
        )
        for index, (at, _, name, text, root) in enumerate(rows):
            severity = "ERROR" if self.chance.random() < 0.3 else "INFO"
            run.entries.append({"t": round(at, 3), "replica": name, "severity": severity, "text": text})
            if root:
                run.line = index
        return run


def step_text(chance: random.Random, style: int, step: int, rank: int) -> str:
    loss = 3 - step * 0.01
    return [
        f"step {step} loss {loss:.3f} lr 1e-4 tokens/s 31233",
        f"[rank{rank}]: Epoch 0 | step {step}/1000 | loss: {loss:.3f}",
        f"Epoch 0:  {step // 10}%|██        | {step}/1000 [00:{step % 60:02d}<94:39,  1.37it/s, loss={loss:.2f}]",
        json.dumps({"message": f"step {step}", "step": step, "loss": loss}),
        f"INFO:trainer:iteration {step}: lm loss {loss:.4f} grad norm 1.2",
    ][style]


def failing_run(seed: int, wording: dict[str, Any]) -> Run:
    """A run of 2 to 64 replicas in which one replica fails with this wording."""
    chance = random.Random(seed)
    writer = _Writer(chance, chance.choice([2, 3, 4, 8, 16, 64]))
    run = Run(f"{wording['id']}-{seed}", families=wording["families"])
    bad = chance.choice(writer.names)
    at = START
    for name in writer.names:
        for text in chance.sample(NOISE, 4):
            writer.write(at + chance.random(), name, [text])
    style, steps = chance.randrange(5), chance.choice([0, 8, 30])
    all_print = chance.random() < 0.6
    period = chance.uniform(0.5, 8)
    at += 20
    for step in range(1, steps + 1):
        at += period
        for rank, name in enumerate(writer.names):
            if all_print or name == writer.names[0]:
                writer.write(at + chance.random() * 0.05, name, [step_text(chance, style, step, rank)])
        if step in {3, 5} and steps > 10 and chance.random() < 0.7:
            writer.write(at + 0.1, chance.choice(writer.names), chance.choice(SURVIVED))
    at += period
    rank = writer.names.index(bad)
    line = wording["line"]
    raised = line.split(":", maxsplit=1)[0].endswith(EXCEPTIONS) and " " not in line.split(":", maxsplit=1)[0]
    texts = [line]
    if raised and chance.random() < 0.85:
        texts = [
            "Traceback (most recent call last):",
            '  File "/app/train.py", line 61, in <module>',
            "    main()",
            '  File "/app/train.py", line 44, in main',
            "    loss = model(batch)",
            line,
        ]
    tag = f"[rank{rank}]: " if chance.random() < 0.3 else ""
    writer.write(at, bad, [tag + text for text in texts], root=len(texts) - 1)
    code = 1
    run.replica = bad
    if chance.random() < 0.6:
        writer.write(at + 1.5, bad, [text.format(rank=rank, code=code) for text in TORCHRUN])
    for text in chance.sample(TEARDOWN, 2):
        writer.write(at + 1.2, bad, [text])
    late = chance.choice([0.4, 3, 600])
    for other_rank, name in enumerate(writer.names):
        if name == bad or chance.random() < 0.2:
            continue
        cascade = [text.format(rank=other_rank) for text in chance.choice(CASCADES)]
        writer.write(at + late + chance.random(), name, cascade)
        writer.write(at + late + 2, name, chance.sample(TEARDOWN, 1))
    named = bad if chance.random() < 0.7 else chance.choice(writer.names)
    run.job = {
        "state": "FAILED",
        "error": f"The replica {named} exited with a non-zero status of {code}. Termination reason: Error.",
        "replicas": [
            {
                "name": name,
                "state": "FAILED" if name == named else "",
                "exit_code": code if name == named else None,
            }
            for name in writer.names
        ],
    }
    if chance.random() < 0.25:
        run.job = {}
    return writer.run(run)


def root_wordings() -> list[dict[str, Any]]:
    """The wordings that a program writes as a root cause."""
    return [
        w for w in WORDINGS if w["role"] == "root" and w["families"] and "non-zero status" not in w["line"]
    ]


Maker = Callable[[int, dict[str, Any]], Run]


def silent_run(seed: int, kind: str) -> Run:  # noqa: PLR0912 - one for each kind
    """A run whose log does not say why it failed, or that did not fail: see `KINDS`."""
    chance = random.Random(seed)
    writer = _Writer(chance, chance.choice([2, 3, 4, 8, 16, 32]))
    run = Run(f"{kind}-{seed}")
    bad = chance.choice(writer.names)
    for name in writer.names:
        for text in chance.sample(NOISE, 4):
            writer.write(START + chance.random(), name, [text])
    at, style, steps = START + 20, chance.randrange(5), chance.choice([8, 30])
    for step in range(1, steps + 1):
        at += 2
        for rank, name in enumerate(writer.names):
            writer.write(at + chance.random() * 0.05, name, [step_text(chance, style, step, rank)])
        if step in {3, 5} and chance.random() < 0.5:
            writer.write(at + 0.1, chance.choice(writer.names), chance.choice(SURVIVED))
    ends: dict[str, int] = {}
    state = "FAILED"
    error = ""
    if kind == "killed":
        ends[bad], error = 137, f"The replica {bad} exited with a non-zero status of 137."
        run.families, run.replica = ["memory-host", "preemption"], bad
    elif kind == "deepspeed":
        ends[bad], error = 247, f"The replica {bad} exited with a non-zero status of 247."
        run.families, run.replica = ["memory-host", "preemption"], bad
    elif kind == "platform-oom":
        ends[bad], error = (
            137,
            f"The replica {bad} ran out of memory and exited with a non-zero status of 137.",
        )
        run.families, run.replica = ["memory-host"], bad
    elif kind == "segfault":
        ends[bad], error = 139, f"The replica {bad} exited with a non-zero status of 139."
        run.families, run.replica = ["code"], bad
    elif kind == "hang":
        run.families, run.replica = ["nccl-desync"], bad
        error = "Job failed."
    elif kind == "cancelled":
        state = "CANCELLED"
        run.families = ["user-cancel"]
    elif kind == "succeeded":
        state = "SUCCEEDED"
        run.families = ["none"]
    elif kind == "unknown":
        named = chance.choice(writer.names)
        ends[named] = 1
        error = f"The replica {named} exited with a non-zero status of 1. Termination reason: Error."
        run.families = ["unknown"]
    if kind in {"killed", "deepspeed", "platform-oom", "segfault", "hang"}:
        for rank, name in enumerate(writer.names):
            if name != bad and (kind != "hang" or chance.random() < 0.9):
                # A closed connection tells that a peer has gone, not that it hangs.
                seen = chance.choice((CASCADES[0], CASCADES[3]) if kind == "hang" else CASCADES)
                cascade = [text.format(rank=rank) for text in seen]
                writer.write(at + chance.choice([3, 600]) + chance.random(), name, cascade)
    if kind == "cancelled":
        for name in writer.names:
            writer.write(
                at + 2,
                name,
                [
                    "Traceback (most recent call last):",
                    '  File "/app/train.py", line 3, in f',
                    "KeyboardInterrupt",
                ],
            )
            writer.write(at + 2.5, name, chance.sample(TEARDOWN, 2))
    run.job = {
        "state": state,
        "error": error,
        "replicas": [
            {"name": name, "state": "FAILED" if name in ends else "", "exit_code": ends.get(name)}
            for name in writer.names
        ],
    }
    return writer.run(run)


KINDS = ("killed", "deepspeed", "platform-oom", "segfault", "hang", "cancelled", "succeeded", "unknown")
