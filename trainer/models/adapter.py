"""LoRA adapters as files: a folder that `peft.PeftModel.from_pretrained` loads.

The folder has `adapter_config.json` and `adapter_model.safetensors`. A weight's name is `base_model.model.`,
the path of the layer in the base model, and `.lora_A.weight` [rank, inputs] or `.lora_B.weight` [outputs,
rank] (peft 0.21: `utils/save_and_load.py:get_peft_model_state_dict`, `tuners/lora/config.py:LoraConfig`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from trainer.models.lora import ALL_LINEAR, updates

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."


def adapter_weights(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the updates among the weights of a model, by peft's names."""
    return {f"{_PREFIX}{name}": tensor.contiguous() for name, tensor in updates(weights).items()}


def adapter_config(
    base: str, adapter: Mapping[str, torch.Tensor], *, targets: Sequence[str], alpha: float, dropout: float
) -> dict[str, Any]:
    """Return the description of an adapter of the model `base`, a folder or a name, for a causal language
    model. Omitted values default to those of peft. `targets` are the target layers of the run."""
    targets = _last_names(adapter) if ALL_LINEAR in targets else list(targets)
    first = next(tensor for name, tensor in adapter.items() if name.endswith(".lora_A.weight"))
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "revision": None,
        "inference_mode": True,
        "r": len(first),
        "lora_alpha": int(alpha) if alpha == int(alpha) else alpha,
        "lora_dropout": dropout,
        "target_modules": targets,
        "bias": "none",
        "fan_in_fan_out": False,
        "init_lora_weights": True,
        "use_rslora": False,
        "use_dora": False,
        "modules_to_save": None,
        "layers_to_transform": None,
        "layers_pattern": None,
        "rank_pattern": {},
        "alpha_pattern": {},
    }


def _last_names(adapter: Iterable[str]) -> list[str]:
    """Return the last parts of the paths of an adapter's layers; peft updates all layers with these names."""
    paths = {name.removeprefix(_PREFIX).rpartition(".lora_")[0] for name in adapter}
    return sorted({path.rpartition(".")[2] for path in paths})
