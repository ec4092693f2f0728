"""Tables whose rows have no names: the header has the names.

epoch     train_loss  valid_loss  error_rate  time      (fastai, skorch)
0         2.131000    2.201000    0.345000    00:10
  Iter       Train Loss   Remaining Time                (scikit-learn's boosting)
     1           1.2345            0.50s
E    #       LOSS TOK2VEC  LOSS NER  ENTS_F  SCORE      (spaCy)
  0     200        112.31    912.20   41.20   0.41
"""

from __future__ import annotations

import re

from tui.domain.core.figures import count
from tui.domain.progress.parsing.measured import Measured
from tui.domain.progress.parsing.names import Meaning, meaning
from tui.domain.progress.parsing.reading import LineReading, number

PRIORITY = 55
SIGNS = (((), r"^[ |]*[0-9]+([ |\t]+[0-9.:e+-]+s?){2,}[ |]*$"),)
DIALECT = "table"
_CELLS = re.compile(r"\s*\|\s*|\s{2,}|\t")
_ROW = re.compile(r"[\s|]{0,16}\d{1,12}(?:[\s|]{1,24}[-+\d.:e]{1,16}s?){2,40}[\s|]{0,24}")
_NUMBER = re.compile(r"(?<![A-Za-z@_])\d")
_SHORT_NAMES = {"#": "step", "E": "epoch"}


def is_row(text: str) -> bool:
    """Return whether a line consists of numbers."""
    return _ROW.fullmatch(text) is not None


def read(text: str) -> LineReading | None:
    """Parse a header with a step or an epoch and a loss, or a row."""
    if is_row(text):
        return LineReading(DIALECT, cells=tuple(_CELLS.split(text.strip("\t |"))))
    if ":" in text or "=" in text or _NUMBER.search(text):
        return None
    names = tuple(_SHORT_NAMES.get(cell, cell) for cell in _CELLS.split(text.strip("\t |")))
    if len(names) < 3 or meaning(names[0])[0] not in {Meaning.STEP, Meaning.EPOCH}:
        return None
    return LineReading(DIALECT, columns=names) if any("loss" in name.lower() for name in names) else None


def row_reading(columns: tuple[str, ...], cells: tuple[str, ...]) -> LineReading | None:
    """Return the reading of a row below a header; `None` if the row has other columns."""
    if len(columns) != len(cells):
        return None
    measured = Measured()
    for name, cell in zip(columns, cells, strict=True):
        value = number(cell)
        if value is not None:
            measured.add(name, value, "", explicit=True)
    reading = measured.reading(DIALECT)
    reading.step, reading.total = measured.step, None
    if reading.step is None:
        reading.step, reading.counts_epochs = count(measured.epoch), True
    return reading
