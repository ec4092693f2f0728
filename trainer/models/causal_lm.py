"""Any causal language model of Hugging Face's, with its own weights or random ones of its size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from trainer.config import UsageError
from trainer.paths import local_path

NOT_SCORED = -100


class CausalLM(nn.Module):
    """Tokens int64 [B, T] and targets [B, T] to the mean cross-entropy in nats (a scalar).

    Targets are those of each place, not shifted; `NOT_SCORED` is left out.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(input_ids=tokens, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=NOT_SCORED)

    @property
    def vocabulary(self) -> int:
        """How many tokens the model knows."""
        return int(self.model.get_input_embeddings().num_embeddings)

    @property
    def context(self) -> int | None:
        """Most tokens of a sequence, where the model says so."""
        found = getattr(self.model.config, "max_position_embeddings", None)
        return int(found) if found else None

    def blocks(self) -> Sequence[nn.Module]:
        """The repeated layers: the longest list of modules of one class."""
        lists = [list(part) for part in self.model.modules() if isinstance(part, nn.ModuleList)]
        alike = [part for part in lists if len({type(one) for one in part}) == 1]
        return max(alike, key=len, default=[])


def load(where: str, dtype: torch.dtype) -> CausalLM:
    """The model of a folder or name, or of a `config.json` alone (random weights of that size).

    Raises:
        UsageError: when there is no such model, or it is no causal language model.
    """
    from transformers import AutoModelForCausalLM  # noqa: PLC0415 - seconds, and only here

    try:
        if where.endswith(".json"):
            found = AutoModelForCausalLM.from_config(config_of(where), dtype=dtype)
        else:
            found = AutoModelForCausalLM.from_pretrained(place_of_model(where), dtype=dtype)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(f"--weights {where}: no causal language model can be loaded: {reason}") from error
    return CausalLM(found)


def config_of(where: str) -> Any:
    """The settings of a model. Raises OSError, ValueError or KeyError as its library does."""
    from transformers import AutoConfig  # noqa: PLC0415

    return AutoConfig.from_pretrained(place_of_model(where))


def place_of_model(where: str) -> str:
    """The folder or file where there is one, else the name as it is."""
    path = local_path(where).expanduser()
    return str(path) if path.exists() else where
