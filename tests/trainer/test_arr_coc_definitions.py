"""arr-coc against its specification, implemented again in the simplest way."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainer.vision import drawn
from trainer.models.arr_coc.backbone import Backbone, build_qwen
from trainer.models.arr_coc.dataset import images_of
from trainer.models.arr_coc.model import ArrCoc
from trainer.models.arr_coc.scorers import Balance, Participatory, Perspectival, Propositional, Quality
from trainer.models.arr_coc.texture import CHANNELS, min_max, texture_array
from trainer.models.arr_coc.token_selection import on_grids, select

pytestmark = pytest.mark.arithmetic

Array = npt.NDArray[np.float64]
SIDE = 32
CLOSE = 2e-5
"""Tolerance of maps in 0..1, float32 against float64: sums of up to 64 terms, divided by a range above
0.05."""


def scaled(values: Array) -> Array:
    return (values - values.min()) / (values.max() - values.min() + 1e-8)


def pooled(values: Array) -> Array:
    """The means of 32 × 32 cells; the sides are multiples of 32."""
    height, width = values.shape
    return values.reshape(SIDE, height // SIDE, SIDE, width // SIDE).mean((1, 3))


def lab(image: Array) -> tuple[Array, Array, Array]:
    """CIE L*a*b* of sRGB (IEC 61966-2-1) under D65."""
    linear = np.where(image > 0.04045, ((image + 0.055) / 1.055) ** 2.4, image / 12.92)
    matrix = [
        [0.412453, 0.357580, 0.180423],
        [0.212671, 0.715160, 0.072169],
        [0.019334, 0.119193, 0.950227],
    ]
    white = np.array([0.950456, 1.0, 1.088754])[:, None, None]
    ratio = np.einsum("ij,jhw->ihw", np.array(matrix), linear) / white
    x, y, z = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def reference(image: Array) -> Array:
    """The 13 channels of an image [3, H, W]."""
    _, height, width = image.shape
    grey = image.mean(0)
    near, far = np.pad(grey, 1, mode="edge"), np.pad(grey, 2, mode="edge")
    sobel = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    across, down, mean = np.zeros_like(grey), np.zeros_like(grey), np.zeros_like(grey)
    for row in range(height):
        for column in range(width):
            window = near[row : row + 3, column : column + 3]
            across[row, column], down[row, column] = (window * sobel).sum(), (window * sobel.T).sum()
            mean[row, column] = far[row : row + 5, column : column + 5].mean()
    light, a, b = lab(image)
    y, x = np.mgrid[0:1:32j, 0:1:32j]
    centre = np.hypot(y - 0.5, x - 0.5)
    edge = np.sqrt(across**2 + down**2 + 1e-8)
    return np.stack(
        [
            *map(pooled, image), pooled(light / 100), pooled((a + 128) / 255),
            scaled(pooled(across)), scaled(pooled(down)), scaled(pooled(edge)), y, x, centre / centre.max(),
            pooled((b + 128) / 255), scaled(pooled(np.abs(grey - mean))),
        ]
    )  # fmt: skip


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([(32, 64), (64, 32), (64, 64)]))
def test_the_13_channels_are_those_of_the_specification(seed: int, size: tuple[int, int]) -> None:
    image = np.random.default_rng(seed).random((3, *size))
    found = texture_array(torch.from_numpy(image)[None].float())[0].double().numpy()
    expected = reference(image)
    assert found.shape == (13, 32, 32) == (len(CHANNELS), SIDE, SIDE)
    assert found.min() >= 0 and found.max() <= 1 + 1e-6
    for name, ours, theirs in zip(CHANNELS, found, expected, strict=True):
        assert np.abs(ours - theirs).max() < CLOSE, name


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4))
def test_min_max_is_of_each_image_alone(seed: int, count: int) -> None:
    maps = torch.randn(count, 32, 32, generator=torch.Generator().manual_seed(seed)) * 9
    found = min_max(maps)
    for ours, alone in zip(found, maps, strict=True):
        assert np.abs(ours.double().numpy() - scaled(alone.double().numpy())).max() < CLOSE
        assert float(ours.min()) == 0 and float(ours.max()) == pytest.approx(1, abs=1e-6)
    assert float(min_max(torch.full((1, 32, 32), 3.0)).abs().max()) == 0, "a flat map is no division by zero"


def texture(seed: int, count: int = 2) -> torch.Tensor:
    return torch.rand(count, 13, 32, 32, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31))
def test_the_scorers_begin_as_the_specification_has_them(seed: int) -> None:
    torch.manual_seed(seed)
    inputs, query = texture(seed), torch.randn(2, 48)
    entropy, salience = Propositional()(inputs), Perspectival()(inputs)
    module = Participatory(48)
    similar = module(inputs, query)
    assert entropy.shape == salience.shape == similar.shape == (2, 32, 32)
    (inner, bias), (outer, offset) = (
        (part.weight[:, :, 0, 0].detach().double().numpy(), part.bias.detach().double().numpy())
        for part in (module.into, module.out)
    )
    assert inner.shape == (64, 13) and outer.shape == (48, 64)
    for image in range(2):
        channels = inputs[image].double().numpy()
        shares = np.exp(channels) / np.exp(channels).sum(0)
        # Min-max makes the logarithm's base and any factor of the entropy drop out.
        expected = scaled(-(shares * np.log(shares)).sum(0))
        assert np.abs(entropy[image].detach().double().numpy() - expected).max() < 1e-3
        expected = scaled(channels[CHANNELS.index("edge")])
        assert np.abs(salience[image].detach().double().numpy() - expected).max() < CLOSE
        hidden = np.maximum(np.einsum("oc,chw->ohw", inner, channels) + bias[:, None, None], 0)
        features = np.einsum("oc,chw->ohw", outer, hidden) + offset[:, None, None]
        asked = query[image].double().numpy()
        cosine = np.einsum("chw,c->hw", features, asked)
        cosine /= np.linalg.norm(features, axis=0) * np.linalg.norm(asked)
        assert np.abs(similar[image].detach().double().numpy() - (cosine + 1) / 2).max() < CLOSE


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31))
def test_the_balance_weighs_the_maps_by_their_statistics_and_the_query(seed: int) -> None:
    torch.manual_seed(seed)
    module, maps, query = Balance(48), torch.rand(2, 3, 32, 32), torch.randn(2, 48)
    found = module(maps, query).detach()
    layers = [part for part in module.weigh if isinstance(part, torch.nn.Linear)]
    assert [tuple(layer.weight.shape) for layer in layers] == [(128, 9 + 48), (128, 128), (3, 128)]
    for image in range(2):
        flat = maps[image].flatten(1).double().numpy()
        values = np.concatenate(
            [flat.mean(1), flat.max(1), flat.std(1, ddof=1), query[image].double().numpy()]
        )
        for number, layer in enumerate(layers):
            values = layer.weight.detach().double().numpy() @ values + layer.bias.detach().double().numpy()
            values = values if number == 2 else np.maximum(values, 0)
        weights = np.exp(values) / np.exp(values).sum()
        expected = scaled(np.einsum("c,chw->hw", weights, maps[image].double().numpy()))
        assert np.abs(found[image].double().numpy() - expected).max() < CLOSE


def test_the_quality_begins_at_about_1_and_stays_between_0_and_2() -> None:
    torch.manual_seed(0)
    module, scores = Quality(), torch.rand(2, 50, 3)
    with torch.no_grad():
        assert (module(scores) - 1).abs().max() < 0.02
        for sign, limit in ((1, 2), (-1, 0)):
            module.last.bias.fill_(sign * 99)
            assert torch.equal(module(scores), torch.full((2, 50, 1), float(limit)))


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 2**31), st.lists(st.tuples(st.integers(2, 9), st.integers(2, 9)), min_size=1, max_size=3)
)
def test_the_gate_is_1_with_the_gradient_of_the_relevance(seed: int, grids: list[tuple[int, int]]) -> None:
    """1 + s − s.detach() of the selected tokens, and no gradient of the others."""
    generator = torch.Generator().manual_seed(seed)
    relevance = torch.rand(len(grids), 32, 32, generator=generator).requires_grad_()
    found = select(relevance, grids, min_tokens=3, max_tokens=8)
    weight = torch.rand(found.gate.shape, generator=generator) * found.valid
    assert torch.allclose(found.gate.detach(), torch.ones_like(found.gate), atol=1e-6)
    (ours,) = torch.autograd.grad((found.gate * weight).sum(), relevance)
    every = on_grids(relevance[:, None], grids)[:, :, 0]
    spread = torch.zeros_like(every).scatter_add(1, found.index, weight)
    (expected,) = torch.autograd.grad((every * spread).sum(), relevance)
    assert torch.allclose(ours, expected, atol=1e-6) and bool(ours.any())


def test_all_levels_are_gathered_by_the_same_indices_in_raster_order(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    backbone = Backbone(build_qwen("tiny", torch.float32))
    model = ArrCoc(backbone, min_tokens=4, max_tokens=12)
    pixels, sides, tokens, spans, _ = drawn(6, first=9)
    images = [image / 255 for image in images_of(pixels, sides)]
    most = max(math.prod(backbone.grid(image)) for image in images)
    # Each token's own number, in each level its own power of ten.
    number = torch.arange(1, most + 1).float()[None, :, None].expand(len(images), -1, backbone.width)
    monkeypatch.setattr(backbone, "encode_images", lambda *_: [number * 10**level for level in range(3)])
    visual = model.select_visual(images, backbone.embed(tokens.clamp_min(0)), spans)
    assert len({backbone.grid(image) for image in images}) > 2
    for image, count in enumerate(visual.counts.tolist()):
        columns = backbone.grid(images[image])[1]
        places = visual.places[image, :count]
        index = places[:, 0] * columns + places[:, 1]
        assert index.tolist() == sorted(set(index.tolist())), "raster order, each once"
        for level, values in enumerate(visual.levels):
            # The quality is within 2 % of 1 at first.
            taken = (values[image, :count, 0] / 10**level).round() - 1
            assert taken.tolist() == index.tolist(), level


def test_the_adapter_has_about_0_4_million_weights_for_the_2b_model() -> None:
    parts = Propositional(), Perspectival(), Participatory(2048), Balance(2048), Quality()
    count = sum(weight.numel() for part in parts for weight in part.parameters())
    assert 400_000 < count < 440_000
