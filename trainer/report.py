"""Progress reports of a user's script: `from trainer import report`. The module works with and without
`trainer.launch`.

folder = report.last_checkpoint("checkpoints")      # None at the first start
for step in range(begin, total):
    …
    report.step(step + 1, total, loss=loss.item(), tokens_per_second=speed)
"""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainer.hang import progress
from trainer.structured_log import emit

phase = progress.phase
"""Mark a long operation, as `with report.phase("evaluation"):`, so that it does not count as a hang."""
alive = progress.beat
"""Report that a part of the current phase ended."""
_INCOMPLETE = (".tmp", ".partial", ".new", ".part")
_last_step_at: float | None = None
"""Monotonic time of the last step."""
_STEP_FILE = Path("progress.json").absolute()
"""The progress file in the initial working directory; the script may change the directory later."""


def step(number: int, total_steps: int, *, loss: float | None = None, **metrics: float) -> None:
    """Report that this step ended. Every rank may call it, but only rank 0 writes the line. `metrics` are
    additional numbers, in SI units; the console shows `tokens_per_second` as the speed."""
    global _last_step_at  # noqa: PLW0603 - when the last step ended
    now, before = time.monotonic(), _last_step_at
    _last_step_at = now
    progress.training(number)
    seconds = 0.0 if before is None else now - before
    if os.environ.get("LOCAL_RANK", "0") == "0":
        # The supervisor immediately restarts a program that made steps.
        with suppress(OSError):
            _STEP_FILE.write_text(json.dumps({"step": number, "at": time.time(), "seconds": seconds}))
    if os.environ.get("RANK", "0") != "0":
        return
    if before is not None:
        metrics.setdefault("step_seconds", seconds)
    text = f"step {number}/{total_steps}" + ("" if loss is None else f"  loss {loss:.4f}")
    numbers: dict[str, Any] = dict(metrics)
    emit("step", text, step=number, total_steps=total_steps, loss=loss, **numbers)


def last_checkpoint(folder: str | Path, pattern: str = "*") -> Path | None:
    """Return the newest file or folder in `folder` whose name matches `pattern`, or None if there is none.

    The last number in a name decides, then the modification time. Names of incomplete files (.tmp, .partial,
    .new, .part) are skipped.
    """
    paths = [path for path in Path(folder).glob(pattern) if not path.name.endswith(_INCOMPLETE)]
    return max(paths, key=_age, default=None)


def _age(path: Path) -> tuple[int, float]:
    numbers = re.findall(r"\d+", path.name)
    with suppress(OSError):
        return int(numbers[-1]) if numbers else -1, path.stat().st_mtime
    return -1, 0.0
