"""Faults of the log service that one can ask for: each does what it says, and only while it is asked for."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.api_core import exceptions

from tests.waiting import until
from tests.wire.control import QUICK, emulator
from tests.wire.observe import Place, place
from tui.emulator.logging.faults import LogFaults


def entries(count: int, mark: str = "") -> list[dict[str, Any]]:
    return [{"text_payload": f"{mark}{n:04}", "insert_id": f"{mark}{n:04}"} for n in range(count)]


def texts(found: list[Any]) -> list[str]:
    return [entry.text_payload for entry in found]


async def heard(here: Place, tail: Any) -> None:
    """Return when the tail listens."""

    async def look() -> bool:
        await here.write({"text_payload": "listen"})
        return bool(tail.entries)

    await until(look, "the tail to listen")


async def test_a_stream_is_cut_at_its_age_and_not_after_the_fault_is_over() -> None:
    async with place() as here:
        async with here.tail() as idle, here.tail() as old:
            await heard(here, old)
            here.store.faults.set(LogFaults(cut_every=0.2))
            for tail in (idle, old):
                await until(tail.task.done, "the cut")
                assert isinstance(tail.task.exception(), exceptions.ServiceUnavailable)
        here.store.faults.set(LogFaults())
        async with here.tail() as new:
            began = time.monotonic()
            await heard(here, new)
            await until(lambda: time.monotonic() - began > 0.4, "twice the age")
            await here.write({"text_payload": "still"})
            await until(lambda: "still" in texts(new.entries), "an entry on an old stream")
            assert not new.task.done()


async def test_late_entries_are_nowhere_before_their_time_and_everywhere_after() -> None:
    async with place() as here, here.tail() as tail:
        await heard(here, tail)
        here.store.faults.set(LogFaults(late_share=0.5, late_seconds=3.0))
        await here.write(*entries(200))
        early = await here.texts('textPayload=~"^0"')
        assert 60 < len(early) < 195
        await until(lambda: len(set(texts(tail.entries)) - {"listen"}) == 200, "all on the stream")
        assert len(await here.texts('textPayload=~"^0"')) == 200
        order = [text for text in texts(tail.entries) if text != "listen"]
        assert order != sorted(order)
        assert max(Counter(order).values()) == 1


async def test_doubled_entries_come_twice_on_the_stream_and_once_in_a_list() -> None:
    async with place() as here, here.tail() as tail:
        await heard(here, tail)
        here.store.faults.set(LogFaults(double_share=1.0))
        await here.write(*entries(20))
        await until(lambda: sum(text != "listen" for text in texts(tail.entries)) == 40, "all of them twice")
        assert set(Counter(text for text in texts(tail.entries) if text != "listen").values()) == {2}
        assert len(await here.texts('textPayload=~"^0"')) == 20


async def test_shuffled_entries_are_all_there() -> None:
    async with place() as here, here.tail() as tail:
        await heard(here, tail)
        here.store.faults.set(LogFaults(shuffle=True))
        await here.write(*entries(100))
        await until(lambda: len(set(texts(tail.entries))) == 101, "all of them")
        order = [text for text in texts(tail.entries) if text != "listen"]
        assert order != sorted(order)
        assert sorted(order) == await here.texts('textPayload=~"^0"')


async def test_a_list_by_time_of_receipt_has_what_came_late() -> None:
    async with place() as here:
        await here.write(*entries(3, "a"))
        newest = max(entry.receive_timestamp for entry in await here.entries())
        # Long before the others by their own time.
        earlier = newest.timestamp() - 3600
        await here.write(*({**entry, "timestamp": {"seconds": int(earlier)}} for entry in entries(3, "b")))
        bound = f'receiveTimestamp>"{newest.rfc3339()}"'
        assert sorted(await here.texts(bound)) == ["b0000", "b0001", "b0002"]
        assert await here.texts(f'{bound} AND textPayload="a0000"') == []


async def test_faults_are_set_and_refused_by_the_admin() -> None:
    async with emulator(**QUICK) as (running, clients):
        told = await clients.admin(do="tail", cut_every=20, late_share=0.1, late_seconds=5, shuffle=True)
        assert told == {
            "cut_every": 20, "late_share": 0.1, "late_seconds": 5, "double_share": 0, "shuffle": True,
        }  # fmt: skip
        for wrong in ({"late_share": 2}, {"cut_every": -1}, {"double_share": "many"}):
            with pytest.raises(grpc.aio.AioRpcError, match=next(iter(wrong))):
                await clients.admin(do="tail", **wrong)
        assert not any((await clients.admin(do="tail")).values())
        assert running.state.socket.exists()


async def test_the_verb_sets_them_and_says_what_is_in_force(tmp_path: Path) -> None:
    async with emulator(**QUICK) as (running, clients):
        (tmp_path / "emulator").symlink_to(running.state.root)

        async def call(*arguments: str) -> tuple[int | None, str]:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tui.cli", "emulator", "fault", "tail", *arguments),
                env={**os.environ, "VXTUI_STATE_DIR": str(tmp_path)},
                stdout=asyncio.subprocess.PIPE,
            )
            out, _ = await process.communicate()
            return process.returncode, out.decode()

        told = await call("--cut-every", "20", "--late", "0.1:5", "--double", "0.05", "--shuffle")
        assert told == (0, "log streams: cut every 20 s, 10% up to 5 s late, 5% twice, shuffled\n")
        assert await call("--late", "2:5") == (2, "")
        assert await call() == (0, "log streams: no faults\n")
        assert not any((await clients.admin(do="tail")).values())
