"""Sequences of several documents: a token sees only its own document, and conversations share a sequence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

from tests.trainer.ranks import Ranks
from trainer.config import parse
from trainer.data.documents import TextPiece
from trainer.data.loader import IGNORED
from trainer.data.packing import packs_of
from trainer.data.text import Conversations, Windows
from trainer.data.token_file import TokenFile, write_tokens
from trainer.data.tokenizer import ByteTokenizer
from trainer.errors import DataError
from trainer.models.build import build_workload
from trainer.models.causal_lm import CausalLM
from trainer.models.gpt import GPT, document_mask

pytestmark = pytest.mark.arithmetic

LLAMA = LlamaConfig(
    vocab_size=300, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64,
)  # fmt: skip
GPT2 = GPT2Config(
    vocab_size=300, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=0
)


def test_positions_start_again_after_each_end(tmp_path: Path) -> None:
    write_tokens(
        tmp_path / "t.bin", [TextPiece("abc"), TextPiece("d"), TextPiece("efghijk")], ByteTokenizer()
    )
    found = Windows(TokenFile(tmp_path / "t.bin"), 6, end=256)
    inputs, targets, positions = found[0]
    assert inputs.tolist() == [97, 98, 99, 256, 100, 256] and targets.tolist() == [98, 99, 256, 100, 256, 101]
    assert positions.tolist() == [0, 1, 2, 3, 0, 1]
    assert found[1][2].tolist() == [0, 1, 2, 3, 4, 5], "a document that was cut starts again"
    mask = document_mask(positions[None])[0, 0]
    assert mask.long().tolist() == [
        [1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0],
        [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 1, 1],
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["gpt", "llama", "gpt2"])
def test_documents_in_one_sequence_have_the_losses_that_they_have_alone(name: str) -> None:
    torch.manual_seed(0)
    model: torch.nn.Module = GPT(2, 4, 32, 64, 0.0, vocabulary=300)
    if name != "gpt":
        model = CausalLM(AutoModelForCausalLM.from_config({"llama": LLAMA, "gpt2": GPT2}[name]))
    model.eval()
    lengths = (5, 1, 9, 7)
    tokens, targets = torch.randint(0, 300, (2, 1, sum(lengths)))
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    with torch.no_grad():
        together = float(model(tokens, targets, positions))
        alone = [
            float(model(part, of_part)) * part.shape[1]
            for part, of_part in zip(tokens.split(lengths, 1), targets.split(lengths, 1), strict=True)
        ]
        mixed = float(model(tokens, targets))
    # Means of losses of about 6 over other shapes: some roundings of 2**-22 each.
    assert together == pytest.approx(sum(alone) / sum(lengths), abs=1e-5)
    assert abs(mixed - together) > 1e-4, "without positions they see each other"


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(4, 24))
def test_conversations_share_samples_without_loss(tmp_path: Path, lengths: list[int], context: int) -> None:
    pieces = []
    for number, length in enumerate(lengths):
        letter = chr(97 + number % 26)
        pieces += [TextPiece(letter.upper(), False, False), TextPiece(letter * length)]
    write_tokens(tmp_path / "t.bin", pieces, ByteTokenizer(), marked=True)
    tokens = TokenFile(tmp_path / "t.bin")
    packs = packs_of(tokens, context, tmp_path / "c")
    packed = Conversations(tokens, context, packs)
    alone = Conversations(tokens, context)
    assert len(alone) == len(lengths) >= len(packed)

    def learned(samples: Conversations) -> list[tuple[int, int]]:
        found = []
        for inputs, targets, *_ in (samples[n] for n in range(len(samples))):
            found += [(int(i), int(t)) for i, t in zip(inputs, targets, strict=True) if t != IGNORED]
        return found

    assert learned(packed) == learned(alone)
    assert len(learned(packed)) == sum(min(length, context) for length in lengths)
    for number in range(len(packed)):
        inputs, targets, positions = packed[number]
        # A conversation begins with its capital letter; padding is a document by itself.
        starts = [n for n, token in enumerate(inputs.tolist()) if 65 <= token <= 90]
        real = int((targets != IGNORED).nonzero()[-1]) + 1
        expected = starts + ([real] if real < context else [])
        assert [n for n, place in enumerate(positions.tolist()) if place == 0] == expected
    # The next conversation did not fit.
    firsts = np.fromfile(packs, "<i8")
    used = [int((packed[number][1] != IGNORED).sum()) for number in range(len(packed))]
    for number in range(len(packed) - 1):
        assert used[number] + min(lengths[firsts[number + 1]], context) > context


def test_the_flag_reaches_text_and_conversations(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.txt").write_text("first text\n" * 9)
    (tmp_path / "d" / "b.txt").write_text("second text\n" * 9)
    flags = [f"--data-cache={tmp_path}/c", "--context=32", "--batch=1", "--document-masks=on"]
    workload = build_workload(parse([*flags, f"--data={tmp_path / 'd'}"]))
    samples = [workload.train[n] for n in range(len(workload.train))]
    starts = [int((positions == 0).sum()) for _, _, positions in samples]
    assert sum(starts) == len(samples) + 1, "each sample begins one, and the second text begins within one"
    model = workload.materialize(torch.device("cpu"))
    assert torch.isfinite(model(*(part[None] for part in samples[0])))
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    (tmp_path / "t.jsonl").write_text((json.dumps({"messages": talk}) + "\n") * 12)
    flags = [*flags[:1], "--context=256", "--batch=1", f"--data={tmp_path / 't.jsonl'}", "--format=chat"]
    assert len(build_workload(parse(flags)).train) == 12
    assert len(build_workload(parse([*flags, "--document-masks=on"])).train) < 6
    write_tokens(tmp_path / "plain.bin", [TextPiece("some text\n" * 9)], ByteTokenizer(end=10))
    with pytest.raises(DataError, match="can't tell documents apart"):
        build_workload(parse([f"--data={tmp_path / 'plain.bin'}", "--document-masks=on", "--batch=1"]))


def test_strategies_agree_on_sequences_of_several_documents(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"text": f"document {n} " * (n % 5 + 1)}) + "\n" for n in range(200))
    )
    flags = (
        f"--data={tmp_path / 'a.jsonl'}", "--document-masks=on", "--steps=4", "--batch=8",
        "--checkpoint-every=0", "--activation-checkpointing=on",
    )  # fmt: skip
    ends = {}
    for name in ("ddp", "fsdp"):
        run = Ranks(tmp_path / name, 2, *flags, f"--strategy={name}")
        assert run.wait() == [0, 0], run.errors()
        ends[name] = [line["loss"] for line in run.lines() if line["kind"] == "step"]
    assert len(ends["ddp"]) == 4 and ends["fsdp"] == pytest.approx(ends["ddp"], abs=1e-5)
