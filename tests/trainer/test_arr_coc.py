"""The reference workload on a tiny Qwen3-VL: its parts against the official model, and its training."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from tests.trainer.ranks import Ranks
from tests.trainer.vision import drawn
from trainer.checkpoint.weights import init_weights
from trainer.config import parse
from trainer.data.loader import IGNORED
from trainer.errors import DataError, UsageError
from trainer.models.arr_coc.backbone import Backbone, Layout, Visual, build_qwen, patches
from trainer.models.arr_coc.dataset import ImageLimits, count_targets, images_of
from trainer.models.arr_coc.model import ArrCoc
from trainer.models.arr_coc.prompts import PADDING
from trainer.models.arr_coc.texture import CHANNELS, texture_array
from trainer.models.arr_coc.token_selection import gather_rows, select
from trainer.models.build import build_workload
from trainer.models.lora import LowRank


@pytest.fixture
def backbone() -> Backbone:
    torch.manual_seed(0)
    return Backbone(build_qwen("tiny", torch.float32))


EPS = torch.finfo(torch.float32).eps


@pytest.mark.arithmetic
def test_the_texture_of_an_image_does_not_depend_on_what_stands_beside_it() -> None:
    images = torch.rand(3, 3, 96, 128, generator=torch.Generator().manual_seed(1))
    together = texture_array(images)
    assert together.shape == (3, len(CHANNELS), 32, 32)
    assert together.min() >= 0 and together.max() <= 1 + 1e-6
    alone = torch.cat([texture_array(image[None]) for image in images])
    # A convolution of another batch size may add its terms in another order. A Sobel sum has 9 terms and is
    # at most 4, `edge` is a root of two of them, and min-max divides the difference of two such values by
    # the range of the map, above 0.5 for these images. A neighbour's range would change a map by 1e-2.
    assert torch.allclose(together, alone, rtol=0, atol=9 * EPS * 4 * 2**0.5 * 2 / 0.5)


@pytest.mark.arithmetic
def test_colours_are_those_of_the_cie() -> None:
    # Published L*a*b* of sRGB red and white under D65.
    red = torch.zeros(1, 3, 64, 64)
    red[:, 0] = 1
    at_centre = texture_array(red)[0, :, 16, 16]
    expected = {"lightness": 0.5324, "a*": (80.09 + 128) / 255, "b*": (67.20 + 128) / 255}
    for name, value in expected.items():
        assert float(at_centre[CHANNELS.index(name)]) == pytest.approx(value, abs=2e-3)
    white = texture_array(torch.ones(1, 3, 64, 64))[0, :, 16, 16]
    assert float(white[CHANNELS.index("lightness")]) == pytest.approx(1, abs=1e-3)
    assert float(white[CHANNELS.index("a*")]) == pytest.approx(128 / 255, abs=1e-3)


GRIDS = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=3)


@pytest.mark.arithmetic
@settings(max_examples=40)
@given(st.integers(0, 2**31), GRIDS, st.integers(1, 20), st.integers(0, 30))
def test_a_selection_has_the_most_relevant_tokens_in_raster_order(
    seed: int, grids: list[tuple[int, int]], least: int, more: int
) -> None:
    relevance = torch.rand(len(grids), 32, 32, generator=torch.Generator().manual_seed(seed))
    found = select(relevance, grids, min_tokens=least, max_tokens=least + more)
    for image, (rows, columns) in enumerate(grids):
        score = torch.nn.functional.interpolate(
            relevance[image][None, None], (rows, columns), mode="bilinear", align_corners=False
        ).flatten()
        taken = found.index[image][found.valid[image]]
        relevant = int((score > 0.5).sum())
        assert len(taken) == found.counts[image] == min(max(relevant, least), least + more, rows * columns)
        assert torch.equal(taken, taken.unique()), "each once, sorted"
        left = [n for n in range(rows * columns) if n not in set(taken.tolist())]
        if left:
            assert score[taken].min() >= score[left].max()
    assert torch.allclose(found.gate, torch.ones_like(found.gate))


@pytest.mark.arithmetic
def test_images_of_a_profile_have_64_to_400_of_their_tokens_selected() -> None:
    limits = ImageLimits(32, 64, parse(["--model=arr-coc"]).model.image_tokens)
    grids = [limits.grid(1024, 1024), limits.grid(4000, 3000), limits.grid(60, 40)]
    assert [rows * columns for rows, columns in grids] == [1024, 27 * 36, 7 * 10]
    y = torch.linspace(0, 1, 32)[:, None].expand(32, 32)
    for share, counts in ((0.02, [64, 64, 64]), (0.3, [307, 292, 22]), (0.9, [400, 400, 63])):
        # The upper part of the image is relevant, with an edge of less than a token.
        relevance = torch.sigmoid((share - y) * 100)[None].expand(3, -1, -1)
        found = select(relevance, grids)
        for count, expected in zip(found.counts, counts, strict=True):
            # A row of tokens at the edge is in or out.
            assert max(64, expected - 36) <= count <= min(400, max(64, expected + 36)), (share, found.counts)


@pytest.mark.arithmetic
def test_patches_are_those_of_the_official_processor() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (128, 160, 3), dtype=np.uint8)
    official = Qwen2VLImageProcessorPil(
        patch_size=16, merge_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )(pixels, return_tensors="pt")
    ours = patches(torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255, 16, 2, 2)
    assert official["image_grid_thw"].tolist() == [[1, 8, 10]]
    assert torch.allclose(official["pixel_values"], ours, atol=1e-6)


@pytest.mark.arithmetic
def test_with_every_token_selected_it_is_the_official_model(backbone: Backbone) -> None:
    """Positions, deepstack levels and the causal attention of images of different sizes, in one batch."""
    pixels, sides, tokens, _, _ = drawn(6, first=9)
    images = [image / 255 for image in images_of(pixels, sides)]
    grids = [backbone.grid(image) for image in images]
    assert len(set(grids)) > 2
    counts = torch.tensor([rows * columns for rows, columns in grids])
    most = int(counts.max())
    index = torch.arange(most)[None].expand(len(images), -1) % counts[:, None]
    columns = torch.tensor([grid[1] for grid in grids])[:, None]
    with torch.no_grad():
        levels = backbone.encode_images(images, torch.float32)
        visual = Visual(
            [gather_rows(level, index) for level in levels], counts,
            torch.stack((index // columns, index % columns), 2), torch.tensor([max(grid) for grid in grids]),
        )  # fmt: skip
        words = backbone.embed(tokens.clamp_min(0))
        ours = backbone.logits(backbone.hidden_states(tokens, words, visual))
        for n, (image, (rows, across)) in enumerate(zip(images, grids, strict=True)):
            text = tokens[n][tokens[n] != PADDING]
            place = int((text == 500).nonzero())
            whole = torch.cat((text[:place], torch.full((rows * across,), 500), text[place + 1 :]))[None]
            official = backbone.model(
                input_ids=whole,
                pixel_values=patches(image[None], 16, 2, 2),
                image_grid_thw=torch.tensor([[1, 2 * rows, 2 * across]]),
                mm_token_type_ids=(whole == 500).int(),
            ).logits[0]
            after = len(text) - place - 1
            assert torch.allclose(official[-after:], ours[n, place + 1 : len(text)], atol=1e-5)
            assert torch.allclose(official[:place], ours[n, :place], atol=1e-5)


@pytest.mark.arithmetic
def test_text_follows_the_whole_grid_however_few_of_its_tokens_are_selected(backbone: Backbone) -> None:
    is_image = torch.tensor([[False, True, False, False], [True, False, False, False]])
    places = torch.tensor([[[0, 2], [3, 1]], [[1, 0], [0, 0]]])
    visual = Visual([], torch.tensor([2, 1]), places, torch.tensor([5, 3]))
    layout = Layout.of(is_image, visual)
    # Of 3 other tokens and 2 or 1 visual ones; 4 + n is visual token n.
    assert layout.order.tolist() == [[0, 4, 5, 2, 3], [4, 1, 2, 3, 3]]
    assert layout.is_visual.tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 0, 0]]
    time, height, width = layout.positions.tolist()
    assert (time[0], height[0], width[0]) == ([0, 1, 1, 6, 7], [0, 1, 4, 6, 7], [0, 3, 2, 6, 7])
    assert (time[1][:4], height[1][:4], width[1][:4]) == ([0, 3, 4, 5], [1, 3, 4, 5], [0, 3, 4, 5])
    assert layout.text.tolist() == [[0, 2, 3, 4], [0, 1, 2, 3]]


SCORERS = {"propositional", "perspectival", "participatory", "balance"}
STAGES = {
    "texture": {"propositional", "perspectival"},
    "scorers": SCORERS,
    "quality": {"quality"},
    "adapter": SCORERS | {"quality"},
    "lora": {"backbone"},
    "both": SCORERS | {"quality", "backbone"},
}
"""The parts of the model that each stage trains."""
LEAST = {"lora": 0.01, "both": 0.01, "adapter": 0.002, "quality": 0.002}
"""Least decrease of the loss by stage. The other stages only select the input of a random model."""


@pytest.mark.arithmetic
@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_trains_its_own_weights_only(backbone: Backbone, stage: str) -> None:
    model = ArrCoc(backbone, stage=stage, rank=4, min_tokens=4, max_tokens=12)
    before = {n: p.detach().clone() for n, p in model.named_parameters() if not p.requires_grad}
    learning = {n: p for n, p in model.named_parameters() if p.requires_grad}
    began = {n: p.detach().clone() for n, p in learning.items()}
    parts = {n.split(".")[0] for n in learning}
    assert parts == STAGES[stage]
    optimizer = torch.optim.AdamW(learning.values(), lr=1e-2)
    batch, losses, reached = drawn(), [], dict.fromkeys(learning, 0.0)
    for _ in range(12):
        loss = model(*batch)
        loss.backward()
        for name, weight in learning.items():
            assert weight.grad is not None, name
            reached[name] = max(reached[name], float(weight.grad.norm()))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    # A frozen random model has little to say about shapes, whatever it is shown.
    assert stage not in LEAST or losses[-1] < losses[0] - LEAST[stage]
    assert min(reached.values()) > 0, min(reached, key=lambda name: reached[name])
    after = dict(model.named_parameters())
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert not any(torch.equal(value, after[name]) for name, value in began.items())
    assert any(isinstance(part, LowRank) for part in model.modules()) == (stage in {"lora", "both"})


@pytest.mark.arithmetic
def test_each_stage_starts_with_the_weights_of_the_one_before(tmp_path: Path) -> None:
    batch, file = drawn(4), tmp_path / "before.safetensors"

    def stage(name: str, *, first: bool = False) -> ArrCoc:
        model = ArrCoc(
            Backbone(build_qwen("tiny", torch.float32)), stage=name, rank=4, min_tokens=4, max_tokens=12
        )
        if not first:
            init_weights(model, None, str(file), print)
        return model

    def loss(model: ArrCoc) -> float:
        save_file({name: weight.detach().clone() for name, weight in model.named_parameters()}, file)
        with torch.no_grad():
            return float(model(*batch))

    # Each stage is another program: a mean loss of about 6 over 4 answers may round in its last bits.
    def same(expected: float) -> object:
        return pytest.approx(expected, abs=1e-5)

    adapter = loss(stage("adapter", first=True))
    model = stage("lora")
    assert loss(model) == same(adapter), "an update is nothing at first"
    for part in model.modules():
        if isinstance(part, LowRank):
            torch.nn.init.normal_(part.lora_b, std=0.1)
    lora = loss(model)
    assert lora != same(adapter)
    assert loss(stage("both")) == same(lora)
    with pytest.raises(UsageError, match=r"backbone.* missing"):
        stage("adapter")


@pytest.mark.arithmetic
def test_an_image_scores_the_same_alone_and_in_a_batch(backbone: Backbone) -> None:
    model = ArrCoc(backbone, min_tokens=4, max_tokens=12).eval()
    samples = [drawn(1, first) for first in range(4)]
    batch = drawn(4)
    with torch.no_grad():
        together = model(*batch)
        alone = [model(*sample) for sample in samples]
    counts = [count_targets(sample) for sample in samples]
    mean = sum(a * c for a, c in zip(alone, counts, strict=True)) / sum(counts)
    # Losses of about 6 through two layers of 64 to 128 terms a sum: 128 * EPS is 1.5e-5 at worst, and roughly
    # its root for errors of either sign.
    assert float(together) == pytest.approx(float(mean), abs=1e-5)


@pytest.mark.arithmetic
def test_the_selected_tokens_are_counted_in_training(backbone: Backbone) -> None:
    model = ArrCoc(backbone, min_tokens=4, max_tokens=12)
    batch = drawn(4)
    model(*batch)
    found = model.measured()
    areas = (batch[1][:, 0] * batch[1][:, 1]).float().mean() / 32**2
    assert 4 <= found["visual_tokens"] <= 12 and found["visual_tokens_in_all"] == pytest.approx(float(areas))
    model.eval()
    model(*batch)
    assert model.measured() == {}


@pytest.mark.arithmetic
def test_questions_without_an_answer_are_no_loss_and_no_gradient(backbone: Backbone) -> None:
    model = ArrCoc(backbone, min_tokens=4, max_tokens=12)
    *inputs, targets = drawn(2)
    assert count_targets((*inputs, targets)) == int((targets != IGNORED).sum()) > 0
    nothing = torch.full_like(targets, IGNORED)
    assert count_targets((*inputs, nothing)) == 0
    loss = model(*inputs, nothing)
    loss.backward()
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    assert float(loss.detach()) == 0
    assert all(weight.grad is not None and not weight.grad.any() for weight in learning)


@pytest.mark.arithmetic
def test_relevance_is_in_full_precision_whatever_the_weights_are_in(backbone: Backbone) -> None:
    model = ArrCoc(backbone, min_tokens=4, max_tokens=12).eval()
    batch = drawn(2)
    pixels, sides, tokens, spans, _ = batch
    images = [image / 255 for image in images_of(pixels, sides)]
    words = backbone.embed(tokens.clamp_min(0))
    # As DeepSpeed does it: first values that bf16 can express, then weights of that type.
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.bfloat16())
        full = model.relevance(images, words, spans)
        low = model.bfloat16().relevance(images, words, spans)
        assert all(torch.equal(a, b) for a, b in zip(full, low, strict=True))
        inputs = []
        model.balance.register_forward_hook(lambda module, given, output: inputs.append((*given, output)))
        with torch.autocast("cpu", torch.bfloat16):
            model(*batch)
    assert {part.dtype for part in inputs[0]} == {torch.float32}


def test_a_missing_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="as a Qwen3-VL"):
        build_qwen(str(tmp_path / "nothing"), torch.float32)


def test_two_ranks_train_it_with_zero_and_change_no_frozen_weight(tmp_path: Path) -> None:
    ranks = Ranks(
        tmp_path / "run", 2, "--strategy=zero2", "--model=arr-coc", "--stage=both", "--image-tokens=16",
        "--steps=30", "--batch=8", "--weight-decay=0", "--learning-rate=0.01", "--checkpoint-every=0",
        "--context=64", "--seed=7",
    )  # fmt: skip
    assert ranks.wait() == [0, 0], (ranks.homes[0] / "err-0").read_text()
    losses = [line["loss"] for line in ranks.lines() if line["kind"] == "step"]
    assert len(losses) == 30 and sum(losses[-5:]) / 5 < losses[0] - 0.5
    saved = tmp_path / "run" / "checkpoints" / "step-30" / "zero" / "mp_rank_00_model_states.pt"
    after = torch.load(saved, map_location="cpu", weights_only=False)["module"]
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(7)
    config = parse(["--model=arr-coc", "--stage=both", "--image-tokens=16", "--context=64", "--seed=7"])
    model = build_workload(config).materialize(torch.device("cpu"))
    for name, weight in model.named_parameters():
        # Without weight decay only a gradient moves a weight.
        assert torch.equal(weight.detach(), after[name]) != weight.requires_grad, name


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--context=16"], "--context 16 is too short: the chat template needs "),
        (["--image-tokens=16", "--data=/nowhere.jsonl"], "/nowhere.jsonl can't be read"),
        (["--image-tokens=16", "--weights=/nowhere"], "/nowhere can't be loaded as a Qwen3-VL"),
        (["--image-tokens=16", "--dropout=0.1"], "--dropout 0.1: arr-coc has no dropout"),
    ],
)
def test_unusable_settings_are_reported_before_training(flags: list[str], words: str) -> None:
    with pytest.raises((UsageError, DataError), match=words):
        build_workload(parse(["--model=arr-coc", "--device=cpu", *flags]))
