"""Lines of names and numbers, from most trainers' own loops.

The printing code of each was followed for its form:

- DeepSpeed 0.19: `engine.py` (`step=…, skipped=…, lr=…, mom=…`), `utils/timer.py` (`epoch=…/micro_step=…/
  global_step=…, RunningAvgSamplesPerSec=…`), `pipe/engine.py` (`steps: … loss: … iter time (s): …`);
- Megatron-LM and its descendants: `training_log` (` iteration       10/  500000 | … | lm loss: 6.9E+00 | …`);
- torchtitan: `components/metrics.py` (`step: 10  loss:  7.1  grad_norm: …  memory: …  tps: …`);
- nanoGPT: `train.py` (`iter 100: loss 2.4532, time 123.45ms, mfu 12.3%`);
- litgpt: `pretrain.py`, `finetune/*.py` (`Epoch 1 | iter 12 step 3 | loss train: 2.1, val: n/a | …`);
- fairseq: `logging/progress_bar.py` (JSON or `name=value` behind the logger's own words);
- `imagenet/main.py` and `mnist/main.py` of PyTorch's examples, torchvision's `references/`
  (`Epoch: [0][ 10/100] … Loss 6.9 (7.0)`), MMEngine (`Epoch [1][39/678] … loss: 3.0`) and timm
  (`Train: 0 [  50/1251 (4%)]`);
- boosting rounds of LightGBM, XGBoost and CatBoost (`[10]\ttrain-rmse:0.48`, `10:\tlearn: 0.69`);
- anybody's `step=61 total=2000 loss=2.13 tok/s=41800` and `step: 61/2000, loss: 2.13`.

A step may be that of an epoch; the tracker decides from the lines that follow. A block of several lines has
the step in its head (`[batch=61/2000]:`) and one value a line.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

from tui.domain.core.figures import count
from tui.domain.progress.parsing.measured import Measured
from tui.domain.progress.parsing.numbered import named_numbers
from tui.domain.progress.parsing.reading import Bar, LineReading, Part, duration

PRIORITY = 60
SIGNS = (
    (("oss", "OSS"), r"[Ll](oss|OSS)[^0-9]{0,24}[-0-9n]"),
    (("PerSec=",), r"SamplesPerSec="),
    (("skipped=",), r"skipped=[0-9]+, lr="),
    (
        ("tok/s", "/sec", "_per_s"),
        r"(tok|token|sample|step|iter)s?(/|_per_)s(ec|econd)?['\": =]{1,8}[0-9]|[0-9] samples/sec",
    ),
    (("optimization steps =",), r"optimization steps = "),
    (("Num Epochs =",), r"Num Epochs = "),
    (("epoch: ",), r"epoch: {1,8}[0-9]+, iters?: {1,8}[0-9]"),
    ((), r"^\| step +\| [0-9]+ +\|$"),
    ((), r"(step|STEP)[=:] ?[0-9]|^Epoch:? [0-9]+$|-(rmse|mae):|\tlearn: "),
    ((), r"^.{0,40}(\[batch=|[Ii]teration:? |total_timesteps +\|)"),
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
    ("PyTorch's examples", ("Epoch: [", "]", "/", "(")),
    ("PyTorch's examples", ("Train Epoch: ", "%)]")),
)
"""Texts that all lines of a trainer contain, by trainer."""
OTHER = "key=value"
BOX = "box"
# A word before the first number that marks a line of a validation.
_VALIDATION = re.compile(
    r"(?:^|[\s|(\[])(?:val|valid|validation|validate|eval|evaluation|evaluate|test)(?=[\s|:)\]])",
    re.IGNORECASE,
)
_VALIDATES = re.compile(r"\b(?:valid|validation|val|eval|test)(?: on |:|\)|\]| \|)", re.IGNORECASE)
"""A word of a validation between an epoch and a loss."""
_REMAINING = re.compile(
    r"\b(?:eta|remaining[ _]time|remaining|time left)['\":=\s]{1,6}"
    r"((?:\d{1,4} days?, )?\d{1,9}(?::\d\d){1,2}|(?:\d{1,6}[dhm] ?){0,3}\d{1,9}(?:\.\d{1,6})?s)",
    re.IGNORECASE,
)
_TOTALS = ("optimization steps", "Num Epochs")
# A boosting round or a writer's step before its values: `[10]\ttrain-rmse:0.48`, `10:\tlearn: 0.69`.
_ROUND = re.compile(
    r"(?:^|\s)\[(?P<round>\d{1,12})\]\t|logging_writer\.py:\d{1,5}\] \[(?P<written>\d{1,12})\] "
    r"|^\s{0,4}(?P<tree>\d{1,12}):\s{1,4}learn: "
)
# The last value of a line, which has no other: `loss/train/total: 11.65`, `| loss  | 5.52 |`.
_VALUE = re.compile(
    r"(?:^|: |\] |\|)[\s>]{0,40}[A-Za-z][\w/ ]{1,40}[:=|]?[\s|]{0,30}-?\d[\d.,e+-]{0,20}"
    r"(?: {1,4}\([\d.]{1,16}\))?[\s|]{0,30}$"
)
# ESPnet: the batches of an unknown number an epoch.
_BATCHES = re.compile(r"\b(?P<epoch>\d{1,7})epoch:train:\d{1,12}-(?P<batch>\d{1,12})batch")
MOST_HEAD = 120


def read(text: str) -> LineReading | None:
    """Parse a line with step and loss or speed, with epoch and loss, or with a run's length."""
    if "%|" in text or "{'" in text:
        # Skip a bar or a dict of another kind: its own format is tried earlier.
        return None
    measured = Measured().add_all(named_numbers(text))
    if _VALIDATION.search(text, 0, len(text) if measured.first is None else measured.first):
        return None
    if measured.losses and _VALIDATES.search(text, measured.first or 0, measured.loss_at):
        return None
    if measured.step is None and measured.losses and (match := _ROUND.search(text)) is not None:
        measured.steps["round"] = int(match[match.lastgroup or "round"])
    if measured.losses and (match := _BATCHES.search(text)) is not None:
        measured.epoch, measured.steps = int(match["epoch"]), {"batch": int(match["batch"])}
    step, bar = measured.step, measured.bar
    if bar is not None and "Epoch: [" in text:
        bar = replace(bar, first_epoch=0)
    reports = measured.losses or measured.speed[0] is not None
    # A step beside a learning rate is a training step, whose losses may have other names.
    reports = reports or (measured.step is not None and measured.learning_rate is not None)
    if (step is not None or bar is not None) and measured.validates:
        return measured.results(_dialect(text))
    if not reports and "skipped" not in measured.numbers and not (bar and _has_losses(measured)):
        return _head(text, measured) or _run_length(text, measured)
    reading = measured.reading(_dialect(text))
    reading.remaining = remaining_in(text)
    if _counted(reading, measured, bar):
        return reading if measured.losses or not reading.counts_epochs else None
    if measured.epoch is None and _VALUE.search(text) is not None:
        reading.part = Part.VALUE
        reading.dialect = BOX if text[:1] == "|" else reading.dialect
        return reading
    return None


def _counted(reading: LineReading, measured: Measured, bar: Bar | None) -> bool:
    """Set the count of the reading; return whether the line has one."""
    epoch = count(measured.epoch)
    if bar is not None:
        reading.bar, reading.epoch = bar, None
    elif measured.step is not None:
        reading.step, reading.total = measured.step, measured.total(measured.step)
    elif epoch is not None:
        reading.step, reading.total, reading.counts_epochs = epoch, measured.epochs, True
    else:
        return False
    return True


def _has_losses(measured: Measured) -> bool:
    """Return whether the line has parts of a loss, such as the losses of two networks."""
    return any("loss" in name.lower() for name in measured.numbers)


def _head(text: str, measured: Measured) -> LineReading | None:
    """Parse a line with a step or an epoch alone, the head of a block."""
    if text[:1] == "|" and "total_timesteps" not in measured.steps:
        # The rows of this box are in the order of their names.
        foot = measured.step_name == "step" and measured.count == 1
        return replace(measured.reading(BOX), part=Part.FOOT, step=measured.step) if foot else None
    if len(text) > MOST_HEAD or measured.first is None or measured.learning_rate is not None:
        return None
    if measured.numbers and Measured().add_all(named_numbers(text[measured.first :])).numbers:
        return None
    bar, reading = measured.bar, replace(measured.reading(OTHER), part=Part.HEAD)
    if bar is not None and bar.total is not None and measured.step_name == "batch":
        # The batches of composer's blocks are those of the run.
        return replace(reading, step=bar.step, total=bar.total, epoch=None)
    named = bar is None or bar.epoch is not None
    return reading if named and _counted(reading, measured, bar) else None


def _run_length(text: str, measured: Measured) -> LineReading | None:
    if measured.step is not None or not any(word in text for word in _TOTALS):
        return None
    total, epochs = next(iter(measured.totals.values()), None), measured.epochs
    return LineReading("Hugging Face", total=total, epochs=epochs) if total or epochs else None


def remaining_in(text: str) -> timedelta | None:
    """Return the remaining time in the line: `ETA: 1:11`, `remaining time: 0:12:33`."""
    match = _REMAINING.search(text)
    return duration(match[1]) if match else None


def _dialect(text: str) -> str:
    for name, signs in _SIGNATURES:
        for sign in signs:
            if sign not in text:
                break
        else:
            return name
    return OTHER
