"""Output files become log entries: each line once, in order, with its time, whatever happens in between."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.waiting import LIMIT, until
from tests.wire.observe import JOB, PROJECT, REPLICA, Output, allocated, collecting, cut, place, state_dir
from tui.emulator.interfaces import JobRecord
from tui.emulator.logging.record import StoredEntry
from tui.emulator.logging.store import EntryStore, RowRange

INFO, ERROR, DEFAULT = 200, 500, 0
STORED = 'resource.type="ml_job"'


def stored(store: EntryStore) -> list[StoredEntry]:
    return list(store.scan(store.sources(), RowRange(), newest_first=False))


async def test_lines_become_entries_while_the_replica_runs() -> None:
    async with place() as here, collecting(here.state, here.store) as collector:
        attempt = here.state.attempt(JOB.id, 1)
        out, err = Output(attempt), Output(attempt, stream="stderr")
        collector.watch(JOB, attempt, [REPLICA])
        out.write("one\ntwo\nhal")
        err.write("oops\n")

        async def three() -> bool:
            return len(await here.entries(STORED)) == 3

        await until(three, "the whole lines")
        out.write("f\n\r\x1b[31mred\r\n")
        await collector.drain(JOB)
        entries = await here.entries(STORED)
        assert [e.text_payload for e in entries if e.severity == INFO] == [
            "one",
            "two",
            "half",
            "\r\x1b[31mred\r",
        ]
        assert [e.text_payload for e in entries if e.severity == ERROR] == ["oops"]
        for entry in entries:
            assert entry.log_name == f"{PROJECT}/logs/{REPLICA}"
            assert dict(entry.resource.labels) == {"project_id": "p", "job_id": JOB.id, "task_name": REPLICA}
            assert entry.receive_timestamp and entry.insert_id


async def test_a_partial_last_line_waits_for_the_end() -> None:
    async with place() as here, collecting(here.state, here.store) as collector:
        attempt = here.state.attempt(JOB.id, 1)
        out = Output(attempt)
        collector.watch(JOB, attempt, [REPLICA])
        out.write("whole\npart")

        async def first() -> list[str]:
            return await here.texts()

        assert await until(first, "the first line") == ["whole"]
        await collector.drain(JOB)
        assert await here.texts() == ["whole", "part"]
        # A second end of the same attempt changes nothing.
        collector.watch(JOB, attempt, [REPLICA])
        await collector.drain(JOB)
        assert await here.texts() == ["whole", "part"]


async def test_json_lines_carry_severity_time_and_payload() -> None:
    now = int(time.time())
    lines = [
        {"severity": "warning", "message": "hot", "timestampSeconds": now - 5, "timestampNanos": 7, "x": 1.5},
        {"levelname": "ERROR", "message": "bad", "deep": {"list": [1, None, True, {"k": "v"}]}},
        {"message": "plain"},
        {"severity": "shouting", "message": "unknown word"},
        {"message": "far away", "timestampSeconds": 12, "timestampNanos": 0},
    ]
    async with place() as here, collecting(here.state, here.store) as collector:
        attempt = here.state.attempt(JOB.id, 1)
        Output(attempt).write("".join(json.dumps(line) + "\n" for line in lines))
        collector.watch(JOB, attempt, [REPLICA])
        await collector.drain(JOB)
        entries = await here.entries("jsonPayload.message:*")
        by_message = {e.json_payload["message"]: e for e in entries}
        hot = by_message["hot"]
        assert (hot.severity, dict(hot.json_payload)) == (400, {"message": "hot", "x": 1.5})
        assert hot.timestamp.timestamp() == now - 5 and hot.timestamp.nanosecond == 7  # type: ignore[attr-defined]
        bad = by_message["bad"]
        assert bad.severity == ERROR and bad.json_payload["levelname"] == "ERROR"
        assert [e.key if hasattr(e, "key") else e for e in bad.json_payload["deep"]["list"]][:3] == [
            1,
            None,
            True,
        ]
        assert by_message["plain"].severity == INFO
        assert by_message["unknown word"].severity == INFO
        assert by_message["unknown word"].json_payload["severity"] == "shouting"
        assert abs(by_message["far away"].timestamp.timestamp() - time.time()) < 600


NOT_OBJECTS = ["[1]", '{"a": NaN}', '{"a": 1', "{}x", '{"a":' * 60 + "1" + "}" * 60, '"text"', "{" * 5000]


async def test_what_is_no_json_object_stays_text() -> None:
    async with place() as here, collecting(here.state, here.store) as collector:
        attempt = here.state.attempt(JOB.id, 1)
        Output(attempt).write("\n".join(NOT_OBJECTS) + "\n")
        collector.watch(JOB, attempt, [REPLICA])
        await collector.drain(JOB)
        assert await here.texts() == NOT_OBJECTS


async def test_bytes_that_are_not_text_reach_the_client() -> None:
    async with place() as here, collecting(here.state, here.store) as collector:
        attempt = here.state.attempt(JOB.id, 1)
        Output(attempt).write(b'\xff\xfe caf\xc3\xa9 \x00\n{"a": "\\ud800"}\n{}\n')
        collector.watch(JOB, attempt, [REPLICA])
        await collector.drain(JOB)
        text, half, empty = await here.entries()
        assert text.text_payload == "\ufffd\ufffd café \x00"
        assert half.json_payload["a"] == "\ufffd"
        assert "json_payload" in empty and not empty.json_payload


async def test_a_huge_line_is_split() -> None:
    line = "é" * 300_000 + "end"
    async with place() as here, collecting(here.state, here.store) as collector:
        attempt = here.state.attempt(JOB.id, 1)
        Output(attempt).write(f"before\n{line}\nafter\n")
        collector.watch(JOB, attempt, [REPLICA])
        await collector.drain(JOB)
        entries = await here.entries()
        texts = [e.text_payload for e in entries]
        assert texts[0] == "before" and texts[-1] == "after" and "".join(texts[1:-1]) == line
        parts = entries[1:-1]
        assert [(p.split.index, p.split.total_splits) for p in parts] == [(i, 3) for i in range(3)]
        assert len({p.split.uid for p in parts}) == 1 and len({p.insert_id for p in parts}) == 3


async def test_output_without_newline_does_not_need_endless_memory() -> None:
    async with place() as here, collecting(here.state, here.store) as collector:
        attempt = here.state.attempt(JOB.id, 1)
        out = Output(attempt)
        data = b"0123456789abcdef" * (6 * 65536)
        out.write(data)
        collector.watch(JOB, attempt, [REPLICA])
        await collector.drain(JOB)
        assert "".join(r.text for r in stored(here.store)).encode() == data


async def test_lines_have_the_time_of_their_stamp() -> None:
    base = time.time_ns() - 3600 * 10**9
    async with place() as here, collecting(here.state, here.store) as collector:
        attempt = here.state.attempt(JOB.id, 1)
        out = Output(attempt)
        for tick in range(3):
            out.write(f"{tick}a\n{tick}b\n", stamp=False)
            out.stamp(base + tick * 10**9)
        collector.watch(JOB, attempt, [REPLICA])
        await collector.drain(JOB)
        times = [(r.text, r.timestamp) for r in stored(here.store)]
        assert times == [
            (f"{tick}{letter}", base + tick * 10**9 + offset)
            for tick in range(3)
            for letter, offset in (("a", 0), ("b", 1000))
        ]


async def test_output_without_stamps_has_the_time_of_its_file() -> None:
    async with place() as here, collecting(here.state, here.store) as collector:
        attempt = here.state.attempt(JOB.id, 1)
        out = Output(attempt)
        out.write("left behind\n", stamp=False)
        os.utime(out.path, (1_700_000_000, 1_700_000_000))
        collector.watch(JOB, attempt, [REPLICA])
        # Nobody ended the attempt: only that no stamp comes tells that its runner is gone.
        await until(lambda: here.store.sources() and stored(here.store), "the line")
        assert [r.timestamp for r in stored(here.store)] == [1_700_000_000 * 10**9]


async def test_attempts_and_replicas_are_kept_apart() -> None:
    async with place() as here, collecting(here.state, here.store) as collector:
        replicas = ["workerpool0-0", "workerpool1-0", "workerpool1-1"]
        for number in (1, 2):
            attempt = here.state.attempt(JOB.id, number)
            for replica in replicas:
                Output(attempt, replica).write(f"{replica} attempt {number}\n")
            collector.watch(JOB, attempt, replicas)
            await collector.drain(JOB)
        assert sorted(await here.texts('resource.labels.task_name="workerpool1-1"')) == [
            "workerpool1-1 attempt 1",
            "workerpool1-1 attempt 2",
        ]
        assert len({e.insert_id for e in await here.entries()}) == 6


async def test_the_service_speaks_once() -> None:
    async with place() as here, collecting(here.state, here.store) as collector:
        for _ in range(2):
            await collector.service_message(JOB, "restarted", "ERROR", at=1_700_000_000.25)
        for text in ("first", "second", "third"):
            await collector.service_message(JOB, text)
        entries = await here.entries('resource.labels.task_name="service"')
        assert [e.text_payload for e in entries] == ["restarted", "first", "second", "third"]
        assert entries[0].severity == ERROR and entries[0].timestamp.timestamp() == 1_700_000_000.25
        assert entries[1].severity == INFO


async def test_a_deleted_job_is_watched_no_more_and_keeps_its_log() -> None:
    async with place() as here, collecting(here.state, here.store) as collector:
        attempt = here.state.attempt(JOB.id, 1)
        Output(attempt).write("kept\n")
        collector.watch(JOB, attempt, [REPLICA])
        await until(lambda: here.store.sources() and stored(here.store), "the line")
        await collector.forget(JOB)
        await asyncio.wait_for(collector.drain(JOB), LIMIT)
        assert await here.texts() == ["kept"]


async def test_output_that_nobody_asks_for_again_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    with state_dir() as state:
        store = EntryStore(state.log_database)
        out = Output(state.attempt(JOB.id, 1))
        out.write("seen\n")
        async with collecting(state, store) as collector:
            collector.watch(JOB, state.attempt(JOB.id, 1), [REPLICA])
            await until(lambda: store.sources() and stored(store), "the first line")
        out.write("left over", stamp=False)
        monkeypatch.setattr("tui.emulator.logging.ingest.ORPHAN_SECONDS", 0.2)
        async with collecting(state, store) as collector:
            await until(lambda: len(stored(store)) == 2, "the rest")
            await until(lambda: not collector._streams, "the end of watching")
        assert [r.text for r in stored(store)] == ["seen", "left over"]
        store.close()


async def test_a_busy_replica_does_not_silence_the_others() -> None:
    with state_dir() as state:
        store = EntryStore(state.log_database)
        attempt = state.attempt(JOB.id, 1)
        loud, quiet = Output(attempt, "workerpool0-0"), Output(attempt, "workerpool1-0")
        loud.write("x" * 60 + "\n" + ("y" * 60 + "\n") * 200_000)
        quiet.write("here I am\n")
        async with collecting(state, store) as collector:
            collector.watch(JOB, attempt, ["workerpool0-0", "workerpool1-0"])
            await collector.drain(JOB)
        found = stored(store)
        assert len(found) == 200_002
        arrived = next(r.row[6] for r in found if r.text == "here I am")
        assert arrived < max(r.row[6] for r in found)
        store.close()


async def test_a_full_disk_loses_nothing() -> None:
    lines = [f"line {i} " + "x" * 200 for i in range(3000)]
    with state_dir() as state:
        store = EntryStore(state.log_database)
        # SQLite's own limit stands in for the disk: the error is the same one.
        await store.write(store.database().execute, "PRAGMA max_page_count = 40")
        async with collecting(state, store) as collector:
            attempt = state.attempt(JOB.id, 1)
            Output(attempt).write("\n".join(lines) + "\n")
            collector.watch(JOB, attempt, [REPLICA])
            draining = asyncio.create_task(collector.drain(JOB))
            await until(lambda: collector._pause, "the disk to be full")
            await collector.service_message(JOB, "said while the disk was full")
            assert not draining.done()
            await store.write(store.database().execute, "PRAGMA max_page_count = 1000000")
            await asyncio.wait_for(draining, LIMIT)
        texts = [r.text for r in stored(store) if r.source.resource_labels["task_name"] == REPLICA]
        assert texts == lines
        assert "said while the disk was full" in [r.text for r in stored(store)]
        store.close()


# A line is anything without a newline; JSON lines and bytes that are no text are among them.
LINE = st.one_of(
    st.binary(max_size=40).map(lambda b: b.replace(b"\n", b" ")),
    st.integers(0, 10**6).map(lambda n: json.dumps({"message": f"m{n}", "severity": "INFO"}).encode()),
)


@settings(max_examples=25)
@given(
    st.lists(LINE, max_size=60),
    st.booleans(),
    st.integers(0, 2**32),
    st.lists(st.sampled_from("wksp"), max_size=12),
)
def test_every_line_once_and_in_order_over_any_deaths(
    lines: list[bytes], newline: bool, seed: int, deaths: list[str]
) -> None:
    data = b"\n".join(lines) + (b"\n" if newline and lines else b"")
    pieces = cut(data, seed, len(deaths) + 1)

    async def live() -> list[StoredEntry]:
        with state_dir() as state:
            attempt = state.attempt(JOB.id, 1)
            out = Output(attempt)
            for piece, death in zip(pieces, [*deaths, ""], strict=True):
                out.write(piece, stamp=death != "s")
                store = EntryStore(state.log_database)
                async with collecting(state, store) as collector:
                    # After "p" the control plane does not come back for this job: the store knows it still.
                    if death != "p":
                        collector.watch(JOB, attempt, [REPLICA])
                    if death == "w":
                        await store.write(collector._round, list(collector._streams.values()))
                    if not death:
                        await asyncio.wait_for(collector.drain(JOB), LIMIT)
                        found = stored(store)
                store.close()
            return found

    found = asyncio.run(live())
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert [_text(r) for r in found] == [_expected(line) for line in expected]
    assert len({r.row[2] for r in found}) == len(found)
    times = [r.timestamp for r in found]
    assert times == sorted(times)


def _text(record: StoredEntry) -> object:
    return record.json if record.json is not None else record.text


def _expected(line: bytes) -> object:
    try:
        value = json.loads(line)
        if isinstance(value, dict) and line[:1] == b"{":
            value.pop("severity", None)
            return value
    except ValueError:
        pass
    return line.decode("utf-8", "replace")


async def test_the_loop_is_free_while_a_large_log_is_read() -> None:
    with state_dir() as state:
        store = EntryStore(state.log_database)
        async with collecting(state, store) as collector:
            attempt = state.attempt(JOB.id, 1)
            count = 50_000
            Output(attempt).write("".join(f"step {i} loss 2.1 tokens/s 1234\n" for i in range(count)))
            beats: list[float] = []

            async def beat() -> None:
                while True:
                    began = time.thread_time()
                    await asyncio.sleep(0.001)
                    beats.append(time.thread_time() - began)

            task = asyncio.create_task(beat())
            began = time.process_time()
            collector.watch(JOB, attempt, [REPLICA])
            await collector.drain(JOB)
            took = time.process_time() - began
            task.cancel()
        # Both are CPU time, which other programs do not add to: what the loop's own thread works between
        # two beats keeps everybody else waiting.
        assert count / took > 20_000
        assert sorted(beats)[int(len(beats) * 0.9)] < 0.03
        assert len(stored(store)) == count
        store.close()


COLLECT = """
import asyncio, sys
from pathlib import Path
from tui.emulator.interfaces import JobRecord
from tui.emulator.logging.ingest import LogCollector
from tui.emulator.logging.store import EntryStore
from tui.emulator.paths import StateDir

async def main():
    state = StateDir(Path(sys.argv[1]))
    collector = LogCollector(state, EntryStore(state.log_database), kept_output=0)
    await collector.start()
    collector.watch(JobRecord("p", "us-central1", sys.argv[2]), state.attempt(sys.argv[2], 1), [sys.argv[3]])
    print("up", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""

PADDING = "x" * 200


async def test_kill_9_neither_loses_nor_doubles_a_line() -> None:
    with state_dir() as state:
        out = Output(state.attempt(JOB.id, 1))
        written = 0
        for wait in (0.0, 0.05, 0.15):
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                COLLECT,
                str(state.root),
                JOB.id,
                REPLICA,
                stdout=asyncio.subprocess.PIPE,
            )
            assert process.stdout is not None
            assert await process.stdout.readline() == b"up\n"
            began = time.monotonic()
            while time.monotonic() - began <= wait:
                # Long enough that the file becomes a hole behind the collector.
                out.write("".join(f"line {i} {PADDING}\n" for i in range(written, written + 500)))
                written += 500
                await asyncio.sleep(0.01)
            process.kill()
            await process.wait()
        store = EntryStore(state.log_database)
        async with collecting(state, store) as collector:
            collector.watch(JOB, state.attempt(JOB.id, 1), [REPLICA])
            await asyncio.wait_for(collector.drain(JOB), LIMIT)
        assert [r.text for r in stored(store)] == [f"line {i} {PADDING}" for i in range(written)]
        assert allocated(out.path) < out.path.stat().st_size
        store.close()


@pytest.mark.parametrize("project", ["p", "other-project"])
async def test_entries_belong_to_their_project(project: str) -> None:
    async with place() as here, collecting(here.state, here.store) as collector:
        job = JobRecord(project, "us-central1", "77")
        await collector.service_message(job, "hello")
        assert await here.texts() == (["hello"] if project == "p" else [])
