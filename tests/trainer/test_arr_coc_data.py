"""Images and questions of arr-coc: files as users have them, and the prompts for the model."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from tests.trainer.vision import IMAGE, MARKS, prompts
from trainer.config import parse
from trainer.data.chat import ChatML, load_template
from trainer.data.fingerprint import data_fingerprint
from trainer.data.loader import IGNORED
from trainer.data.tokenizer import load_tokenizer
from trainer.errors import DataError, UsageError
from trainer.models.arr_coc import images
from trainer.models.arr_coc.dataset import ImageLimits, QuestionFile, collate, images_of
from trainer.models.arr_coc.images import grid_of, read_image
from trainer.models.arr_coc.prompts import PADDING, Prompts
from trainer.models.build import build_workload

LIMITS = ImageLimits(32, 4, 16)
SIDES = st.integers(8, 3000)


@given(SIDES, SIDES, st.integers(1, 64), st.integers(0, 1000))
def test_an_image_keeps_its_aspect_to_less_than_a_token(
    width: int, height: int, least: int, more: int
) -> None:
    most = least + more
    if max(width, height) > min(200, most) * min(width, height):
        with pytest.raises(DataError, match="too narrow"):
            grid_of(width, height, cell=32, least=least, most=most)
        return
    rows, columns = grid_of(width, height, cell=32, least=least, most=most)
    assert 1 <= rows * columns <= most
    # There is one scale at which both sides differ by less than a token from the grid.
    low = max((rows - 1) / height, (columns - 1) / width)
    high = min((rows + 1) / height, (columns + 1) / width)
    assert low < high
    if most >= 4 * least:
        assert rows * columns >= least * 0.25, "enlarged"


@settings(max_examples=15, deadline=None)
@given(st.integers(20, 700), st.integers(20, 700))
@example(412, 412)
def test_images_are_those_of_the_official_processor(width: int, height: int) -> None:
    generator = np.random.default_rng(width * 1000 + height)
    coarse = Image.fromarray(generator.integers(0, 256, (9, 9, 3), dtype=np.uint8))
    picture = coarse.resize((width, height), Image.Resampling.BILINEAR)
    official = Qwen2VLImageProcessorPil(
        patch_size=16, merge_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3,
        size={"shortest_edge": 16 * 32**2, "longest_edge": 64 * 32**2},
    )(picture, return_tensors="pt")  # fmt: skip
    rows, columns = grid_of(width, height, cell=32, least=16, most=64)
    assert official["image_grid_thw"].tolist() == [[1, 2 * rows, 2 * columns]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A red image beside blue, wider than high, in several formats."""
    picture = Image.new("RGB", (400, 200), (255, 0, 0))
    picture.paste((0, 0, 255), (0, 100, 400, 200))
    picture.save(tmp_path / "plain.png")
    picture.convert("CMYK").save(tmp_path / "cmyk.jpg", quality=95)
    picture.convert("P").save(tmp_path / "palette.gif")
    picture.convert("L").save(tmp_path / "grey.png")
    Image.fromarray(np.full((200, 400), 40_000, np.uint16)).save(tmp_path / "grey16.png")
    clear = picture.convert("RGBA")
    clear.paste((0, 0, 0, 0), (0, 100, 400, 200))
    clear.save(tmp_path / "clear.png")
    # Stored lying, with the note that it is to be turned.
    turned = ImageOps.exif_transpose(picture).transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6
    turned.save(tmp_path / "turned.png", exif=exif)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "above", "below"),
    [
        ("plain.png", (255, 0, 0), (0, 0, 255)),
        ("cmyk.jpg", (255, 0, 0), (0, 0, 255)),
        ("palette.gif", (255, 0, 0), (0, 0, 255)),
        ("grey.png", (76, 76, 76), (29, 29, 29)),
        ("grey16.png", (155, 155, 155), (155, 155, 155)),
        ("clear.png", (255, 0, 0), (255, 255, 255)),
        ("turned.png", (255, 0, 0), (0, 0, 255)),
    ],
)
def test_images_of_all_kinds_are_upright_in_rgb_with_their_aspect(
    folder: Path, name: str, above: tuple[int, ...], below: tuple[int, ...]
) -> None:
    found = read_image(folder / name, cell=32, least=4, most=32)
    assert found.dtype == torch.uint8 and found.shape == (3, 4 * 32, 8 * 32)
    for row, colour in ((20, above), (108, below)):
        # A JPEG's colours are near.
        assert torch.allclose(found[:, row, 100].float(), torch.tensor(colour).float(), atol=6), name


def png(width: int, height: int) -> bytes:
    """A small file that claims this many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (png(9000, 9000), "the limit is 67,108,864 in all"),
        (png(60_000, 60_000), "DecompressionBombError"),
        (png(64, 64), "can't be read"),
        (b"not an image", "its format is unknown"),
        (b"", "its format is unknown"),
    ],
)
def test_a_broken_image_or_one_that_asks_for_all_memory_is_an_error(
    tmp_path: Path, content: bytes, words: str
) -> None:
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(DataError, match=f"x.png.*{words}"):
        read_image(tmp_path / "x.png", cell=32, least=4, most=16)


def test_an_image_that_is_too_narrow_is_an_error(tmp_path: Path) -> None:
    Image.new("L", (900, 3)).save(tmp_path / "x.png")
    with pytest.raises(DataError, match=r"x.png.*900 × 3 pixels is too narrow: the limit is 1:16"):
        read_image(tmp_path / "x.png", cell=32, least=4, most=16)


def questions(path: Path, *lines: dict[str, object]) -> Path:
    path.write_text("\n\n".join(map(json.dumps, lines)) + "\n\n")
    return path


def line(name: str, **fields: object) -> dict[str, object]:
    return {"image": name, "question": "Which colour?", "answer": "red", **fields}


def read(path: Path) -> QuestionFile:
    return QuestionFile(path, prompts(), LIMITS, cache=path.parent / "cache")


def test_questions_come_from_a_file_and_what_is_wrong_is_named(folder: Path) -> None:
    path = questions(folder / "q.jsonl", line("plain.png"), line("clear.png", answers=["a", "b", "b"]))
    found = read(path)
    image, tokens, span, targets = found[0]
    assert image.shape == (3, 64, 160) and len(found) == 2
    assert bytes(tokens[span[0] : span[1]].tolist()) == b"Which colour?"
    assert bytes(targets[targets >= 0][:-1].tolist()) == b"red"
    assert bytes(found[1][3][found[1][3] >= 0][:-1].tolist()) == b"b"
    assert found.references(1) == ("a", "b", "b")
    for lines, words in (
        ([line("plain.png"), {}], r"q\.jsonl:3: the line must be"),
        ([line("plain.png", answers=[])], r"q\.jsonl:1: the line must be"),
        ([line("plain.png"), line("none.png")], r"q\.jsonl:3: the image .*none\.png can't be read: No such"),
        ([], "has no questions"),
    ):
        with pytest.raises(DataError, match=words):
            read(questions(path, *lines))
    (folder / "broken.png").write_bytes(b"x")
    broken = read(questions(path, line("plain.png"), line("broken.png")))
    with pytest.raises(
        DataError, match=r"q\.jsonl:3: the image .*broken\.png can't be read: its format is unknown"
    ):
        broken[1]
    mixed = read(questions(path, line("plain.png", question="<|image_pad|>?")))
    with pytest.raises(DataError, match=r"q\.jsonl:1: .*placeholder"):
        mixed[0]


def test_the_fingerprint_has_the_images_and_a_changed_one_is_noticed(folder: Path) -> None:
    path = questions(folder / "q.jsonl", line("plain.png"), line("clear.png"))
    flags = ["--model=arr-coc", "--device=cpu", f"--data={path}", f"--data-cache={folder / 'c'}", "--batch=1"]

    def fingerprint(*more: str) -> dict[str, object]:
        return data_fingerprint(build_workload(parse([*flags, *more])).train)

    first = fingerprint()
    assert fingerprint() == first and first["samples"] == 2
    assert fingerprint("--image-tokens=64")["hash"] != first["hash"]
    began = read(path)
    (folder / "clear.png").write_bytes((folder / "clear.png").read_bytes() + b"\0")
    with pytest.raises(DataError, match=r"q\.jsonl:3: the image .*clear\.png can't be used: it has changed"):
        began[1]
    assert fingerprint()["hash"] != first["hash"], "the index knows the new size"
    (folder / "clear.png").unlink()
    with pytest.raises(DataError, match=r"q\.jsonl:3: the image .*clear\.png can't be read"):
        fingerprint()


def test_images_of_different_sizes_are_one_batch(folder: Path) -> None:
    path = questions(
        folder / "q.jsonl", line("plain.png"), line("turned.png", question="Q" * 9), line("grey.png")
    )
    found = read(path)
    samples = [found[0], found[1], found[2]]
    pixels, sides, tokens, spans, targets = collate(samples)
    assert sides.tolist() == [[64, 160], [64, 160], [64, 160]] and pixels.dtype == torch.uint8
    assert all(torch.equal(a, sample[0]) for a, sample in zip(images_of(pixels, sides), samples, strict=True))
    longest = max(int((sample[1] != PADDING).sum()) for sample in samples)
    assert tokens.shape == targets.shape == (3, longest) and spans.shape == (3, 2)


TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


@given(TEXT, TEXT, st.integers(0, 60))
def test_only_the_answer_and_the_end_of_its_turn_are_learned(question: str, answer: str, more: int) -> None:
    room = more + 2
    template = len(b"user\n\nassistant\n") + 3 + len(IMAGE)
    found = prompts(template + room).sample(question, answer)
    asked, said = list(question.strip().encode()), list(answer.strip().encode())
    reply = [*said, MARKS["<|im_end|>"]][:room]
    assert found.targets[found.targets != IGNORED].tolist() == reply
    assert torch.equal(found.tokens[found.targets != IGNORED], found.targets[found.targets != IGNORED])
    start, end = found.span.tolist()
    kept = found.tokens[start:end].tolist()
    assert kept == asked[len(asked) - len(kept) :] and len(kept) == min(len(asked), room - len(reply))
    assert int((found.tokens == MARKS["<|image_pad|>"]).sum()) == 1
    assert int(found.tokens[start - 1]) == MARKS["<|vision_end|>"], "the image is before the question"


TEMPLATE = """{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}{% if c.type == 'image' %}\
<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""As Qwen3-VL has it."""


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """A folder with a tokenizer of the bytes and Qwen's special tokens, and a chat template for images."""
    rust = Tokenizer(
        models.BPE({c: n for n, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, [])
    )
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.decoder = decoders.ByteLevel()
    marks = [*MARKS, "<|endoftext|>"]
    rust.add_special_tokens([AddedToken(mark, special=True) for mark in marks])
    PreTrainedTokenizerFast(tokenizer_object=rust).save_pretrained(tmp_path / "t")
    (tmp_path / "t" / "chat_template.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    return tmp_path / "t"


def test_a_prompt_is_that_of_the_model_s_own_template(tokenizer: Path) -> None:
    found, template = load_tokenizer(str(tokenizer)), load_template(str(tokenizer))
    (image,) = found.encode("<|image_pad|>")
    made = Prompts(found.encode, found.decode, template, image_token=image, length=128)
    tokens, _, targets = made.sample("Which colour?", "red")
    asked = [{"type": "image"}, {"type": "text", "text": "Which colour?"}]
    user = {"role": "user", "content": asked}
    prompt = found.encode(template.render([user], prompt=True))
    whole = found.encode(
        template.render([user, {"role": "assistant", "content": "red"}], prompt=False).rstrip()
    )
    assert tokens[tokens != PADDING].tolist() == whole
    assert targets[targets != IGNORED].tolist() == whole[len(prompt) :] == found.encode("red<|im_end|>")
    assert made.answer([*found.encode("red <|im_end|>"), 7]) == "red"


def test_a_template_without_images_or_a_tokenizer_without_marks_is_refused(tokenizer: Path) -> None:
    found = load_tokenizer(str(tokenizer))
    (image,) = found.encode("<|image_pad|>")
    (tokenizer / "chat_template.json").write_text(
        json.dumps({"chat_template": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"})
    )
    with pytest.raises(UsageError, match="chat template"):
        Prompts(
            found.encode, found.decode, load_template(str(tokenizer)), image_token=image, length=128
        )  # fmt: skip
    with pytest.raises(UsageError, match="no position for one image"):
        Prompts(lambda text: list(text.encode()), bytes, ChatML(), image_token=image, length=999)  # type: ignore[arg-type,return-value]
    (tokenizer / "chat_template.json").write_text("[]")
    with pytest.raises(DataError, match=r"chat_template\.json can't be read"):
        load_template(str(tokenizer))


def test_the_pixels_limit_is_below_that_of_the_library() -> None:
    """So that the sentence is ours, without a warning of the library."""
    assert Image.MAX_IMAGE_PIXELS is not None and images.MAX_PIXELS < Image.MAX_IMAGE_PIXELS
