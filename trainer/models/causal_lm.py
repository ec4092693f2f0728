"""Any causal language model of Hugging Face, with its weights or random ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from trainer.cloud_paths import local_path
from trainer.errors import UsageError

IGNORED = -100
"""Target that the loss ignores."""


class CausalLM(nn.Module):
    """Tokens int64 [B, T] and targets [B, T] to the mean cross-entropy in nats (a scalar).

    The target of each position is the token after it; the loss skips `IGNORED`.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(input_ids=tokens, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED)

    @property
    def vocabulary(self) -> int:
        """Size of the vocabulary."""
        return int(self.model.get_input_embeddings().num_embeddings)

    @property
    def context(self) -> int | None:
        """Max tokens of a sequence; None if the model has no limit."""
        limit = getattr(self.model.config, "max_position_embeddings", None)
        return int(limit) if limit else None

    def blocks(self) -> Sequence[nn.Module]:
        """The repeated layers: the longest list of modules of one class."""
        lists = [list(module) for module in self.model.modules() if isinstance(module, nn.ModuleList)]
        uniform = [modules for modules in lists if len({type(module) for module in modules}) == 1]
        return max(uniform, key=len, default=[])


def load_model(where: str, dtype: torch.dtype) -> CausalLM:
    """The model of a folder or name, or of a `config.json` (random weights of that size).

    Raises:
        UsageError: if there is no such model, or it is no causal language model.
    """
    from transformers import AutoModelForCausalLM  # noqa: PLC0415 - imports for seconds

    try:
        if where.endswith(".json"):
            model = AutoModelForCausalLM.from_config(load_config(where), dtype=dtype)
        else:
            model = AutoModelForCausalLM.from_pretrained(model_location(where), dtype=dtype)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(f"--weights {where}: no causal language model can be loaded: {reason}") from error
    return CausalLM(model)


def load_config(where: str) -> Any:
    """The configuration of a model. Raises OSError, ValueError or KeyError as transformers does."""
    from transformers import AutoConfig  # noqa: PLC0415

    return AutoConfig.from_pretrained(model_location(where))


def model_location(where: str) -> str:
    """The path of a folder or file if it exists, else the name."""
    path = local_path(where).expanduser()
    return str(path) if path.exists() else where
