"""Tokenizers, and token files as windows of tokens."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainer.config import parse
from trainer.data import token_file
from trainer.data.documents import TextPiece
from trainer.data.text import Windows
from trainer.data.token_file import FORMAT, TokenFile, TokenFileInfo, write_tokens
from trainer.data.tokenizer import ByteTokenizer, load_tokenizer, train_bpe
from trainer.errors import DataError
from trainer.models.build import build_workload
from trainer.prepare import main


def write(path: Path, documents: Iterable[str]) -> TokenFileInfo:
    return write_tokens(path, map(TextPiece, documents), ByteTokenizer())


@given(st.text())
def test_bytes_round_trip(text: str) -> None:
    tokenizer = ByteTokenizer()
    clean = text.encode("utf-8", "replace").decode()
    tokens = tokenizer.encode(clean)
    assert tokenizer.decode([*tokens, tokenizer.end]) == clean
    assert all(token < tokenizer.vocabulary for token in tokens)
    assert [tokens] == [found.tolist() for found in tokenizer.encode_batch([clean])]


def test_a_trained_bpe_needs_fewer_tokens_and_round_trips(tmp_path: Path) -> None:
    text = "the loss of the step is the loss of the batch, ünïcode and 🙂 too\n" * 20
    tokenizer = train_bpe([text], 400, tmp_path / "tokenizer.json")
    again = load_tokenizer(str(tmp_path))
    assert again.vocabulary == tokenizer.vocabulary <= 400
    tokens = again.encode(text)
    assert len(tokens) < len(text.encode()) / 2
    assert again.decode(tokens) == text
    assert again.end not in tokens
    assert [found.tolist() for found in again.encode_batch([text, "", "batch"])] == [
        tokens, [], again.encode("batch"),
    ]  # fmt: skip


def test_a_tokenizer_that_cuts_for_another_purpose_cuts_nothing_here(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    train_bpe(["some words"], 300, path)
    saved = json.loads(path.read_text())
    saved["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    path.write_text(json.dumps(saved))
    tokenizer = load_tokenizer(str(path))
    assert tokenizer.decode(tokenizer.encode("more words than three")) == "more words than three"


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=40), min_size=1), st.integers(1, 9))
def test_windows_are_the_documents_one_after_another(tmp_path: Path, texts: list[str], context: int) -> None:
    tokenizer = ByteTokenizer()
    whole = [token for text in texts for token in [*tokenizer.encode(text), tokenizer.end]]
    path = tmp_path / "t.bin"
    about = write(path, texts)
    assert (about.tokens, about.documents) == (len(whole), len(texts))
    found = Windows(TokenFile(path), context)
    assert len(found) == (len(whole) - 1) // context
    for index in range(len(found)):
        inputs, targets = found[index]
        begin = index * context
        assert inputs.tolist() == whole[begin : begin + context]
        assert targets.tolist() == whole[begin + 1 : begin + context + 1]


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_pieces_and_batches_of_any_size_give_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    expected = write(tmp_path / "whole.bin", ["first document", "second"])
    monkeypatch.setattr(token_file, "_BATCH", batch)
    pieces = [
        TextPiece("first ", False),
        TextPiece("document", False),
        TextPiece(""),
        TextPiece("sec", False),
        TextPiece("ond"),
    ]
    assert write_tokens(tmp_path / "t.bin", pieces, ByteTokenizer()) == expected
    assert (tmp_path / "t.bin").read_bytes() == (tmp_path / "whole.bin").read_bytes()


def test_a_worker_maps_the_file_itself(tmp_path: Path) -> None:
    write(tmp_path / "t.bin", ["abc" * 1000])
    found = Windows(TokenFile(tmp_path / "t.bin"), 8)
    first = found[0]
    sent = pickle.dumps(found)
    assert len(sent) < 1000
    assert all(torch.equal(a, b) for a, b in zip(pickle.loads(sent)[0], first, strict=True))


def test_a_text_that_is_shorter_than_a_window_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("too short")
    flags = ["--context=10", f"--data-cache={tmp_path / 'c'}", "--batch=1"]
    with pytest.raises(DataError, match=r"a\.txt has 10 tokens, but one window needs 11"):
        build_workload(parse([*flags, f"--data={tmp_path / 'a.txt'}"]))
    write(tmp_path / "t.bin", ["short"])
    with pytest.raises(DataError, match=r"t\.bin has 6 tokens, but one window needs 11"):
        build_workload(parse([*flags, f"--data={tmp_path / 't.bin'}"]))


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    write(path, ["some text"])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="write the file again"):
        TokenFile(path)
    about = json.loads(path.with_suffix(".json").read_text())
    path.with_suffix(".json").write_text(json.dumps({"tokens": 9, "format": FORMAT - 1}))
    with pytest.raises(
        DataError, match=f"has format {FORMAT - 1}, but this trainer reads format {FORMAT}: write the file"
    ):
        TokenFile(path)
    path.with_suffix(".json").write_text(json.dumps({**about, "dtype": "<f4"}))
    with pytest.raises(DataError, match="unsupported type <f4"):
        TokenFile(path)
    path.with_suffix(".json").write_text("[]")
    with pytest.raises(DataError, match="does not describe"):
        TokenFile(path)
    with pytest.raises(DataError, match=r"trainer\.prepare"):
        TokenFile(tmp_path / "none.bin")


def test_the_command_writes_a_file_or_says_why_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("learning to read " * 50)
    out = tmp_path / "o" / "t.bin"
    assert main([str(tmp_path), "--out", str(out), "--bpe", "300"]) == 0
    assert "1 documents" in capsys.readouterr().out
    about = json.loads(out.with_suffix(".json").read_text())
    assert load_tokenizer(about["tokenizer"]).decode(TokenFile(out)[:4].tolist()).startswith("learn")
    assert main([str(tmp_path), "--out", str(tmp_path / "t")]) == 2
    assert "must end in .bin" in capsys.readouterr().err
    assert main([str(tmp_path), "--out", str(out), "--tokenizer", "/nowhere"]) == 2
    assert "--tokenizer /nowhere" in capsys.readouterr().err
    (tmp_path / "broken.json").write_text("{")
    assert main([str(tmp_path), "--out", str(out), "--tokenizer", str(tmp_path / "broken.json")]) == 2
    assert "must be a tokenizer file" in capsys.readouterr().err
