"""The reference workload on a tiny Qwen3-VL: its parts against the official model, and its training."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import save_file
from torch.utils.data import default_collate
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from tests.trainer.ranks import Ranks
from trainer.checkpoint.weights import init_weights
from trainer.config import parse
from trainer.errors import DataError, UsageError
from trainer.models.arr_coc.backbone import Backbone, build_qwen, patches
from trainer.models.arr_coc.dataset import GeneratedShapes, QuestionFile, to_tokens
from trainer.models.arr_coc.lora import LowRank
from trainer.models.arr_coc.model import ArrCoc, count_targets
from trainer.models.arr_coc.texture import CHANNELS, texture_array
from trainer.models.arr_coc.token_selection import gather_rows, select
from trainer.models.build import build_workload
from trainer.models.loss import IGNORED

pytestmark = pytest.mark.arithmetic


def encode(text: str) -> list[int]:
    return list(text.encode())


@pytest.fixture
def backbone() -> Backbone:
    torch.manual_seed(0)
    return Backbone(build_qwen("tiny", torch.float32))


def drawn(count: int = 16, side: int = 128) -> list[torch.Tensor]:
    shapes = GeneratedShapes(count, encode, side=side, length=40)
    return list(default_collate([shapes[n] for n in range(count)]))


EPS = torch.finfo(torch.float32).eps


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


@settings(max_examples=40)
@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(1, 12), st.integers(1, 20), st.integers(0, 30))
def test_a_selection_has_the_most_relevant_tokens_in_raster_order(
    seed: int, rows: int, columns: int, least: int, more: int
) -> None:
    relevance = torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(seed))
    found = select(relevance, (rows, columns), min_tokens=least, max_tokens=least + more)
    score = torch.nn.functional.interpolate(
        relevance[:, None], (rows, columns), mode="bilinear", align_corners=False
    ).flatten(1)
    for image in range(3):
        taken = found.index[image][found.valid[image]]
        assert min(least, rows * columns) <= len(taken) <= min(least + more, rows * columns)
        assert torch.equal(taken, taken.unique()), "each once, sorted"
        left = [n for n in range(rows * columns) if n not in set(taken.tolist())]
        if left:
            assert score[image][taken].min() >= score[image][left].max()
    assert torch.allclose(found.gate, torch.ones_like(found.gate))


def test_patches_are_those_of_the_official_processor() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (128, 160, 3), dtype=np.uint8)
    official = Qwen2VLImageProcessorPil(
        patch_size=16, merge_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )(pixels, return_tensors="pt")
    ours = patches(torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255, 16, 2, 2)
    assert official["image_grid_thw"].tolist() == [[1, 8, 10]]
    assert torch.allclose(official["pixel_values"], ours, atol=1e-6)


def test_with_every_token_selected_it_is_the_official_model(backbone: Backbone) -> None:
    images, tokens, _ = drawn(2)
    rows, columns = backbone.grid(images)
    count, real = rows * columns, tokens >= 0
    config = backbone.model.config
    whole = torch.cat(
        (
            torch.full((2, 1), backbone.start),
            torch.full((2, count), config.image_token_id),
            torch.full((2, 1), backbone.end),
            tokens.clamp_min(0),
        ),
        1,
    )
    kinds = torch.zeros_like(whole)
    kinds[:, 1 : 1 + count] = 1
    with torch.no_grad():
        official = backbone.model(
            input_ids=whole,
            attention_mask=torch.cat((torch.ones(2, count + 2), real.float()), 1).long(),
            pixel_values=patches(images, 16, 2, 2),
            image_grid_thw=torch.tensor([[1, 2 * rows, 2 * columns]] * 2),
            mm_token_type_ids=kinds,
        ).logits[:, count + 2 :]
        index = torch.arange(count)[None].expand(2, -1)
        states = backbone.hidden_states(
            [gather_rows(level, index) for level in backbone.encode_images(images)],
            torch.ones(2, count, dtype=torch.bool),
            torch.stack((index // columns, index % columns), 2),
            backbone.embed(tokens.clamp_min(0)),
            real,
        )
        ours = backbone.logits(states)
    assert torch.allclose(official[real], ours[real], atol=1e-5)


@pytest.mark.parametrize("stage", ["adapter", "lora", "both"])
def test_each_stage_trains_its_own_weights_only(backbone: Backbone, stage: str) -> None:
    model = ArrCoc(backbone, stage=stage, rank=4, min_tokens=4, max_tokens=12)
    before = {n: p.detach().clone() for n, p in model.named_parameters() if not p.requires_grad}
    learning = {n: p for n, p in model.named_parameters() if p.requires_grad}
    parts = {n.split(".")[0] for n in learning}
    wanted = {"propositional", "perspectival", "participatory", "balance", "quality"}
    assert parts == {"adapter": wanted, "lora": {"backbone"}, "both": wanted | {"backbone"}}[stage]
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
    assert losses[-1] < losses[0] - (0.002 if stage == "adapter" else 0.01)
    assert min(reached.values()) > 0, min(reached, key=lambda name: reached[name])
    after = dict(model.named_parameters())
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert any(isinstance(part, LowRank) for part in model.modules()) == (stage != "adapter")


def test_each_stage_starts_with_the_weights_of_the_one_before(tmp_path: Path) -> None:
    batch, file = drawn(4), tmp_path / "before.safetensors"

    def stage(name: str, *, first: bool = False) -> ArrCoc:
        model = ArrCoc(
            Backbone(build_qwen("tiny", torch.float32)), stage=name, rank=4, min_tokens=4, max_tokens=12
        )
        if not first:
            init_weights(model, str(file), print)
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
            torch.nn.init.normal_(part.up, std=0.1)
    lora = loss(model)
    assert lora != same(adapter)
    assert loss(stage("both")) == same(lora)
    with pytest.raises(UsageError, match="they lack backbone"):
        stage("adapter")


def test_an_image_scores_the_same_alone_and_in_a_batch(backbone: Backbone) -> None:
    model = ArrCoc(backbone, min_tokens=4, max_tokens=12).eval()
    images, tokens, targets = drawn(4)
    with torch.no_grad():
        together = model(images, tokens, targets)
        alone = [model(images[n : n + 1], tokens[n : n + 1], targets[n : n + 1]) for n in range(4)]
    counts = [(targets[n] != IGNORED).sum() for n in range(4)]
    mean = sum(a * c for a, c in zip(alone, counts, strict=True)) / sum(counts)
    # Losses of about 6 through two layers of 64 to 128 terms a sum: 128 * EPS is 1.5e-5 at worst, and roughly
    # its root for errors of either sign.
    assert float(together) == pytest.approx(float(mean), abs=1e-5)


def test_questions_without_an_answer_are_no_loss_and_no_gradient(backbone: Backbone) -> None:
    model = ArrCoc(backbone, min_tokens=4, max_tokens=12)
    images, tokens, targets = drawn(2)
    assert count_targets((images, tokens, targets)) == int((targets != IGNORED).sum()) > 0
    nothing = torch.full_like(targets, IGNORED)
    assert count_targets((images, tokens, nothing)) == 0
    loss = model(images, tokens, nothing)
    loss.backward()
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    assert float(loss.detach()) == 0
    assert all(weight.grad is not None and not weight.grad.any() for weight in learning)


def test_relevance_is_in_full_precision_whatever_the_weights_are_in(backbone: Backbone) -> None:
    model = ArrCoc(backbone, min_tokens=4, max_tokens=12).eval()
    images, tokens, targets = drawn(2)
    words, question = backbone.embed(tokens.clamp_min(0)), targets == IGNORED
    # As DeepSpeed does it: first values that bf16 can express, then weights of that type.
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.bfloat16())
        full = model.relevance(images, words, question)
        low = model.bfloat16().relevance(images, words, question)
        assert all(torch.equal(a, b) for a, b in zip(full, low, strict=True))
        inputs = []
        model.balance.register_forward_hook(lambda module, given, output: inputs.append((*given, output)))
        with torch.autocast("cpu", torch.bfloat16):
            model(images, tokens, targets)
    assert {part.dtype for part in inputs[0]} == {torch.float32}


@given(st.text(max_size=60), st.text(max_size=20), st.integers(2, 50))
def test_only_the_answer_is_scored(question: str, answer: str, length: int) -> None:
    tokens, targets = to_tokens(encode, question, answer, length)
    assert len(tokens) == len(targets) == length
    said = encode(answer)[: length - 1]
    assert targets[targets != IGNORED].tolist() == said
    assert torch.equal(tokens[targets != IGNORED], targets[targets != IGNORED])


def test_questions_come_from_a_file_and_a_bad_line_is_named(tmp_path: Path) -> None:
    Image.new("RGB", (40, 30), (255, 0, 0)).save(tmp_path / "red.png")
    lines = [{"image": "red.png", "question": "Which colour?", "answer": "red"}]
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    image, tokens, targets = QuestionFile(path, encode, side=64, length=24, cache=tmp_path / "c")[0]
    assert image.shape == (3, 64, 64) and image[:, 5, 5].tolist() == [1, 0, 0]
    assert targets[targets >= 0].tolist() == encode("red") and int(tokens[0]) == ord("W")
    path.write_text(json.dumps(lines[0]) + "\n{}\n")
    with pytest.raises(DataError, match=r"questions\.jsonl:2"):
        QuestionFile(path, encode, side=64, length=24, cache=tmp_path / "c")
    path.write_text(json.dumps({**lines[0], "image": "none.png"}))
    with pytest.raises(DataError, match=r"none\.png"):
        QuestionFile(path, encode, side=64, length=24, cache=tmp_path / "c")[0]


def test_a_missing_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no Qwen3-VL"):
        build_qwen(str(tmp_path / "nothing"), torch.float32)


def test_two_ranks_train_it_with_zero_and_change_no_frozen_weight(tmp_path: Path) -> None:
    ranks = Ranks(
        tmp_path / "run", 2, "--strategy=zero2", "--model=arr-coc", "--stage=both", "--image-side=128",
        "--steps=50", "--batch=8", "--weight-decay=0", "--learning-rate=0.01", "--checkpoint-every=0",
        "--context=40", "--seed=7",
    )  # fmt: skip
    assert ranks.wait() == [0, 0], (ranks.homes[0] / "err-0").read_text()
    losses = [line["loss"] for line in ranks.lines() if line["kind"] == "step"]
    assert len(losses) == 50 and sum(losses[-5:]) / 5 < losses[0] - 0.5
    saved = tmp_path / "run" / "checkpoints" / "step-50" / "zero" / "mp_rank_00_model_states.pt"
    after = torch.load(saved, map_location="cpu", weights_only=False)["module"]
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(7)
    config = parse(["--model=arr-coc", "--stage=both", "--image-side=128", "--context=40", "--seed=7"])
    model = build_workload(config).model
    for name, weight in model.named_parameters():
        # Without weight decay only a gradient moves a weight.
        assert torch.equal(weight.detach(), after[name]) != weight.requires_grad, name


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--image-side=100"], "--image-side 100 is not a multiple of 32"),
        (["--image-side=128", "--data=/nowhere.jsonl"], "/nowhere.jsonl can't be read"),
        (["--image-side=128", "--weights=/nowhere"], "no Qwen3-VL can be loaded from /nowhere"),
        (["--image-side=128", "--dropout=0.1"], "--dropout 0.1: arr-coc has no dropout"),
    ],
)
def test_unusable_settings_are_reported_before_training(flags: list[str], words: str) -> None:
    with pytest.raises((UsageError, DataError), match=words):
        build_workload(parse(["--model=arr-coc", "--device=cpu", *flags]))
