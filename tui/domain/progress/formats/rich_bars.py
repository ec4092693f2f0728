"""Bars of Lightning's RichProgressBar, drawn with rich (`callbacks/progress/rich_progress.py`).

    Epoch 3/9  ━━━━━━╸━━━━━━━━━━━━ 61/500 0:00:10 • 0:01:11 6.10it/s v_num: 0.000 train_loss: 2.130

Epochs count from 0, and the second number is the last epoch's.
"""

from __future__ import annotations

import re

from tui.domain.core.training_progress import STEPS
from tui.domain.progress.parsing.measured import Measured
from tui.domain.progress.parsing.numbered import named_numbers
from tui.domain.progress.parsing.reading import Bar, LineReading, duration, number

PRIORITY = 30
DIALECT = "Lightning"
_TIME = r"(?:\d{1,4} days?, )?\d{1,6}:\d\d:\d\d|-:--:--"
_BAR = re.compile(
    rf"(?<!\d)(?P<n>\d{{1,12}})/(?P<total>\d{{1,12}}|--) (?:{_TIME}) • (?P<left>{_TIME}) {{1,8}}"
    r"(?P<rate>[\d.]{1,16})it/s(?P<postfix>.*)"
)
_EPOCH = re.compile(r"Epoch (?P<epoch>\d{1,7})(?:/(?P<last>\d{1,7}))?")


def read(text: str) -> LineReading | None:
    """Parse the bar of an epoch; any other bar counts a validation."""
    if "•" not in text or "it/s" not in text:
        return None
    match = _BAR.search(text)
    epoch = _EPOCH.search(text, 0, match.start()) if match else None
    if match is None or epoch is None:
        return None
    reading = Measured().add_all(named_numbers(match["postfix"])).reading(DIALECT)
    rate = number(match["rate"])
    if reading.speed is None and rate:
        reading.speed, reading.speed_unit = rate, STEPS
    total = None if match["total"] == "--" else int(match["total"])
    reading.bar = Bar(int(match["n"]), total, epoch=int(epoch["epoch"]), first_epoch=0)
    reading.epochs, reading.epoch = int(epoch["last"]) + 1 if epoch["last"] else None, None
    reading.remaining = duration(match["left"])
    return reading
