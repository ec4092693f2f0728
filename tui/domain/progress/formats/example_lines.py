"""Lines of PyTorch's own examples and of torchvision's references, and of scripts derived from them.

    Epoch: [0][ 10/100] Time  0.531 ( 0.612)    Loss 6.9102e+00 (7.0211e+00)    Acc@1   0.00 (  0.10)
    Epoch: [0]  [ 10/100]  eta: 0:01:11  lr: 0.1  img/s: 311.2  loss: 6.9102 (7.0211)  acc1: 0.0000 (0.1000)
    Train Epoch: 1 [640/60000 (1%)]     Loss: 2.300000

The forms are those of `imagenet/main.py`, `references/classification/utils.py` and `mnist/main.py`. The last
one counts samples: its step is one of the epoch's samples, as the line has no better count.
"""

from __future__ import annotations

import re

from tui.domain.progress.formats.named_lines import remaining_in
from tui.domain.progress.parsing.measured import Measured
from tui.domain.progress.parsing.numbered import named_numbers
from tui.domain.progress.parsing.reading import Bar, LineReading

PRIORITY = 40
DIALECT = "PyTorch's examples"
_COUNT = r"\[ {0,11}(?P<n>\d{1,12})/(?P<total>\d{1,12})"
_FORMS = (
    (re.compile(rf"\s{{0,4}}Epoch: ?\[(?P<epoch>\d{{1,7}})\] {{0,4}}{_COUNT}\]"), 0),
    (re.compile(rf"\s{{0,4}}Train Epoch: (?P<epoch>\d{{1,7}}) {_COUNT} \([\d. ]{{1,8}}%\)\]"), 1),
)
"""Line formats, each with the number of the first epoch."""


def read(text: str) -> LineReading | None:
    """Parse a line with its position in an epoch and a loss."""
    if "Epoch: " not in text[:20]:
        return None
    for form, first in _FORMS:
        match = form.match(text)
        if match is None:
            continue
        measured = Measured().add_all(named_numbers(text[match.end() :]))
        if not measured.losses:
            return None
        reading = measured.reading(DIALECT)
        epoch, n, total = int(match["epoch"]), int(match["n"]), int(match["total"])
        reading.bar = Bar(n, total, epoch=epoch, first_epoch=first)
        reading.remaining, reading.epoch = remaining_in(text), None
        return reading
    return None
