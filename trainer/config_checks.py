"""Checks of the flags that depend on one another: `given` and `defaults` are their values, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer.cloud_paths import problem_of
from trainer.errors import UsageError
from trainer.registry import MODELS, OPTIMIZERS

NO_DECAY = ("biases", "norms", "embeddings")
"""Kinds of weights; `norms` are all vectors that are no biases."""
_PATHS = (
    "checkpoint_dir", "upload_dir", "data_cache", "init_weights", "profile_dir", "tensorboard_dir",
    "step_log",
)  # fmt: skip
_INPUTS = ("data", "tokenizer", "weights")
"""Paths too, but for a model of the user's own, which reads them itself."""


def names_in(text: str) -> list[str]:
    """The names in a comma-separated list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def check_paths(given: Mapping[str, Any]) -> None:
    """Refuse addresses that would be folders of this node, and empty names in --data."""
    own = given["model"] not in MODELS
    for name in _PATHS if own else (*_PATHS, *_INPUTS):
        for path in given[name].split(",") if name == "data" else [given[name]]:
            problem = problem_of(path.strip())
            if not path.strip() and given[name]:
                problem = "a path is empty, which would be the working directory"
            if problem:
                raise UsageError(f"--{name.replace('_', '-')} {given[name]}: {problem}")


def check_model_flags(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse flags that have no effect on this model, such as the weights of another one."""
    entry = MODELS.get(given["model"])
    if entry is None:
        # A model of the user's own gets all flags.
        return
    for name in dict.fromkeys(flag for each in MODELS.values() for flag in each.flags):
        if given[name] != defaults[name] and name not in entry.flags:
            takers = [model for model, each in MODELS.items() if name in each.flags]
            raise UsageError(
                f"--{name.replace('_', '-')} {given[name]} has no effect on --model {given['model']}, only "
                f"on {' and '.join(takers)}"
            )
    selected_range(given["selected_tokens"])
    if given["model_args"]:
        raise UsageError(
            f"--model-args {given['model_args']} needs --model my.module:build, a model of your own, not "
            f"{given['model']}"
        )


def selected_range(text: str) -> tuple[int, int]:
    """The fewest and the most tokens of --selected-tokens. Raises UsageError."""
    numbers = [int(word) for word in text.split(",") if word.strip().isdecimal()]
    if len(numbers) != 2 or text.count(",") != 1 or not 1 <= numbers[0] <= numbers[1]:
        raise UsageError(f"--selected-tokens {text}: give the fewest and the most, such as 64,400")
    return numbers[0], numbers[1]


def check_lora(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse wrong values, and flags that have no effect without --lora-rank."""
    for name in ("lora_alpha", "lora_targets", "lora_dropout"):
        if given[name] != defaults[name] and not given["lora_rank"]:
            shown = f"{given[name]:g}" if isinstance(given[name], float) else given[name]
            raise UsageError(f"--{name.replace('_', '-')} {shown} needs --lora-rank")
    if not 0 <= given["lora_dropout"] < 1:
        raise UsageError(f"--lora-dropout must be in [0, 1), not {given['lora_dropout']:g}")
    if given["lora_rank"] and given["model"] != "causal-lm":
        raise UsageError(f"--lora-rank {given['lora_rank']} needs --model causal-lm, not {given['model']}")


def check_optimizer(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse wrong values, and flags that have no effect on this optimizer or schedule."""
    for name in ("beta1", "beta2", "momentum"):
        if not 0 <= given[name] < 1:
            raise UsageError(f"--{name} must be in [0, 1), not {given[name]:g}")
    if given["eps"] <= 0:
        raise UsageError(f"--eps must be above 0, not {given['eps']:g}")
    for name in ("decay_share", "final_share"):
        if not 0 <= given[name] <= 1:
            raise UsageError(f"--{name.replace('_', '-')} must be in [0, 1], not {given[name]:g}")
    for name in names_in(given["no_decay"]):
        if name not in (*NO_DECAY, "none"):
            raise UsageError(f"--no-decay {name}: it is one of {', '.join(NO_DECAY)}, or none")
    name, strategy = given["optimizer"], given["strategy"]
    allowed = OPTIMIZERS[name].strategies
    if allowed and strategy not in allowed:
        raise UsageError(
            f"--optimizer {name} needs --strategy {' or '.join(allowed)}, not {strategy}, which gives the "
            "optimizer parts of the weights"
        )
    of_optimizer = {flag for entry in OPTIMIZERS.values() for flag in entry.flags}
    for flag in sorted(of_optimizer - set(OPTIMIZERS[name].flags)):
        if given[flag] != defaults[flag]:
            raise UsageError(f"--{flag} has no effect on --optimizer {name}")
    for flag, schedules in (("decay_share", ("wsd",)), ("final_share", ("cosine", "wsd", "linear"))):
        if given[flag] != defaults[flag] and given["schedule"] not in schedules:
            raise UsageError(f"--{flag.replace('_', '-')} has no effect on --schedule {given['schedule']}")
