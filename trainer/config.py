"""Settings of a run: a dataclass for each part, their flags, and what is wrong with them in one sentence."""

from __future__ import annotations

import argparse
import difflib
import json
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NoReturn

PRESETS: dict[str, dict[str, int]] = {
    "tiny": {"layers": 2, "heads": 4, "width": 64, "context": 64, "batch": 16, "micro_batch": 16},
    "small": {"layers": 4, "heads": 4, "width": 128, "context": 128, "batch": 16, "micro_batch": 16},
    "10m": {"layers": 6, "heads": 6, "width": 384, "context": 256, "batch": 64, "micro_batch": 16},
    "base": {"layers": 12, "heads": 12, "width": 768, "context": 1024, "batch": 256, "micro_batch": 8},
    "350m": {"layers": 24, "heads": 16, "width": 1024, "context": 1024, "batch": 256, "micro_batch": 8},
    "1b": {"layers": 24, "heads": 16, "width": 2048, "context": 2048, "batch": 512, "micro_batch": 4},
    "7b": {"layers": 32, "heads": 32, "width": 4096, "context": 2048, "batch": 1024, "micro_batch": 1},
}
STRATEGIES = ("ddp", "fsdp", "zero1", "zero2", "zero3")
ON_OFF = ("off", "on")


class UsageError(Exception):
    """The flags can't be used; the message names the flag, the reason and the remedy."""


class DataError(Exception):
    """The data can't be read; the message names the path and the reason."""


def _flag(default: Any, text: str, **kw: Any) -> Any:
    return field(default=default, metadata={"help": text, **kw})


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What is trained."""

    model: str = _flag("gpt", "a name that trainer/workload.py knows")
    preset: str = _flag("tiny", "sizes of the GPT and of its batch", choices=sorted(PRESETS))
    context: int = _flag(0, "tokens a sequence; 0 takes the preset's")
    dropout: float = _flag(0.0, "0 to 1")
    weights: str = _flag("", "causal-lm, arr-coc: a model's folder or name, or a config.json; arr-coc: tiny")
    init_weights: str = _flag(
        "", "a .safetensors or a checkpoint of any strategy, whose weights a run starts with that has no own"
    )
    stage: str = _flag("adapter", "arr-coc: what learns", choices=["adapter", "lora", "both"])
    image_side: int = _flag(512, "arr-coc: pixels along each side that images are brought to")


@dataclass(frozen=True, slots=True)
class DataConfig:
    """What it is trained on; for arr-coc a .jsonl file of images with questions."""

    data: str = _flag(
        "",
        "folders, files (comma-separated), gs://…, or a .bin of trainer.prepare; default: Python's sources",
    )
    tokenizer: str = _flag("bytes", "bytes, a tokenizer.json or a folder with one")
    field: str = _flag("text", "of each line of a .jsonl file")
    batch: int = _flag(0, "sequences an optimizer step, over all processes; 0 takes the preset's")
    micro_batch: int = _flag(0, "most sequences a process has at once; the rest is accumulated; 0: preset's")
    workers: int = _flag(0, "processes that read ahead, for each training process")


@dataclass(frozen=True, slots=True)
class OptimizerConfig:
    """AdamW with a warm-up and a cosine."""

    learning_rate: float = _flag(3e-3, "peak, after the warm-up")
    warmup: int = _flag(20, "steps of linear warm-up")
    weight_decay: float = _flag(0.1, "on matrices only")
    clip: float = _flag(1.0, "largest norm of the gradient; 0: no limit")


@dataclass(frozen=True, slots=True)
class ParallelConfig:
    """How the work is shared out and in which precision it is done."""

    strategy: str = _flag("ddp", "how model and optimizer are shared out", choices=STRATEGIES)
    device: str = _flag(
        "auto", "where to train; auto: a GPU where there is one", choices=["auto", "cpu", "cuda"]
    )
    precision: str = _flag("auto", "auto: bf16 on a GPU, else fp32", choices=["auto", "fp32", "bf16", "fp16"])
    reshard: str = _flag("on", "fsdp: free a block's weights after its forward", choices=ON_OFF)
    activation_checkpointing: str = _flag("off", "compute activations again in the backward", choices=ON_OFF)
    compile: str = _flag("off", "torch.compile for each block", choices=ON_OFF)
    offload: str = _flag("none", "zero: what is kept in CPU memory", choices=["none", "optimizer", "all"])
    deepspeed_config: str = _flag("", "zero: a JSON file of DeepSpeed's own settings, which win over ours")


@dataclass(frozen=True, slots=True)
class CheckpointConfig:
    """What is saved, where and how often."""

    checkpoint_dir: str = _flag("", "folder of this run's checkpoints; default: ./checkpoints")
    checkpoint_every: int = _flag(500, "steps between two checkpoints; 0: only at the end")
    keep: int = _flag(3, "checkpoints kept in each place")
    upload_dir: str = _flag("", "gs://… or a folder to copy them to; default: $AIP_CHECKPOINT_DIR/<job>")
    upload_every: int = _flag(0, "steps between two uploads; 0: twice --checkpoint-every")
    async_save: str = _flag("on", "write while training goes on", choices=ON_OFF)
    resume: str = _flag("auto", "start from the newest good checkpoint, or afresh", choices=["auto", "never"])
    grace: float = _flag(25.0, "seconds between SIGTERM and SIGKILL that a save may take; 0: not checked")


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """What becomes of a step whose loss or gradient is not finite, or leaps out."""

    guard: str = _flag(
        "rollback",
        "skip: leave such a step out, and end after too many in a row; rollback: go back to the last "
        "checkpoint then; off: end at the first loss that is not finite",
        choices=["off", "skip", "rollback"],
    )
    guard_patience: int = _flag(3, "steps left out in a row before it ends or goes back")
    spike: float = _flag(
        0.0, "leave out a loss that is so many usual deviations above the recent median; 0: none, e.g. 20"
    )


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """How the nodes come together."""

    nproc: int = _flag(0, "processes on this node; 0: one a GPU, or one")
    max_restarts: int = _flag(3, "fresh attempts in a row that bring no new checkpoint")
    join_timeout: float = _flag(1800.0, "seconds to wait for the other nodes")
    peer_timeout: float = _flag(15.0, "seconds of silence after which another node is given up")
    hang_timeout: float = _flag(300.0, "seconds after which a process that answers nobody is given up")


@dataclass(frozen=True, slots=True)
class Config:
    """One run. Sizes are in tokens and sequences, times in seconds."""

    steps: int = _flag(400, "optimizer steps in all")
    seed: int = _flag(0, "of the model, the data order and dropout")
    log_every: int = _flag(5, "steps between two lines")
    eval_every: int = _flag(0, "steps between two evaluations; 0: none")
    eval_batches: int = _flag(8, "batches an evaluation")
    early_stop: int = _flag(0, "evaluations in a row without a new best loss, after which it ends; 0: never")
    profile_steps: str = _flag("", "FIRST-LAST: steps that torch's profiler records on rank 0, e.g. 20-25")
    profile_dir: str = _flag("", "folder of the trace; default: profile below TensorBoard's, else here")
    tensorboard_dir: str = _flag("", "figures for TensorBoard; default: $AIP_TENSORBOARD_LOG_DIR, else none")
    tuning_metric: str = _flag("loss", "name of the metric that a tuning trial reports: the study's metricId")
    print_config: bool = _flag(False, "print the resolved settings as JSON and end")
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    guard: GuardConfig = field(default_factory=GuardConfig)
    launch: LaunchConfig = field(default_factory=LaunchConfig)


SECTIONS: dict[str, type[Any]] = {
    "model": ModelConfig,
    "data": DataConfig,
    "optimizer": OptimizerConfig,
    "parallel": ParallelConfig,
    "checkpoint": CheckpointConfig,
    "guard": GuardConfig,
    "launch": LaunchConfig,
}
_AT_LEAST_ONE = ("steps", "log_every", "keep", "eval_batches", "image_side", "peer_timeout")
_NOT_NEGATIVE = (
    "checkpoint_every", "upload_every", "eval_every", "early_stop", "batch", "micro_batch", "context",
    "workers", "warmup", "clip", "grace", "nproc", "max_restarts", "weight_decay",
    "guard_patience", "spike",
)  # fmt: skip


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, with the flag that was probably meant."""

    def error(self, message: str) -> NoReturn:
        _, found, unknown = message.partition("unrecognized arguments: ")
        if found:
            word = unknown.split()[0].split("=")[0]
            near = difflib.get_close_matches(word, self._option_string_actions, 1)
            message = f"{word} is no flag" + (f"; did you mean {near[0]}?" if near else "; see --help")
        raise UsageError(message.removeprefix("argument "))


def parse(argv: Sequence[str] | None = None) -> Config:
    """Flags to settings.

    Raises:
        UsageError: for an unknown flag or a value that can't be used.
    """
    parser = _Parser("python -m trainer.task", description="Train a model.", allow_abbrev=False)
    top = [item for item in fields(Config) if item.name not in SECTIONS]
    _add(parser.add_argument_group("run"), top)
    for name, section in SECTIONS.items():
        _add(parser.add_argument_group(name, (section.__doc__ or "").splitlines()[0]), fields(section))
    given = vars(parser.parse_args(argv))
    _check(given)
    parts = {n: s(**{f.name: given[f.name] for f in fields(s)}) for n, s in SECTIONS.items()}
    return _complete(Config(**{f.name: given[f.name] for f in top}, **parts))


def _add(group: Any, items: Sequence[Any]) -> None:
    for item in items:
        name, default = "--" + item.name.replace("_", "-"), item.default
        if isinstance(default, bool):
            group.add_argument(name, action="store_true", help=item.metadata["help"])
        else:
            group.add_argument(name, type=type(default), default=default, **dict(item.metadata))


def _check(given: dict[str, Any]) -> None:
    for name in (*_AT_LEAST_ONE, *_NOT_NEGATIVE):
        least = 1 if name in _AT_LEAST_ONE else 0
        if given[name] < least:
            raise UsageError(f"--{name.replace('_', '-')} must be at least {least}, not {given[name]}")
    if not 0 <= given["dropout"] < 1:
        raise UsageError(f"--dropout must be in [0, 1), not {given['dropout']}")
    zero = given["strategy"].startswith("zero")
    for name, default in (("offload", "none"), ("deepspeed_config", "")):
        if given[name] != default and not zero:
            raise UsageError(
                f"--{name.replace('_', '-')} needs --strategy zero1, zero2 or zero3, not {given['strategy']}"
            )
    if given["spike"] and given["guard"] == "off":
        raise UsageError(f"--spike {given['spike']:g} needs --guard skip or rollback, not off")
    every, upload = given["checkpoint_every"], given["upload_every"]
    if upload and every and upload % every:
        raise UsageError(
            f"--upload-every {upload} is no multiple of --checkpoint-every {every}: only what was saved "
            f"can be uploaded; use {max(1, round(upload / every)) * every}"
        )
    _check_json(given["deepspeed_config"])


def _check_json(name: str) -> None:
    if not name:
        return
    try:
        found = json.loads(Path(name).read_text())
    except OSError as error:
        raise UsageError(f"--deepspeed-config {name}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"--deepspeed-config {name} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"--deepspeed-config {name} is not a JSON object")


def _complete(config: Config) -> Config:
    """Zeros that mean 'the usual' replaced by it."""
    preset, data, saving = PRESETS[config.model.preset], config.data, config.checkpoint
    # The sources that come with every Python; images and questions are drawn where none are given.
    usual = "" if config.model.model == "arr-coc" else str(Path(sysconfig.get_paths()["stdlib"]))
    return replace(
        config,
        model=replace(config.model, context=config.model.context or preset["context"]),
        data=replace(
            data,
            data=data.data or usual,
            batch=data.batch or preset["batch"],
            micro_batch=data.micro_batch or preset["micro_batch"],
        ),
        checkpoint=replace(saving, upload_every=saving.upload_every or 2 * saving.checkpoint_every),
    )


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """How a global batch is shared out: `accumulate` times `micro` sequences on each of `world` processes."""

    batch: int
    micro: int
    accumulate: int
    world: int

    @classmethod
    def of(cls, batch: int, most: int, world: int) -> BatchPlan:
        """The largest micro-batch that `most` allows.

        Raises:
            UsageError: when the processes can't have the same number of sequences.
        """
        if batch % world:
            low = batch // world * world
            near = f"{low} or {low + world}" if low else str(world)
            raise UsageError(f"--batch {batch} can't be shared out over {world} processes; use {near}")
        share = batch // world
        micro = next(n for n in range(min(share, most), 0, -1) if share % n == 0)
        return cls(batch, micro, share // micro, world)
