"""Documents of files: which ones, in which order, in pieces, and the errors for unreadable ones."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainer.data import documents
from trainer.data.documents import files_of, text_pieces
from trainer.errors import DataError


def texts(*paths: Path, field: str = "text", needs_utf8: bool = True) -> list[str]:
    """The documents, their pieces joined."""
    found, parts = [], []
    for piece in text_pieces(files_of(paths), field, needs_utf8=needs_utf8):
        parts.append(piece.text)
        if piece.ends_document:
            found.append("".join(parts))
            parts = []
    assert not parts, "the last document has an end"
    return found


def test_json_lines_at_any_depth_and_files_of_text_are_documents(tmp_path: Path) -> None:
    (tmp_path / "m" / "deep").mkdir(parents=True)
    (tmp_path / "z.txt").write_text("plain")
    (tmp_path / "empty.md").write_text("")
    (tmp_path / "note.json").write_text('{"text": "a whole file"}')
    (tmp_path / "m" / "deep" / "a.jsonl").write_text('{"text": "one"}\n\n{"text": ""}\n{"text": "two"}')
    (tmp_path / "skipped.bin").write_bytes(b"\0")
    assert texts(tmp_path) == ["one", "two", '{"text": "a whole file"}', "plain"]
    assert texts(tmp_path / "z.txt", tmp_path / "m") == ["plain", "one", "two"]
    assert [file.name for file in files_of([tmp_path])] == [
        "0/empty.md", "0/m/deep/a.jsonl", "0/note.json", "0/z.txt",
    ]  # fmt: skip


def test_only_files_and_folders_are_read_and_the_flag_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--data /nowhere does not exist on this node"):
        files_of([Path("/nowhere")])
    os.mkfifo(tmp_path / "pipe.txt")
    # Another rank and a restart could not read it again, and it may never end.
    with pytest.raises(DataError, match=r"--data .*/pipe\.txt must be a file or a folder"):
        files_of([tmp_path / "pipe.txt"])


def test_a_folder_of_any_name_is_read(tmp_path: Path) -> None:
    # Only Python's own library is read without its tests.
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "a.txt").write_text("read")
    assert texts(tmp_path / "test") == texts(tmp_path) == ["read"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"one\ntw\xffo\n", r"a\.txt:2: the text must be UTF-8: byte 6 .* --tokenizer bytes"),
        ("a.txt", b"\xff\xfea\0", r"a\.txt:1: the text must be UTF-8: byte 0 "),
        ("a.jsonl", b'{"text": "one"}\n{"text": "t\xe9"}\n', r"a\.jsonl:2: .* UTF-8: byte 27 .*UTF-8$"),
        (
            "a.jsonl",
            b'{"text": "one"}\n\n{"text": 2}\n',
            r'a\.jsonl:3: "text" must be text, not int',
        ),
        (
            "a.jsonl",
            b'{"text": "one"}\n{"body": 1}\n',
            r"a\.jsonl:2: .* it has body; --field selects another",
        ),
        ("a.jsonl", b'{"text": "one"}\n{"text": \n', r"a\.jsonl:2: the line must be JSON"),
        ("a.jsonl", b"[" * 100_000 + b"\n", r"a\.jsonl:1: the line must be JSON"),
        ("a.jsonl", b'{"text": "half \\ud83d"}\n', r"a\.jsonl:1: .* half of a surrogate pair, \\ud83d"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        texts(tmp_path)


def test_bytes_of_any_encoding_are_kept_where_no_tokenizer_reads_them(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5
    (tmp_path / "latin.txt").write_bytes(content)
    (found,) = texts(tmp_path, needs_utf8=False)
    assert found.encode(errors="surrogateescape") == content


def test_a_path_without_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere does not exist"):
        files_of([tmp_path / "nowhere"])
    with pytest.raises(DataError, match=r"has no text: no file that ends in \.py"):
        files_of([tmp_path])
    (tmp_path / "t.bin").write_bytes(b"\0")
    (tmp_path / "t.txt").write_text("x")
    with pytest.raises(DataError, match=r"t\.bin: a token file can't be combined"):
        files_of([tmp_path / "t.txt", tmp_path / "t.bin"])


@settings(
    max_examples=60, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(
    st.text(st.sampled_from("ab \n\té🙂界"), min_size=1, max_size=200),
    st.integers(8, 40),
    st.sampled_from(["a.txt", "a.jsonl"]),
)
def test_a_long_document_comes_in_pieces_at_line_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, piece: int, name: str
) -> None:
    monkeypatch.setattr(documents, "PIECE", piece)
    path = tmp_path / name
    path.write_bytes((json.dumps({"text": text}) if name == "a.jsonl" else text).encode())
    found = list(text_pieces(files_of([path]), "text", needs_utf8=True))
    assert "".join(part.text for part in found) == text
    assert [part.ends_document for part in found] == [False] * (len(found) - 1) + [True]
    for part in found[:-1]:
        limit = part.text if name == "a.jsonl" else part.text.encode()
        assert 0 < len(limit) <= piece
        # Within reach of a line end or a space it is cut there.
        rest = text.removeprefix("".join(p.text for p in found[: found.index(part) + 1]))
        assert part.text.endswith("\n") or rest[:1] == " " or not set(part.text[1:]) & {"\n", " "}


def test_hidden_files_and_folders_are_not_read(tmp_path: Path) -> None:
    for name in (".hidden.txt", ".git/a.txt", "a.txt", "b/.c.txt", "b/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert [file.name for file in files_of([tmp_path])] == ["0/a.txt", "0/b/d.txt"]
    assert [file.name for file in files_of([tmp_path / ".hidden.txt"])] == ["0/.hidden.txt"]


def test_tables_and_compressed_files_are_named(tmp_path: Path) -> None:
    heads = {
        "parquet": b"PAR1", "gzip": gzip.compress(b"text"), "Zstandard": b"\x28\xb5\x2f\xfd",
        "xz": b"\xfd7zXZ",
    }  # fmt: skip
    for kind, content in heads.items():
        path = tmp_path / "a.jsonl"
        path.write_bytes(content)
        with pytest.raises(DataError, match=f"(?i)must be text or .jsonl: .*{kind}"):
            files_of([path])
