"""Tokenizers, documents and token files."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainer.config import parse
from trainer.data import text as plain
from trainer.data.documents import documents, files_of
from trainer.data.token_file import TokenFile, write_tokens
from trainer.data.tokenizer import ByteTokenizer, load_tokenizer, train_bpe
from trainer.errors import DataError
from trainer.models import language
from trainer.models.build import build_workload
from trainer.prepare import main


@given(st.text())
def test_bytes_round_trip(text: str) -> None:
    tokenizer = ByteTokenizer()
    clean = text.encode("utf-8", "replace").decode()
    tokens = tokenizer.encode(clean)
    assert tokenizer.decode([*tokens, tokenizer.end]) == clean
    assert all(token < tokenizer.vocabulary for token in tokens)


def test_a_trained_bpe_needs_fewer_tokens_and_round_trips(tmp_path: Path) -> None:
    text = "the loss of the step is the loss of the batch, ünïcode and 🙂 too\n" * 20
    tokenizer = train_bpe([text], 400, tmp_path / "tokenizer.json")
    again = load_tokenizer(str(tmp_path))
    assert again.vocabulary == tokenizer.vocabulary <= 400
    tokens = again.encode(text)
    assert len(tokens) < len(text.encode()) / 2
    assert again.decode(tokens) == text
    assert again.end not in tokens


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=40), min_size=1), st.integers(1, 9))
def test_windows_are_the_documents_one_after_another(tmp_path: Path, texts: list[str], context: int) -> None:
    tokenizer = ByteTokenizer()
    whole = [token for text in texts for token in [*tokenizer.encode(text), tokenizer.end]]
    path = tmp_path / "t.bin"
    about = write_tokens(path, texts, tokenizer)
    assert (about.tokens, about.documents) == (len(whole), len(texts))
    if len(whole) <= context:
        with pytest.raises(DataError, match="one window"):
            TokenFile(path, context)
        return
    found = TokenFile(path, context)
    assert len(found) == (len(whole) - 1) // context
    for index in range(len(found)):
        inputs, targets = found[index]
        begin = index * context
        assert inputs.tolist() == whole[begin : begin + context]
        assert targets.tolist() == whole[begin + 1 : begin + context + 1]


def test_a_worker_maps_the_file_itself(tmp_path: Path) -> None:
    write_tokens(tmp_path / "t.bin", ["abc" * 1000], ByteTokenizer())
    found = TokenFile(tmp_path / "t.bin", 8)
    first = found[0]
    sent = pickle.dumps(found)
    assert len(sent) < 1000
    assert all(torch.equal(a, b) for a, b in zip(pickle.loads(sent)[0], first, strict=True))


def test_lines_of_json_and_files_of_text_are_documents(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("plain")
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n\n{"text": "two"}\n')
    (tmp_path / "skipped.bin").write_bytes(b"\0")
    files = files_of([tmp_path])
    assert list(documents(files)) == ["one", "two", "plain"]
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"body": 1}\n')
    with pytest.raises(DataError, match=r"a\.jsonl:2: .* it has body"):
        list(documents(files))
    assert list(documents(files_of([tmp_path / "b.txt"]))) == ["plain"]
    with pytest.raises(DataError, match="nowhere does not exist"):
        files_of([tmp_path / "nowhere"])


def test_a_folder_of_json_lines_is_read_by_its_field_and_a_truncation_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "j").mkdir()
    (tmp_path / "j" / "a.jsonl").write_text('{"text": "abcdefgh"}\n')
    config = parse([f"--data={tmp_path / 'j'}", "--context=4", "--batch=1"])
    assert build_workload(config).train[0][0].tolist() == list(b"abcd")
    assert not capfd.readouterr().out
    (tmp_path / "t.txt").write_text("x" * 9000)
    for module in (language, plain):
        monkeypatch.setattr(module, "MAX_BYTES", 1 << 13)
    build_workload(parse([f"--data={tmp_path / 't.txt'}", "--context=4", "--batch=1"]))
    assert (
        "--data" in (said := capfd.readouterr().out)
        and "trainer.prepare writes all of it to a token file" in said
    )


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    write_tokens(path, ["some text"], ByteTokenizer())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="write it again"):
        TokenFile(path, 2)
    path.with_suffix(".json").write_text("[]")
    with pytest.raises(DataError, match="does not describe"):
        TokenFile(path, 2)
    with pytest.raises(DataError, match=r"trainer\.prepare"):
        TokenFile(tmp_path / "none.bin", 2)


def test_the_command_writes_a_file_or_says_why_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("learning to read " * 50)
    out = tmp_path / "o" / "t.bin"
    assert main([str(tmp_path), "--out", str(out), "--bpe", "300"]) == 0
    assert "1 documents" in capsys.readouterr().out
    about = json.loads(out.with_suffix(".json").read_text())
    assert load_tokenizer(about["tokenizer"]).decode(TokenFile(out, 4)[0][0].tolist()).startswith("learn")
    assert main([str(tmp_path), "--out", str(tmp_path / "t")]) == 2
    assert "must end in .bin" in capsys.readouterr().err
    assert main([str(tmp_path), "--out", str(out), "--tokenizer", "/nowhere"]) == 2
    assert "--tokenizer /nowhere" in capsys.readouterr().err
    (tmp_path / "broken.json").write_text("{")
    assert main([str(tmp_path), "--out", str(out), "--tokenizer", str(tmp_path / "broken.json")]) == 2
    assert "not a tokenizer file" in capsys.readouterr().err
