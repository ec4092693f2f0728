"""Data written once into mapped files, by one rank per node, for all ranks and for restarts."""

from __future__ import annotations

import json
import os
import pickle
import random
import threading
from pathlib import Path

import pytest
import torch

from tests.trainer.ranks import Ranks, losses
from tests.waiting import LIMIT
from trainer.config import parse
from trainer.data.data_cache import DataProgress, only_writer
from trainer.data.fingerprint import data_fingerprint
from trainer.data.line_file import JsonLines
from trainer.data.token_cache import token_file_of
from trainer.data.token_file import TokenFile, read_info
from trainer.data.tokenizer import train_bpe
from trainer.errors import DataError
from trainer.models.build import build_workload

SMALL = ("--batch=4", "--context=16", "--checkpoint-every=0")


def corpus(path: Path, size: int) -> Path:
    """A .jsonl file of about `size` bytes."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(2, 9))) for _ in range(500)]
    lines = [json.dumps({"text": " ".join(rng.choices(words, k=400))}) + "\n" for _ in range(64)]
    block = "".join(lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for _ in range(-(-size // len(block))):
            file.write(block)
    return path


def peak_memory(ranks: Ranks) -> list[int]:
    """The peak resident memory of each rank so far in bytes, shared pages included."""
    found = []
    for process in ranks.processes:
        status = Path(f"/proc/{process.pid}/status").read_text()
        found.append(int(status.partition("VmHWM:")[2].split()[0]) * 1024)
    return found


def test_a_large_corpus_costs_each_process_little_memory_and_is_tokenised_once(tmp_path: Path) -> None:
    corpus(tmp_path / "small.jsonl", 100_000)
    corpus(tmp_path / "d" / "sub" / "large.jsonl", 30_000_000)
    peaks = {}
    for name, data in (("small", "small.jsonl"), ("large", "d")):
        ranks = Ranks(tmp_path / name, 2, *SMALL, "--steps=100000", f"--data={tmp_path / data}")
        ranks.wait_step(3)
        peaks[name] = peak_memory(ranks)
        ranks.kill()
    for small, large in zip(peaks["small"], peaks["large"], strict=True):
        assert large - small < 50 << 20, peaks
    (tokens,) = (tmp_path / "large" / "data-cache").glob("*.bin")
    info = read_info(tokens)
    # The lines are documents, though they lie in a folder of the folder: no brace is in them.
    assert info.documents > 10_000 and info.tokens > 25_000_000
    assert ord("{") not in TokenFile(tokens)[:100_000]
    written = tokens.stat().st_mtime_ns
    again = Ranks(tmp_path / "large", 2, *SMALL, "--steps=2", f"--data={tmp_path / 'd'}")
    assert again.wait() == [0, 0], again.errors()
    assert tokens.stat().st_mtime_ns == written
    said = [line["message"] for line in again.lines() if line["kind"] == "phase"]
    assert sum("written by an earlier start" in text for text in said) == 1
    assert sum(f"{info.tokens:,} tokens of {info.documents:,} documents" in text for text in said) == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"fine\n" * 100 + b"caf\xe9\n", "a.txt:101: the text must be UTF-8: byte 503"),
        ("sub/a.jsonl", b'{"text": "x"}\n{"text": 1}\n', 'a.jsonl:2: "text" must be text, not int'),
    ],
)
def test_data_that_cannot_be_read_ends_every_rank_with_one_sentence(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    train_bpe(["some words"], 300, tmp_path / "tokenizer.json")
    path = tmp_path / "d" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    flags = (*SMALL, "--steps=2", f"--data={tmp_path / 'd'}", f"--tokenizer={tmp_path}")
    ranks = Ranks(tmp_path / "run", 2, *flags, nodes=2)
    assert ranks.wait() == [2, 2], ranks.errors()
    for rank in range(2):
        errors = [line for line in ranks.lines(rank) if line["kind"] == "error"]
        assert [said in line["message"] for line in errors] == [True]
        assert "traceback" not in errors[0]
    assert not list(tmp_path.rglob("*.part"))


def test_other_data_another_tokenizer_and_another_field_have_files_of_their_own(tmp_path: Path) -> None:
    data = tmp_path / "d"
    data.mkdir()
    (data / "a.jsonl").write_text('{"text": "one one one", "more": "two two two"}\n' * 30)
    train_bpe(["one two"], 300, tmp_path / "tokenizer.json")

    def file(*flags: str, tokenizer: str = "bytes") -> Path:
        return token_file_of(parse([f"--data={data}", f"--data-cache={tmp_path / 'c'}", *flags]), tokenizer)

    first = file()
    assert file() == first == file("--context=32", "--batch=2")
    others = {file("--field=more"), file(tokenizer=str(tmp_path))}
    (data / "b.txt").write_text("three")
    others.add(file())
    os.utime(data / "b.txt", ns=(1, 1))
    others.add(file())
    assert len(others | {first}) == 5
    hashes = {read_info(path).hash for path in others}
    assert len(hashes) == 3, "a file that was only touched has the same tokens"


def test_an_incomplete_file_is_written_again(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("words to learn\n" * 100)
    config = parse([f"--data={text}", f"--data-cache={tmp_path / 'c'}"])
    path = token_file_of(config, "bytes")
    complete = path.read_bytes()
    assert complete == text.read_bytes() + b"\n" and read_info(path).vocabulary == 256
    path.write_bytes(complete[:-5])
    # As of a process that was killed.
    path.with_suffix(".part").write_bytes(b"half")
    assert token_file_of(config, "bytes") == path and path.read_bytes() == complete
    path.with_suffix(".json").write_text("{}")
    assert token_file_of(config, "bytes") == path and read_info(path).tokens == len(complete)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(DataError, match=r"file/c can't be written to: Not a directory; --data-cache selects"):
        token_file_of(parse([f"--data={text}", f"--data-cache={blocked / 'c'}"]), "bytes")


def test_a_fingerprint_tells_other_data_from_the_same(tmp_path: Path) -> None:
    texts = {"a": "words to learn\n" * 100, "b": "words to lean.\n" * 100}

    def fingerprint(name: str, *flags: str) -> dict[str, object]:
        folder = tmp_path / name[0]
        folder.mkdir(exist_ok=True)
        (folder / "t.txt").write_text(texts[name[0]])
        flags = ("--context=8", "--batch=1", f"--data-cache={tmp_path / name}-cache", *flags)
        return data_fingerprint(build_workload(parse([f"--data={folder}", *flags])).train)

    first = fingerprint("a")
    assert first["samples"] == 187 and len(str(first["hash"])) == 16
    assert fingerprint("a2") == first, "of a node of its own, with other times of files"
    other = fingerprint("b")
    assert other["samples"] == first["samples"] and other["hash"] != first["hash"]
    hashes = {
        first["hash"],
        fingerprint("a", "--context=4")["hash"],
        fingerprint("a", "--eval-every=1")["hash"],
    }
    assert len(hashes) == 3


def test_json_lines_are_mapped_and_checked_once(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    values = [{"n": n, "text": "é" * n} for n in range(200)]
    path.write_text("\n\n".join(json.dumps(v, ensure_ascii=False) for v in values), encoding="utf-8-sig")
    checked: list[int] = []
    lines = JsonLines(path, tmp_path / "c", lambda number, _: checked.append(number))
    assert [lines[n] for n in range(len(lines))] == values
    assert checked == list(range(1, 400, 2)), "by their numbers, blank lines counted"
    again = JsonLines(path, tmp_path / "c", lambda number, _: checked.append(number))
    assert len(checked) == 200 and again.fingerprint() == lines.fingerprint()
    sent = pickle.dumps(lines)
    assert len(sent) < 1000 and pickle.loads(sent)[7] == values[7]
    path.write_text('{"n": 1}\n{"n": \n')
    with pytest.raises(DataError, match=r"q\.jsonl:2: the line must be JSON"):
        JsonLines(path, tmp_path / "c", lambda *_: None)
    path.write_bytes(b'{"n": 1}\n{"n": "\xff"}\n')
    with pytest.raises(DataError, match=r"q\.jsonl:2: the text must be UTF-8: byte 16"):
        JsonLines(path, tmp_path / "c", lambda *_: None)


def test_the_same_data_gives_the_same_losses_with_workers_and_without(tmp_path: Path) -> None:
    corpus(tmp_path / "d" / "a.jsonl", 30_000)
    flags = (*SMALL, "--steps=3", f"--data={tmp_path / 'd'}")
    runs = [Ranks(tmp_path / str(n), 1, *flags, f"--workers={n}") for n in (0, 2)]
    assert [run.wait() for run in runs] == [[0], [0]], [run.errors() for run in runs]
    assert losses(runs[0].lines()) == losses(runs[1].lines()) != {}
    assert torch.tensor(list(losses(runs[0].lines()).values())).isfinite().all()


def test_a_second_writer_waits_for_the_first(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("words to learn\n" * 100)
    config = parse([f"--data={text}", f"--data-cache={tmp_path / 'c'}"])
    path = tmp_path / "c" / token_file_of(config, "bytes").name
    path.unlink()
    asked = threading.Event()

    class Waiting(DataProgress):
        def read(self, count: int) -> None:
            asked.set()

    found: list[Path] = []
    second = threading.Thread(target=lambda: found.append(token_file_of(config, "bytes", Waiting())))
    with only_writer(path, DataProgress()):
        second.start()
        assert asked.wait(LIMIT) and not path.exists()
    second.join(LIMIT)
    assert found == [path] and path.exists()
