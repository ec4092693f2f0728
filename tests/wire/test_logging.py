"""google.logging.v2 through the unmodified client: write, list, tail, logs, and every refusal."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import time
from collections import Counter
from pathlib import Path

import pytest
from google.api_core import exceptions
from google.cloud.logging_v2.types import LogEntry, TailLogEntriesRequest, WriteLogEntriesPartialErrors
from google.protobuf import any_pb2
from google.rpc import code_pb2

from tests.waiting import until
from tests.wire.observe import JOB, PROJECT, REPLICA, Output, Place, Tail, collecting, place
from tui.emulator.logging.record import ReceiptClock
from tui.emulator.logging.retention import delete_older, run_retention

LOG = f"{PROJECT}/logs/app"
GLOBAL = {"type": "global", "labels": {"project_id": "p"}}


# Fixed once: a run that passes a full hour between two looks at the clock would see two pasts.
BASE = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0) - dt.timedelta(days=1)


def minutes(n: float) -> dt.datetime:
    """A time of the test's own, `n` minutes after a fixed past one."""
    return BASE + dt.timedelta(minutes=n)


def entry(text: str, at: float = 0, insert_id: str = "", **fields: object) -> dict[str, object]:
    return {"text_payload": text, "timestamp": minutes(at), "insert_id": insert_id, **fields}


async def test_defaults_are_filled_in() -> None:
    async with place() as here:
        await here.write(
            {"text_payload": "a", "labels": {"own": "1"}},
            {"text_payload": "b", "log_name": f"{PROJECT}/logs/other%2Flog", "resource": {"type": "ml_job"}},
            {"json_payload": {"x": 1}, "severity": "WARNING"},
            labels={"own": "0", "shared": "s"},
        )
        a, b, c = await here.entries()
        assert (
            a.log_name == LOG and a.resource.type == "global" and dict(a.resource.labels) == GLOBAL["labels"]
        )
        assert dict(a.labels) == {"own": "1", "shared": "s"}
        assert b.log_name.endswith("other%2Flog") and b.resource.type == "ml_job"
        assert c.json_payload["x"] == 1 and c.severity == 400
        # Without ids and times of their own they sort as they were given.
        assert a.timestamp == b.timestamp and a.insert_id < b.insert_id < c.insert_id
        assert abs(a.timestamp.timestamp() - time.time()) < 600 and a.receive_timestamp


async def test_a_clock_that_is_set_back_hides_no_entry_from_a_list_or_a_tail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with place() as here, here.tail() as tail:
        await opened(here, tail)
        before = await here.entries()
        real = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() - 600 * 10**9)
        assert await here.entries() == before
        await here.write(entry("after", 1))
        await until(
            lambda: "after" in {one.text_payload for one in tail.entries}, "the entry of after the jump"
        )
        # As a reader continues.
        newest = max(one.receive_timestamp for one in before)
        assert "after" in await here.texts(f'receiveTimestamp>="{newest.rfc3339()}"')


def test_a_time_of_receipt_is_no_earlier_than_those_of_an_earlier_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "logs.db"
    file.write_text("")
    Path(f"{file}-wal").write_text("")
    written = Path(f"{file}-wal").stat().st_mtime_ns
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 600 * 10**9)
    assert ReceiptClock(file).time_ns() == written
    monkeypatch.setattr(time, "time_ns", lambda: real() + 600 * 10**9)
    assert ReceiptClock(file).time_ns() > written + 500 * 10**9


async def test_an_entry_sent_twice_is_there_once() -> None:
    async with place() as here:
        for _ in range(2):
            await here.write(entry("once", 1, "same"), entry("other time", 2, "same"))
        # The same id and time under another resource is the same entry as well, within one project.
        await here.write({**entry("once", 1, "same"), "resource": {"type": "ml_job"}})
        assert await here.texts() == ["once", "other time"]


async def test_dry_run_and_partial_success() -> None:
    good, bad = entry("good"), {"text_payload": "bad", "log_name": "nonsense"}
    async with place() as here:
        await here.write(good, dry_run=True)
        assert await here.texts() == []
        with pytest.raises(exceptions.InvalidArgument, match=r"entries\[1\].log_name"):
            await here.write(good, bad)
        assert await here.texts() == []
        with pytest.raises(exceptions.InvalidArgument) as caught:
            await here.write(good, bad, partial_success=True)
        assert await here.texts() == ["good"]
        partial = WriteLogEntriesPartialErrors.pb()()
        assert any(d.Unpack(partial) for d in caught.value.details if isinstance(d, any_pb2.Any))
        assert {i: s.code for i, s in partial.log_entry_errors.items()} == {1: code_pb2.INVALID_ARGUMENT}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"text_payload": "x", "log_name": "projects/p/logs/a/b"}, "log_name"),
        ({"text_payload": "x" * 300_000}, "262144"),
        ({"text_payload": "x", "timestamp": minutes(60 * 72)}, "timestamp"),
        ({"text_payload": "x", "timestamp": minutes(-60 * 24 * 60)}, "timestamp"),
    ],
)
async def test_a_bad_entry_is_refused_by_name(given: dict[str, object], named: str) -> None:
    async with place() as here:
        with pytest.raises(exceptions.InvalidArgument, match=named):
            await here.write(given)
        with pytest.raises(exceptions.InvalidArgument, match="resource"):
            await here.write(entry("x"), resource={})


async def test_pages_in_both_orders_have_every_entry_once() -> None:
    async with place() as here:
        # Many share a timestamp, so pages end in the middle of one; several logs are merged.
        for log in ("one", "two", "three"):
            await here.write(
                *(entry(f"{log} {i}", i // 7, f"{i:03}{log}") for i in range(50)),
                log_name=f"{PROJECT}/logs/{log}",
            )
        everything = sorted(
            (i // 7, f"{i:03}{log}", f"{log} {i}") for i in range(50) for log in ("one", "two", "three")
        )
        for size in (1, 7, 50, 1000):
            assert await here.texts(page_size=size) == [text for _, _, text in everything]
            newest = sorted(everything, key=lambda e: (-e[0], e[1]))
            found = await here.texts(page_size=size, order_by="timestamp desc")
            assert found == [text for _, _, text in newest]


async def test_a_page_token_belongs_to_its_question() -> None:
    async with place() as here:
        await here.write(*(entry(str(i), i, str(i)) for i in range(5)))
        request = {"resource_names": [PROJECT], "page_size": 2}
        page = await anext(aiter((await here.logs.list_log_entries(request=request)).pages))
        token = page.next_page_token
        assert token and len(page.entries) == 2
        for change in ({"filter": "x"}, {"order_by": "timestamp desc"}, {"resource_names": ["projects/q"]}):
            with pytest.raises(exceptions.InvalidArgument, match="page_token"):
                await here.logs.list_log_entries(request={**request, "page_token": token, **change})
        for wrong in ("x", "e30", token[:-3], token + "%"):
            with pytest.raises(exceptions.InvalidArgument, match="page_token"):
                await here.logs.list_log_entries(request={**request, "page_token": wrong})


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        ({"resource_names": []}, "resource_names"),
        ({"resource_names": ["p"]}, "resource_names"),
        ({"resource_names": [f"projects/p{i}" for i in range(101)]}, "100"),
        ({"page_size": 1001}, "page_size"),
        ({"page_size": -1}, "page_size"),
        ({"order_by": "severity"}, "order_by"),
        ({"filter": "severity>="}, "at character 11"),
        ({"filter": "severity>=LOUD"}, "LOUD"),
        ({"filter": "nosuch=1"}, "nosuch"),
        ({"filter": 'timestamp>"yesterday"'}, "yesterday"),
        ({"filter": 'textPayload=~"("'}, "regular expression"),
        ({"filter": "x" * 20_001}, "20000"),
    ],
)
async def test_a_list_that_makes_no_sense_is_refused(request_: dict[str, object], named: str) -> None:
    async with place() as here:
        with pytest.raises(exceptions.InvalidArgument, match=named):
            await here.logs.list_log_entries(request={"resource_names": [PROJECT], **request_})


async def test_log_views_and_foreign_parents() -> None:
    async with place() as here:
        await here.write(entry("mine"))
        view = f"{PROJECT}/locations/global/buckets/_Default/views/_AllLogs"
        assert await here.texts(resource_names=[view]) == ["mine"]
        assert await here.texts(resource_names=["folders/1", "projects/other"]) == []


FILTERED = [
    ('resource.type="ml_job"', {"a", "b"}),
    ('resource.labels.task_name="workerpool1-3"', {"b"}),
    ("timestamp>=minute(2)", {"b", "c", "d"}),
    ("timestamp>minute(0) timestamp<minute(3)", {"b"}),
    ("severity>=WARNING", {"b", "c"}),
    ("severity=DEFAULT", {"d"}),
    ('textPayload:"NCCL" OR jsonPayload.message:nccl', {"a", "c"}),
    ("nccl", {"a", "c"}),
    ("NOT nccl", {"b", "d"}),
    ("-severity>=WARNING", {"a", "d"}),
    ("jsonPayload.step>=10", {"c"}),
    ("jsonPayload.step!=10", {"c"}),
    ("jsonPayload.nosuch!=10", set()),
    ("labels.team:*", {"d"}),
    ('labels.team=("x" OR "RED")', {"d"}),
    ('textPayload=~"^nccl .*[0-9]$"', {"a"}),
    ('textPayload!~"nccl"', {"b", "c", "d"}),
    ('insertId="b"', {"b"}),
    ('logName="projects/p/logs/app"', {"a", "b", "c", "d"}),
    ('log_id("app") AND insert_id="a"', {"a"}),
    ('json_payload.nested.list:"deep"', {"c"}),
    ('resource.type="ml_job" AND (severity=ERROR OR textPayload:nccl) -- both', {"a", "b"}),
    ("severity<WARNING AND NOT resource.type=global", {"a"}),
]


@pytest.mark.parametrize(("text", "expected"), FILTERED)
async def test_filters(text: str, expected: set[str]) -> None:
    # The times are written in here: each test process has its own, and all must collect the same tests.
    text = re.sub(r"minute\((\d)\)", lambda m: f'"{minutes(int(m[1])).isoformat()}"', text)
    async with place() as here:
        ml = {"type": "ml_job", "labels": {"job_id": "1", "task_name": "workerpool0-0"}}
        other = {"type": "ml_job", "labels": {"job_id": "1", "task_name": "workerpool1-3"}}
        payload = {"message": "NCCL again", "step": 12, "nested": {"list": [{"k": "deeper"}]}}
        await here.write(
            entry("nccl went 1", 0, "a", severity="INFO", resource=ml),
            entry("boom", 2, "b", severity="ERROR", resource=other),
            {"json_payload": payload, "timestamp": minutes(3), "insert_id": "c", "severity": "WARNING"},
            entry("quiet", 4, "d", labels={"team": "red"}),
        )
        assert {e.insert_id for e in await here.entries(text)} == expected


async def test_a_payload_of_an_unknown_type_is_passed_on() -> None:
    async with place() as here:
        payload = any_pb2.Any(type_url="type.googleapis.com/nobody.knows.This", value=b"\x08\x01")
        await here.write({"proto_payload": payload, "labels": {"a": "b"}})
        (found,) = await here.entries('labels.a="b" AND NOT "zzz"')
        assert LogEntry.pb(found).proto_payload == payload


async def test_logs_are_listed_and_deleted() -> None:
    async with place() as here:
        for log in ("b", "a", "c"):
            await here.write(entry("x"), log_name=f"{PROJECT}/logs/{log}")
        await here.write(entry("x"), log_name="projects/q/logs/z")
        listed = await here.logs.list_logs(request={"parent": PROJECT, "page_size": 2})
        assert [name async for name in listed] == [f"{PROJECT}/logs/{log}" for log in "abc"]
        await here.logs.delete_log(request={"log_name": f"{PROJECT}/logs/b"})
        assert [name async for name in await here.logs.list_logs(request={"parent": PROJECT})] == [
            f"{PROJECT}/logs/a",
            f"{PROJECT}/logs/c",
        ]
        assert len(await here.entries()) == 2
        with pytest.raises(exceptions.NotFound, match="logs/b"):
            await here.logs.delete_log(request={"log_name": f"{PROJECT}/logs/b"})
        pager = await here.logs.list_monitored_resource_descriptors(request={})
        found = [d async for d in pager]
        assert [d.type for d in found] == ["ml_job"] and "task_name" in {k.key for k in found[0].labels}


async def opened(here: Place, tail: Tail, mark: str = "opened?") -> None:
    """Wait until the tail hears what is written."""

    async def heard() -> bool:
        await here.write({"text_payload": mark})
        return any(e.text_payload == mark for e in tail.entries)

    await until(heard, "the tail to be open")


async def test_a_tail_has_new_entries_only_and_each_once() -> None:
    async with place() as here, collecting(here.state, here.store) as collector:
        await here.write(entry("old"))
        attempt = here.state.attempt(JOB.id, 1)
        collector.watch(JOB, attempt, [REPLICA, "workerpool1-0"])
        async with here.tail() as tail:
            await opened(here, tail)
            outputs = [Output(attempt), Output(attempt, "workerpool1-0")]
            for i in range(0, 5_000, 100):
                for n, out in enumerate(outputs):
                    out.write("".join(f"{n} {k}\n" for k in range(i, i + 100)))
                if i % 500 == 0:
                    await asyncio.sleep(0.01)
            await collector.drain(JOB)

            def lines() -> list[LogEntry]:
                return [e for e in tail.entries if e.resource.type == "ml_job"]

            await until(lambda: len(lines()) >= 10_000, "every line")
            await asyncio.sleep(0.2)
            for n in range(2):
                texts = [e.text_payload for e in lines() if e.text_payload.startswith(f"{n} ")]
                assert Counter(texts) == Counter(f"{n} {k}" for k in range(5_000))
            assert not any(r.suppression_info for r in tail.responses)
            assert "old" not in {e.text_payload for e in tail.entries}
            for response in tail.responses:
                assert len(response.entries) <= 1000
                times = [e.timestamp for e in response.entries]
                assert times == sorted(times)


async def test_a_tail_obeys_its_filter_and_window() -> None:
    async with place() as here:
        query = 'severity>=ERROR AND logName="projects/p/logs/app"'
        async with here.tail(query, window=1) as tail:
            marks = 0

            async def heard() -> bool:
                nonlocal marks
                marks += 1
                await here.write({"text_payload": f"mark {marks}", "severity": "ERROR"})
                return bool(tail.entries)

            await until(heard, "the tail to be open")
            # What still waits would go out after the older entries that come now.
            await until(lambda: tail.entries[-1].text_payload == f"mark {marks}", "the last mark")
            before = len(tail.entries)
            written = time.monotonic()
            # The later one is older: within the window they change places.
            await here.write(
                entry("second", 2, severity="ERROR"),
                entry("first", 1, severity="CRITICAL"),
                entry("wrong", 1, severity="INFO"),
            )
            await until(lambda: {"first", "second"} <= {e.text_payload for e in tail.entries}, "both")
            assert time.monotonic() - written >= 0.9
            assert [e.text_payload for e in tail.entries[before:]] == ["first", "second"]


async def test_a_client_that_does_not_read_is_told_how_much_it_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tui.emulator.logging.tail.MAX_BUFFERED", 500)
    async with place() as here, here.tail(window=1) as tail:
        await opened(here, tail)
        # More at once than may wait within the window: what is over the bound is counted, not sent.
        await here.write(*({"text_payload": "x" * 50} for _ in range(1200)))

        def came() -> int:
            return sum(entry.text_payload == "x" * 50 for entry in tail.entries)

        def missed() -> int:
            return sum(s.suppressed_count for r in tail.responses for s in r.suppression_info)

        await until(lambda: came() + missed() == 1200, "the whole count")
        assert came() < 1200
        assert {s.reason.name for r in tail.responses for s in r.suppression_info} == {"NOT_CONSUMED"}


async def test_ten_tails_of_a_project_and_no_more() -> None:
    async with place() as here:

        async def endless() -> object:
            yield TailLogEntriesRequest(resource_names=[PROJECT], buffer_window={"seconds": 0})
            await asyncio.sleep(600)

        tails = []
        for _ in range(10):
            tails.append(Tail(await here.logs.tail_log_entries(requests=endless(), timeout=300)))
            await opened(here, tails[-1], f"tail {len(tails)}")
        with pytest.raises(exceptions.ResourceExhausted, match="10 tails"):
            async for _ in await here.logs.tail_log_entries(requests=endless(), timeout=60):
                pass
        tails.pop().cancel()

        async def again() -> bool:
            try:
                async with asyncio.timeout(10):
                    call = await here.logs.tail_log_entries(requests=endless(), timeout=60)
                    await here.write({"text_payload": "again"})
                    async for _ in call:
                        return True
            except (exceptions.ResourceExhausted, TimeoutError):
                return False
            return False

        await until(again, "a place for another tail")
        for tail in tails:
            tail.cancel()


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        ({"resource_names": []}, "resource_names"),
        ({"resource_names": [PROJECT], "filter": "(("}, "filter"),
        ({"resource_names": [PROJECT], "buffer_window": {"seconds": 61}}, "buffer_window"),
    ],
)
async def test_a_tail_that_makes_no_sense_is_refused(request_: dict[str, object], named: str) -> None:
    async with place() as here:

        async def one() -> object:
            yield TailLogEntriesRequest(request_)

        with pytest.raises(exceptions.InvalidArgument, match=named):
            async for _ in await here.logs.tail_log_entries(requests=one(), timeout=60):
                pass


async def test_a_client_that_has_said_all_still_hears() -> None:
    async with place() as here:

        async def one() -> object:
            yield TailLogEntriesRequest(resource_names=[PROJECT], buffer_window={"seconds": 0})

        tail = Tail(await here.logs.tail_log_entries(requests=one(), timeout=300))
        await opened(here, tail)
        tail.cancel()


async def test_entries_older_than_the_default_bucket_keeps_are_let_go() -> None:
    async with place() as here:
        await here.write(*(entry(f"old {n}", n / 60, f"o{n}") for n in range(9)), entry("new", 600, "n"))
        await here.write(entry("another log", 0, "x"), log_name=f"{PROJECT}/logs/other")
        before = int(minutes(5).timestamp() * 1e9)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tui.emulator.logging.store.DELETE_BATCH", 4)
            assert await delete_older(here.store, before) == 10
        assert [e.text_payload for e in await here.entries()] == ["new"]
        assert await delete_older(here.store, before) == 0
        # A look finds nothing that is younger than thirty days, and ends with whoever asked for it.
        looking = asyncio.create_task(run_retention(here.store, 1 << 40))
        await asyncio.sleep(0)
        await here.store.write(int)
        looking.cancel()
        assert [e.text_payload for e in await here.entries()] == ["new"]
