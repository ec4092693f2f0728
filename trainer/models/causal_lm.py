"""Causal language Hugging Face models, with pretrained or random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from trainer.cloud_paths import local_path
from trainer.errors import UsageError
from trainer.models.logits_of import logits_of
from trainer.models.loss import mean_cross_entropy
from trainer.models.loss_head import LossHead
from trainer.weights.hugging_face import DeferredModel

_DROPOUT = (
    "dropout", "attention_dropout", "hidden_dropout", "activation_dropout", "embedding_dropout",
    "residual_dropout", "attn_dropout", "resid_dropout", "embed_dropout", "mlp_dropout", "dropout_rate",
    "attn_pdrop", "resid_pdrop", "embd_pdrop", "emb_pdrop", "hidden_dropout_prob",
    "attention_probs_dropout_prob",
)  # fmt: skip
"""Names of dropout rates in decoders' configurations, without the rates of a classifier's head."""


_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
"""Names of the number of experts in the configuration of a mixture."""


GENERATION = "generation_config.json"


class CausalLM(nn.Module):
    """Maps tokens int64 [B, T] and targets [B, T] to the mean cross-entropy in nats (a scalar). The target of
    each position is the next token; the loss skips `IGNORED`."""

    def __init__(self, model: Any, logits_memory: float = 0.0) -> None:
        super().__init__()
        self.model, known = model, logits_of(model) if logits_memory else None
        self.chunked = known is not None
        if known is not None:
            model.lm_head = LossHead.of(model.lm_head, logits_memory, known)

    def forward(
        self, tokens: torch.Tensor, targets: torch.Tensor, positions: torch.Tensor | None = None
    ) -> torch.Tensor:
        # Where positions restart, transformers lets no token attend to earlier documents.
        if self.chunked:
            body = self.model.base_model(input_ids=tokens, position_ids=positions, use_cache=False)
            loss: torch.Tensor = self.model.lm_head(body.last_hidden_state, targets)
            return loss
        output = self.model(input_ids=tokens, position_ids=positions, use_cache=False)
        logits: torch.Tensor = output.logits
        return mean_cross_entropy(logits.flatten(0, 1), targets.flatten())

    @property
    def vocabulary(self) -> int:
        """Size of the vocabulary."""
        return int(self.model.get_input_embeddings().num_embeddings)

    @property
    def context(self) -> int | None:
        """Maximum number of tokens in a sequence; None if there is no limit."""
        limit = getattr(self.model.config, "max_position_embeddings", None)
        return int(limit) if limit else None

    def flops_per_token(self, context: int) -> float:
        """Return the operations of a forward and backward pass per token: a token uses only some experts of a
        mixture, and attends to `context` tokens."""
        config = self.model.config.get_text_config(decoder=True)
        experts = next((n for name in _EXPERTS if (n := getattr(config, name, None))), 1)
        share = min(1.0, (getattr(config, "num_experts_per_tok", None) or experts) / experts)
        weights = trained = 0.0
        for name, weight in self.named_parameters():
            used = weight.numel() * (share if ".experts." in name else 1.0)
            weights += used
            # A frozen weight has no gradient.
            trained += used if weight.requires_grad else 0.0
        heads = getattr(config, "num_attention_heads", 0)
        width = heads * (getattr(config, "head_dim", None) or config.hidden_size // max(1, heads))
        attention = 12.0 * int(config.num_hidden_layers) * int(width) * context
        return 4.0 * weights + 2.0 * trained + attention

    def blocks(self) -> Sequence[nn.Module]:
        """Return the repeated layers: the longest list of modules of one class."""
        lists = [list(module) for module in self.model.modules() if isinstance(module, nn.ModuleList)]
        uniform = [modules for modules in lists if len({type(module) for module in modules}) == 1]
        return max(uniform, key=len, default=[])


def load_model(
    where: str,
    dtype: torch.dtype,
    dropout: float = 0.0,
    logits_memory: float = 0.0,
    deferred: DeferredModel | None = None,
) -> CausalLM:
    """Load the model of a folder or name, or build the model of a `config.json` with random weights.

    `dropout` replaces every dropout rate of the configuration. `logits_memory` is passed to `LossHead`. With
    `deferred`, the weights are on the meta device and `deferred` becomes their source, unless they can't be
    read part by part.

    Raises:
        UsageError: if the model does not exist, is not a causal language model, or has no dropout to set.
    """
    from transformers import AutoModelForCausalLM  # noqa: PLC0415 - imports for seconds

    try:
        config = load_config(where)
        _set_dropout(config, dropout, where)
        path, random = model_location(where), where.endswith(".json")

        def empty() -> Any:
            return AutoModelForCausalLM.from_config(config, dtype=dtype)

        model = deferred.build(empty, "" if random else path) if deferred is not None else None
        if model is None and random:
            model = empty()
        elif model is None:
            model = AutoModelForCausalLM.from_pretrained(path, config=config, dtype=dtype)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(f"--weights {where}: no causal language model can be loaded: {reason}") from error
    return CausalLM(model, logits_memory)


def _set_dropout(config: Any, rate: float, where: str) -> None:
    """Set all dropout rates. Raises UsageError if the configuration has none for a rate above 0."""
    parts = (config, config.get_text_config(decoder=True))
    rates = [(part, name) for part in parts for name in _DROPOUT if _is_rate(getattr(part, name, None))]
    if rate and not rates:
        raise UsageError(
            f"--dropout {rate:g}: the configuration of {where} has no dropout ({config.model_type}); "
            "remove --dropout"
        )
    for part, name in rates:
        setattr(part, name, rate)


def _is_rate(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def load_config(where: str) -> Any:
    """Return the configuration of a model. Raises transformers' OSError, ValueError or KeyError."""
    from transformers import AutoConfig  # noqa: PLC0415

    return AutoConfig.from_pretrained(model_location(where))


def generation_file(where: str) -> str | None:
    """Return the file with the settings with which a model generates text, or None if it has none."""
    from transformers.utils import cached_file  # noqa: PLC0415

    try:
        return None if where.endswith(".json") else cached_file(model_location(where), GENERATION)
    except OSError:
        return None


def model_location(where: str) -> str:
    """Return the path of a folder or file if it exists, else the name."""
    path = local_path(where)
    return str(path) if path.exists() else where
