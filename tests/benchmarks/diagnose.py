"""CPU time and memory of a diagnosis over a million lines: `python -m tests.benchmarks.diagnose [LINES]`."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tui.domain.diagnosis.line import JobFacts
from tui.domain.diagnosis.rules import shipped_rules
from tui.verbs.log.diagnose import diagnose_file

LINES = 1_000_000
REPLICAS = 16
ROOT = [
    "Traceback (most recent call last):",
    '  File "/app/train.py", line 61, in <module>',
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.13 GiB.",
]


def write(path: Path, lines: int, style: str) -> None:
    """Write a log of 16 replicas, 1 line of 200 with a word of failure, that ends with an error."""
    with path.open("w") as file:
        for at in range(lines):
            replica = f"workerpool1-{at % REPLICAS}"
            step = at // REPLICAS
            text = (
                f"step {step}/100000 | loss {3 - step * 1e-5:.4f} | lr 1.0e-04 | tokens/s 31233.1 | norm 1.02"
            )
            if at % 200 == 7:
                text = "WARNING:data:retrying shard 17 in 0.5 seconds: 503 backend error"
            file.write(line(style, at * 0.01, replica, text))
        for text in ROOT:
            file.write(line(style, lines * 0.01, "workerpool1-3", text))


def line(style: str, at: float, replica: str, text: str) -> str:
    if style == "json":
        escaped = text.replace('"', '\\"')
        return f'{{"t": {at:.3f}, "replica": "{replica}", "severity": "INFO", "text": "{escaped}"}}\n'
    return f"{replica} | {text}\n" if style == "prefix" else f"{text}\n"


def main() -> None:
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else LINES
    rules = shipped_rules()
    with TemporaryDirectory() as folder:
        for style in ("plain", "prefix", "json"):
            path = Path(folder, style)
            write(path, lines, style)
            began = time.process_time()
            verdict = diagnose_file(path, JobFacts(), rules)
            used = time.process_time() - began
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{style:6} {lines:,} lines  {used:.2f} s CPU  {memory:.0f} MiB  {verdict.cause}")


if __name__ == "__main__":
    main()
