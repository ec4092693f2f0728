"""Checks and defaults of flags that depend on one another. `options` and `defaults` map the names of the
flags to their values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from trainer.cloud_paths import local_path, problem_of
from trainer.errors import UsageError
from trainer.registry import MODELS, OPTIMIZERS, STRATEGIES

NO_DECAY = ("biases", "norms", "embeddings")
"""Kinds of weights; `norms` are all vectors except biases."""
_PATHS = (
    "checkpoint_dir", "upload_dir", "data_cache", "init_weights", "profile_dir", "tensorboard_dir",
    "step_log",
)  # fmt: skip
_INPUTS = ("data", "tokenizer", "weights")
"""Flags with paths, except for a user's own model, which reads them itself."""
_LONGEST_CONTEXT, _UNKNOWN_CONTEXT = 4096, 1024
"""Maximum of a default context in tokens, and the default for a model whose configuration is not on this
node."""
BY_TASK = ("context", "micro_batch", "learning_rate", "weight_decay")
"""Flags with a default by task."""


def names_in(text: str) -> list[str]:
    """Split a comma-separated list into names."""
    return [name.strip() for name in text.split(",") if name.strip()]


def check_paths(options: Mapping[str, Any]) -> None:
    """Refuse addresses that would become folders on this node, and empty names in --data."""
    own = options["model"] not in MODELS
    for name in _PATHS if own else (*_PATHS, *_INPUTS):
        for path in options[name].split(",") if name == "data" else [options[name]]:
            problem = problem_of(path.strip())
            if not path.strip() and options[name]:
                problem = "a path is empty and would mean the working directory"
            if problem:
                raise UsageError(f"--{name.replace('_', '-')} {options[name]}: {problem}")


def check_model_flags(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse flags that have no effect on this model, such as the weights of another model."""
    entry = MODELS.get(options["model"])
    if entry is None:
        # A user's own model gets all flags.
        return
    for name in dict.fromkeys(flag for model in MODELS.values() for flag in model.flags):
        if options[name] != defaults[name] and name not in entry.flags:
            takers = [model for model, other in MODELS.items() if name in other.flags]
            raise UsageError(
                f"--{name.replace('_', '-')} {options[name]} has no effect on --model {options['model']}, "
                f"only on {' and '.join(takers)}"
            )
    selected_range(options["selected_tokens"])
    if options["model_args"]:
        raise UsageError(
            f"--model-args {options['model_args']} needs --model my.module:build, your own model, not "
            f"{options['model']}"
        )


def selected_range(text: str) -> tuple[int, int]:
    """Parse the smallest and the largest number of tokens in --selected-tokens. Raises UsageError."""
    numbers = [int(word) for word in text.split(",") if word.strip().isdecimal()]
    if len(numbers) != 2 or text.count(",") != 1 or not 1 <= numbers[0] <= numbers[1]:
        raise UsageError(
            f"--selected-tokens {text} must be MIN,MAX in tokens with MIN at most MAX, such as 64,400"
        )
    return numbers[0], numbers[1]


def check_lora(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse wrong values, and flags that have no effect without --lora-rank."""
    for name in ("lora_alpha", "lora_targets", "lora_dropout"):
        if options[name] != defaults[name] and not options["lora_rank"]:
            shown = f"{options[name]:g}" if isinstance(options[name], float) else options[name]
            raise UsageError(f"--{name.replace('_', '-')} {shown} needs --lora-rank")
    if not 0 <= options["lora_dropout"] < 1:
        raise UsageError(f"--lora-dropout must be in [0, 1), not {options['lora_dropout']:g}")
    if options["lora_rank"] and options["model"] != "causal-lm":
        raise UsageError(
            f"--lora-rank {options['lora_rank']} needs --model causal-lm, not {options['model']}"
        )


def check_optimizer(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse wrong values, and flags that have no effect on this optimizer or schedule."""
    for name in ("beta1", "beta2", "momentum"):
        if not 0 <= options[name] < 1:
            raise UsageError(f"--{name} must be in [0, 1), not {options[name]:g}")
    if options["eps"] <= 0:
        raise UsageError(f"--eps must be above 0, not {options['eps']:g}")
    for name in ("decay_share", "final_share"):
        if not 0 <= options[name] <= 1:
            raise UsageError(f"--{name.replace('_', '-')} must be in [0, 1], not {options[name]:g}")
    for name in names_in(options["no_decay"]):
        if name not in (*NO_DECAY, "none"):
            raise UsageError(f"--no-decay {name}: use one of {', '.join(NO_DECAY)}, or none")
    name, strategy = options["optimizer"], options["strategy"]
    allowed = [other for other, entry in STRATEGIES.items() if name in entry.optimizers]
    if strategy not in allowed:
        raise UsageError(
            f"--optimizer {name} needs --strategy {' or '.join(allowed)}: {strategy} gives the "
            "optimizer only parts of the weights"
        )
    of_optimizer = {flag for flags in OPTIMIZERS.values() for flag in flags}
    for flag in sorted(of_optimizer - set(OPTIMIZERS[name])):
        if options[flag] != defaults[flag]:
            raise UsageError(f"--{flag} has no effect on --optimizer {name}")
    for flag, schedules in (("decay_share", ("wsd",)), ("final_share", ("cosine", "wsd", "linear"))):
        if options[flag] != defaults[flag] and options["schedule"] not in schedules:
            raise UsageError(f"--{flag.replace('_', '-')} has no effect on --schedule {options['schedule']}")


def task_defaults(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of the flags in `BY_TASK` that differ from the general ones, by the other flags."""
    where = str(options["weights"])
    if options["model"] != "causal-lm" or not where:
        return {}
    context = {"context": _context(where)}
    if where.endswith(".json") and not options["lora_rank"]:
        # Random weights, trained from the start.
        return context
    return context | {
        "micro_batch": 1,
        "learning_rate": 2e-4 if options["lora_rank"] else 1e-5,
        "weight_decay": 0.0,
    }


def _context(where: str) -> int:
    """Return the tokens that the model of a folder or `config.json` accepts, at most `_LONGEST_CONTEXT`."""
    path = Path(local_path(where))
    try:
        content = json.loads((path if path.suffix == ".json" else path / "config.json").read_text())
    except (OSError, ValueError):
        return _UNKNOWN_CONTEXT
    parts = [content, content.get("text_config")] if isinstance(content, dict) else []
    for part in (part for part in parts if isinstance(part, dict)):
        for name in ("max_position_embeddings", "n_positions"):
            limit = part.get(name)
            if isinstance(limit, int) and limit > 0:
                return min(limit, _LONGEST_CONTEXT)
    return _UNKNOWN_CONTEXT


def config_words(name: str, sections: Set[str]) -> list[str]:
    """Return the flags of a config file in the format of a command line. Raises UsageError."""
    try:
        text = Path(name).read_text()
        content = json.loads(text) if name.endswith(".json") else _yaml(text)
    except OSError as error:
        raise UsageError(f"--config {name}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"--config {name} can't be read: {error}") from error
    if not isinstance(content, dict):
        raise UsageError(f"--config {name} must have flags by name, such as `steps: 1000`")
    flags: dict[str, Any] = {}
    for key, value in content.items():
        flags |= value if key in sections and isinstance(value, dict) else {key: value}
    words = []
    for key, value in flags.items():
        flag = f"--{str(key).replace('_', '-')}"
        if isinstance(value, bool) and flag == "--print-config":
            words += [flag] if value else []
        elif isinstance(value, bool):
            # YAML reads the words on and off as booleans.
            words.append(f"{flag}={'on' if value else 'off'}")
        elif isinstance(value, list | dict) or value is None or flag == "--config":
            raise UsageError(f"--config {name}: {key} must be a text or a number")
        else:
            words.append(f"{flag}={value}")
    return words


def _yaml(text: str) -> Any:
    """Parse YAML. Raises ValueError."""
    try:
        import yaml  # noqa: PLC0415 - only a config file needs it
    except ModuleNotFoundError:
        raise ValueError("YAML needs the package pyyaml; use a .json file") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
