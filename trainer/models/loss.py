"""The loss of a micro-batch: the mean over its targets."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from trainer.data.loader import IGNORED


def mean_cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy in nats of logits [N, V] over the targets [N] that are not `IGNORED`, a
    scalar. Without a target the loss and all gradients are 0; torch's own mean would be NaN."""
    total = F.cross_entropy(logits.float(), targets, ignore_index=IGNORED, reduction="sum")
    return total / (targets != IGNORED).sum().clamp(min=1)
