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
from tui.domain.progress.parsing.measured import Measured
from tui.domain.progress.parsing.numbered import named_numbers
from tui.domain.progress.parsing.reading import LineReading, duration

PRIORITY = 60
SIGNS = (
    (("oss", "OSS"), r"[Ll]oss( train| step)?['\": =]{1,8}[-0-9n]"),
    (("PerSec",), r"SamplesPerSec="),
    (("skipped=",), r"skipped=[0-9]+, lr="),
    (
        ("tok/s", "/sec", "_per_s", "tps"),
        r"(tok|token|sample|step|iter)s?(/|_per_)s(ec|econd)?['\": =]{1,8}[0-9]",
    ),
    (("optimization steps",), r"optimization steps = "),
    (("Num Epochs",), r"Num Epochs = "),
)
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
"""Texts that all lines of a trainer contain, by trainer."""
OTHER = "key=value"
# A word before the first number that marks a line of a validation.
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
    """Parse a line with step and loss or speed, with epoch and loss, or with a run's length."""
    if "%|" in text or "{'" in text:
        # Skip a bar or a dict of another kind: its own format is tried earlier.
        return None
    measured = Measured().add_all(named_numbers(text))
    step, dialect = measured.step, _dialect(text)
    if measured.first is not None and _VALIDATION.search(text, 0, measured.first):
        return None
    if step is not None and measured.validates:
        return measured.results(dialect)
    if step is not None and (
        measured.losses or measured.speed[0] is not None or "skipped" in measured.numbers
    ):
        reading = measured.reading(dialect)
        reading.step, reading.total, reading.remaining = step, measured.total(step), remaining_in(text)
        return reading
    if step is None and measured.losses and (epoch := count(measured.epoch)) is not None:
        reading = measured.reading(dialect)
        reading.step, reading.total, reading.counts_epochs = epoch, measured.epochs, True
        return reading
    if step is None and not measured.losses and any(word in text for word in _TOTALS):
        total = measured.totals[0] if measured.totals else None
        return (
            LineReading("Hugging Face", total=total, epochs=measured.epochs)
            if total or measured.epochs
            else None
        )
    return None


def remaining_in(text: str) -> timedelta | None:
    """The remaining time in the line: `ETA: 1:11`, `remaining time: 0:12:33`."""
    match = _REMAINING.search(text)
    return duration(match[1]) if match else None


def _dialect(text: str) -> str:
    for name, signs in _SIGNATURES:
        if all(sign in text for sign in signs):
            return name
    return OTHER
