"""Validating a profile, beside PyYAML only reading the same file. CPU time in one process, after the imports.

PyYAML's pure-Python loader is the peer: it does what every checker of such a file has to do first. Ours reads
with places, checks every field, fills the parameters in and asks every rule.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

import yaml

from tests.benchmarks.harness import ROOT, Result, percentile
from tui.domain.profile import inspect

ROUNDS = 40
READY = "arr-coc-4x8-a100"
ABSOLUTE_MS = 50.0
RATIO = 1.0


def _worst() -> str:
    """A job with all four pools, 100 variables each, and something wrong in every one of them."""
    env = "".join(f"      - {{name: V{i}, value: x-{i}}}\n" for i in range(100))
    pool = (
        "  - machineSpec: {machineType: a2-higpu-8g, acceleratorType: A100, acceleratorCount: 8}\n"
        "    replicaCount: 2\n    diskSpec: {bootDiskType: pd-balanced, bootDiskSizeGb: 10}\n"
        f"    containerSpec:\n      imageUri: gcr.io/p/i\n      args: [--rank=$LOCAL_RANK]\n      env:\n{env}"
    )
    return f"displayName: worst\njobSpec:\n  workerPoolSpecs:\n{pool * 4}  scheduling: {{timeout: 0s}}\n"


def _measured(ours: Callable[[], object], peer: Callable[[], object]) -> tuple[list[float], list[float]]:
    """Milliseconds of both, in turns; the first round, with its caches, goes before."""
    ours(), peer()
    pairs = [(_milliseconds(ours), _milliseconds(peer)) for _ in range(ROUNDS)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def _milliseconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1000


def run() -> Iterator[Result]:
    """A ready-made profile, and the worst one that somebody might write."""
    texts = {
        READY: (ROOT / "profiles" / f"{READY}.yaml").read_text(encoding="utf-8"),
        "4 × 100 variables, all wrong": _worst(),
    }
    for name, text in texts.items():
        problems = inspect(text, "f.yaml", "f")
        if bool(problems) != (name != READY):
            raise RuntimeError(f"{name} has {len(problems)} problems: not what is to be measured")
        ours, peer = _measured(partial(inspect, text, "f.yaml", "f"), partial(yaml.safe_load, text))
        yield Result(
            f"validate {name}", statistics.median(ours), RATIO, "ms CPU", statistics.median(peer), "safe_load"
        )
        yield Result(f"validate {name}: p99", percentile(ours, 0.99), ABSOLUTE_MS, "ms CPU")
