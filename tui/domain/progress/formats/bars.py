"""Bars of tqdm, which Hugging Face's Trainer, Lightning and most scripts draw, and of Lightning's
RichProgressBar.

The forms are those of `tqdm.format_meter` (tqdm 4.70) and `callbacks/progress/rich_progress.py`:

      3%|▎         | 61/2000 [00:31<16:20,  1.98it/s, loss=2.13]
    Epoch 0:  12%|█▏        | 61/500 [00:10<01:11,  6.10it/s, v_num=0, train_loss=2.130]
    61it [00:31,  1.98it/s, loss=2.13]
    Epoch 3/9  ━━━━━━╸━━━━━━━━━━━━ 61/500 0:00:10 • 0:01:11 6.10it/s v_num: 0.000 train_loss: 2.130

Rich epochs count from 0, and the second number is the last epoch's. Bars also count downloads, files and
evaluations. A bar is the training's if its description or postfix says so; a bar without either may be, see
`Bar.training`.
"""

from __future__ import annotations

import re

from tui.domain.core.figures import count
from tui.domain.core.training_progress import STEPS
from tui.domain.progress.parsing.measured import Measured
from tui.domain.progress.parsing.names import counted_unit
from tui.domain.progress.parsing.numbered import named_numbers
from tui.domain.progress.parsing.reading import Bar, LineReading, duration, number

PRIORITY = 10
SIGNS = (
    (("it/s",), r"[0-9?] ?(it|iter|step|batch|ba|tok|token|sample)(s|es)?/s"),
    (("s/it",), r"[0-9]s/(it|iter|step|batch|ba|epoch)"),
)
TQDM, LIGHTNING = "tqdm", "Lightning"
_AMOUNT = r"\d[\d.]{0,15}[kMGTP]?"
_RATE = (
    r" {0,8}(?P<rate>[\d.]{1,16}[kMGTP]?|\?) ?"
    r"(?:s/(?P<slow>[^\s,\]/]{1,16})|(?P<fast>[^\s,\]/]{1,16})/s)(?P<postfix>,.*|\].*)?"
)
_METER = re.compile(
    rf"(?<![\w.])(?P<n>{_AMOUNT})/(?P<total>{_AMOUNT}|\?) ?"
    rf"\[(?P<elapsed>[\d:]{{1,24}})<(?P<left>[\d:?]{{1,24}}),{_RATE}"
)
_COUNTER = re.compile(
    rf"(?<![\w.])(?P<n>{_AMOUNT}) ?(?P<unit>[A-Za-z]{{1,16}}) \[(?P<elapsed>[\d:]{{1,24}}),{_RATE}"
)
# tqdm_loggable, where no terminal draws the bar.
_LOGGED = re.compile(
    rf"Progress on:(?P<description>[^ ]{{1,48}}) (?P<n>{_AMOUNT})it/(?P<total>{_AMOUNT})it "
    r"rate:(?P<rate>[\d.]{1,16})(?P<fast>it)/s remaining:(?P<left>[\d:?]{1,24}) elapsed:[\d:]{1,24}"
    r"(?P<postfix> postfix:.*)?"
)
_TIME = r"(?:\d{1,4} days?, )?\d{1,6}:\d\d:\d\d|-:--:--"
_RICH = re.compile(
    rf"(?P<bar>[━╸ ]{{1,80}})(?P<n>\d{{1,12}})/(?P<total>\d{{1,12}}|--) (?:{_TIME}) • (?P<left>{_TIME})"
    r" {1,8}(?P<rate>[\d.]{1,16})(?P<fast>it)/s(?P<postfix>.*)"
)
_PERCENT = re.compile(r"(?<!\d)\d{1,3}%\|")
_EPOCH_UNITS = frozenset({"epoch", "epochs", "ep"})
_EPOCH = re.compile(
    r"(?:epochs?[\s:#]{0,4}|\b(?:ep_?train|ep|train(?:ing)?)[\s:#]{1,4})"
    r"\[?(?P<epoch>\d{1,7})(?: ?/ ?(?P<epochs>\d{1,7}))?",
    re.IGNORECASE,
)
# A row of ultralytics: `1/100  6.73G  1.381  0.8706`.
_TABLE_EPOCH = re.compile(r"\s{0,8}(?P<epoch>\d{1,7})/(?P<epochs>\d{1,7})\s{1,8}[\d.]{1,8}[GM]B?\s")
_EPOCHS = re.compile(r"(?:train(?:ing)?[\s_]?)?epochs?", re.IGNORECASE)
_TRAINING = re.compile(r"train|epoch|step|iter|optimi|fine-?tun|\bfit|loss|batch", re.IGNORECASE)
_VALIDATES = re.compile(r"valid|\bval\b|eval|\btest|predict|sanity|infer", re.IGNORECASE)
_OTHER_WORK = re.compile(
    r"load|fetch|\bmap|token|generat|sampling|cach|filter|sav(?:e|ing)"
    r"|pack|process|extract|build|merg|convert|shard|read|writ|copy|collat|search|warm|prepar|index",
    re.IGNORECASE,
)


def read(text: str) -> LineReading | None:
    """Parse a bar that is, or may be, the training's."""
    match = _meter(text)
    step = count(_rounded(match["n"])) if match else None
    if match is None or step is None:
        return None
    groups = match.groupdict()
    percent = _PERCENT.search(text, 0, match.start())
    drawn = text[: percent.start() if percent else match.start()].strip().rstrip(":").strip()
    described, postfix = groups.get("description") or drawn, (match["postfix"] or "")
    measured = Measured().add_all(named_numbers(postfix.removeprefix(" postfix:").lstrip(", ")))
    if "oss" in described and not measured.losses:
        # torchtune: `1|10|Loss: 2.13: 3%|…`.
        measured.losses = Measured().add_all(named_numbers(described)).losses
    table = _TABLE_EPOCH.match(described)
    trains = table is not None or bool(_TRAINING.search(described)) or bool(measured.losses)
    if _VALIDATES.search(described) or (not trains and described):
        return None
    if not measured.losses and _OTHER_WORK.search(described):
        return None
    total = count(_rounded(groups.get("total") or ""))
    word = (groups.get("slow") or match["fast"]).strip()
    if word.lower() in _EPOCH_UNITS or _EPOCHS.fullmatch(described):
        reading = measured.reading(TQDM)
        reading.step, reading.total, reading.counts_epochs = step, total, True
        return reading
    unit = counted_unit(word)
    if unit != STEPS and not measured.losses:
        return None
    epoch = table or _EPOCH.search(described)
    rich = "bar" in groups
    lightning = rich or "v_num=" in postfix
    reading = measured.reading(LIGHTNING if lightning else TQDM)
    rate = number(match["rate"])
    if reading.speed is None and rate and unit:
        reading.speed, reading.speed_unit = 1 / rate if groups.get("slow") else rate, unit
    reading.epochs = int(epoch["epochs"]) + rich if epoch and epoch["epochs"] else None
    reading.bar = Bar(
        step,
        total,
        epoch=int(epoch["epoch"]) if epoch else None,
        first_epoch=0 if lightning else None,
        training=trains,
        of_epoch=True if epoch else None,
    )
    reading.epoch, reading.remaining = None, duration(groups.get("left") or "")
    return reading


def _meter(text: str) -> re.Match[str] | None:
    match = None
    if "[" in text:
        match = _METER.search(text) or _COUNTER.search(text)
    elif " • " in text:
        match = _RICH.search(text)
    return match or (_LOGGED.search(text) if "Progress on:" in text else None)


def _rounded(text: str) -> float | None:
    value = number(text)
    return None if value is None else float(round(value))
