"""Meanings of the names beside numbers: `global_step`, `lm loss`, `tok/s`, `lr`."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

from tui.domain.core.training_progress import SAMPLES, STEPS, TOKENS


class Meaning(Enum):
    """The meaning of a number."""

    STEP = "step"
    TOTAL = "total"
    LOSS = "loss"
    LEARNING_RATE = "learning rate"
    SPEED = "speed"
    STEP_TIME = "time of a step"
    EPOCH = "epoch"
    EPOCHS = "epochs"
    RANK = "rank"
    OTHER = "other"
    NOTHING = "nothing"
    """Not a measurement, such as an identifier or a time of day."""


STEP_NAMES = (
    "global_step", "global_steps", "trainer_global_step", "num_updates", "optimizer_step", "step", "steps",
    "train_step", "training_step", "train_global_step", "current_step", "iteration", "iterations",
    "train_iteration",
    "iter", "iters", "it",
)  # fmt: skip
"""Names of steps, the best first. In a line with two counts, the other count is of micro-batches."""
LOSS_NAMES = (
    "loss", "train_loss", "training_loss", "loss_train", "lm_loss", "loss_metrics_global_avg_loss",
    "global_avg_loss", "avg_loss", "average_loss", "mean_loss", "total_loss", "train_loss_step", "loss_step",
    "train_total_loss", "train_loss_epoch", "nll_loss", "ce_loss",
)  # fmt: skip
_TOTALS = frozenset({
    "total", "total_step", "total_steps", "max_step", "max_steps", "num_steps", "total_iters", "max_iters",
    "train_iters", "total_iterations", "num_training_steps", "total_optimization_steps",
})  # fmt: skip
_LEARNING_RATES = frozenset({"lr", "learning_rate", "train_lr", "train_learning_rate", "lr_0"})
_STEP_TIMES = frozenset({
    "iter_time", "step_time", "time_per_step", "time_per_iteration", "elapsed_time_per_iteration",
    "iteration_time", "seconds_per_step", "sec_per_step", "step_seconds", "dt",
})  # fmt: skip
_EPOCHS = frozenset({"num_epochs", "total_epochs", "max_epochs", "num_train_epochs"})
_NOTHING = frozenset({"v_num", "timestamp", "time", "pid", "seed", "version", "port", "line", "lineno", "ts",
                      "created", "thread", "process", "levelno", "msecs", "timestampseconds",
                      "timestampnanos"})  # fmt: skip
_WORDS = {
    "tok": TOKENS, "toks": TOKENS, "token": TOKENS, "tokens": TOKENS, "w": TOKENS, "word": TOKENS,
    "words": TOKENS, "sample": SAMPLES, "samples": SAMPLES, "example": SAMPLES, "examples": SAMPLES,
    "ex": SAMPLES, "img": SAMPLES, "imgs": SAMPLES, "image": SAMPLES, "images": SAMPLES, "seq": SAMPLES,
    "seqs": SAMPLES, "sequences": SAMPLES, "it": STEPS, "iter": STEPS, "iters": STEPS, "step": STEPS,
    "steps": STEPS, "batch": STEPS, "batches": STEPS, "update": STEPS, "updates": STEPS, "ba": STEPS,
}  # fmt: skip
"""Units of a speed."""
_SPEED = re.compile(
    r"(?:train_|training_|throughput_)?(?P<word>[a-z]{1,9})(?:/|_per_)(?:s|sec|second)"
    r"|(?:running_?avg|curr|avg)_?(?P<camel>samples|tokens)_?per_?sec"
)
_SHORT_SPEEDS = {"tps": TOKENS, "wps": TOKENS, "throughput(tps)": TOKENS, "ups": STEPS}
_VALIDATION = re.compile(r"(?:val|valid|validation|eval|evaluation|test|dev)(?:_|$)")
_SEPARATORS = re.compile(r"[\s\-]+")
_FILE = re.compile(r"\.(?:py|pyx|cc|cpp|cu|rs|go|c|h|sh)$")
_UNIT = re.compile(r"_?\((?P<unit>[a-zµ]{1,3})\)$")
_MILLI = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "us": 1e-6, "µs": 1e-6, "min": 60.0}
MOST_NAME = 48
"""Maximum number of characters in a name; a longer text before a number is not a name."""


def unit_seconds(unit: str) -> float | None:
    """Seconds in a unit of time; `None` for other words."""
    return _MILLI.get(unit)


def counted_unit(word: str) -> str:
    """The unit of a speed that counts `word` (`it`, `tokens`) per second; "" for words outside of
    training."""
    return _WORDS.get(word.lower(), "")


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """A name in lower case with its words joined by `_`, the same for `learning rate` and `Learning-Rate`."""
    return _SEPARATORS.sub("_", name.strip().lower())


@lru_cache(maxsize=4096)
def meaning(name: str) -> tuple[Meaning, str]:
    """The meaning of a name, with the unit of a speed or of a time."""
    plain = plain_name(name)
    slashless = plain.replace("/", "_")
    if not plain or len(plain) > MOST_NAME:
        return Meaning.NOTHING, ""
    if plain in _NOTHING or _FILE.search(plain):
        return Meaning.NOTHING, ""
    if slashless in STEP_NAMES:
        return Meaning.STEP, ""
    if slashless in LOSS_NAMES:
        return Meaning.LOSS, ""
    if slashless in _TOTALS:
        return Meaning.TOTAL, ""
    if slashless in _LEARNING_RATES:
        return Meaning.LEARNING_RATE, ""
    speed = _speed_unit(plain)
    if speed:
        return Meaning.SPEED, speed
    for table, matching in ((_EPOCHS, Meaning.EPOCHS), ({"epoch"}, Meaning.EPOCH), ({"rank"}, Meaning.RANK)):
        if plain in table:
            return matching, ""
    unit = _UNIT.search(plain)
    if (plain[: unit.start()] if unit else plain) in _STEP_TIMES:
        return Meaning.STEP_TIME, unit["unit"] if unit else ""
    return Meaning.OTHER, ""


def _speed_unit(plain: str) -> str:
    if plain in _SHORT_SPEEDS:
        return _SHORT_SPEEDS[plain]
    match = _SPEED.fullmatch(plain)
    if match is None:
        return ""
    return _WORDS.get(match["word"] or match["camel"], "")


def is_validation(name: str) -> bool:
    """Whether a name belongs to a validation's result, not to a training step."""
    return _VALIDATION.match(plain_name(name).replace("/", "_")) is not None
