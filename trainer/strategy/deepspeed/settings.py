"""DeepSpeed's settings: the trainer's own, and the settings of `--deepspeed-config`.

Each setting of the file has its effect or is refused by its key. DeepSpeed itself ignores unknown top-level
keys, and keys that our flags, optimizer or checkpoints replace.
"""

from __future__ import annotations

import difflib
import importlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import torch

from trainer.config import Config
from trainer.distributed.batch_plan import BatchPlan
from trainer.errors import UsageError

CONVERTIBLE = ("adamw", "adam")
"""Optimizers whose state DeepSpeed can convert to another number of processes."""
_SUPPORTED = (
    "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping",
    "zero_optimization", "bf16", "fp16", "data_types", "communication_data_type", "prescale_gradients",
    "gradient_predivide_factor", "disable_allgather", "disable_python_gc", "zero_allow_untested_optimizer",
    "timers", "steps_per_print", "log_level",
)  # fmt: skip
"""Top-level keys that the engine uses when our loop drives it. The last two concern its log, which is not
shown."""
_BATCH_SIZES = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_OWN_LOOP = "is not used here: the trainer has its own loop"
_REFUSED = {
    "optimizer": "is set by --learning-rate and other flags",
    "scheduler": "is set by --warmup and --steps",
    "bfloat16": "is an old name of bf16",
    "torch_autocast": "is set by --precision",
    "data_types.param_dtype": "is set by --precision",
    "bf16.bf16_optimizer_states": "would need a compiled optimizer, but the trainer uses torch's",
    "fp16.fp16_master_weights_and_grads": "would need a compiled optimizer, but the trainer uses torch's",
    "zero_force_ds_cpu_optimizer": "would need a compiled optimizer, but the trainer uses torch's",
    "gradient_allreduce_op": "must be mean: the weights of the losses rely on it",
    "managed_gradient_accumulation": "must be true: the training loop relies on it",
    "activation_checkpointing": "is set by --activation-checkpointing on",
    "compile": "is set by --compile",
    "checkpoint.writer": "would be a second writer",
    "checkpoint": "is set by --checkpoint-dir and other flags",
    "datastates_ckpt": "would be a second writer of checkpoints",
    "zero_optimization.zenflow": "would step the optimizer at other times than the training loop",
    "zero_optimization.elastic_checkpoint": "would write checkpoints in a form that can't be converted",
    "zero_optimization.cpu_offload": "is set by --offload",
    "zero_optimization.cpu_offload_param": "is set by --offload",
    "zero_optimization.cpu_offload_use_pin_memory": "is an old name of pin_memory in offload_optimizer",
    "aio": "is for NVMe, which --offload does not use",
    "wall_clock_breakdown": "writes log lines that are not shown: use --profile-steps",
    "memory_breakdown": "writes log lines that are not shown: use --profile-steps",
    "dump_state": "writes log lines that are not shown: use --print-config",
    "flops_profiler": "writes text among the log's JSON: use --profile-steps",
    "comms_logger": "writes log lines that are not shown: use --profile-steps",
    "tensorboard": "is set by --tensorboard-dir",
    "csv_monitor": f"{_OWN_LOOP} metrics",
    "wandb": f"{_OWN_LOOP} metrics",
    "comet": f"{_OWN_LOOP} metrics",
    "dataloader_drop_last": f"{_OWN_LOOP} data loader",
    "data_efficiency": f"{_OWN_LOOP} data loader",
    "vocabulary_size": "has no effect",
    "autotuning": "needs DeepSpeed's launcher",
    "hybrid_engine": "is for inference",
    "weight_quantization": "is for inference",
    "pipeline": "needs DeepSpeed's pipeline modules",
    "tensor_parallel": "is not supported",
    "expert_parallel": "is not supported",
    "use_data_before_expert_parallelism": "is not supported",
    "sequence_parallel_size": "is not supported",
    "seq_parallel_communication_data_type": "is not supported",
}
"""Why a key is refused: it has no effect or a wrong effect. Disabled blocks are left out instead."""
_ACCEPTED_VALUES = {"gradient_allreduce_op": "mean", "managed_gradient_accumulation": True}
"""Required values of keys that the trainer relies on."""
_BLOCKS = {
    "zero_optimization": "deepspeed.runtime.zero.config:DeepSpeedZeroConfig",
    "bf16": "deepspeed.runtime.precision_config:DeepSpeedBF16Config",
    "fp16": "deepspeed.runtime.precision_config:DeepSpeedFP16Config",
}
"""DeepSpeed's own models of these settings."""
_DATA_TYPES = ("grad_accum_dtype", "param_dtype", "buffer_dtype", "keep_in_fp32_modules")


def engine_settings(config: Config, plan: BatchPlan, dtype: torch.dtype, stage: int) -> dict[str, Any]:
    """Return the engine's settings: ours, overridden by `--deepspeed-config`. DeepSpeed must be imported.

    Raises:
        UsageError: if a key of the file contradicts a flag, or has no effect here; the message names the key.
    """
    ours = _ours(config, plan, dtype, stage)
    name = config.parallel.deepspeed_config
    if not name:
        return ours
    try:
        file_settings = json.loads(Path(name).read_text(), object_pairs_hook=_without_duplicates)
        effective = _effective(file_settings)
        problem = next(_problems(list(file_settings), effective, ours, _flags(config, plan)), None)
    except (OSError, ValueError) as error:
        raise UsageError(f"--deepspeed-config {name}: {error}") from error
    if problem:
        raise UsageError(f"--deepspeed-config {name}: {problem}")
    for key in _BATCH_SIZES:
        # Our values count every micro-batch as the largest one.
        effective.pop(key, None)
    return _merged(ours, effective)


def _ours(config: Config, plan: BatchPlan, dtype: torch.dtype, stage: int) -> dict[str, Any]:
    offload = config.parallel.offload
    zero: dict[str, Any] = {"stage": stage, "contiguous_gradients": True, "overlap_comm": stage > 1}
    if offload != "none":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": False}
    if offload == "all":
        if stage != 3:
            raise UsageError(
                f"--offload all needs --strategy zero3: zero{stage} keeps all weights on the device"
            )
        zero["offload_param"] = {"device": "cpu", "pin_memory": False}
    return {
        # DeepSpeed checks that the first is the product of the others and of the number of processes.
        "train_batch_size": plan.micro_batch * plan.accumulation_steps * plan.world_size,
        "train_micro_batch_size_per_gpu": plan.micro_batch,
        "gradient_accumulation_steps": plan.accumulation_steps,
        "gradient_clipping": config.optimizer.clip,
        "zero_optimization": zero,
        "bf16": {"enabled": dtype is torch.bfloat16},
        "fp16": {"enabled": dtype is torch.float16},
        # Optimizers with a state per weight, which remains valid in DeepSpeed's flat partitions.
        "zero_allow_untested_optimizer": config.optimizer.optimizer not in CONVERTIBLE,
        # With offload DeepSpeed would require its own Adam, which must be compiled.
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 2**31,
        # DeepSpeed would wait for the GPU in each pass, for a value that is not shown.
        "timers": {"throughput": {"enabled": False}},
    }


def _flags(config: Config, plan: BatchPlan) -> dict[str, tuple[str, Any]]:
    """Return the flag that sets a key, and its value, or `None` for the value in the trainer's settings."""
    offload, precision = f"--offload {config.parallel.offload}", f"--precision {config.parallel.precision}"
    split = "--batch and --micro-batch"
    return {
        "train_batch_size": ("--batch", plan.batch),
        "train_micro_batch_size_per_gpu": (split, plan.micro_batch),
        "gradient_accumulation_steps": (split, plan.accumulation_steps),
        "gradient_clipping": ("--clip", None),
        "zero_optimization.stage": (f"--strategy {config.parallel.strategy}", None),
        "zero_optimization.offload_optimizer.device": (offload, None),
        "zero_optimization.offload_param.device": (offload, None),
        "bf16.enabled": (precision, None),
        "fp16.enabled": (precision, None),
    }


def _problems(
    keys: list[str], settings: dict[str, Any], ours: dict[str, Any], flags: dict[str, tuple[str, Any]]
) -> Iterator[str]:
    known = {*_SUPPORTED, *(key for key in _REFUSED if "." not in key)}
    for key in keys:
        if key not in known:
            yield f"{key} must be a DeepSpeed setting{_did_you_mean(key, known)}"
    for key in (*_BLOCKS, "data_types"):
        if not isinstance(settings.get(key, {}), dict):
            yield f"{key} must be an object, not {json.dumps(settings[key])}"
    for key, reason in _REFUSED.items():
        if _at(settings, key) is not None:
            yield f"{key} {reason}; remove it from the file"
    for key, (flag, value) in flags.items():
        own, file_value = _at(ours, key) if value is None else value, _at(settings, key)
        own = "none" if own is None else own
        if file_value is not None and file_value != own:
            yield (
                f"{key} is set by {flag} to {json.dumps(own)}, not {json.dumps(file_value)}: change the "
                "flag, or remove the key from the file"
            )
    for key in settings.get("data_types", {}):
        if key not in _DATA_TYPES:
            yield f"data_types.{key} must be a DeepSpeed setting{_did_you_mean(key, _DATA_TYPES)}"
    for name, target in _BLOCKS.items():
        yield from _block_problems(name, _merged(ours, settings)[name], target)


def _block_problems(name: str, block: dict[str, Any], target: str) -> Iterator[str]:
    """Yield the problems that DeepSpeed's own model finds in a block: unknown keys and wrong values."""
    from pydantic import ValidationError

    module, _, model = target.partition(":")
    settings = getattr(importlib.import_module(module), model)
    try:
        settings(**block)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join((name, *map(str, first["loc"])))
        if first["type"] == "extra_forbidden":
            near = _did_you_mean(str(first["loc"][-1]), _names(settings))
            yield f"{where} must be a DeepSpeed setting{near}"
        else:
            yield f"{where}: {first['msg']}"


def _names(model: Any) -> set[str]:
    """Return the names of the settings of a DeepSpeed model, and of the models in it."""
    names = set()
    for field, info in model.model_fields.items():
        names |= {field, info.alias or field}
        for part in (info.annotation, *get_args(info.annotation)):
            if hasattr(part, "model_fields"):
                names |= _names(part)
    return names


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, sorted(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the settings as a dict. Raises ValueError for a duplicate key, which JSON's reader would
    drop."""
    settings = dict(pairs)
    if len(settings) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} appears twice")
    return settings


def _effective(settings: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Return the settings without those that have no effect: values `auto`, and refused keys that are
    disabled or harmless."""
    effective = {}
    for name, value in settings.items():
        key = f"{above}{name}"
        if value == "auto" or (key in _REFUSED and (_is_off(value) or value == _ACCEPTED_VALUES.get(key))):
            continue
        effective[name] = _effective(value, f"{key}.") if isinstance(value, dict) else value
    return effective


def _is_off(value: Any) -> bool:
    return value in (None, False) or (isinstance(value, dict) and value.get("enabled") is False)


def _at(settings: dict[str, Any], key: str) -> Any:
    """Return the value of a dotted key, or None if there is none."""
    value: Any = settings
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
