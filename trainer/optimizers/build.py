"""torch's optimizers by the names of `--optimizer`, and the groups of weights with weight decay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from trainer.config import Config, OptimizerConfig, names_in
from trainer.models.loss_head import LossHead
from trainer.optimizers.muon import Muon

Groups = list[dict[str, Any]]


def parameter_groups(model: nn.Module, config: OptimizerConfig) -> Groups:
    """Return the groups of the trainable weights for torch's optimizers, with `names` beside `params`.

    With `--optimizer muon` the `muon` of a group is true for matrices between hidden states, as Muon's
    authors recommend: neither an embedding nor an output layer.
    """
    without = set(names_in(config.no_decay))
    embeddings = {id(weight) for weight in _embeddings(model)}
    outputs = embeddings | {id(weight) for weight in _output_weights(model)}
    groups: dict[tuple[bool, bool], dict[str, Any]] = {}
    for name, weight in model.named_parameters():
        if not weight.requires_grad:
            continue
        kind = _kind(name, weight, id(weight) in embeddings)
        muon = config.optimizer == "muon" and _dimensions(weight) == 2 and id(weight) not in outputs
        decay = config.weight_decay if kind not in without else 0.0
        new = {"params": [], "names": [], "weight_decay": decay, "muon": muon}
        group = groups.setdefault((kind in without, muon), new)
        group["params"].append(weight)
        group["names"].append(name)
    return [groups[key] for key in sorted(groups)]


def _kind(name: str, weight: torch.Tensor, embedding: bool) -> str:
    """Return the `--no-decay` kind of a weight."""
    if embedding:
        return "embeddings"
    if name.rpartition(".")[2].endswith("bias"):
        return "biases"
    return "norms" if _dimensions(weight) < 2 else "matrices"


def _dimensions(weight: torch.Tensor) -> int:
    """Return the number of dimensions of the complete weight: ZeRO-3's partition of it is flat."""
    return len(getattr(weight, "ds_shape", weight.shape))


def _embeddings(model: nn.Module) -> Iterator[torch.Tensor]:
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            yield module.weight


def _output_weights(model: nn.Module) -> Iterator[torch.Tensor]:
    for name, module in model.named_modules():
        named = name.rpartition(".")[2] in ("lm_head", "head", "embed_out")
        if isinstance(module, LossHead) or (named and isinstance(module, nn.Linear)):
            yield module.weight


def make_optimizers(groups: Groups, config: OptimizerConfig) -> list[torch.optim.Optimizer]:
    """Return the optimizers of these groups: one, and for Muon a second one for the remaining weights. Fused
    kernels of torch are used if available, because they clip and skip without waiting for the GPU."""
    kept = [{k: v for k, v in group.items() if k in ("params", "names", "weight_decay")} for group in groups]
    if config.optimizer != "muon":
        return [_optimizer(config.optimizer, kept, config)]
    muon = [group for group, original in zip(kept, groups, strict=True) if original["muon"]]
    other = [group for group, original in zip(kept, groups, strict=True) if not original["muon"]]
    optimizers: list[torch.optim.Optimizer] = []
    if muon:
        optimizers.append(Muon(muon, lr=config.learning_rate, momentum=config.momentum))
    return [*optimizers, _optimizer("adamw", other, config)] if other else optimizers


def _optimizer(name: str, groups: Groups, config: OptimizerConfig) -> torch.optim.Optimizer:
    rate, betas = config.learning_rate, (config.beta1, config.beta2)
    if name == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=config.momentum, fused=True)
    if name == "adafactor":
        return torch.optim.Adafactor(groups, lr=rate)
    kind = torch.optim.AdamW if name == "adamw" else torch.optim.Adam
    return kind(groups, lr=rate, betas=betas, eps=config.eps, fused=True)


def make_optimizer(model: nn.Module, config: Config) -> torch.optim.Optimizer:
    """Create one optimizer for all trainable weights, for DeepSpeed."""
    (optimizer,) = make_optimizers(parameter_groups(model, config.optimizer), config.optimizer)
    for group in optimizer.param_groups:
        # DeepSpeed replaces the weights of a group by one flat tensor.
        group.pop("names")
    return optimizer
