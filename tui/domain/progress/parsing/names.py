"""Meanings of the names beside numbers: `global_step`, `lm loss`, `tok/s`, `lr`."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

from tui.domain.core.training_progress import SAMPLES, STEPS, TOKENS


class Meaning(Enum):
    """The meaning of a number."""

    STEP = "step"
    TRAIN = "train"
    """A count named `Train`: the epoch if a step of the epoch follows."""
    TOTAL = "total"
    LOSS = "loss"
    LEARNING_RATE = "learning rate"
    SPEED = "speed"
    STEP_TIME = "time of a step"
    TIME = "time"
    """A time without a purpose: the time of a step if the line also has the time of its data."""
    DATA_TIME = "time of a step's data"
    EPOCH = "epoch"
    EPOCHS = "epochs"
    RANK = "rank"
    OTHER = "other"
    NOTHING = "nothing"
    """Not a measurement, such as an identifier or a time of day."""


RUN_STEPS = (
    "global_step", "global_steps", "trainer_global_step", "num_updates", "optimizer_step", "acc_iter",
    "total_timesteps", "train_global_step", "current_step", "global_step_max_steps",
)  # fmt: skip
"""Names of steps that count the entire run."""
EPOCH_STEPS = ("batch", "batches", "batch_id", "batch_idx", "minibatch", "mini_batch")
"""Names of steps that count one epoch, if the line also has an epoch."""
STEP_NAMES = (
    *RUN_STEPS, "step", "steps", "train_step", "training_step", "update", "updates", "iteration",
    "iterations", "train_iteration", "training_iteration", "iter", "iters", "it", "round", *EPOCH_STEPS,
)  # fmt: skip
"""Names of steps, the best first. In a line with two counts, the other count is of micro-batches."""
LOSS_NAMES = (
    "loss", "train_loss", "training_loss", "loss_train", "lm_loss", "loss_metrics_global_avg_loss",
    "global_avg_loss", "avg_loss", "average_loss", "mean_loss", "total_loss", "train_loss_step", "loss_step",
    "train_total_loss", "train_loss_epoch", "nll_loss", "ce_loss", "xent", "learn",
)  # fmt: skip
"""Names of losses, the best first. A name of `LOSS_WORDS` and the word loss comes after them."""
LOSS_WORDS = frozenset({
    "train", "training", "tr", "total", "avg", "avr", "average", "mean", "running", "smooth", "smoothed",
    "ema", "step", "batch", "iter", "epoch", "global", "reduced", "current", "cur", "lm", "ce", "nll", "mlm",
    "clm", "overall", "sum", "interval", "log", "cross", "entropy", "supervised", "info", "trainer", "model",
})  # fmt: skip
"""Words that a name of the training loss may have."""
_BOOSTED = frozenset({
    "logloss", "rmse", "mse", "mae", "l1", "l2", "mlogloss", "loss", "multi_logloss", "deviance", "mape",
    "rmsle",
})  # fmt: skip
"""Metrics of boosting rounds that are losses."""
_ADVERBS = frozenset(
    {
        "train",
        "training",
        "trainer",
        "learning",
        "current",
        "completed",
        "info",
        "debug",
        "warning",
        "finished",
        "of",
    }
)
"""Words before a name that do not change its meaning."""
_TOTALS = frozenset({
    "total", "total_step", "total_steps", "max_step", "max_steps", "num_steps", "total_iters", "max_iters",
    "train_iters", "total_iterations", "num_training_steps", "total_optimization_steps",
})  # fmt: skip
_LEARNING_RATES = frozenset({"lr", "learning_rate", "train_lr", "train_learning_rate", "lr_0", "base_lr"})
_STEP_TIMES = frozenset({
    "step", "iter_time", "step_time", "time_per_step", "time_per_iteration", "elapsed_time_per_iteration",
    "iteration_time", "seconds_per_step", "sec_per_step", "step_seconds", "dt", "train_step_timing",
    "per_step_time", "batch_time", "batch_cost", "avg_batch_cost", "batch_(t)", "time/iter", "time/step",
})  # fmt: skip
_DATA_TIMES = frozenset({"data", "data_time", "data_(t)", "data_cost", "reader_cost"})
_EPOCHS = frozenset({"num_epochs", "total_epochs", "max_epochs", "num_train_epochs"})
_NOTHING = frozenset({"v_num", "timestamp", "pid", "seed", "version", "port", "line", "lineno", "ts",
                      "created", "thread", "process", "levelno", "msecs", "timestampseconds",
                      "timestampnanos"})  # fmt: skip
LEVELS = frozenset({"info", "debug", "warning", "warn", "notice", "main", "root"})
"""Words of a logger before its message."""
_WORDS = {
    "tok": TOKENS, "toks": TOKENS, "token": TOKENS, "tokens": TOKENS, "w": TOKENS, "word": TOKENS,
    "words": TOKENS, "sample": SAMPLES, "samples": SAMPLES, "example": SAMPLES, "examples": SAMPLES,
    "record": SAMPLES, "records": SAMPLES,
    "ex": SAMPLES, "img": SAMPLES, "imgs": SAMPLES, "image": SAMPLES, "images": SAMPLES, "seq": SAMPLES,
    "seqs": SAMPLES, "sequences": SAMPLES, "it": STEPS, "iter": STEPS, "iters": STEPS, "step": STEPS,
    "steps": STEPS, "batch": STEPS, "batches": STEPS, "update": STEPS, "updates": STEPS, "ba": STEPS,
}  # fmt: skip
"""Units of a speed."""
_SPEED = re.compile(
    r"(?:(?:train|training|throughput|global|perf)[/_]){0,3}(?P<word>[a-z]{1,9})(?:/|_per_)(?:s|sec|second)"
    r"|(?:running_?avg|curr|avg)_?(?P<camel>samples|tokens)_?per_?sec"
    r"|(?:train_)?speed_?\((?P<inner>[a-z]{1,9})/s\)"
)
_PACE = re.compile(
    r"(?:timing_)?(?P<unit>ms|s|sec|secs|seconds)(?:/|_per_)(?:it|iter|iteration|step|batch|update)"
)
_SHORT_SPEEDS = {"tps": TOKENS, "wps": TOKENS, "throughput(tps)": TOKENS, "ups": STEPS}
_VALIDATION = re.compile(r"(?:val|valid|validation|eval|evaluation|test|dev)(?:_|\d|$)")
_SEPARATORS = re.compile(r"[\s\-]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[a-z0-9]+")
_FILE = re.compile(r"\.(?:py|pyx|cc|cpp|cu|rs|go|c|h|sh)$")
_UNIT = re.compile(r"(?:_?\(|_in_|_)(?P<unit>ms|us|µs|s|sec|min)\)?$")
_MILLI = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "us": 1e-6, "µs": 1e-6, "min": 60.0}
MOST_NAME = 48
"""Maximum number of characters in a name; a longer text before a number is not a name."""


def unit_seconds(unit: str) -> float | None:
    """Return the seconds in a unit of time; `None` for other words."""
    return _MILLI.get(unit)


def counted_unit(word: str) -> str:
    """Return the unit of a speed that counts `word` (`it`, `tokens`) per second; "" for words outside of
    training."""
    return _WORDS.get(word.lower(), "")


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """Return a name in lower case with its words joined by `_`, the same for `learning rate`, `Learning-Rate`
    and `LearningRate`."""
    return _SEPARATORS.sub("_", _CAMEL.sub("_", name.strip()).lower())


@lru_cache(maxsize=4096)
def meaning(name: str) -> tuple[Meaning, str]:
    """Return the meaning of a name, with the unit of a speed or of a time, or the plain name of a step or a
    loss."""
    plain = plain_name(name)
    if not plain or len(plain) > MOST_NAME or plain in _NOTHING or _FILE.search(plain):
        return Meaning.NOTHING, ""
    plain = plain.removesuffix("(train)").rstrip("_")
    meant = _meaning(plain)
    words = plain.split("_")
    while meant[0] is Meaning.OTHER and len(words) > 1 and words[0] in _ADVERBS:
        del words[0]
        meant = _meaning("_".join(words))
    return meant


def _meaning(plain: str) -> tuple[Meaning, str]:
    slashless = plain.replace("/", "_")
    for table, matching in _TABLES:
        if slashless in table or plain in table:
            return matching, slashless
    speed = _speed_unit(plain)
    if speed:
        return Meaning.SPEED, speed
    pace = _PACE.fullmatch(plain)
    if pace is not None:
        return Meaning.STEP_TIME, pace["unit"]
    unit = _UNIT.search(plain)
    if (plain[: unit.start()] if unit else plain) in _STEP_TIMES:
        return Meaning.STEP_TIME, unit["unit"] if unit else ""
    return (Meaning.LOSS if _is_loss(slashless) else Meaning.OTHER), slashless


_TABLES = (
    (frozenset(STEP_NAMES), Meaning.STEP), (frozenset(LOSS_NAMES), Meaning.LOSS), (_TOTALS, Meaning.TOTAL),
    (_LEARNING_RATES, Meaning.LEARNING_RATE), (_EPOCHS, Meaning.EPOCHS),
    (frozenset({"epoch", "epochs", "ep"}), Meaning.EPOCH), (frozenset({"rank"}), Meaning.RANK),
    (frozenset({"train"}), Meaning.TRAIN), (frozenset({"time"}), Meaning.TIME),
    (_DATA_TIMES, Meaning.DATA_TIME),
)  # fmt: skip


def _is_loss(plain: str) -> bool:
    """Return whether a name of several words is that of the training's loss, not of a part of the loss."""
    words = set(_WORD.findall(plain))
    if words & {"train", "training", "learn"} and words & _BOOSTED:
        return not _VALIDATION.match(plain)
    return "loss" in words and not words - LOSS_WORDS - {"loss"}


def _speed_unit(plain: str) -> str:
    if plain in _SHORT_SPEEDS:
        return _SHORT_SPEEDS[plain]
    match = _SPEED.fullmatch(plain)
    if match is None:
        return ""
    return _WORDS.get(match["word"] or match["camel"] or match["inner"], "")


def is_validation(name: str) -> bool:
    """Return whether a name belongs to a validation's result, not to a training step."""
    return _VALIDATION.match(plain_name(name).replace("/", "_")) is not None
