"""Settings of a run: a dataclass for each group of flags, and the checks of the flags."""

from __future__ import annotations

import argparse
import difflib
import json
import math
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NoReturn

from trainer.config_checks import (
    BY_TASK,
    NO_DECAY,
    check_lora,
    check_model_flags,
    check_optimizer,
    check_paths,
    config_words,
    names_in,
    task_defaults,
)
from trainer.errors import UsageError
from trainer.registry import MODELS, OPTIMIZERS, STRATEGIES, model_entry

PRESETS: dict[str, dict[str, int]] = {
    "tiny": {"layers": 2, "heads": 4, "width": 64, "context": 64, "batch": 16, "micro_batch": 16},
    "small": {"layers": 4, "heads": 4, "width": 128, "context": 128, "batch": 16, "micro_batch": 16},
    "10m": {"layers": 6, "heads": 6, "width": 384, "context": 256, "batch": 64, "micro_batch": 16},
    "base": {"layers": 12, "heads": 12, "width": 768, "context": 1024, "batch": 256, "micro_batch": 8},
    "350m": {"layers": 24, "heads": 16, "width": 1024, "context": 1024, "batch": 256, "micro_batch": 8},
    "1b": {"layers": 24, "heads": 16, "width": 2048, "context": 2048, "batch": 512, "micro_batch": 4},
    "7b": {"layers": 32, "heads": 32, "width": 4096, "context": 2048, "batch": 1024, "micro_batch": 1},
}
ON_OFF = ("off", "on")
AUTO = "auto"
"""Value of --micro-batch: compute it from the device's memory."""
SCHEDULES = ("cosine", "wsd", "linear", "constant")


def number_or_auto(text: str) -> int | str:
    try:
        return text if text == AUTO else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number or {AUTO}") from None


def _flag(default: Any, text: str, **kw: Any) -> Any:
    return field(default=default, metadata={"help": text, **kw})


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The model to train."""

    model: str = _flag(
        "gpt",
        f"one of {', '.join(MODELS)}, or your own function as my.module:build (see trainer/README.md)",
    )
    model_args: str = _flag("", "arguments of your own model's function, NAME=VALUE,…")
    preset: str = _flag("tiny", "sizes of the GPT and its batch", choices=sorted(PRESETS))
    context: int = _flag(
        0, "tokens per sequence; 0: the preset's; default of causal-lm: what the model accepts, at most 4096"
    )
    dropout: float = _flag(0.0, "0 to 1; causal-lm: replaces the rates of the model's configuration")
    weights: str = _flag(
        "", "causal-lm, arr-coc: a model's folder or name, or a config.json; arr-coc also: tiny"
    )
    init_weights: str = _flag(
        "", "a .safetensors, a folder of them or a checkpoint: initial weights of a run without a checkpoint"
    )
    lora_rank: int = _flag(0, "causal-lm: train only low-rank updates of this rank; 0: train all weights")
    lora_alpha: float = _flag(0.0, "causal-lm: updates are scaled by alpha / rank; 0: twice the rank")
    lora_targets: str = _flag(
        "all-linear", "causal-lm: layers with an update, by the ends of their paths, e.g. q_proj,v_proj"
    )
    lora_dropout: float = _flag(0.0, "causal-lm: dropout of the inputs of the updates")
    stage: str = _flag(
        "adapter",
        "arr-coc: weights to train; texture: how the image's scorers weight its texture; scorers: all "
        "scorers and their balance; quality: the quality adapter; adapter: these three; lora: the language "
        "model; both: all",
        choices=["texture", "scorers", "quality", "adapter", "lora", "both"],
    )
    image_tokens: int = _flag(
        1024,
        "arr-coc: max visual tokens of an image before the selection; each covers 32 × 32 pixels in Qwen3-VL",
    )
    selected_tokens: str = _flag("64,400", "arr-coc: MIN,MAX: number of selected visual tokens")


@dataclass(frozen=True, slots=True)
class DataConfig:
    """The training data; for arr-coc, a .jsonl file of images with questions."""

    data: str = _flag(
        "",
        (
            "folders or files (comma-separated), gs://…, or a .bin file of trainer.prepare; default: "
            "Python's sources"
        ),
    )
    tokenizer: str = _flag("bytes", "bytes, a tokenizer.json, or a folder that contains one")
    format: str = _flag(
        "text",
        "text: train on everything; chat: train on the assistant's messages in each line of .jsonl files",
        choices=["text", "chat"],
    )
    field: str = _flag(
        "", "field to read from each line of a .jsonl file; default: text, or messages with --format chat"
    )
    document_masks: str = _flag(
        "off",
        "keep documents apart within a sequence; conversations (--format chat) then share sequences",
        choices=ON_OFF,
    )
    max_truncated: float = _flag(
        0.1, "chat: share of the tokens that may lie beyond --context and be lost; more end the run"
    )
    data_cache: str = _flag(
        "", "folder on the node's disk for the tokens of the data; default: data-cache beside the checkpoints"
    )
    batch: int = _flag(0, "sequences per optimizer step, over all ranks; 0: the preset's")
    micro_batch: int | str = _flag(
        0,
        "max sequences per rank and pass; gradients are accumulated; 0: the preset's; auto: as many as "
        "fit the device's memory; default of causal-lm with trained weights: 1",
        type=number_or_auto,
    )
    workers: int = _flag(0, "processes per rank that read the data ahead")

    @property
    def max_micro_batch(self) -> int:
        """The largest micro-batch, in sequences; 1 until `auto` is computed."""
        return 1 if isinstance(self.micro_batch, str) else self.micro_batch


@dataclass(frozen=True, slots=True)
class OptimizerConfig:
    """The optimizer, its learning rate and weight decay."""

    optimizer: str = _flag(
        "adamw", "muon: with AdamW for embeddings, the output layer and vectors", choices=OPTIMIZERS
    )
    learning_rate: float = _flag(
        3e-3,
        "peak learning rate, after the warm-up; default of causal-lm with trained weights: 1e-5, with "
        "--lora-rank 2e-4",
    )
    warmup: int = _flag(20, "steps of linear warm-up")
    schedule: str = _flag(
        "cosine",
        "after the warm-up; wsd: stay at the peak, then fall linearly at the end",
        choices=SCHEDULES,
    )
    decay_share: float = _flag(0.2, "wsd: share of the steps, at the end, in which the learning rate falls")
    final_share: float = _flag(0.1, "learning rate after the last step, as a share of the peak")
    weight_decay: float = _flag(
        0.1,
        "decoupled for adamw, adafactor and muon; an L2 penalty for adam and sgd; default of causal-lm with "
        "trained weights: 0",
    )
    no_decay: str = _flag("biases,norms", f"weights without weight decay: {', '.join(NO_DECAY)}, or none")
    beta1: float = _flag(0.9, "adamw, adam, muon: decay of the mean of gradients")
    beta2: float = _flag(0.95, "adamw, adam, muon: decay of the mean of squared gradients")
    eps: float = _flag(1e-8, "adamw, adam, muon: added to the denominator")
    momentum: float = _flag(0.95, "sgd, muon: momentum")
    clip: float = _flag(1.0, "max norm of the gradient; 0: no clipping")


CHANGEABLE = (
    "data", "seed", "batch", "dropout", "lora-alpha", "lora-dropout", "precision",
    *(item.name.replace("_", "-") for item in fields(OptimizerConfig)),
)  # fmt: skip
"""Settings that change the training curve and that `--allow-change` may name for a resumed run."""


@dataclass(frozen=True, slots=True)
class ParallelConfig:
    """Parallelism, device and precision."""

    strategy: str = _flag("ddp", "how model and optimizer are sharded", choices=STRATEGIES)
    device: str = _flag("auto", "auto: a GPU if there is one", choices=["auto", "cpu", "cuda"])
    precision: str = _flag(
        "auto",
        "auto: bf16 on a GPU, fp16 on a T4 or V100, else fp32",
        choices=["auto", "fp32", "bf16", "fp16"],
    )
    data_parallel_replicate: int = _flag(
        1,
        "fsdp: copies of the model (HSDP); each is sharded over world / (this · --tensor-parallel) processes",
    )
    tensor_parallel: int = _flag(
        1, "fsdp: neighbouring processes that share each layer and see the same samples"
    )
    reshard: str = _flag("on", "fsdp: free a block's weights after its forward", choices=ON_OFF)
    reduce_gradients: str = _flag(
        "each",
        "fsdp: sum gradients over the ranks after each micro-batch, so that a rank keeps only its shards; "
        "last: only once per step, with less traffic and whole float32 gradients on each rank",
        choices=["each", "last"],
    )
    activation_checkpointing: str = _flag(
        "off",
        "recompute activations in the backward pass; selective: all but attention and every second product",
        choices=["off", "on", "selective"],
    )
    compile: str = _flag("off", "torch.compile for each block", choices=ON_OFF)
    logits_memory: float = _flag(
        256.0, "gpt, causal-lm: MiB of logits that the loss holds at once; 0: all logits of a micro-batch"
    )
    offload: str = _flag("none", "zero: state kept in CPU memory", choices=["none", "optimizer", "all"])
    deepspeed_config: str = _flag("", "zero: a JSON file with further DeepSpeed settings")


@dataclass(frozen=True, slots=True)
class CheckpointConfig:
    """The location and the frequency of checkpoints."""

    checkpoint_dir: str = _flag("", "folder of this run's checkpoints; default: ./checkpoints")
    checkpoint_every: int = _flag(500, "steps between two checkpoints; 0: only at the end")
    keep: int = _flag(3, "checkpoints to keep in each folder and store")
    upload_dir: str = _flag(
        "", "gs://… or a folder to upload checkpoints to; default: $AIP_CHECKPOINT_DIR/<job>"
    )
    upload_every: int = _flag(0, "steps between two uploads; 0: twice --checkpoint-every")
    async_save: str = _flag("on", "write checkpoints while training continues", choices=ON_OFF)
    peer_copies: int = _flag(1, "checkpoints of the previous node to keep in memory, if they fit; 0: none")
    resume: str = _flag(
        "auto",
        "auto: resume from the newest good checkpoint; never: begin a new run, which restarts continue",
        choices=["auto", "never"],
    )
    allow_change: str = _flag(
        "", f"settings that a resumed run may change: {', '.join(CHANGEABLE)} (comma-separated)"
    )
    store_timeout: float = _flag(
        600.0, "seconds to wait for --upload-dir: at the start for a listing, at the end for the last upload"
    )
    grace: float = _flag(
        25.0, "seconds between SIGTERM and SIGKILL, for a save and its upload; 0: not checked"
    )

    @property
    def notice(self) -> float:
        """Seconds for the last save and upload after a signal; 25 with --grace 0."""
        return self.grace or 25.0


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """The response to a wrong step: a loss or gradient that is not finite, a spike of the loss, or differing
    replicas."""

    guard: str = _flag(
        "rollback",
        "skip: skip these steps, and end the run after too many in a row; rollback: restore the last "
        "checkpoint instead of ending; off: end the run at the first loss that is not finite",
        choices=["off", "skip", "rollback"],
    )
    guard_patience: int = _flag(3, "skipped steps in a row before the run ends or rolls back")
    check_replicas: int = _flag(
        0,
        "steps between two comparisons of the replicas of weights and optimizer, which must be equal bit "
        "for bit; also before each save; 0: none",
    )
    spike: float = _flag(
        0.0, "skip losses this many median deviations above the recent median, e.g. 20; 0: none"
    )


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """Services that receive the metrics of rank 0, under this run's id. A failing service never stops the
    training."""

    wandb_project: str = _flag("", "Weights & Biases: the project")
    wandb_mode: str = _flag(
        "online", "offline: files below ./wandb, for wandb sync", choices=["online", "offline"]
    )
    mlflow_experiment: str = _flag("", "MLflow: the experiment, on the server of $MLFLOW_TRACKING_URI")
    vertex_experiment: str = _flag("", "Vertex AI Experiments: the experiment")
    vertex_tensorboard: str = _flag(
        "",
        (
            "Vertex AI Experiments: projects/…/locations/…/tensorboards/…; default: the experiment's "
            "TensorBoard"
        ),
    )


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """Settings of processes, rendezvous and restarts."""

    nproc: int = _flag(0, "processes on this node; 0: one per GPU, or one")
    max_restarts: int = _flag(3, "max restarts in a row without a new checkpoint")
    join_timeout: float = _flag(1800.0, "seconds to wait for the other nodes")
    peer_timeout: float = _flag(15.0, "seconds of silence after which another node counts as lost")
    hang_timeout: float = _flag(300.0, "seconds after which a collective call of a hanging rank fails")
    elastic: int = _flag(
        0, "ddp, fsdp: min nodes that continue training after the loss of a node; 0: restart all nodes"
    )
    hang_factor: float = _flag(
        10.0,
        "report where each rank is if no step ends for this many usual step times; 0: never",
    )
    hang_floor: float = _flag(
        40.0,
        "shortest reported time without a step, in seconds; ten times as long at the start, in a save, …",
    )


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of a run. Sizes are in tokens and sequences, times in seconds."""

    steps: int = _flag(400, "total optimizer steps")
    seed: int = _flag(0, "seed of the model, the data order and dropout")
    log_every: int = _flag(5, "steps between two log lines")
    eval_every: int = _flag(0, "steps between two evaluations; 0: none")
    eval_samples: int = _flag(128, "held-out samples of an evaluation, over all ranks")
    answer_tokens: int = _flag(16, "arr-coc: tokens per answer in an evaluation; 0: only the loss")
    answer_match: str = _flag(
        "exact",
        (
            "arr-coc: how to score answers; vqa: by agreement with people's answers, ignoring articles "
            "and punctuation"
        ),
        choices=["exact", "vqa"],
    )
    early_stop: int = _flag(0, "evaluations in a row without a new best loss that end the run; 0: never")
    profile_steps: str = _flag("", "FIRST-LAST: steps that torch's profiler records on rank 0, e.g. 20-25")
    profile_dir: str = _flag(
        "", "folder of the trace; default: profile below TensorBoard's folder, else ./profile"
    )
    tensorboard_dir: str = _flag("", "folder for TensorBoard; default: $AIP_TENSORBOARD_LOG_DIR, else none")
    step_log: str = _flag(
        "", "folder in which each process logs each step: its samples and a hash of the weights"
    )
    tuning_metric: str = _flag("loss", "metric that a tuning trial reports: the study's metricId")
    print_config: bool = _flag(False, "print the resolved settings as JSON and exit")
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    guard: GuardConfig = field(default_factory=GuardConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    launch: LaunchConfig = field(default_factory=LaunchConfig)


SECTIONS: dict[str, type[Any]] = {
    "model": ModelConfig,
    "data": DataConfig,
    "optimizer": OptimizerConfig,
    "parallel": ParallelConfig,
    "checkpoint": CheckpointConfig,
    "guard": GuardConfig,
    "metrics": MetricsConfig,
    "launch": LaunchConfig,
}
_MOST_USED = frozenset({
    "model", "preset", "weights", "lora_rank", "context", "data", "format", "tokenizer", "batch",
    "micro_batch", "steps", "learning_rate", "warmup", "strategy", "precision", "activation_checkpointing",
    "compile", "checkpoint_dir", "checkpoint_every", "upload_dir", "eval_every", "log_every", "print_config",
})  # fmt: skip
"""Flags in --help; --help-all lists all of them."""
_CONFIG_HELP = (
    "a YAML or JSON file with flags by name, also grouped as --print-config prints them; flags of the "
    "command line replace those of the file"
)
_POSITIVE = ("join_timeout", "hang_timeout")
_AT_LEAST_ONE = (
    "steps", "log_every", "keep", "eval_samples", "image_tokens", "peer_timeout", "hang_floor",
    "data_parallel_replicate", "tensor_parallel",
)  # fmt: skip
_NOT_NEGATIVE = (
    "checkpoint_every", "upload_every", "eval_every", "early_stop", "answer_tokens", "batch", "micro_batch",
    "context", "workers", "warmup", "clip", "grace", "nproc", "max_restarts", "weight_decay", "hang_factor",
    "guard_patience", "spike", "store_timeout", "learning_rate", "logits_memory", "peer_copies", "elastic",
    "lora_rank", "lora_alpha", "check_replicas",
)  # fmt: skip
_TIMES = ("join_timeout", "peer_timeout", "hang_timeout", "hang_floor", "store_timeout", "grace")
_LONGEST = 2_000_000
"""Maximum timeout in seconds (23 days), because poll() takes milliseconds in 32 bits."""
_SEEDS = 2**32
"""Exclusive upper limit of NumPy's seeds."""


class _Parser(argparse.ArgumentParser):
    """Argument parser that raises UsageError with the flag that was probably intended, instead of exiting."""

    def error(self, message: str) -> NoReturn:
        _, is_unknown, unknown = message.partition("unrecognized arguments: ")
        if is_unknown:
            word = unknown.split()[0].split("=")[0]
            near = difflib.get_close_matches(word, self._option_string_actions, 1)
            message = f"{word} is not a flag" + (f"; did you mean {near[0]}?" if near else "; see --help")
        raise UsageError(message.removeprefix("argument "))


def parse(argv: Sequence[str] | None = None) -> Config:
    """Parse these flags, by default the command line.

    Raises:
        UsageError: if a flag is unknown or has a wrong value.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    lists_all = "--help-all" in words
    parser = _Parser(
        "python -m trainer.task",
        usage="%(prog)s [--config FILE] [FLAGS]",
        description="Train a model.",
        epilog="" if lists_all else "These are the most used flags; --help-all lists all of them by group.",
        allow_abbrev=False,
    )
    parser.add_argument("--help-all", action="help", help="list all flags by group and exit")
    parser.add_argument("--config", metavar="FILE", default="", help=_CONFIG_HELP)
    top = [item for item in fields(Config) if item.name not in SECTIONS]
    _add(parser.add_argument_group("run"), top, lists_all=lists_all)
    for name, section in SECTIONS.items():
        title = (section.__doc__ or "").splitlines()[0] if lists_all else None
        _add(parser.add_argument_group(name, title), fields(section), lists_all=lists_all)
    file = parser.parse_known_args(words)[0].config
    options = vars(parser.parse_args([*(config_words(file, set(SECTIONS)) if file else []), *words]))
    general = _defaults()
    for name, default in {**{name: general[name] for name in BY_TASK}, **task_defaults(options)}.items():
        options[name] = default if options[name] is None else options[name]
    _check(options)
    parts = {n: s(**{f.name: options[f.name] for f in fields(s)}) for n, s in SECTIONS.items()}
    return _complete(Config(**{f.name: options[f.name] for f in top}, **parts))


def _add(group: Any, items: Sequence[Any], *, lists_all: bool) -> None:
    """Add the flags; the help has those of `_MOST_USED`, or all of them."""
    for item in items:
        name, default = "--" + item.name.replace("_", "-"), item.default
        text = item.metadata["help"]
        if not lists_all and item.name not in _MOST_USED:
            text = argparse.SUPPRESS
        if isinstance(default, bool):
            group.add_argument(name, action="store_true", help=text)
            continue
        if text is not argparse.SUPPRESS and default != "" and "default" not in text:
            text += f" (default: {default})"
        start = None if item.name in BY_TASK else default
        group.add_argument(name, **{"type": type(default), "default": start, **item.metadata, "help": text})


def _check(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"--{name.replace('_', '-')} must be a finite number, not {value}")
    _check_times(options)
    if not 0 <= options["seed"] < _SEEDS:
        raise UsageError(f"--seed must be from 0 to {_SEEDS - 1}, not {options['seed']}")
    for name in (*_AT_LEAST_ONE, *_NOT_NEGATIVE):
        minimum = 1 if name in _AT_LEAST_ONE else 0
        if options[name] != AUTO and options[name] < minimum:
            raise UsageError(f"--{name.replace('_', '-')} must be at least {minimum}, not {options[name]}")
    if not 0 <= options["max_truncated"] <= 1:
        raise UsageError(f"--max-truncated must be in [0, 1], not {options['max_truncated']:g}")
    if not 0 <= options["dropout"] < 1:
        raise UsageError(f"--dropout must be in [0, 1), not {options['dropout']}")
    check_paths(options)
    _check_needed(options)
    check_lora(options, _defaults())
    check_model_flags(options, _defaults())
    _check_strategy_flags(options)
    check_optimizer(options, _defaults())
    if options["spike"] and options["guard"] == "off":
        raise UsageError(f"--spike {options['spike']:g} needs --guard skip or rollback, not off")
    every, upload = options["checkpoint_every"], options["upload_every"]
    if upload and every and upload % every:
        raise UsageError(
            f"--upload-every {upload} must be a multiple of --checkpoint-every {every}: only a saved step "
            f"can be uploaded; use {max(1, round(upload / every)) * every}"
        )
    _check_json(options["deepspeed_config"])
    for name in names_in(options["allow_change"]):
        if name not in CHANGEABLE:
            raise UsageError(f"--allow-change {name}: use one of {', '.join(CHANGEABLE)}")


def _check_times(options: dict[str, Any]) -> None:
    for name in _TIMES:
        flag = f"--{name.replace('_', '-')}"
        if name in _POSITIVE and options[name] <= 0:
            raise UsageError(f"{flag} must be above 0, not {options[name]:g}")
        if options[name] > _LONGEST:
            raise UsageError(f"{flag} must be at most {_LONGEST}, not {options[name]:g}")


def _check_strategy_flags(options: dict[str, Any]) -> None:
    """Refuse flags of other strategies."""
    defaults = {item.name: item.default for item in fields(ParallelConfig)}
    for name in dict.fromkeys(flag for entry in STRATEGIES.values() for flag in entry.flags):
        if options[name] != defaults[name] and name not in STRATEGIES[options["strategy"]].flags:
            *others, last = [strategy for strategy, entry in STRATEGIES.items() if name in entry.flags]
            takers = f"{', '.join(others)} or {last}" if others else last
            raise UsageError(
                f"--{name.replace('_', '-')} needs --strategy {takers}, not {options['strategy']}"
            )
    if options["elastic"] and options["micro_batch"] == AUTO:
        raise UsageError("--micro-batch auto does not work with --elastic: set a number")
    if options["elastic"] and options["check_replicas"]:
        raise UsageError("--check-replicas does not work with --elastic: remove one of them")
    elastic = [name for name, entry in STRATEGIES.items() if entry.elastic]
    if options["elastic"] and options["strategy"] not in elastic:
        raise UsageError(
            f"--elastic {options['elastic']} needs --strategy {' or '.join(elastic)}, not "
            f"{options['strategy']}: DeepSpeed's engine keeps its process groups, and can't continue "
            "with other ranks"
        )
    for name, why in (
        ("tensor_parallel", "needs processes with the same samples, which --elastic does not have"),
        ("data_parallel_replicate", "has no effect with --elastic, where each node is a copy: omit it"),
    ):
        if options["elastic"] and options[name] != defaults[name]:
            raise UsageError(f"--{name.replace('_', '-')} {options[name]} {why}")


def _defaults() -> dict[str, Any]:
    sections: tuple[type[Any], ...] = (Config, *SECTIONS.values())
    return {item.name: item.default for section in sections for item in fields(section)}


def _check_needed(options: dict[str, Any]) -> None:
    for name, needed in (
        ("wandb_mode", "wandb_project"),
        ("vertex_tensorboard", "vertex_experiment"),
        ("early_stop", "eval_every"),
    ):
        if options[name] != _defaults()[name] and not options[needed]:
            flag, other = name.replace("_", "-"), needed.replace("_", "-")
            raise UsageError(f"--{flag} has no effect without --{other}")


def _check_json(name: str) -> None:
    if not name:
        return
    try:
        content = json.loads(Path(name).read_text())
    except OSError as error:
        raise UsageError(f"--deepspeed-config {name}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"--deepspeed-config {name} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise UsageError(f"--deepspeed-config {name} is not a JSON object")


def _complete(config: Config) -> Config:
    """Replace zeros and empty texts with the defaults that they stand for."""
    preset, data, saving = PRESETS[config.model.preset], config.data, config.checkpoint
    entry = model_entry(config.model.model)
    # Every Python installation has its sources; arr-coc generates images with questions instead.
    default_data = str(Path(sysconfig.get_paths()["stdlib"])) if entry is None or entry.text else ""
    return replace(
        config,
        model=replace(
            config.model,
            context=config.model.context or preset["context"],
            lora_alpha=config.model.lora_alpha or 2.0 * config.model.lora_rank,
        ),
        data=replace(
            data,
            data=data.data or default_data,
            batch=data.batch or preset["batch"],
            micro_batch=data.micro_batch or preset["micro_batch"],
        ),
        checkpoint=replace(saving, upload_every=saving.upload_every or 2 * saving.checkpoint_every),
    )
