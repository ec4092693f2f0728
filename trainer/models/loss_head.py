"""The output layer of a language model combined with its loss, without the logits of all tokens in memory.

A large vocabulary makes the logits the largest tensor of a model: 8,192 tokens × 128,000 words are 4 GiB in
float32. Their softmax and its gradient need the same amount again. `LossHead` scores one chunk of tokens at a
time. The forward pass also computes the gradients with respect to the hidden states and the weight. The
gradients are linear in the gradient of the loss, so the backward pass only scales them. Therefore, nothing is
computed twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from trainer.data.loader import IGNORED
from trainer.models.logits_of import LogitsOf
from trainer.models.loss import mean_cross_entropy

_MIB = 2**20
_FLOAT = 4


class LossHead(nn.Linear):
    """Maps hidden states [..., D] and targets [...] to their mean cross-entropy; without targets to logits.

    `logits_memory` limits the logits that the loss holds at once, in MiB of float32; 0 means no limit.
    `of_layer` applies only in the loss: without targets the result is the layer's output.
    """

    logits_memory, of_layer = 0.0, LogitsOf()

    @classmethod
    def of(cls, layer: nn.Linear, logits_memory: float, of_layer: LogitsOf = of_layer) -> LossHead:
        """Create a head with the weights of another layer, which may be tied to an embedding."""
        with torch.device("meta"):
            head = cls(layer.in_features, layer.out_features, bias=layer.bias is not None)
        head.weight, head.bias = layer.weight, layer.bias
        head.logits_memory, head.of_layer = logits_memory, of_layer
        return head

    def forward(self, hidden: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        if targets is None:
            return super().forward(hidden)
        hidden, targets = hidden.flatten(0, -2), targets.flatten()
        rows = (
            max(1, int(self.logits_memory * _MIB / _FLOAT / self.out_features)) if self.logits_memory else 0
        )
        if not rows or len(hidden) <= rows:
            return mean_cross_entropy(_processed(super().forward(hidden).float(), self.of_layer), targets)
        kind = hidden.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
        total: torch.Tensor = _ChunkedCrossEntropy.apply(
            hidden,
            self.weight,
            self.bias,
            targets,
            _Settings(rows, dtype, self.of_layer, torch.is_grad_enabled()),
        )
        return total / (targets != IGNORED).sum().clamp(min=1)


@dataclass(frozen=True, slots=True)
class _Settings:
    """The number of tokens in a chunk, and the type of its matrix products."""

    rows: int
    dtype: torch.dtype
    of_layer: LogitsOf
    with_gradients: bool


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Sum of the losses, a scalar, of hidden [N, D], weight [V, D], bias [V] or None and targets [N]."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes no keywords
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        targets: torch.Tensor,
        settings: _Settings,
    ) -> torch.Tensor:
        rows, dtype, of_layer = settings.rows, settings.dtype, settings.of_layer
        wants = [settings.with_gradients and needed for needed in ctx.needs_input_grad[:3]]
        low, low_bias = weight.to(dtype), None if bias is None else bias.to(dtype)
        total = hidden.new_zeros((), dtype=torch.float32)
        gradients = [
            torch.empty_like(hidden) if wants[0] else None,
            # Sum over the chunks in full precision, as one product over all tokens would.
            torch.zeros_like(weight, dtype=torch.float32) if wants[1] else None,
            torch.zeros_like(bias, dtype=torch.float32) if bias is not None and wants[2] else None,
        ]
        for start in range(0, len(hidden), rows):
            part, chunk_targets = hidden[start : start + rows].to(dtype), targets[start : start + rows]
            logits = _processed(F.linear(part, low, low_bias).float(), of_layer)
            total += F.cross_entropy(logits, chunk_targets, ignore_index=IGNORED, reduction="sum")
            if not any(wants):
                continue
            of_logits = _gradient(logits, chunk_targets, of_layer).to(dtype)
            if gradients[0] is not None:
                gradients[0][start : start + rows] = of_logits @ low
            if gradients[1] is not None:
                gradients[1] += of_logits.t() @ part
            if gradients[2] is not None:
                gradients[2] += of_logits.sum(0, dtype=torch.float32)
        ctx.save_for_backward(*gradients)
        ctx.dtypes = hidden.dtype, weight.dtype, weight.dtype if bias is None else bias.dtype
        return total

    @staticmethod
    def backward(ctx: Any, scale: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        gradients = [
            None if gradient is None else (gradient * scale).to(dtype)
            for gradient, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        ]
        return (*gradients, None, None)


def _processed(logits: torch.Tensor, of_layer: LogitsOf) -> torch.Tensor:
    """Return the model's logits [N, V], computed from the output of its output layer."""
    if of_layer.scale != 1.0:
        logits = logits * of_layer.scale
    return logits if not of_layer.cap else (logits / of_layer.cap).tanh() * of_layer.cap


def _gradient(logits: torch.Tensor, targets: torch.Tensor, of_layer: LogitsOf) -> torch.Tensor:
    """Return the gradient of the summed loss with respect to the layer's output [N, V], in the memory of
    `logits`."""
    # For a capped logit y the factor is 1 - (y / cap)².
    slope = 1.0 - (logits / of_layer.cap).square_() if of_layer.cap else None
    known = (targets != IGNORED)[:, None]
    softmax = logits.sub_(logits.logsumexp(1, keepdim=True)).exp_()
    softmax.scatter_add_(1, targets.clamp(min=0)[:, None], -torch.ones_like(known, dtype=softmax.dtype))
    gradient = softmax.mul_(known)
    if slope is not None:
        gradient.mul_(slope)
    return gradient if of_layer.scale == 1.0 else gradient.mul_(of_layer.scale)
