"""Lines of a job that only a broken or a hostile program prints: no tab fails over them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ui.double import job
from tests.ui.job_double import JobBackend, a_log, event, line, step
from tests.ui.job_screen_support import opened
from tests.ui.jobs_screen_support import until
from tui.domain.core.log_entry import LogEntry
from tui.screens.job.screen import JobScreen

ODD: list[Any] = [
    1e17, 99999999999999991611392, 10**400, -10**400, 1e308, -1e308, 5e-324, -1, 0, 0.5, float("nan"),
    float("inf"), float("-inf"), True, None, "7", "x" * 5000, [], {}, [1], "\x1b[2J", "[red]", "\u202e",
]  # fmt: skip
FIELDS = (
    "step", "total_steps", "loss", "tokens_per_second", "learning_rate", "grad_norm", "seconds", "gpus",
    "goodput", "phase",
)  # fmt: skip
TEXTS = (
    "step 99999999999999991611392/1 loss 0.1", f"step 7 loss {'9' * 300}", "step 7 loss 1e308 lr 1e-320",
    "{'loss': 1e400, 'step': 100000000000000000000}", '{"step": 1e17, "loss": -1e308}', "step=3 loss=inf",
    "100%|██████████| 1000000000000/1000000000000 [00:00<00:00, 9e999it/s, loss=1e308]",
    "Epoch 99999999999/99999999999: 100%|███| 999999999999/999999999999 [00:00<9999:59, 0.00s/it]",
)  # fmt: skip


def hostile() -> Iterator[LogEntry]:
    """Each odd value in each field, alone and beside a step that is well."""
    number = 0
    for kind in ("step", "rank", "gpu", "checkpoint", "phase", "resumed", "eval", "guard", "done"):
        for value in ODD:
            for fields in (dict.fromkeys(FIELDS, value), {"step": 10**12, "loss": value, "phase": value}):
                number += 1
                yield event(number * 0.1 + 0.013, kind, f"odd {number}", **fields)
    for value in (1e12 - 1, 1e12):
        yield event(400 + value / 1e12, "step", "a large one", step=value, loss=1e40, tokens_per_second=1e40)
    for value in (
        {"vxtui": []},
        {"vxtui": {"kind": []}},
        {"vxtui": {"kind": "gpu", "gpus": [{"index": 1e300}]}},
    ):
        number += 1
        yield line(number * 0.1 + 0.013, "odd", json=value)


def texts() -> Iterator[LogEntry]:
    for number, text in enumerate(TEXTS * 3):
        yield line(number, text)


@pytest.mark.parametrize(("lines", "ascii_only"), [(hostile, False), (hostile, True), (texts, False)])
async def test_every_tab_bears_them(tmp_path: Path, lines: Any, ascii_only: bool) -> None:
    backend = JobBackend(job(1, "train"))
    entries = [*(a_log() if lines is hostile else []), *lines()]
    backend.say(*{entry.key: entry for entry in entries}.values())
    async with opened(backend, tmp_path, size=(80, 24)) as (screen, pilot):
        assert isinstance(screen, JobScreen)
        if ascii_only:
            screen.console.settings.ascii = True
        for _ in screen.panes:
            await pilot.press("tab")
            await pilot.pause()
        backend.say(step(500, 121), line(501, "the last one"))
        await until(pilot, lambda: len(screen.feed.buffer) == len(backend.entries), "more lines")
        for key in ("plus", "h", "l", "G", "minus", "0", "escape"):
            await pilot.press(key)
        progress = screen.feed.progress
        assert progress.step is None or 0 <= progress.step <= 10**12
