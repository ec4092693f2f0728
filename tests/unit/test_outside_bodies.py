"""What comes from outside is decoded within limits, and helper programs end with their call."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import sys
from pathlib import Path

import pytest
import yaml

from tests.waiting import LIMIT, until
from tui.domain.document.decoding import decode_json, decode_yaml
from tui.helper_program import TooMuchOutput, run_helper, run_helper_blocking

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 10)}]}}\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text", ["[" * 60_000, '{"a":' * 60_000, "[" * 101 + "]" * 101, b"[" * 500 + b"]" * 500]
)
def test_deep_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"nested more than 100 levels deep|Expecting value"):
        decode_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 60_000,
        "{a: " * 60_000,
        "- " * 60_000,
        "? " * 60_000,
        "\n".join(" " * n + "a:" for n in range(200)),
    ],
)
def test_deep_yaml_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="nested more than 100 levels deep"):
        decode_yaml(text)


@pytest.mark.parametrize("text", [LAUGHS, MERGES, "a: &a [*a]", "a: &a {b: *a}"])
def test_aliases_that_repeat_without_end_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the aliases expand to more than 100,000 values"):
        decode_yaml(text)


@pytest.mark.parametrize(
    "text",
    ["!!int x", "!!timestamp x", "!!bool x", "!!python/object:os.system x", "{[a]: b}", "*a", "2024-99-99"],
)
def test_a_value_that_does_not_suit_its_tag_is_refused(text: str) -> None:
    with pytest.raises((ValueError, yaml.YAMLError)):
        decode_yaml(text)


def test_ordinary_texts_are_decoded() -> None:
    value = {"a": [1, 2.5, None, True, {"b": "\u00e9"}]}
    assert decode_json(json.dumps(value)) == decode_json(json.dumps(value).encode()) == value
    assert decode_json("[" * 100 + "]" * 100) and decode_json('"\\ud800\\ud83d\\ude00"') == "\ufffd\U0001f600"
    assert decode_yaml("a: &a {x: 1}\nb: *a\n---\nc: 1") == {"a": {"x": 1}, "b": {"x": 1}}
    assert decode_yaml("") is None
    for word in ("NaN", "Infinity", "-Infinity"):
        with pytest.raises(ValueError, match="is not JSON"):
            decode_json(word)


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and "Z (" not in Path(f"/proc/{pid}/status").read_text()


async def test_a_program_that_writes_without_end_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The end of the program does not wait for its unread output.
    monkeypatch.setattr("tui.helper_program._GROUP_SECONDS", 3600.0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    script = f"sleep 600 & echo $! > {tmp_path}/child; yes"
    with pytest.raises(TooMuchOutput, match="sh wrote more than 1,000,000 bytes"):
        await run_helper(["sh", "-c", script], seconds=60)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    await until(lambda: not _alive(int((tmp_path / "child").read_text())), "the child ends")


async def test_a_program_without_an_answer_is_killed_with_its_children(tmp_path: Path) -> None:
    # The program ends; its child has the pipe.
    script = f"trap '' TERM; sleep 600 & echo $! > {tmp_path}/child"
    with pytest.raises(TimeoutError):
        await run_helper(["sh", "-c", script], seconds=0.5)
    await until(lambda: not _alive(int((tmp_path / "child").read_text())), "the child ends")


async def test_a_cancelled_call_kills_the_program(tmp_path: Path) -> None:
    call = asyncio.create_task(run_helper(["sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 600"], seconds=600))
    pid = tmp_path / "pid"
    await until(lambda: pid.exists() and pid.read_text(), "the program")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: not _alive(int((tmp_path / "pid").read_text())), "the program ends")


def _named(word: str) -> bool:
    """Return whether a process has this word in its command."""
    commands = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
    with contextlib.suppress(OSError):
        return any(word.encode() in command for command in commands)
    return True


async def test_a_call_cancelled_while_its_program_starts_ends_with_the_children(tmp_path: Path) -> None:
    script = f"sh -c 'sleep 600; : {tmp_path}'; : more"
    for turns in range(1, 9):
        call = asyncio.create_task(run_helper(["sh", "-c", script], seconds=600))
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(LIMIT):
                await call
        await until(lambda: not _named(str(tmp_path)), "no process is left")


async def test_a_program_gets_its_input_and_returns_its_outputs() -> None:
    code = "import os,sys; sys.stderr.write(os.environ['A']); print(len(sys.stdin.read())); sys.exit(3)"
    done = await run_helper([sys.executable, "-c", code], seconds=60, stdin=b"x" * 500_000, env={"A": "b"})
    assert (done.code, done.output, done.errors) == (3, b"500000\n", b"b")
    assert run_helper_blocking(["sh", "-c", "test -t 0 || echo none"], seconds=60).output == b"none\n"
    with pytest.raises(OSError, match="No such file"):
        await run_helper(["/none"], seconds=1)
