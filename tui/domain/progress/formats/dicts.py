"""Dicts that Hugging Face's Trainer prints: `{'loss': '2.131', 'grad_norm': '0.81', …, 'epoch': '0.03'}`.

`ProgressCallback.on_log` writes them above its bar, `PrinterCallback.on_log` prints them without bars
(transformers `trainer_callback.py`; version 5 writes the numbers as text, version 4 as numbers). The dict has
no step: the bar next to it has the step, or the epoch together with the run's length determines it. TRL's
trainers print equal dicts.
"""

from __future__ import annotations

from tui.domain.progress.formats.named_lines import remaining_in
from tui.domain.progress.parsing.measured import Measured
from tui.domain.progress.parsing.numbered import named_numbers
from tui.domain.progress.parsing.reading import LineReading

PRIORITY = 50
DIALECT = "Hugging Face"
_SUMMARY = "'train_runtime'"
"""Key of the final dict, whose loss is the mean over the entire run."""


def read(text: str) -> LineReading | None:
    """Parse a dict with a loss, or with a validation's results."""
    start = text.find("{'")
    if start < 0 or _SUMMARY in text:
        return None
    measured = Measured().add_all(named_numbers(text[start:]))
    if measured.validates:
        return measured.results(DIALECT)
    known = (
        measured.epoch is not None or measured.learning_rate is not None or "grad_norm" in measured.numbers
    )
    if not measured.losses or not (known or measured.step is not None):
        return None
    reading = measured.reading(DIALECT)
    if measured.step is not None:
        reading.step, reading.total = measured.step, measured.total(measured.step)
        reading.remaining = remaining_in(text)
    return reading
