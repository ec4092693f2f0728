"""Lines of names and numbers, from most trainers' own loops.

The printing code of each was followed for its form:

- DeepSpeed 0.19: `engine.py` (`step=…, skipped=…, lr=…, mom=…`), `utils/timer.py` (`epoch=…/micro_step=…/
  global_step=…, RunningAvgSamplesPerSec=…`), `pipe/engine.py` (`steps: … loss: … iter time (s): …`);
- Megatron-LM and its descendants: `training_log` (` iteration       10/  500000 | … | lm loss: 6.9E+00 | …`);
- torchtitan: `components/metrics.py` (`step: 10  loss:  7.1  grad_norm: …  memory: …  tps: …`);
- nanoGPT: `train.py` (`iter 100: loss 2.4532, time 123.45ms, mfu 12.3%`);
- litgpt: `pretrain.py`, `finetune/*.py` (`Epoch 1 | iter 12 step 3 | loss train: 2.1, val: n/a | …`);
- fairseq: `logging/progress_bar.py` (JSON or `name=value` behind the logger's own words);
- anybody's `step=61 total=2000 loss=2.13 tok/s=41800` and `step: 61/2000, loss: 2.13`.
"""

from __future__ import annotations

import re
from datetime import timedelta

from tui.domain.core.figures import count
from tui.domain.progress.measured import Measured
from tui.domain.progress.numbered import named_numbers
from tui.domain.progress.reading import LineReading, duration

_SIGNATURES = (
    ("DeepSpeed", ("skipped=", "lr=")),
    ("DeepSpeed", ("SamplesPerSec=",)),
    ("DeepSpeed", ("iter time (s):",)),
    ("Megatron-LM", ("elapsed time per iteration",)),
    ("Megatron-LM", ("lm loss:",)),
    ("torchtitan", ("tflops:", "  tps: ")),
    ("litgpt", ("| iter ", "iter time: ")),
    ("nanoGPT", ("iter ", ": loss ", ", time ")),
    ("nanoGPT", ("step ", ": train loss ", ", val loss ")),
    ("fairseq", ("num_updates",)),
)
"""The texts that lines of each have, all of them."""
OTHER = "key=value"
# A whole word before the first number: the line is about a validation.
_VALIDATION = re.compile(
    r"(?:^|[\s|(\[])(?:valid|validation|validate|eval|evaluation|evaluate|test)(?=[\s|:)\]])", re.IGNORECASE
)
_REMAINING = re.compile(
    r"\b(?:eta|remaining time|remaining|time left)['\":=\s]{1,6}"
    r"((?:\d{1,4} days?, )?\d{1,9}(?::\d\d){1,2}|\d{1,9}s)",
    re.IGNORECASE,
)
_TOTALS = ("optimization steps", "Num Epochs")


def read(text: str) -> LineReading | None:
    """The reading of a line with a step and a loss or a speed, an epoch and a loss, or a run's length."""
    if "%|" in text or "{'" in text:
        # A bar or a dict that is not the training's: theirs have been tried.
        return None
    found = Measured().add_all(named_numbers(text))
    step, dialect = found.step, _dialect(text)
    if found.first is not None and _VALIDATION.search(text, 0, found.first):
        return None
    if step is not None and found.validates:
        return found.results(dialect)
    if step is not None and (found.losses or found.speed[0] is not None or "skipped" in found.numbers):
        reading = found.reading(dialect)
        reading.step, reading.total, reading.remaining = step, found.total(step), remaining_in(text)
        return reading
    if step is None and found.losses and (epoch := count(found.epoch)) is not None:
        reading = found.reading(dialect)
        reading.step, reading.total, reading.counts_epochs = epoch, found.epochs, True
        return reading
    if step is None and not found.losses and any(word in text for word in _TOTALS):
        total = found.totals[0] if found.totals else None
        return (
            LineReading("Hugging Face", total=total, epochs=found.epochs) if total or found.epochs else None
        )
    return None


def remaining_in(text: str) -> timedelta | None:
    """The time that is left by the line's own words: `ETA: 1:11`, `remaining time: 0:12:33`."""
    found = _REMAINING.search(text)
    return duration(found[1]) if found else None


def _dialect(text: str) -> str:
    for name, signs in _SIGNATURES:
        if all(sign in text for sign in signs):
            return name
    return OTHER
