"""Bars of Keras, which count the steps of one epoch.

The forms are those of `Progbar.update` (Keras 3, verbose 1 and 2; Keras 2 draws `[==>…]`):

    Epoch 1/5
     61/500 ━━━━━━━━━━━━━━━━━━━━ 1:11 160ms/step - accuracy: 0.5000 - loss: 2.1300
    500/500 - 62s - 124ms/step - loss: 2.1300 - val_loss: 1.9000
     61/500 [==>...........................] - ETA: 1:11 - loss: 2.1300
"""

from __future__ import annotations

import re

from tui.domain.core.training_progress import SAMPLES, STEPS
from tui.domain.progress.formats.named_lines import remaining_in
from tui.domain.progress.parsing.measured import Measured
from tui.domain.progress.parsing.names import unit_seconds
from tui.domain.progress.parsing.numbered import named_numbers
from tui.domain.progress.parsing.reading import Bar, LineReading, duration

PRIORITY = 20
SIGNS = (
    (("/step",), r"[0-9](ms|s)/step - "),
    # Keras writes this line before an epoch's bar.
    ((), r"^Epoch [0-9]+/[0-9]+ *$"),
)
DIALECT = "Keras"
_EPOCH = re.compile(r"\s{0,4}Epoch (?P<epoch>\d{1,7})/(?P<epochs>\d{1,7})\s{0,4}")
_BAR = re.compile(
    r"\s{0,8}(?P<n>\d{1,12})/(?P<total>\d{1,12}|Unknown) "
    r"(?:(?P<bar>[━╸ ]{1,80}|\[[=>.]{1,80}\])|- (?P<took>\d{1,9}s))(?P<rest>.*)"
)
_LEFT = re.compile(r" {0,2}(?P<left>(?:\d{1,9}:)?\d{1,2}:\d\d|\d{1,9}s) ")
_PACE = re.compile(r"(?P<value>\d{1,9})(?P<unit>us|ms|s)/(?P<of>step|sample)")


def read(text: str) -> LineReading | None:
    """Parse an epoch's first line, or a bar with a loss."""
    epoch = _EPOCH.fullmatch(text)
    if epoch is not None:
        return LineReading(DIALECT, epoch=float(epoch["epoch"]), epochs=int(epoch["epochs"]))
    if "/" not in text[:24]:
        return None
    match = _BAR.match(text)
    if match is None:
        return None
    _, _, metrics = match["rest"].partition(" - ")
    measured = Measured().add_all(named_numbers(metrics))
    if not measured.losses:
        return None
    reading = measured.reading(DIALECT)
    pace = _PACE.search(match["rest"])
    if reading.speed is None and pace is not None and int(pace["value"]):
        reading.speed = 1 / (int(pace["value"]) * (unit_seconds(pace["unit"]) or 1))
        reading.speed_unit = STEPS if pace["of"] == "step" else SAMPLES
    total = None if match["total"] == "Unknown" else int(match["total"])
    of_samples = pace is not None and pace["of"] == "sample"
    bar = reading.bar = Bar(int(match["n"]), total, first_epoch=1, fixed=True, of_samples=of_samples)
    done = total is not None and bar.step >= total
    left = _LEFT.match(match["rest"])
    reading.remaining = remaining_in(text) or (duration(left["left"]) if left and not done else None)
    reading.epoch = None
    return reading
