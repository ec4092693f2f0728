"""Tokens a second of the data pipeline, in one process: text into a token file, and batches of it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from tests.benchmarks.harness import Result
from trainer.config import parse
from trainer.data.loader import batches
from trainer.data.sampler import Sampler
from trainer.data.text import Windows
from trainer.data.token_cache import token_file_of
from trainer.data.token_file import TokenFile
from trainer.distributed.batch_plan import BatchPlan

T = TypeVar("T")
CONTEXT, BATCH, STEPS = 1024, 16, 300


def run() -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="vxdata") as home:
        folder = Path(json.__file__).parents[1]
        config = parse([f"--data={folder}", f"--data-cache={home}"])
        seconds, path = _timed(lambda: token_file_of(config, "bytes"))
        tokens = TokenFile(path)
        yield Result(
            "tokens a second from Python's sources into a token file (bytes)",
            tokens.info.tokens / seconds, 0.0, "/s", at_least=True,
        )  # fmt: skip
        windows = Windows(tokens, CONTEXT)
        plan = BatchPlan.of(BATCH, BATCH, 1)
        for workers in (0, 2):
            found = batches(windows, Sampler(len(windows), plan, seed=0, rank=0), workers, pinned=False)
            next(found)
            seconds, _ = _timed(lambda: sum(1 for _ in islice(found, STEPS)))  # noqa: B023
            yield Result(
                f"tokens a second in shuffled batches of {BATCH} × {CONTEXT}, {workers} workers",
                STEPS * BATCH * CONTEXT / seconds, 0.0, "/s", at_least=True,
            )  # fmt: skip


def _timed(call: Callable[[], T]) -> tuple[float, T]:
    began = time.monotonic()
    value = call()
    return time.monotonic() - began, value
