"""A profile's draft: any edits keep it readable, undo gives the file back, saving loses nobody's work."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tui.config.paths import shipped
from tui.domain.document.document_edit import Edit
from tui.domain.document.source import read
from tui.domain.form import FormRow, FormState, build_rows, changes
from tui.domain.form.analysis import analyse
from tui.domain.form.choices import pool_of, pools_path
from tui.store.profiles.draft import Draft, FileChanged, read_text

TEXTS = [p.read_text() for p in sorted(shipped("profiles").glob("*.yaml"))]
TEXTS += [
    # A gcloud config file, snake case, comments at the end of lines, and JSON.
    "workerPoolSpecs:  # pools\n- machineSpec: {machineType: n1-standard-4}  # small\n  replicaCount: 1\n"
    "  containerSpec:\n    imageUri: a/b/c:1 # why\n    env:\n    - name: A\n      value: 'x: y'\n",
    "display_name: snake\njob_spec:\n  worker_pool_specs:\n  - machine_spec: {machine_type: n1-standard-4}\n"
    "    replica_count: 1\n    container_spec: {image_uri: a/b/c}\n  -\n  scheduling: {timeout: 60s}\n",
    '{"displayName": "json", "jobSpec": {"workerPoolSpecs": [{"replicaCount": 1}]}}',
]
VALUES = st.one_of(
    st.sampled_from(
        ["", "3", "true", "a2-highgpu-8g", "NVIDIA_TESLA_A100", "SPOT", "2d", "A=b", "${steps}", "a: b",
         "- x", "# no comment", "'", '"', "{", "*a", "&b", "null", "~", "1e3", "0x1f", "é ✗", "\t", " lead",
         "a=b=c"]
    ),
    st.text(max_size=12),
)  # fmt: skip
STEPS = st.lists(
    st.tuples(st.sampled_from(["type", "add", "remove", "element", "pool", "link", "inline", "task",
                               "machine"]),
              st.integers(0, 200), VALUES),
    max_size=6,
)  # fmt: skip


def rows_of(text: str) -> tuple[Any, list[FormRow], bool]:
    found = analyse(text, "f.yaml", "f")
    assert found.readable, (text, found.problems)
    return (
        found.value,
        build_rows(FormState(found.value, found.value, found.spec_path, expanded=True)),
        found.spec_path,
    )


def edits_of(text: str, operation: str, number: int, words: str) -> tuple[Edit, ...]:
    """What the form would do at one of its rows; nothing where it refuses."""
    root, rows, spec_path = rows_of(text)
    row = rows[number % len(rows)]
    try:
        match operation:
            case "type" if row.field is not None or row.path[:1] == ("parameters",):
                return changes.value_edits(root, row, words) if row.path != ("parameters",) else ()
            case "add":
                return changes.addition_edits(root, row, words)[0]
            case "remove":
                return changes.removal_edits(root, row)
            case "element" if row.field is not None and row.field.name in {"nfsMounts", "dnsPeeringConfigs"}:
                return changes.element_edits(root, row)[0]
            case "pool":
                return changes.pool_edits(root, pools_path(root, spec_path), 1 + number % 3)
            case "link" if spec_path:
                return changes.parameter_edits(root, row, f"p{number % 3}")
            case "inline":
                return changes.inline_edits(root, row)
            case "task" if pool_of(row) is not None:
                return changes.task_edits(root, pool_of(row) or ())
            case "machine" if pool_of(row) is not None:
                return changes.machine_edits(root, pool_of(row) or (), words)
    except (ValueError, changes.Refused):
        pass
    return ()


@settings(max_examples=40)
@given(st.sampled_from(TEXTS), STEPS)
@example(TEXTS[-1], [("type", 1, "\x7f")])
def test_any_edits_stay_readable_and_undo_gives_the_file_back(
    text: str, steps: list[tuple[str, int, str]]
) -> None:
    draft = Draft(Path("f.yaml"), text, Path("nowhere"))
    seen = [text]
    for operation, number, words in steps:
        edits = edits_of(draft.text, operation, number, words)
        if draft.replace(draft.preview(edits), operation):
            seen.append(draft.text)
            read(draft.text, "f.yaml")
    for earlier in reversed(seen[:-1]):
        assert draft.undo()
        assert draft.text == earlier
    assert draft.text == text and not draft.undo() and not draft.changed
    for later in seen[1:]:
        assert draft.redo()
        assert draft.text == later
    assert not draft.redo()


def test_a_typed_value_is_the_value_of_the_file() -> None:
    text = TEXTS[0]
    for words in ("plain", "a: b", "# x", "'", "true", "12", "- y", "é"):
        root, rows, _ = rows_of(text)
        row = next(r for r in rows if r.path == ("description",))
        draft = Draft(Path("f.yaml"), text, Path("nowhere"))
        after = read(draft.preview(changes.value_edits(root, row, words)), "f.yaml").value
        assert after["description"] == words and {**after, "description": 0} == {**root, "description": 0}


@pytest.fixture
def draft(tmp_path: Path) -> Draft:
    path = tmp_path / "p.yaml"
    path.write_bytes(TEXTS[0].encode())
    return Draft(path, read_text(path), tmp_path / "drafts")


def change(draft: Draft, words: str = "other") -> None:
    assert draft.replace(draft.preview([Edit(("description",), words)]), "set description")


def test_saving_keeps_the_mode_and_the_link(draft: Draft, tmp_path: Path) -> None:
    draft.path.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(draft.path)
    linked = Draft(link, draft.text, tmp_path / "drafts")
    change(linked)
    assert linked.changed
    linked.save()
    assert link.is_symlink() and draft.path.read_text() == linked.text and not linked.changed
    assert draft.path.stat().st_mode & 0o777 == 0o640
    assert (
        sorted(p.name for p in tmp_path.iterdir()) == ["drafts", "link.yaml", "p.yaml"]
        or not (tmp_path / "drafts").exists()
    )


def test_what_somebody_else_wrote_is_not_written_over(draft: Draft) -> None:
    change(draft)
    mine = draft.text
    draft.path.write_text("theirs: 1\n")
    with pytest.raises(FileChanged, match="another program"):
        draft.save()
    assert draft.path.read_text() == "theirs: 1\n" and draft.text == mine
    draft.reload()
    assert draft.text == "theirs: 1\n" and not draft.changed
    assert draft.undo() == "reload" and draft.text == mine
    draft.save()
    assert draft.path.read_text() == mine


def test_a_file_that_is_gone_is_said_and_can_be_written_anew(draft: Draft) -> None:
    change(draft)
    draft.path.unlink()
    with pytest.raises(FileChanged) as raised:
        draft.save()
    assert raised.value.gone
    draft.save(over=True)
    assert draft.path.read_text() == draft.text


def test_save_as_writes_over_nothing(draft: Draft, tmp_path: Path) -> None:
    change(draft)
    there = tmp_path / "there.yaml"
    there.write_text("x")
    with pytest.raises(FileExistsError):
        draft.save_as(there)
    assert there.read_text() == "x" and draft.changed
    original = draft.path.read_text()
    draft.save_as(tmp_path / "sub" / "new.yaml")
    assert draft.path.read_text() == draft.text and not draft.changed
    assert (tmp_path / "p.yaml").read_text() == original


def test_a_disk_that_takes_nothing_loses_nothing(draft: Draft, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        draft.path = Path("/proc/none.yaml")
    else:
        tmp_path.chmod(0o500)
    change(draft)
    text = draft.text
    with pytest.raises(OSError):
        draft.save(over=True)
    assert draft.text == text and draft.changed
    tmp_path.chmod(0o700)


def test_unsaved_work_is_found_again(draft: Draft, tmp_path: Path) -> None:
    assert draft.offered() is None
    change(draft)
    draft.keep()
    again = Draft(draft.path, read_text(draft.path), tmp_path / "drafts")
    kept = again.offered()
    assert kept is not None and kept.text == draft.text and kept.base == again.saved
    draft.save()
    assert Draft(draft.path, read_text(draft.path), tmp_path / "drafts").offered() is None
    change(draft, "once more")
    draft.keep()
    draft.undo()
    draft.keep()
    assert again.offered() is None


def test_damaged_unsaved_work_is_no_work(draft: Draft, tmp_path: Path) -> None:
    change(draft)
    draft.keep()
    (found,) = (tmp_path / "drafts").glob("*.json")
    assert found.stat().st_mode & 0o777 == 0o600
    again = Draft(draft.path, "x", tmp_path / "drafts")
    assert again.offered() is not None
    for damage in (b"", b"{", b"[]", b'{"text": 1}'):
        found.write_bytes(damage)
        assert again.offered() is None


def test_each_console_keeps_its_own_work(draft: Draft, tmp_path: Path) -> None:
    other, third = (Draft(draft.path, draft.text, tmp_path / "drafts") for _ in range(2))
    for each, words in ((draft, "one"), (other, "two")):
        each.open()
        change(each, words)
        each.keep()
    assert third.offered() is None, "both live"
    draft.close()
    kept = third.offered()
    assert kept is not None and "description: one" in kept.text
    other.close()
    kept = third.offered()
    assert kept is not None and "description: two" in kept.text, "the newest"
    third.discard(kept)
    kept = third.offered()
    assert kept is not None and "description: one" in kept.text, "and then the other"
    third.discard(kept)
    assert third.offered() is None


def test_work_is_found_under_the_name_that_an_older_console_gave_it(draft: Draft, tmp_path: Path) -> None:
    change(draft)
    draft.keep()
    (made,) = (tmp_path / "drafts").glob("*.json")
    made.rename(made.with_name(made.name.partition("-")[0] + ".json"))
    kept = Draft(draft.path, read_text(draft.path), tmp_path / "drafts").offered()
    assert kept is not None and kept.text == draft.text


def test_who_has_it_open_is_known_until_it_ends(draft: Draft, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tui.store.profiles.draft import Draft\n"
        "Draft(Path(sys.argv[1]), '', Path(sys.argv[2])).open(); print(1, flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", code, str(draft.path), str(tmp_path / "drafts")]
    other = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdin is not None and other.stdout is not None
    with other, other.stdin, other.stdout:
        other.stdout.readline()
        (editor,) = draft.open()
        assert editor.pid == other.pid and editor.name == f"pid {other.pid}"
        other.kill()
    assert draft.others() == []
    draft.close()
    assert not list((tmp_path / "drafts").glob("*.open"))


def test_what_is_written_over_can_be_had_back(draft: Draft) -> None:
    change(draft)
    mine = draft.text
    draft.path.write_text("theirs: 1\n")
    draft.save(over=True)
    assert draft.path.read_text() == mine and not draft.changed
    draft.undo()
    assert draft.text == "theirs: 1\n"
    draft.redo()
    assert draft.text == mine


def test_of_two_that_save_at_once_one_is_told(draft: Draft, tmp_path: Path) -> None:
    drafts = [Draft(draft.path, draft.text, tmp_path / "drafts") for _ in range(8)]
    for number, each in enumerate(drafts):
        change(each, f"by {number}")

    def save(each: Draft) -> bool:
        try:
            each.save()
        except FileChanged:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(save, drafts))
    assert done.count(True) == 1
    assert draft.path.read_text() == drafts[done.index(True)].text


def test_the_diff_is_what_changed(draft: Draft) -> None:
    assert draft.diff() == []
    change(draft)
    body = [line for line in draft.diff()[2:] if line[0] in "+-"]
    assert len(body) == 2 and body[0].startswith("-description:") and body[1] == "+description: other"


def test_a_file_that_is_no_profile_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\xfe")
    with pytest.raises(OSError, match="UTF-8"):
        read_text(tmp_path / "a")
    (tmp_path / "b").write_bytes(b"x" * 1_000_001)
    with pytest.raises(OSError, match="more than"):
        read_text(tmp_path / "b")
