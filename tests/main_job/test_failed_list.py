"""Five jobs that fail in five ways: the list tells them apart, and one key reaches the evidence of each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.shell import Home, home
from tests.terminal import Terminal
from tests.warm import VXTUI

TRAIN = """
import os, time
for step in range(10, 30, 10):
    print(f"step {step}/120 loss {9 / step:.3f}", flush=True)
    time.sleep(0.1)
"""
ONE = '"workerpool1" in os.environ["CLUSTER_SPEC"].split("task")[-1]'
FAILURES = {
    "memory": TRAIN + f"""
if {ONE}:
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 is full")
time.sleep(600)
""",
    "package": "import flash_attn",
    "data": "open('/data/arr-coc/train-00017.bin', 'rb')",
    "flag": "import argparse; argparse.ArgumentParser(prog='train.py').parse_args(['--batch-sise=8'])",
    "disk": TRAIN + "raise OSError(28, 'No space left on device', '/tmp/checkpoints/step-20.pt')",
}  # fmt: skip
CAUSES = {
    "memory": "CUDA out of memory · 1-0",
    "package": "No module flash_attn",
    "data": "train-00017.bin",
    "flag": "--batch-sise",
    "disk": "disk",
}
EVIDENCE = {
    "memory": "CUDA out of memory. Tried to allocate",
    "package": "ModuleNotFoundError: No module named 'flash_attn'",
    "data": "No such file or directory: '/data/arr-coc/train-00017.bin'",
    "flag": "unrecognized arguments: --batch-sise=8",
    "disk": "No space left on device",
}


@pytest.fixture
def place() -> Iterator[Home]:
    with home() as found:
        yield found


def profile(place: Home, name: str, code: str) -> str:
    pool: dict[str, Any] = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": 1,
        "containerSpec": {"imageUri": "python:3.11", "command": [sys.executable, "-c", code]},
    }
    pools = [pool, pool] if name == "memory" else [pool]
    path = Path(place.root) / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"displayName": name, "jobSpec": {"workerPoolSpecs": pools}}))
    return str(path)


# Many seconds: an emulator, five jobs of six processes, seven starts of `vxtui`.
def test_the_list_tells_five_failures_apart_and_enter_shows_the_evidence(place: Home) -> None:
    for name, code in FAILURES.items():
        assert place.run("launch", profile(place, name, code), "--yes").returncode == 0
    screen = Terminal([VXTUI], place.env, columns=100, rows=30)
    try:
        screen.wait(lambda text: text.count("✗ failed") == 5 and all(why in text for why in CAUSES.values()))
        for name, why in EVIDENCE.items():
            screen.press("g")
            rows = [line for line in screen.text.splitlines() if "✗ failed" in line]
            screen.press(*["j"] * next(at for at, row in enumerate(rows) if f" {name} " in row), "enter")
            screen.wait(lambda text, why=why: why in text and "evidence" in text)
            screen.press("esc")
            screen.wait(lambda text: text.count("✗ failed") == 5)
    finally:
        screen.close()
    rows = {job["display_name"]: job["cause"] for job in place.jobs()}
    assert all(CAUSES[name] in cause for name, cause in rows.items())
    table = place.run("jobs").stdout
    assert all(cause in table for cause in rows.values())
