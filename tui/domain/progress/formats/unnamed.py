"""Lines whose numbers have no names before them, or names that only one program has.

- Marian: `src/training/scheduler.h` (`Ep. 1 : Up. 1000 : Sen. 64,123 : Cost 7.12 * … : 12345.67 words/s`);
- darknet: `src/detector.c` (` 100: 12.34, 13.45 avg loss, 0.001 rate, 5.12 seconds, 6400 images, …`);
- Tacotron 2 of NVIDIA: `train.py` (`Train loss 11 0.754321 Grad Norm 1.23 1.25s/it`);
- fastText: `src/fasttext.cc` (`Progress:  12.3% words/sec/thread:   12345 lr:  0.0877 avg.loss:  2.31`);
  its lines count no steps;
- gpt-2-simple (`[10 | 25.32] loss=3.24 avg=3.31`), with the seconds since its start;
- CycleGAN and pix2pix: `util/visualizer.py` (`(epoch: 1, iters: 100, time: 0.125, data: 0.005) D_A: …`);
  their count is that of an epoch.
"""

from __future__ import annotations

import re

from tui.domain.core.training_progress import STEPS, TOKENS
from tui.domain.progress.parsing.reading import Bar, LineReading, duration, number

PRIORITY = 5
SIGNS = (
    (("words/s",), r" : Up\. [0-9]+ : "),
    ((), r"[0-9] avg(\.| )loss|words/sec/thread:|^Train loss [0-9]+ |^\[[0-9]+ \| [0-9.]+\] loss="),
)
_NUMBER = r"[-+]?\d[\d.,e+-]{0,20}"
_LINES = (
    ("Marian", re.compile(
        rf".{{0,64}}\bEp\. \d{{1,9}} : Up\. (?P<step>\d{{1,12}}) : .{{1,48}}: Cost (?P<loss>{_NUMBER})"
        rf"[^:]{{0,64}}:.{{0,48}}?: (?P<tokens>{_NUMBER}) words/s(?:.{{0,48}}? L\.r\. (?P<rate>{_NUMBER}))?"
    )),
    ("darknet", re.compile(
        rf" ?(?P<step>\d{{1,12}}): {_NUMBER}, (?P<loss>{_NUMBER}) avg(?: loss)?, (?P<rate>{_NUMBER}) rate, "
        rf"(?P<seconds>{_NUMBER}) seconds, \d{{1,12}} images"
    )),
    ("Tacotron 2", re.compile(
        rf"Train loss (?P<step>\d{{1,12}}) (?P<loss>{_NUMBER}) Grad Norm (?:{_NUMBER}|nan|inf)"
        rf" (?P<seconds>{_NUMBER})s/it"
    )),
    ("fastText", re.compile(
        rf"\s{{0,4}}Progress: {{1,4}}[\d.]{{1,6}}% {{1,4}}words/sec/thread: {{0,8}}\d{{1,9}} {{1,4}}"
        rf"lr: {{1,4}}(?P<rate>{_NUMBER}) {{1,4}}(?:avg\.)?loss: {{1,4}}(?P<loss>{_NUMBER})"
        r"(?: {1,4}(?:ETA|eta): {1,4}(?P<left>[\d hms]{2,24}))?"
    )),
    ("gpt-2-simple", re.compile(
        rf"\[(?P<step>\d{{1,12}}) \| \d{{1,9}}\.\d\d\] loss=(?P<loss>{_NUMBER}) avg={_NUMBER}"
    )),
    ("CycleGAN", re.compile(
        rf"\(epoch: (?P<epoch>\d{{1,7}}), iters: (?P<batch>\d{{1,12}}), time: {_NUMBER}, data: {_NUMBER}\) "
    )),
)  # fmt: skip
"""Dialects, each with the pattern of its lines; the names of the groups are the fields of a reading."""


def read(text: str) -> LineReading | None:
    """Parse a line of one of these programs."""
    for dialect, pattern in _LINES:
        match = pattern.match(text)
        if match is not None:
            return _reading(dialect, match.groupdict())
    return None


def _reading(dialect: str, groups: dict[str, str | None]) -> LineReading:
    def value(name: str) -> float | None:
        text = groups.get(name)
        return None if text is None else number(text)

    step, seconds = groups.get("step"), value("seconds")
    reading = LineReading(dialect, step=int(step) if step else None, loss=value("loss"))
    reading.learning_rate = value("rate")
    reading.speed, reading.speed_unit = value("tokens"), TOKENS
    if seconds:
        reading.speed, reading.speed_unit = 1 / seconds, STEPS
    reading.remaining = duration((groups.get("left") or "").strip())
    if groups.get("batch"):
        epoch = int(groups["epoch"] or 0)
        reading.bar = Bar(int(groups["batch"] or 0), epoch=epoch, first_epoch=1, of_epoch=True)
    return reading
