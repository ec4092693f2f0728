"""Three relevance scorers, the balance that weights them, and the quality that scales the selected tokens.

Each scorer has trained parameters: without them the two scorers that see only the image could not adapt to
the questions.

All of them compute in float32, whatever --precision is: a threshold on the scores selects the tokens, and
bf16 rounds a score below 1 by up to 1/512. The maps are small, so bf16 would save little. The inputs are
float32, but the weights may not be: DeepSpeed and FSDP convert the weights for the forward pass to
--precision, and keep a float32 copy for the optimizer. Therefore, each layer converts its weights when it
uses them. To exclude these few weights from the conversion instead, FSDP would need one more collective call
per pass, and DeepSpeed 0.19.8 can exclude only buffers.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from trainer.models.arr_coc.texture import CHANNELS, EDGES, min_max

_HIDDEN = 64
_BALANCE = 128


class Linear32(nn.Linear):
    """A linear layer that computes in float32 with weights of any type."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.linear(input, self.weight.float(), self.bias.float())


class PerCell(nn.Conv2d):
    """One linear map for all cells, [B, C, H, W] to [B, D, H, W], in float32."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__(channels, width, 1)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        assert self.bias is not None
        return F.conv2d(input, self.weight.float(), self.bias.float())


class Propositional(nn.Module):
    """Propositional knowing: the information in each cell, as the entropy of the channels. The module maps
    texture [B, 13, 32, 32] to a map [B, 32, 32] in 0..1. The weight of each channel is trained, and its
    initial value is 1."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(len(CHANNELS)))

    def forward(self, texture: torch.Tensor) -> torch.Tensor:
        logs = F.log_softmax(texture * self.weight.float()[:, None, None], 1)
        return min_max(-(logs.exp() * logs).sum(1) / math.log(len(CHANNELS)))


class Perspectival(nn.Module):
    """Perspectival knowing: salience, a weighted sum of the edge channels.

    The module maps texture [B, 13, 32, 32] to a map [B, 32, 32] in 0..1. The weights are trained; initially
    only the weight of the edge magnitude is not 0.
    """

    def __init__(self) -> None:
        super().__init__()
        start = [1.0 if CHANNELS[channel] == "edge" else 0.0 for channel in EDGES]
        self.weight = nn.Parameter(torch.tensor(start))

    def forward(self, texture: torch.Tensor) -> torch.Tensor:
        return min_max(torch.einsum("bchw,c->bhw", texture[:, list(EDGES)], self.weight.float()))


class Participatory(nn.Module):
    """Participatory knowing: the similarity of each cell and the question. The module maps texture [B, 13,
    32, 32] and query [B, D] to a map [B, 32, 32] in 0..1."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.into = PerCell(len(CHANNELS), _HIDDEN)
        self.out = PerCell(_HIDDEN, width)

    def forward(self, texture: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        features = F.normalize(self.out(F.relu(self.into(texture))), dim=1)
        cosine = torch.einsum("bdhw,bd->bhw", features, F.normalize(query, dim=1))
        return (cosine + 1) / 2


class Balance(nn.Module):
    """The weight of each of the three scorers, for this image and this question. The module combines maps [B,
    3, 32, 32] with query [B, D] into the relevance [B, 32, 32] in 0..1."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weigh = nn.Sequential(
            Linear32(9 + width, _BALANCE),
            nn.ReLU(),
            Linear32(_BALANCE, _BALANCE),
            nn.ReLU(),
            Linear32(_BALANCE, 3),
        )

    def forward(self, maps: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        flat = maps.flatten(2)
        statistics = torch.cat((flat.mean(2), flat.amax(2), flat.std(2)), 1)
        weights = self.weigh(torch.cat((statistics, query), 1)).softmax(1)
        return min_max((maps * weights[:, :, None, None]).sum(1))


class Quality(nn.Module):
    """Procedural knowing: the factor of a selected token by its three scores, initially 1. The module maps
    scores [B, K, 3] to factors [B, K, 1] between 0 and 2."""

    def __init__(self) -> None:
        super().__init__()
        self.last = Linear32(_HIDDEN, 1)
        nn.init.normal_(self.last.weight, std=1e-3)
        nn.init.zeros_(self.last.bias)
        self.first = Linear32(3, _HIDDEN)

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        return 1 + torch.tanh(self.last(F.gelu(self.first(scores))))
